"""Bad input to streams: what is left out is counted and handed out, and the rest goes on."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnError,
    ColumnTypeError,
    SnapshotError,
    SpanError,
    WindowError,
)
from slicewise.testing import fold
from slicewise.testing.strategies import Following
from tests.support.poison import Poison
from tests.support.streaming import Source, drained, emitted, late, run

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def event(number: int, key: str | None, time: int | None, x: int | None = 1) -> dict[str, Any]:
    return {"k": key, "t": time, "x": x, "id": number}


def test_null_times_are_handed_out_and_null_keys_are_keys(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [event(0, "a", None), event(1, None, None)],  # no time at all yet
        [event(2, "a", 3), event(3, None, 4), event(4, "b", None), event(5, None, 8, None)],
        [event(6, "a", 20), event(7, None, 2)],
        [event(8, "b", 40), event(9, None, 1), event(10, None, None)],
    )
    stream = sw.windowed(
        source.stream(spark), by="k", time="t", windows=[sw.tumbling(10)],
        aggs=[sw.agg.sum("x"), sw.agg.count()], watermark=10, keep_late=True, buckets=3,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    ids = [{row["id"] for row in late(batch)} for batch in ran.batches]
    assert ids == [{0, 1}, {4}, set(), {9, 10}]
    assert {row["k"] for row in ran.batches[0]} == {"a", None}  # a dropped event has its key
    assert [(m["bad"], m["late"]) for m in ran.metrics] == [(2, 0), (1, 0), (0, 0), (1, 1)]
    found = fold([*emitted(ran.rows), *emitted(drained(tmp_path / "state"))])
    assert found == {
        ("a", "tumbling_10", 0, 10): {"x_sum": 1, "count": 1},
        (None, "tumbling_10", 0, 10): {"x_sum": 2, "count": 3},
        ("a", "tumbling_10", 20, 30): {"x_sum": 1, "count": 1},
        ("b", "tumbling_10", 40, 50): {"x_sum": 1, "count": 1},
    }


def test_keys_may_be_structs_and_lists(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [event(0, "a", 3), event(1, "b", 4), event(2, "a", 5)],
        [event(3, "a", 14), event(4, None, 8)],
        [event(5, "b", 90)],
    )
    given = source.stream(spark).selectExpr("named_struct('k', k, 'l', array(k, 'z')) as key", "*")
    query: Any = {"by": "key", "time": "t", "aggs": sw.agg.sum("x"), "watermark": 10, "buckets": 3}
    windowed = run(sw.windowed(given, windows=sw.tumbling(10), **query), tmp_path / "windowed")
    answers = {(row["key"]["k"], *row["key"]["l"], row["start"]): row for row in windowed.rows}
    assert {key: row["x_sum"] for key, row in answers.items()} == {
        ("a", "a", "z", 0): 2,
        ("a", "a", "z", 10): 1,
        ("b", "b", "z", 0): 1,
        (None, None, "z", 0): 1,
    }
    rolled = run(sw.rolling(given, over=5, **query), tmp_path / "rolled")
    assert {row["id"]: row["x_sum_5"] for row in rolled.rows} == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}


def test_rows_without_a_time_roll_through_with_nulls(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [event(0, "a", None), event(1, None, None)],  # before there is any watermark
        [event(2, "a", 3), event(3, "a", None), event(4, "a", 30)],
    )
    stream = sw.rolling(
        source.stream(spark), by="k", time="t", over=5, aggs=sw.agg.sum("x"), watermark=10
    )
    ran = run(stream, tmp_path / "state")
    found = [{row["id"]: row["x_sum_5"] for row in batch} for batch in ran.batches]
    assert found == [{0: None, 1: None}, {2: 1, 3: None}]
    assert [m["bad"] for m in ran.metrics] == [2, 1]
    assert [(row["id"], row["x_sum_5"]) for row in drained(tmp_path / "state")] == [(4, 1)]


MOMENTS = pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("id", pa.int64())])


@pytest.mark.parametrize(("max_ahead", "bad"), [("1d", [1, 1]), (None, [0, 0])])
def test_a_wrong_clock_closes_nobodys_windows(
    spark: Any, tmp_path: Path, max_ahead: Any, bad: list[int]
) -> None:
    now = dt.datetime.now(dt.UTC)
    source = Source(tmp_path / "in", MOMENTS)
    source.add(
        [
            {"t": NOON, "x": 1, "id": 0},
            {"t": now + dt.timedelta(days=3), "x": 1, "id": 1},
            {"t": NOON + dt.timedelta(minutes=1), "x": 1, "id": 2},
        ],
        [
            {"t": NOON + dt.timedelta(minutes=2), "x": 1, "id": 3},
            {"t": dt.datetime(2200, 1, 1, tzinfo=dt.UTC), "x": 1, "id": 4},
        ],
        [{"t": NOON + dt.timedelta(minutes=3), "x": 1, "id": 5}],
    )
    stream = sw.windowed(
        source.stream(spark, schema="t timestamp, x bigint, id bigint"),
        time="t", windows=sw.tumbling("1h"), aggs=sw.agg.count(), watermark="10s", keep_late=True,
        max_ahead=max_ahead,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [m["bad"] for m in ran.metrics] == [*bad, 0]
    ids = [[row["id"] for row in late(batch)] for batch in ran.batches]
    counts = [row["count"] for row in ran.rows if row["window"]]
    left = [row["count"] for row in drained(tmp_path / "state")]
    if max_ahead is None:
        # The clock that is wrong decides: what the others send is late.
        assert (ids, counts, left) == ([[], [3], [5]], [2, 1], [1])
    else:
        assert (ids, counts, left) == ([[1], [4], []], [], [4])


@pytest.mark.parametrize("kind", ["date", "timestamp_ntz"])
def test_days_and_moments_without_a_zone_are_times_too(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    types = {"date": pa.date32(), "timestamp_ntz": pa.timestamp("us")}
    days = [dt.datetime(2024, 5, day) for day in (1, 2, 3, 9, 5)]
    times = [*([day.date() for day in days] if kind == "date" else days), None]
    far = dt.date(2300, 1, 1) if kind == "date" else dt.datetime(2300, 1, 1)
    source = Source(tmp_path / "in", pa.schema([("t", types[kind]), ("id", pa.int64())]))
    source.add([{"t": time, "id": number} for number, time in enumerate([*times, far])])
    stream = sw.windowed(
        source.stream(spark, schema=f"t {kind}, id bigint"), time="t", windows=sw.session("1d"),
        aggs=sw.agg.count(), watermark="2d", keep_late=True,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [5, 6]
    rows = [*(row for row in ran.rows if row["window"]), *drained(tmp_path / "state")]
    assert {(row["start"].day, row["end"].day, row["count"]) for row in rows} == {
        (1, 4, 3),
        (5, 6, 1),
        (9, 10, 1),
    }


TRAILING = pa.schema([("k", pa.string()), *MOMENTS])


def test_a_day_ahead_of_the_clock_is_the_most_unless_said(spark: Any, tmp_path: Path) -> None:
    day = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    source = Source(tmp_path / "in", MOMENTS)
    source.add(
        [
            {"t": day - dt.timedelta(seconds=1), "x": 1, "id": 0},
            # The clock goes on until the micro-batch runs.
            {"t": day + dt.timedelta(hours=1), "x": 1, "id": 1},
        ]
    )
    stream = sw.windowed(
        source.stream(spark, schema="t timestamp, x bigint, id bigint"), time="t",
        windows=sw.tumbling("7d"), aggs=sw.agg.collect("id"), watermark="0s",
        keep_late=True,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [1]
    assert [m["bad"] for m in ran.metrics] == [1]
    assert [row["id_collect"] for row in drained(tmp_path / "state")] == [[0]]


def test_moments_roll_whatever_clocks_and_aggregates_do(spark: Any, tmp_path: Path) -> None:
    def at(key: str, minute: int, x: int, number: int) -> dict[str, Any]:
        return {"k": key, "t": NOON + dt.timedelta(minutes=minute), "x": x, "id": number}

    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(hours=5)
    source = Source(tmp_path / "in", TRAILING)
    source.add(
        [at("a", 0, 1, 0), at("a", 5, 2, 1), at("b", 5, 666, 2), {"k": "a", "t": ahead, "id": 3}],
        [at("a", 12, 4, 4), at("b", 12, 3, 5)],
    )
    aggs = [Poison("x").alias("sum")]
    stream = sw.rolling(
        source.stream(spark, schema="k string, t timestamp, x bigint, id bigint"), by="k", time="t",
        over=["10m", "1h"], aggs=aggs, watermark="1m", max_ahead="4h", keep_late=True, buckets=2,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [row["late"]["id"] for row in ran.rows if row["late"]] == [3]
    left = drained(tmp_path / "state", aggs=aggs)
    found = [
        {row["id"]: (row["sum_10m"], row["sum_1h"]) for row in batch if not row["late"]}
        for batch in (*ran.batches, left)
    ]
    # The rows of a key are null while spans reach back to what the aggregate cannot take.
    assert found == [
        {0: (1.0, 1.0)},
        {1: (3.0, 3.0), 2: (None, None)},
        {4: (6.0, 7.0), 5: (None, None)},
    ]
    assert [(m["bad"], m["failed"], m["slices"]) for m in ran.metrics] == [(1, 0, 3), (0, 1, 5)]


class Locked(sw.Aggregate):
    """Holds what cannot be sent to a worker."""

    compile = False
    commutative = True
    returns = pa.int64()

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.lock = threading.Lock()

    def identity(self) -> int:
        return 0

    def lift(self, x: int) -> int:
        return x

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def lower(self, state: int) -> int:
        return state


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"buckets": 0}, SpanError, "`buckets` is a number of groups of keys, .*given: 0"),
        ({"buckets": True}, SpanError, "from 1 to 32768; given: True"),
        ({"buckets": "3"}, SpanError, "from 1 to 32768; given: '3'"),
        ({"buckets": 40_000}, SpanError, "from 1 to 32768; given: 40000"),
        ({"watermark": "soon"}, SpanError, "`watermark` is a length of time such as '10s'; "),
        ({"watermark": -5}, SpanError, "`watermark` is a length of time such as '10s'; .*-5"),
        ({"watermark": sw.rows(3)}, SpanError, "`watermark` is a length of time such as '10s'; "),
        ({"max_ahead": "far"}, SpanError, "`max_ahead` is a length of time such as '10s'; "),
        (
            {"max_ahead": "2d"},
            SpanError,
            "of no unit have nothing to do with it: the time column 't' holds int64.*Leave `max_ah",
        ),
        ({"watermark": "5s"}, SpanError, "`watermark` is measured in durations .* Say what its nu"),
        ({"lateness": "5s"}, SpanError, "`lateness` is measured in durations"),
        ({"windows": sw.session("5s")}, SpanError, "'session_5s' is measured in durations"),
        ({"unit": "m"}, SpanError, "is one of 's', 'ms', 'us', 'ns'; given: 'm'"),
        ({"lateness": sw.rows(3)}, SpanError, "`lateness` is a length of time"),
        ({"emit": "sometimes"}, WindowError, "`emit` is one of 'on_close', .*'sometimes'"),
        (
            {"windows": [Following()], "lateness": 5},
            CapabilityError,
            "A user window sees each event once.*Use `emit='final'`",
        ),
        ({"windows": [Following()], "emit": "on_update"}, CapabilityError, "sees each event once"),
        ({"windows": []}, WindowError, "at least one window; given: none"),
        ({"windows": [sw.tumbling(5), sw.tumbling(5)]}, WindowError, "Two windows have the name"),
        ({"aggs": []}, AggregateError, "`windowed` needs .* Give aggregates such as `sw.agg"),
        ({"aggs": [sw.agg.sum("z")]}, ColumnError, "There is no column 'z'"),
        ({"by": "kk"}, ColumnError, "There is no column 'kk'.*Did you mean 'k'"),
        ({"time": "when"}, ColumnError, "There is no column 'when'"),
        ({"time": "s"}, ColumnTypeError, "A time column holds timestamps, .*'s' holds string"),
        (
            {"aggs": [Locked("x")]},
            CapabilityError,
            "The aggregate 'x_locked' cannot be sent to Spark's workers",
        ),
    ],
    ids=lambda value: None if isinstance(value, type) else str(value)[:40],
)
def test_what_cannot_run_is_refused_when_it_is_built(
    spark: Any, tmp_path: Path, given: Any, error: type[Exception], message: str
) -> None:
    source = Source(tmp_path / "in")
    source.add([])
    query: dict[str, Any] = {
        "by": "k",
        "time": "t",
        "windows": sw.tumbling(10),
        "aggs": sw.agg.sum("x"),
        "watermark": 5,
    }
    with pytest.raises(error, match=message):
        sw.windowed(source.stream(spark), **(query | given))


def test_a_folder_without_a_micro_batch_has_nothing_to_drain(spark: Any, tmp_path: Path) -> None:
    message = r"was not written by a stream of `sw\.windowed`.*No committed batch found"
    with pytest.raises(SnapshotError, match=message):
        sw.drain(tmp_path / "nowhere", spark=spark)
