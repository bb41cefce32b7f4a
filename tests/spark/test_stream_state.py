"""The state of a stream holds what open windows and lateness need, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.spans import Ticks
from slicewise.spark.query import Query
from slicewise.spark.stream.keeping import RESULTS, KeepBuckets, Keeper
from slicewise.spark.stream.rolling import KeepTrailing
from slicewise.spark.stream.windowed import KeepWindows
from tests.support.buckets import EVENT, MADE, State, feed
from tests.support.streaming import Source, run

WINDOWS = [
    sw.tumbling(10),
    sw.sliding(30, every=5),
    sw.cumulate(20, every=5),
    sw.session(4),
    sw.session(3, max_length=12),
]


def keys_that_come_and_go(batch: int, keys: int = 20) -> list[tuple[str, int, float]]:
    """Ten units of time with keys of their own, which are seen for two micro-batches."""
    return [
        (f"{number // 2}-{key}", 10 * batch + (3 * key) % 10, float(key))
        for key in range(keys)
        for number in (batch, batch + 1)
    ]


def keys_that_stay(batch: int, keys: int = 20) -> list[tuple[str, int, float]]:
    """Ten units of time of the same keys; `x` advances with time."""
    return [
        (str(key), time, float(time))
        for time in range(10 * batch, 10 * batch + 10, 3)
        for key in range(keys)
    ]


def every_seventh(event: Any) -> bool:
    return bool(event["x"] % 7 == 0)


def lower_half(event: Any) -> bool:
    return bool(event["x"] % 10 < 5)


BY_EVENTS = [
    sw.tumbling(sw.rows(3)),
    sw.sliding(sw.rows(6), every=sw.rows(2)),
    sw.sliding(sw.rows(4), every=10),
    sw.sliding(10, every=sw.rows(3)),
    sw.tumbling(sw.units(8, on="x")),
    sw.punctuated(every_seventh, name="punctuated"),
    sw.threshold(lower_half, name="threshold"),
]


def sizes_of(
    keep: KeepBuckets, batches: int, given: Any = keys_that_come_and_go
) -> tuple[list[int], int]:
    """The bytes kept after each of so many micro-batches, and how many rows came out."""
    state, sizes, rows = State(), [], 0
    for batch in range(batches):
        found = feed(keep, state, given(batch))
        sizes.append(sum(len(part) for part in state.get))
        rows += len(found[RESULTS])
    return sizes, rows


def keep_windows(windows: Sequence[Any], aggs: Any, lateness: int, emit: str) -> Keeper:
    types = {field.name: field.type for field in EVENT}
    return KeepWindows(Query.of(windows, aggs, "t", ("k",), types), MADE, lateness, emit)


def assert_levelled_off(sizes: list[int]) -> None:
    """The second half of a stream holds no more than the first did, once that had filled up."""
    half = len(sizes) // 2
    assert max(sizes[half:]) <= 1.1 * max(sizes[half // 2 : half])


@pytest.mark.parametrize(
    ("lateness", "emit"), [(0, "on_close"), (40, "on_close"), (40, "final"), (40, "on_update")]
)
@pytest.mark.parametrize("ordered", [False, True])
def test_keys_that_come_and_go_leave_nothing_behind(
    lateness: int, emit: str, ordered: bool
) -> None:
    last = sw.agg.last("x").alias("p") if ordered else sw.agg.sum("x").alias("p")
    keeper = keep_windows(WINDOWS, [last, sw.agg.count().alias("c")], lateness, emit)
    keep = KeepBuckets(keeper, {"by": ["k"], "format": 1}, EVENT, delay=15, keep_late=False)
    sizes, rows = sizes_of(keep, 100)
    assert rows > 100 * 20 * 4
    assert_levelled_off(sizes)
    assert max(sizes) < 60_000


@pytest.mark.parametrize("window", BY_EVENTS, ids=lambda window: window.name)
def test_windows_that_only_events_end_hold_no_more_of_keys_that_stay(window: Any) -> None:
    aggs = [sw.agg.sum("x").alias("p"), sw.agg.count().alias("c")]
    keeper = keep_windows([window], aggs, 0, "on_close")
    keep = KeepBuckets(keeper, {"by": ["k"], "format": 1}, EVENT, delay=15, keep_late=False)
    sizes, rows = sizes_of(keep, 60, keys_that_stay)
    assert rows > 20 * 30
    assert_levelled_off(sizes)
    assert max(sizes) < 30_000


def test_events_that_trailing_windows_reach_no_more_are_forgotten() -> None:
    types = {field.name: field.type for field in EVENT}
    query = Query.of([], [sw.agg.max("x").alias("m")], "t", ("k",), types)
    made = pa.schema([*EVENT, ("m_40", pa.float64())])
    keep = KeepBuckets(
        KeepTrailing(query, (Ticks(40),), 40, made),
        {"by": ["k"], "format": 1},
        EVENT,
        delay=15,
        keep_late=False,
    )
    state, sizes = State(), []
    for batch in range(100):
        feed(keep, state, keys_that_come_and_go(batch), made=made)
        sizes.append(len(state.get[1]))
    assert_levelled_off(sizes)


def test_the_metrics_of_a_stream_show_that_its_state_levels_off(
    spark: Any, settings: Any, tmp_path: Path
) -> None:
    batches = 28
    source = Source(tmp_path / "in", EVENT)
    for batch in range(batches):
        rows = keys_that_come_and_go(batch, keys=20)
        source.add([dict(zip("ktx", row, strict=True)) for row in rows])
    with settings(
        spark__sql__shuffle__partitions=1, spark__sql__streaming__numRecentProgressUpdates=200
    ):
        stream = sw.windowed(
            source.stream(spark, schema="k string, t bigint, x double"), by="k", time="t",
            windows=WINDOWS, aggs=[sw.agg.sum("x"), sw.agg.count()], watermark=5, lateness=10,
        )  # fmt: skip
        ran = run(stream, tmp_path / "state", rows=False)
    assert len(ran.metrics) == batches
    assert all(m["events"] == 40 and m["late"] == m["bad"] == 0 for m in ran.metrics)
    assert_levelled_off([m["state_bytes"] for m in ran.metrics])
    assert_levelled_off([m["slices"] for m in ran.metrics])
