"""Buckets of keys take packed micro-batches and go on whatever the code of an aggregate does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.spans import Ticks
from slicewise.spark.query import Query
from slicewise.spark.stream.keeping import (
    DROPPED,
    METRICS,
    PARTLY,
    RESULTS,
    Arrived,
    KeepBuckets,
    Metrics,
)
from slicewise.spark.stream.packing import (
    AHEAD,
    EVENTS,
    labels_for,
    murmur3,
    to_bytes,
    to_table,
)
from slicewise.spark.stream.rolling import KeepTrailing
from slicewise.spark.stream.windowed import KeepWindows
from slicewise.testing import paths_taken
from tests.support.bands import by_time
from tests.support.buckets import EVENT, MADE, State, feed


class Poison(sw.Aggregate):
    """A sum that raises an error in one of its methods."""

    commutative = True
    compile = False

    def __init__(self, column: str, where: str) -> None:
        super().__init__(column)
        self.where = where

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        if self.where == "lift" and x == 666:
            raise ValueError("no such number")
        return x

    def combine(self, older: float, newer: float) -> float:
        if self.where == "combine" and older + newer > 1300:
            raise ValueError("too much")
        return older + newer

    def lower(self, state: float) -> float:
        if self.where == "lower" and state > 600:
            raise ValueError("too great")
        return state


def buckets(windows: Sequence[Any], where: str = "", **more: Any) -> KeepBuckets:
    aggs = [Poison("x", where).alias("p"), sw.agg.count().alias("c")]
    query = Query.of(windows, aggs, "t", ("k",), {f.name: f.type for f in EVENT})
    about = {"by": ["k"], "format": 1}
    return KeepBuckets(KeepWindows(query, MADE, 0, "on_close"), about, EVENT, **more)


BATCHES = [
    [("a", 1, 1.0), ("b", 2, 666.0), ("b", 3, 2.0), ("a", 2, 5.0)],
    [("a", 12, 1.0), ("b", 13, 666.0), ("b", 14, 666.0), ("b", 15, 1.0)],
    [("c", 40, 1.0)],
]


def test_an_event_that_cannot_be_lifted_is_handed_out_and_the_others_count() -> None:
    keep, state = buckets([sw.tumbling(10)], "lift", delay=0, keep_late=True), State()
    first, second, third = (feed(keep, state, rows) for rows in BATCHES)
    assert first[DROPPED] == [{"k": "b", "t": 2, "x": 666.0}]
    assert first[METRICS]["bad"] == 1
    assert second[METRICS]["bad"] == 2
    sums = {(r["k"], r["start"]): (r["p"], r["c"]) for r in second[RESULTS] + third[RESULTS]}
    assert sums == {("a", 0): (6, 2), ("b", 0): (2, 1), ("a", 10): (1, 1), ("b", 10): (1, 1)}


@pytest.mark.parametrize("windows", [[sw.tumbling(10)], [sw.session(5)]])
def test_events_that_cannot_be_combined_leave_out_only_their_key(windows: Any) -> None:
    keep, state = buckets(windows, "combine", delay=0, keep_late=True), State()
    _, second, third = (feed(keep, state, rows) for rows in BATCHES)
    assert {row["k"] for row in second[DROPPED]} == {"b"}
    assert second[METRICS]["bad"] == 3
    assert [(r["k"], r["c"]) for r in third[RESULTS]] == [("a", 1)]


def test_a_state_that_cannot_be_lowered_is_null_and_counted() -> None:
    keep, state = buckets([sw.tumbling(10)], "lower", delay=0, keep_late=True), State()
    _, second, third = (feed(keep, state, rows) for rows in BATCHES)
    found = {(r["k"], r["start"]): (r["p"], r["c"]) for r in second[RESULTS] + third[RESULTS]}
    assert found == {("a", 0): (6, 2), ("b", 0): (None, 2), ("a", 10): (1, 1), ("b", 10): (None, 3)}
    assert (second[METRICS]["failed"], third[METRICS]["failed"]) == (1, 1)


def test_rows_that_cannot_be_merged_are_null_and_counted() -> None:
    windows = [sw.tumbling(sw.rows(2)), sw.sliding(20, every=10)]
    keep, state = buckets(windows, "combine", delay=0, keep_late=True), State()
    rows = [("b", 1, 666.0), ("b", 12, 660.0), ("a", 13, 1.0)]
    found = [feed(keep, state, rows), feed(keep, state, [("c", 60, 1.0)])]
    results = [row for step in found for row in step[RESULTS]]
    values = {(r["k"], r["window"], r["start"]): r["p"] for r in results}
    assert values[("b", "tumbling_2rows", 0)] is None
    assert values[("b", "sliding_20_10", 0)] is None
    assert values[("b", "sliding_20_10", 10)] == 660
    assert sum(step[METRICS]["failed"] for step in found) == 2


def test_an_event_that_will_be_lifted_later_is_sifted_when_it_arrives() -> None:
    keep, state = buckets([sw.tumbling(sw.rows(2))], "lift", delay=20, keep_late=True), State()
    first, second, third = (feed(keep, state, rows) for rows in BATCHES)
    assert first[DROPPED] == [{"k": "b", "t": 2, "x": 666.0}]
    assert [row["t"] for row in second[DROPPED]] == [13, 14]
    found = {(r["k"], r["start"]): (r["p"], r["c"]) for r in third[RESULTS]}
    assert found == {("a", 0): (6, 2), ("b", 0): (3, 2)}


def test_rows_of_a_key_that_cannot_be_rolled_have_nulls() -> None:
    types = {f.name: f.type for f in EVENT}
    query = Query.of((), [Poison("x", "lift")], "t", ("k",), types)
    made = pa.schema([*EVENT, ("x_poison_10", pa.float64())])
    kept = KeepTrailing(query, (Ticks(10),), 10, made).fresh()
    rows = [("a", 1, 1.0), ("b", 2, 666.0), ("a", 3, 2.0), ("b", 4, 1.0)]
    kept.take(pa.Table.from_pylist([dict(zip("ktx", row)) for row in rows], EVENT))
    (found,) = kept.advance(10)
    assert found.column("x_poison_10").to_pylist() == [1.0, None, 3.0, None]
    metrics = Metrics()
    kept.measured(metrics)
    assert metrics.failed == 2


def test_an_error_that_no_event_is_to_blame_for_stops_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep = buckets([sw.tumbling(10)], delay=0, keep_late=True)

    def broken(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(sw.Operator, "process", broken)
    with pytest.raises(OSError, match="disk is full"):
        feed(keep, State(), [("a", 1, 1.0)])


def test_events_ahead_of_the_clock_are_bad_and_do_not_move_the_watermark() -> None:
    keep, state = buckets([sw.tumbling(10)], delay=0, keep_late=True), State()
    feed(keep, state, [("a", 1, 1.0)])
    found = feed(keep, state, [("a", 10**9, 1.0)], AHEAD)
    assert found[RESULTS] == []
    assert found[DROPPED] == [{"k": "a", "t": 10**9, "x": 1.0}]
    assert found[METRICS]["bad"] == 1


def test_dropped_events_are_not_kept_when_nobody_wants_them() -> None:
    keep, state = buckets([sw.tumbling(10)], delay=0, keep_late=False), State()
    feed(keep, state, [("a", 100, 1.0)])
    size = len(state.get[1])
    for _ in range(5):
        found = feed(keep, state, [("a", time, 1.0) for time in range(50)])
        assert found[METRICS]["late"] == 50
    assert len(state.get[1]) <= size + 100


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 200])
@pytest.mark.parametrize("each", [1, 3])
def test_buckets_are_spread_evenly_over_shuffle_partitions(partitions: int, each: int) -> None:
    labels = labels_for(partitions * each, partitions)
    assert len(set(labels)) == partitions * each
    taken = [murmur3(label) % partitions for label in labels]
    assert {taken.count(partition) for partition in range(partitions)} == {each}


def test_rule_05_an_event_that_some_windows_missed_counts_and_is_handed_out_with_names() -> None:
    windows = [sw.tumbling(10, name="short"), sw.tumbling(100, name="long")]
    keep, state = buckets(windows, delay=0, keep_late=True), State()
    feed(keep, state, [("a", 60, 1.0)])
    table = pa.Table.from_pylist([{"k": "a", "t": 45, "x": 2.0}], EVENT)
    arrived = Arrived(60, {EVENTS: [to_bytes(table)], AHEAD: []})
    kept, made, metrics = keep._step(state.get[1], arrived, 60)
    kept.measured(metrics)
    assert (metrics.late, metrics.late_partly) == (0, 1)
    ((kind, piece),) = [one for one in made if one[0] != RESULTS]
    assert kind == PARTLY
    schema = EVENT.append(pa.field("missed", pa.list_(pa.string())))
    assert to_table([piece], schema).to_pylist() == [
        {"k": "a", "t": 45, "x": 2.0, "missed": ["short"]}
    ]
    (result,) = kept.advance(100)
    assert result.column("p").to_pylist() == [1.0, 3.0]


def test_a_stream_keeps_many_keys_by_time_through_its_micro_batches() -> None:
    #   5000 events of 400 keys in each of five micro-batches, each in an interval of its own
    aggs = [sw.agg.sum("x").alias("p"), sw.agg.count().alias("c")]
    query = Query.of([sw.tumbling(10)], aggs, "t", ("k",), {f.name: f.type for f in EVENT})
    keep = KeepBuckets(
        KeepWindows(query, MADE, 0, "on_close"),
        {"by": ["k"], "format": 1},
        EVENT,
        delay=0,
        keep_late=False,
    )
    state, found = State(), []
    with by_time(), paths_taken() as taken:
        for turn in range(5):
            rows = [(f"{k % 400}", 10 * turn + k // 500, 1.0) for k in range(5000)]
            found += feed(keep, state, rows)[RESULTS]
    assert (taken["bands"], taken["bands closed"]) == (5, 4)
    assert len(found) == 4 * 400
    assert sum(row["c"] for row in found) == 4 * 5000
