"""`merger`, `store` and `partials` of `sw.windowed` on Spark: the same answers, or a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError
from slicewise.mergers.array import cores
from slicewise.spark.workers import in_worker
from slicewise.testing import assert_same_rows, windowed_rows
from tests.support.spark import answers, assert_same, events, frame_of
from tests.support.streaming import Fed, Source, cut, disordered, emitted, run

AGGS = [sw.agg.sum("x"), sw.agg.count()]
WINDOWS = [sw.sliding(20, every=5), sw.sliding(40, every=5), sw.session(6)]
WAYS: list[dict[str, Any]] = [
    {"merger": "flatfit"},
    {"merger": "pba"},
    {"store": "eager"},
    {"partials": "pairs"},
]


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_a_stream_merges_as_it_was_told_with_the_same_answers(
    spark: Any, tmp_path: Path, way: dict[str, Any]
) -> None:
    given = cut(disordered(events(90, seed=5), 5, 30), 5, 5)
    source = Source(tmp_path / "in")
    source.add(*given)
    query: dict[str, Any] = {"by": "k", "time": "t", "windows": WINDOWS, "aggs": AGGS}
    frame = source.stream(spark)
    ran = run(sw.windowed(frame, **query, watermark=20, **way), tmp_path / "state")
    fed = Fed(sw.Operator(**query), delay=20)
    for rows, batch in zip(ran.batches, given, strict=True):
        assert_same_rows(emitted(rows), fed.step(batch))
    text = sw.explain(frame, **query, watermark=20, **way)
    if way.get("merger") == "flatfit":
        assert "by flatfit, which is kept between watermarks" in text


def test_windows_that_depend_on_events_merge_as_they_were_told(spark: Any) -> None:
    rows = events(120, seed=2)
    windows = [sw.sliding(sw.rows(6), every=sw.rows(2)), *WINDOWS]
    for way in WAYS:
        query: dict[str, Any] = {"by": "k", "time": "t", "windows": windows, "aggs": AGGS}
        found = sw.windowed(frame_of(spark, rows), **query, **way)
        assert_same(answers(found), windowed_rows(rows, **query))
    text = sw.explain(frame_of(spark, rows), **query, merger="two_stacks")
    assert "merges slices by two_stacks." in text


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_a_bounded_dataframe_says_why_it_keeps_no_merger(spark: Any, way: dict[str, Any]) -> None:
    query: dict[str, Any] = {"time": "t", "windows": sw.sliding(20, every=5), "aggs": AGGS}
    ((name, value),) = way.items()
    text = (
        r"a bounded DataFrame has them merged once, after the shuffle, without an operator .*; "
        rf"given: {name}={value!r}. Leave that out, or use it on a stream, on a table"
    )
    for verb in (sw.windowed, sw.explain):
        with pytest.raises(CapabilityError, match=text):
            verb(frame_of(spark, events(9, seed=1)), **query, **way)


def test_a_task_uses_the_processors_that_spark_gives_it(spark: Any) -> None:
    @in_worker
    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows], "processors": [cores()]})

    found = spark.range(9).mapInArrow(seen, "rows long, processors long").collect()
    assert {row.processors for row in found} == {1}
    assert sum(row.rows for row in found) == 9


def test_a_merger_that_there_is_not_is_refused_before_anything_runs(spark: Any) -> None:
    with pytest.raises(CapabilityError, match=r"`merger` is one of recalc, .*; given: 'quick'"):
        sw.windowed(
            frame_of(spark, events(9, seed=1)),
            time="t",
            windows=sw.sliding(20, every=5),
            aggs=AGGS,
            merger="quick",
        )
