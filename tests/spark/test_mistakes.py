"""Usual mistakes on Spark, and the way out that their messages tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import AggregateError, CapabilityError, ColumnError, ColumnTypeError
from tests.support.documents import ROOT
from tests.support.spark import events, frame_of
from tests.support.streaming import Source, run

QUERY: dict[str, Any] = {"by": "k", "time": "t", "aggs": sw.agg.sum("x")}


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return frame_of(spark, events(20, 1)).cache()


def rows(frame: Any) -> list[Any]:
    return sorted(map(str, frame.collect()))


def test_plain_columns_of_spark_stand_for_their_names(frame: Any) -> None:
    from pyspark.sql import functions as F

    columns: dict[str, Any] = {"by": [F.col("k")], "time": frame.t, "order": F.col("`id`")}
    columns["aggs"] = sw.agg.sum(frame["x"])
    names = QUERY | {"order": "id"}
    windows = sw.tumbling(10)
    expected = rows(sw.windowed(frame, windows=windows, **names))
    assert rows(sw.windowed(frame, windows=windows, **columns)) == expected
    expected = rows(sw.rolling(frame, over=10, **names))
    assert rows(sw.rolling(frame, over=10, **columns)) == expected
    assert sw.explain(frame, over=10, **columns) == sw.explain(frame, over=10, **names)


def test_other_expressions_of_spark_are_refused_with_what_is_wanted(frame: Any) -> None:
    from pyspark.sql import functions as F

    for argument in ("by", "time", "order"):
        query = QUERY | {argument: F.upper("k")}
        message = rf"`{argument}` takes names of columns.*Column<'upper\(k\)'>.*`withColumn` of Spa"
        with pytest.raises(ColumnTypeError, match=message):
            sw.windowed(frame, windows=sw.tumbling(10), **query)
        with pytest.raises(ColumnTypeError, match=message):
            sw.rolling(frame, over=10, **query)
    for aggs in (F.mean("x"), [F.mean("x")]):
        message = r"such as `sw.agg.max\('price'\)`; given: Column<'avg\(x\)'>. An expression can"
        with pytest.raises(AggregateError, match=message):
            sw.windowed(frame, windows=sw.tumbling(10), **QUERY | {"aggs": aggs})
        with pytest.raises(AggregateError, match=message):
            sw.rolling(frame, over=10, **QUERY | {"aggs": aggs})


def test_columns_that_there_are_not_and_keys_that_come_twice_are_told(frame: Any) -> None:
    asked: tuple[tuple[Any, dict[str, Any]], ...] = (
        (sw.windowed, {"windows": sw.tumbling(10)}),
        (sw.rolling, {"over": 10}),
    )
    for verb, more in asked:
        with pytest.raises(ColumnError, match=r"no column 'K'; .* Did you mean 'k'"):
            verb(frame, **QUERY | more | {"by": "K"})
        with pytest.raises(ColumnError, match="`by` names each column once; 'k' is in it 2 times"):
            verb(frame, **QUERY | more | {"by": ["k", "k"]})


class Misspelt(sw.Aggregate):
    """An aggregate with a name in `lower` that there is not."""

    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        return value

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return float(state / nobody_knows)  # type: ignore[name-defined]  # noqa: F821 - the mistake


def test_an_error_in_the_code_of_an_aggregate_is_told_before_the_job(frame: Any) -> None:
    message = "'x_misspelt' cannot be told: tried on made-up events, NameError: name 'nobody_knows'"
    query = QUERY | {"aggs": Misspelt("x")}
    with pytest.raises(AggregateError, match=message):
        sw.windowed(frame, windows=sw.tumbling(10), **query)
    with pytest.raises(AggregateError, match=message):
        sw.rolling(frame, over=10, **query)


def test_rows_of_a_stream_are_written_in_append_mode(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "events")
    source.add(events(20, 1))
    for made in (
        sw.windowed(source.stream(spark), windows=sw.tumbling(10), watermark=5, **QUERY),
        sw.rolling(source.stream(spark), over=10, watermark=5, **QUERY),
    ):
        for mode in ("update", "complete"):
            with pytest.raises(CapabilityError, match=rf"append mode; .*outputMode\('{mode}'\). L"):
                made.writeStream.outputMode(mode)
        assert made.writeStream.outputMode("append").format("noop") is not None
    assert run(made, tmp_path / "checkpoint").rows


def test_explain_takes_the_very_query_of_a_stream(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "events")
    source.add(events(5, 1))
    stream = source.stream(spark)
    document = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    found = re.search(r"^query = (\{.*?^\})", document, re.MULTILINE | re.DOTALL)
    assert found is not None
    query = eval(found[1], {"sw": sw}) | {"by": "k", "aggs": [sw.agg.count(), sw.agg.max("x")]}
    assert {"watermark", "lateness"} <= query.keys()
    assert "tumbling_2rows" in sw.explain(stream, **query)
    assert "one snapshot in the checkpoint" in sw.explain(stream, **query)
    rolling = QUERY | {"order": "id", "watermark": 3, "max_ahead": None, "keep_late": True}
    assert "A bucket keeps the rows" in sw.explain(stream, over=10, **rolling)
