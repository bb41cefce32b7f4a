"""`sw.windowed` and `sw.rolling` on streams: the answer of the batch run, and how it comes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.testing import assert_same_rows, fold, windowed_rows
from slicewise.testing.oracle import alike
from slicewise.windows import UserWindow
from tests.spark.streaming import (
    Fed,
    Source,
    cut,
    disordered,
    drained,
    emitted,
    grouped,
    late,
    run,
)
from tests.spark.support import assert_same, events
from tests.spark.test_windowed import FREE, ROWS


class Spread(sw.Aggregate):
    """How far the values lie apart, compiled from this source."""

    commutative = True

    def identity(self) -> tuple[float, float]:
        return (math.inf, -math.inf)

    def lift(self, x: float) -> tuple[float, float]:
        return (x, x)

    def combine(
        self, older: tuple[float, float], newer: tuple[float, float]
    ) -> tuple[float, float]:
        return (min(older[0], newer[0]), max(older[1], newer[1]))

    def lower(self, state: tuple[float, float]) -> float:
        return state[1] - state[0]


AGGS = [sw.agg.sum("x"), sw.agg.last("s"), sw.agg.count(), sw.agg.median("x"), Spread("id")]
PLAIN = [w for w in [*FREE, *ROWS] if not isinstance(w, UserWindow)]


@pytest.mark.parametrize(
    ("emit", "seed", "parts", "files", "by", "shape"),
    [
        ("final", 31, 7, 2, "k", {"buckets": 5}),
        ("on_close", 32, 9, 2, ["k", "s"], {"buckets": 2}),
        ("on_update", 33, 4, 1, None, {}),
    ],
)
def test_each_micro_batch_gives_what_an_operator_gives_and_all_of_them_the_batch_answer(
    spark: Any, settings: Any, tmp_path: Path, emit: Any, seed: int, parts: int, files: int,
    by: Any, shape: Any,
) -> None:  # fmt: skip
    # A user window sees each event once, so only what is final may have one.
    windows = [*FREE, *ROWS] if emit == "final" else PLAIN
    given = cut(disordered(events(160, seed), seed, 90), seed, parts)
    source = Source(tmp_path / "in")
    source.add(*given)
    query: dict[str, Any] = {"by": by, "time": "t", "windows": windows, "aggs": AGGS}
    more = {"lateness": 40, "emit": emit}
    with settings(spark__sql__execution__arrow__maxRecordsPerBatch=7):
        stream = sw.windowed(
            source.stream(spark, files), **query, **more, watermark=20, keep_late=True, **shape
        )
        ran = run(stream, tmp_path / "state")
    fed = Fed(sw.Operator(**query, **more), delay=20)
    dropped = 0
    for rows, micro_batch in zip(ran.batches, grouped(given, files), strict=True):
        assert_same_rows(emitted(rows, by), fed.step(micro_batch))
        assert alike(late(rows), sorted(fed.operator.late[dropped:], key=lambda row: row["id"]))
        dropped = len(fed.operator.late)
    assert dropped
    assert sum(m["late"] for m in ran.metrics) == dropped
    assert sum(m["events"] for m in ran.metrics) == 160
    everything = [*ran.rows, *drained(tmp_path / "state", aggs=AGGS)]
    lost = {row["id"] for row in late(ran.rows)}
    counted = [row for part in given for row in part if row["id"] not in lost]
    expected = windowed_rows(counted, windows=windows, aggs=AGGS, time="t", by=by)
    assert_same(fold(emitted(everything, by)), expected)
    if emit == "final":
        assert len(emitted(everything, by)) == len(expected)
