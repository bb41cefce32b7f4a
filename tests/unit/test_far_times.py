"""Events whose windows cannot be said in results are bad, and the rest goes on (rules 8 and 12)."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.columns import python_values
from slicewise.errors import BadRowsWarning, WindowError
from slicewise.slicing.ingest.reach import limits_of, reach_of

DAY = 86_400
GOOD = dt.datetime(2024, 1, 1, 5)


def seconds(year: int, month: int = 1, day: int = 1) -> int:
    """Seconds since the epoch, for any year."""
    return int(
        np.datetime64(f"{year:05d}-{month:02d}-{day:02d}" if year >= 0 else f"{year}", "s").astype(
            np.int64
        )
    )


def times(kind: pa.DataType, *far: int) -> pa.Array:
    """Two times of 2024, and far ones in the unit of the type."""
    near = pa.array(
        [GOOD, GOOD + dt.timedelta(days=1)], pa.timestamp("us", getattr(kind, "tz", None))
    )
    return pa.concat_arrays(
        [near.cast(kind, safe=False), pa.array(far, pa.int64()).cast(plain(kind)).cast(kind)]
    )


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


FAR: dict[str, pa.Array] = {
    "the last day": times(pa.timestamp("us"), (seconds(9999, 12, 31) + 3600) * 10**6),
    "the year 20000": times(pa.timestamp("us"), seconds(20000) * 10**6),
    "the year -500": times(pa.timestamp("s"), seconds(-500), -(2**62), 2**62),
    "a zone": times(pa.timestamp("us", "America/New_York"), seconds(1) * 10**6),
    "dates": times(pa.date32(), seconds(9999, 12, 31) // DAY, 2**31 - 1, -(2**31)),
    "nanoseconds": times(pa.timestamp("ns"), 2**63 - 1, -(2**63) + 1),
    "durations": pa.array([5, 10**14, 2**63 - 1, -(2**63) + 1]).cast(pa.duration("ns")),
}
WINDOWS = {
    "tumbling": sw.tumbling("1d"),
    "sliding": sw.sliding("2d", every="1d"),
    "cumulate": sw.cumulate("1d", every="12h"),
    "session": sw.session("1d"),
    "capped": sw.session("30d", max_length="1d"),
    "opened": sw.sliding("1d", every=sw.rows(1)),
}


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("window", WINDOWS)
def test_rule_08_a_far_away_time_is_bad_and_no_other_result_is_lost(window: str, far: str) -> None:
    column, many = FAR[far], len(FAR[far])
    table = pa.table({"t": column, "k": ["a"] * many, "x": [*range(1, many + 1)]})
    query: Any = {"windows": [WINDOWS[window]], "aggs": [sw.agg.sum("x")], "time": "t", "by": "k"}
    near = sw.Operator(**query)
    near.process(table.slice(0, 2))
    wanted = near.advance(math.inf)
    assert wanted
    op, other = sw.Operator(**query), sw.Operator(**query)
    op.process(table)
    other.process(table)
    assert op.advance(math.inf) == wanted
    assert other.advance_arrow(math.inf).num_rows == len(wanted)
    assert (op.stats.bad, op.stats.events) == (many - 2, many)
    assert [row["x"] for row in op.late] == [*range(3, many + 1)]
    late = op.take_late()
    assert late is not None
    assert late["t"].combine_chunks() == column[2:]
    with pytest.warns(BadRowsWarning, match=f"{many - 2} rows are in no window"):
        found = sw.windowed(table, **query)
    assert found["x_sum"].to_pylist() == [result.values["x_sum"] for result in wanted]
    with pytest.warns(BadRowsWarning, match="rows are in no window"):
        columns = sw.windowed({"t": column, "k": ["a"] * many, "x": [1] * many}, **query)
    assert len(columns["start"]) == len(wanted)


def test_bounds_outside_of_the_nanoseconds_of_pandas_are_bad() -> None:
    ends = [pd.Timestamp.min, pd.Timestamp("2024-01-01"), pd.Timestamp.max]
    frame = pd.DataFrame({"t": ends, "x": [1, 2, 4]})
    with pytest.warns(BadRowsWarning, match="2 rows are in no window"):
        found = sw.windowed(frame, time="t", windows=sw.tumbling("1d"), aggs=sw.agg.sum("x"))
    assert found["x_sum"].tolist() == [2]
    assert str(found["start"].dtype) == "datetime64[ns]"


def test_an_event_is_bad_only_where_its_own_instances_cannot_be_said() -> None:
    last = dt.datetime(9999, 12, 30, 12)
    op = sw.Operator(windows=[sw.tumbling("1d")], aggs=[sw.agg.count()], time="t")
    op.process({"t": [last, last + dt.timedelta(hours=12), dt.datetime(1, 1, 1)]})
    assert [result.end for result in op.advance(math.inf)] == [
        dt.datetime(1, 1, 2),
        dt.datetime(9999, 12, 31),
    ]
    assert op.stats.bad == 1
    rows = sw.Operator(windows=[sw.tumbling(sw.rows(1))], aggs=[sw.agg.count()], time="t")
    rows.process({"t": [dt.datetime(9999, 12, 31, 12)]})
    assert len(rows.advance(math.inf)) == 1


@pytest.mark.parametrize(
    "window",
    [
        sw.tumbling(7, origin=3),
        sw.sliding(20, every=7),
        sw.sliding(3, every=7),
        sw.cumulate(9, every=4),
        sw.fixed(-45, 10),
        sw.fixed(45, 10),
    ],
    ids=str,
)
def test_the_times_within_are_those_whose_instances_are(window: Any) -> None:
    low, high = -40, 50
    first, last = window.times_within(low, high)
    for t in range(low, high + 1):
        inside = all(low <= start and end <= high for start, end in window.instances_at(t))
        if window.instances_at(t):
            assert inside == (first <= t <= last), t


def test_the_reach_of_many_windows_is_that_of_all_of_them() -> None:
    kind = pa.timestamp("us")
    low, high = limits_of(kind)
    windows = [sw.session("1h"), sw.sliding(5, every=sw.rows(2)), sw.sliding(sw.rows(2), every=7)]
    assert reach_of(windows, kind) == (low, high - 3_600_000_000)
    assert reach_of([sw.tumbling(10)], pa.int64()) == (-(2**61), 2**61)


@pytest.mark.parametrize(
    ("moment", "where"),
    [(dt.datetime(9999, 12, 31, 5), "end"), (dt.datetime(1, 1, 3), "beginning")],
    ids=["end", "beginning"],
)
@pytest.mark.parametrize("again", [False, True], ids=["going on", "restored"])
def test_a_window_that_could_not_say_what_is_kept_is_refused(
    moment: dt.datetime, where: str, again: bool
) -> None:
    op = sw.Operator(windows=[sw.tumbling("1h")], aggs=[sw.agg.count()], time="t")
    op.process({"t": [moment]})
    if again:
        op = sw.Operator.restore(op.snapshot())
    message = (
        f"at the very {where} of the range of .* bounds of 'tumbling_400d' .* out of that range"
    )
    with pytest.raises(WindowError, match=message):
        op.add_window(sw.tumbling("400d"))
    assert len(op.advance(math.inf)) == 1


def test_a_window_is_taken_that_does_not_report_the_oldest_events() -> None:
    op = sw.Operator(windows=[sw.tumbling("1h")], aggs=[sw.agg.count()], time="t")
    op.process({"t": [dt.datetime(1, 1, 3), dt.datetime(2024, 1, 1)]})
    op.advance(dt.datetime(2024, 1, 1))
    op.add_window(sw.tumbling("400d"))
    op.process({"t": [dt.datetime(2026, 1, 1)]})
    assert {r.window for r in op.advance(math.inf)} == {"tumbling_1h", "tumbling_400d"}


def texts(kind: pa.DataType, *values: bytes) -> pa.Array:
    array = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(values), array.buffers())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("by", ["k", ["k", "j"]], ids=str)
def test_rule_08_a_key_that_is_no_text_is_bad(kind: pa.DataType, by: Any) -> None:
    keys = texts(kind, b"a", b"\xff\xfe", b"b", b"a")
    table = pa.table({"t": [1, 2, 3, 4], "k": keys, "j": [1, 1, 1, 1], "x": [1, 2, 4, 8]})
    query: Any = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.sum("x")], "time": "t", "by": by}
    op = sw.Operator(**query)
    op.process(table)
    assert sorted(result.values["x_sum"] for result in op.advance(math.inf)) == [4, 9]
    assert op.late == [{"t": 2, "k": b"\xff\xfe", "j": 1, "x": 2}]
    assert op.stats.bad == 1
    again = sw.Operator.restore(op.snapshot())
    assert again.late == op.late
    with pytest.warns(BadRowsWarning, match="1 rows are in no window"):
        found = sw.windowed(table, **query)
    assert found["x_sum"].to_pylist() == [9, 4]


def test_values_that_are_no_text_are_bad_where_they_are_read() -> None:
    names = texts(pa.string(), b"a", b"\xff", b"b")
    table = pa.table({"t": [1, 2, 3], "who": names, "x": [1, 2, 4]})
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.last("who")], time="t")
    op.process(table.slice(0, 2))
    assert [result.values for result in op.advance(math.inf)] == [{"who_last": "a"}]
    assert op.stats.bad == 1
    plain = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
    plain.process(table)
    assert [result.values for result in plain.advance(10)] == [{"x_sum": 7}]
    plain.process(table)
    assert [row["who"] for row in plain.late] == ["a", b"\xff", "b"]
    window = sw.threshold(lambda event: event["x"] > 1)
    seen = sw.Operator(windows=[window], aggs=[sw.agg.sum("x")], time="t")
    seen.process(table)
    assert seen.stats.bad == 1


HALF = "half \ud83d"  # of a pair of surrogates, which no UTF-8 can say
HALVES = ["a", HALF, "b", None]
GIVEN: dict[str, Any] = {
    "lists": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    "rows": lambda rows: rows,
    "numpy": lambda rows: {n: np.array([row[n] for row in rows], object) for n in rows[0]},
    "pandas": pd.DataFrame,
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("reads", ["k", "s"])
def test_rule_08_texts_of_python_that_no_utf8_can_say_are_bad(
    given: str, nested: bool, reads: str
) -> None:
    values: list[Any] = [[text] if nested and text else text for text in HALVES]
    rows = [{"t": t, reads: value, "x": 1 << t} for t, value in enumerate(values)]
    data = GIVEN[given](rows)
    keyed = reads == "k"
    query: dict[str, Any] = {"windows": [sw.tumbling(10)], "by": "k" if keyed else None}
    query |= {"time": "t", "aggs": [sw.agg.sum("x"), sw.agg.collect("x" if keyed else "s")]}
    op = sw.Operator(**query)
    op.process(data)
    assert sum(result.values["x_sum"] for result in op.advance(math.inf)) == 1 + 4 + 8
    (late,) = op.late
    half = HALF.encode("utf-8", "surrogatepass")
    assert late == {"t": 1, reads: [half] if nested else half, "x": 2}
    assert sw.Operator.restore(op.snapshot()).late == [late]
    if given != "rows":
        with pytest.warns(BadRowsWarning, match="1 rows are in no window: .* no UTF-8"):
            found = sw.windowed(data, **query)
        assert sum(found["x_sum"]) == 1 + 4 + 8
    if given != "rows" and not keyed:
        aggs = [sw.agg.sum("x"), sw.agg.last("s")]
        with pytest.warns(BadRowsWarning, match="1 rows have a time .* or a text that is no UTF-8"):
            rolled = sw.rolling(data, time="t", over=10, aggs=aggs)
        sums = [None if total != total else total for total in rolled["x_sum_10"]]
        assert sums == [1, None, 5, 13]
        assert [*rolled["s_last_10"]][2] == values[2]


def test_what_python_has_no_value_for_is_readable_at_any_depth() -> None:
    bad, far = texts(pa.string(), b"\xff", b"b"), pa.array([seconds(20000), 0], pa.timestamp("s"))
    struct = pa.StructArray.from_arrays([bad, far], ["s", "when"])
    array = pa.ListArray.from_arrays([0, 2], struct)
    later = dt.datetime(1970, 1, 1)
    wanted = [{"s": b"\xff", "when": "20000-01-01T00:00:00"}, {"s": "b", "when": later}]
    assert python_values(array) == [wanted]
    pairs = pa.MapArray.from_arrays([0, 2], bad, far)
    assert python_values(pairs) == [[(b"\xff", "20000-01-01T00:00:00"), ("b", later)]]
    assert python_values(bad.dictionary_encode()) == [b"\xff", "b"]


def test_a_result_that_python_has_no_value_for_is_text() -> None:
    far = pa.array([seconds(20000)], pa.timestamp("s"))
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.max("when")], time="t", by="when")
    op.process({"t": [1], "when": far})
    (result,) = op.advance(math.inf)
    assert (result.key, result.values) == ("20000-01-01T00:00:00", {"when_max": result.key})


class Fussy(sw.Aggregate):
    """An aggregate whose results cannot be made for a while."""

    compile = False
    ready = False

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        return value

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        if not Fussy.ready:
            raise ValueError("not yet")
        return state


@pytest.mark.parametrize("emit", ["on_close", "on_update", "final"])
def test_nothing_is_handed_out_before_the_whole_answer_is_made(emit: Any) -> None:
    """The first window's results are made when the second one's fail."""
    windows = [sw.tumbling(10), sw.session(3), sw.tumbling(sw.rows(2))]
    query: Any = {"windows": windows, "time": "t", "emit": emit}
    op = sw.Operator(aggs=[sw.agg.sum("x"), Fussy("x")], **query)
    steady = sw.Operator(aggs=[sw.agg.sum("x")], **query)
    batches: list[dict[str, list[Any]]] = [
        {"t": [1, 2, 12], "x": [1.0, 2.0, 4.0]},
        {"t": [14, 15], "x": [8.0, 16.0]},
    ]
    for batch in batches:
        Fussy.ready = False
        for one in (op, steady):
            one.process(batch)
        for attempt in (op.advance, op.advance_arrow):
            with pytest.raises(ValueError, match="not yet"):
                attempt(batch["t"][-1])
        Fussy.ready = True
        found = op.advance(batch["t"][-1])
        wanted = steady.advance(batch["t"][-1])
        for result in found:
            result.values.pop("x_fussy")
        assert found == wanted
