"""What an operator does with bad input: a clear error, or the event handed out and counted."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.aggregates.policy import ErrorPolicy
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnError,
    ColumnTypeError,
    OrderError,
    SpanError,
    WindowError,
)
from slicewise.testing import Oracle, assert_same_rows

SUM = sw.agg.sum("x")


def operator(**changes: Any) -> sw.Operator:
    made: Any = {"windows": [sw.tumbling(10)], "aggs": [SUM], "time": "t"} | changes
    return sw.Operator(**made)


def sums(op: sw.Operator, watermark: Any = math.inf) -> list[Any]:
    return [(r.start, r.values["x_sum"]) for r in op.advance(watermark)]


@pytest.mark.parametrize(
    "bad",
    [None, math.nan, math.inf, -math.inf, 2.5, 2.0**62, -(2.0**62)],
    ids=str,
)
def test_an_event_without_a_usable_time_is_handed_out_and_the_rest_goes_on(bad: Any) -> None:
    op = operator()
    op.process({"t": pa.array([1.0, bad, 3.0]), "x": [1, 2, 4]})
    assert sums(op) == [(0, 5)]
    assert (op.stats.events, op.stats.bad, op.stats.late_dropped) == (3, 1, 0)
    (handed,) = op.late
    assert handed["x"] == 2


@pytest.mark.parametrize("bad", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_a_whole_time_out_of_range_is_bad(bad: int) -> None:
    op = operator()
    op.process({"t": np.array([1, bad]), "x": [1, 2]})
    assert sums(op) == [(0, 1)]
    assert op.late == [{"t": bad, "x": 2}]
    assert op.stats.bad == 1


def test_times_of_all_sizes_of_integers_are_usable() -> None:
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        op = operator()
        op.process({"t": np.array([1, 11], kind), "x": [1, 2]})
        assert sums(op) == [(0, 1), (10, 2)]


def test_nat_and_missing_timestamps_are_bad() -> None:
    op = operator(windows=[sw.tumbling("1h")])
    op.process(pd.DataFrame({"t": pd.DatetimeIndex(["2024-01-01 00:30", "NaT"]), "x": [1, 2]}))
    assert [r.values for r in op.advance(math.inf)] == [{"x_sum": 1}]
    assert op.stats.bad == 1


def test_a_batch_of_bad_times_alone_changes_nothing_else() -> None:
    op = operator()
    op.process({"t": [None, None], "x": [1, 2]})
    assert op.advance(5) == []
    op.process({"t": [7], "x": [4]})
    assert sums(op) == [(0, 4)]
    assert op.stats.bad == 2


def test_a_condition_that_raises_an_error_makes_its_event_bad() -> None:
    op = operator(windows=[sw.threshold(lambda event: 10 / event["x"] > 1), sw.tumbling(10)])
    op.process({"t": [1, 2, 3, 4], "x": [2, 0, 3, 50]})
    assert {r.window: r.values["x_sum"] for r in op.advance(math.inf)} == {
        "threshold": 5,
        "tumbling_10": 55,
    }
    assert op.late == [{"t": 2, "x": 0}]
    assert op.stats.bad == 1


@pytest.mark.parametrize("window", [sw.punctuated("flag"), sw.threshold("flag")], ids=str)
@pytest.mark.parametrize(
    "flags",
    [["false", "true"], [0, 1], np.array([math.nan, 1.0]), [[True], [False]]],
    ids=["text", "integers", "floats", "lists"],
)
def test_a_condition_that_is_no_boolean_column_is_refused(window: Any, flags: Any) -> None:
    op = operator(windows=[window])
    batch = {"t": [1, 2], "x": [1, 2], "flag": flags}
    with pytest.raises(ColumnTypeError, match=r"A condition is a boolean column.*'flag', the cond"):
        op.process(batch)
    with pytest.raises(ColumnTypeError, match=r"give a function such as `when=lambda event"):
        sw.windowed(pa.table(batch), time="t", windows=window, aggs=SUM)
    op.process({"t": [1, 2, 3], "x": [1, 2, 4], "flag": [True, False, None]})
    with pytest.raises(ColumnTypeError, match="A condition is a boolean column"):
        op.process(batch)
    assert op.stats.events == 3
    op.process({"t": [4], "x": [8], "flag": [True]})
    expected = {"punctuated_flag": [(1, 7)], "threshold_flag": [(1, 1)]}
    assert sums(op) == expected[window.name]


def test_a_condition_of_nothing_but_nulls_may_become_boolean() -> None:
    op = operator(windows=[sw.threshold("flag")], aggs=[sw.agg.collect("x")])
    op.process({"t": [1], "x": [None], "flag": [None]})
    op.process({"t": [2, 3], "x": [1, 2], "flag": [True, False]})
    assert [r.values["x_collect"] for r in op.advance(math.inf)] == [[1]]


def test_late_events_are_counted_and_handed_out_once() -> None:
    op = operator(lateness=5)
    op.process({"t": [30], "x": [1]})
    op.advance(30)
    op.process({"t": [14, 25, 29, None], "x": [2, 4, 8, 16]})
    assert (op.stats.late_dropped, op.stats.bad) == (1, 1)
    assert [row["x"] for row in op.late] == [2, 16]
    table = op.take_late()
    assert table is not None
    assert table["x"].to_pylist() == [2, 16]
    assert op.late == []
    assert op.take_late() is None
    assert op.stats.late_dropped == 1


def test_late_rows_keep_all_their_columns() -> None:
    op = operator()
    op.advance(100)
    op.process([{"t": 5, "x": 1, "note": "kept"}])
    assert op.late == [{"t": 5, "x": 1, "note": "kept"}]


@pytest.mark.parametrize(
    "empty",
    [[], {}, {"t": [], "x": []}, pa.table({"t": pa.array([], pa.int64())}), pd.DataFrame()],
    ids=["rows", "dict", "columns", "arrow", "pandas"],
)
def test_an_empty_batch_is_no_batch(empty: Any) -> None:
    op = operator()
    op.process(empty)
    assert op.advance(5) == []
    op.process({"t": [7], "x": [1]})
    op.process(empty)
    assert sums(op) == [(0, 1)]
    assert op.stats.events == 1
    ordered = operator(ordered=True)
    assert ordered.process(empty) == []


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": [1]}, "no column 't' in the batch; it has: 'x'"),
        ({"t": [1], "y": [1]}, "no column 'x' in the batch; it has: 't', 'y'"),
    ],
)
def test_a_missing_column_is_named(batch: Any, message: str) -> None:
    op = operator()
    with pytest.raises(ColumnError, match=message):
        op.process(batch)
    op.process({"t": [1], "x": [1]})
    with pytest.raises(ColumnError, match=message):
        op.process(batch)
    assert sums(op) == [(0, 1)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (5, "A batch is a dict of columns.*given: int"),
        ("text", "given: str"),
        ([1, 2], "given: list"),
        ({"t": [1, 2], "x": [1]}, "one length; given: t: 2, x: 1"),
        ({"t": ["yesterday"], "x": [1]}, "A time column holds timestamps"),
        ({"t": [1], "x": [object()]}, "values of one type; 'x' does not"),
        ({"t": [1], "x": ["a"]}, "needs a column of numbers"),
    ],
)
def test_a_batch_that_is_none_is_refused_and_nothing_is_counted(batch: Any, message: str) -> None:
    op = operator()
    with pytest.raises(ColumnTypeError, match=message):
        op.process(batch)
    assert op.stats.events == 0
    op.process({"t": [1], "x": [1]})
    assert sums(op) == [(0, 1)]


def test_a_column_may_come_in_another_type_that_says_the_same() -> None:
    op = operator()
    op.process({"t": [1], "x": np.array([1], np.int64)})
    op.process({"t": [2], "x": np.array([2], np.int32)})
    op.process({"t": [3], "x": np.array([4.0])})
    op.process({"t": [4], "x": [None]})
    assert sums(op) == [(0, 7)]


@pytest.mark.parametrize("values", [[2.5], ["a"], [[1]]], ids=str)
def test_a_column_that_changes_its_type_is_refused_and_the_operator_goes_on(values: Any) -> None:
    op = operator(by="k")
    op.process({"t": [1], "x": [1], "k": ["a"]})
    with pytest.raises(ColumnTypeError, match="A column keeps its type; 'x' was int64 and is now"):
        op.process({"t": [2], "x": values, "k": ["a"]})
    op.process({"t": [3], "x": [4], "k": ["a"]})
    assert sums(op) == [(0, 5)]
    assert op.stats.events == 2


def test_a_key_that_changes_its_type_is_refused() -> None:
    op = operator(by="k")
    op.process({"t": [1], "x": [1], "k": [1]})
    with pytest.raises(ColumnTypeError, match="'k' was int64 and is now string"):
        op.process({"t": [1], "x": [1], "k": ["a"]})
    op.process({"t": [1], "x": [2], "k": np.array([1], np.int16)})
    assert [(r.key, r.values["x_sum"]) for r in op.advance(math.inf)] == [(1, 3)]


def test_a_time_that_changes_between_numbers_and_timestamps_is_refused() -> None:
    op = operator()
    op.process({"t": [1], "x": [1]})
    with pytest.raises(ColumnTypeError, match=r"stays.*'t' was int64 and is now timestamp"):
        op.process({"t": [dt.datetime(2024, 1, 1)], "x": [1]})
    assert sums(op) == [(0, 1)]


def test_the_type_of_a_column_of_nulls_is_that_of_its_first_value() -> None:
    op = operator(aggs=[sw.agg.last("s"), sw.agg.count("s"), sw.agg.std("y")], by="k")
    op.process([{"t": 1, "k": None, "s": None, "y": None}])
    op.process([{"t": 2, "k": "a", "s": "b", "y": 1}, {"t": 3, "k": None, "s": "c", "y": None}])
    assert [(r.key, *r.values.values()) for r in op.advance(math.inf)] == [
        (None, "c", 1, None),
        ("a", "b", 1, None),
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.float64(), pa.date32()], ids=str)
def test_a_null_key_stays_the_same_key_when_the_type_becomes_known(kind: pa.DataType) -> None:
    op = operator(by="k")
    op.process({"t": [1], "x": [1], "k": pa.nulls(1)})
    op.process({"t": [1], "x": [2], "k": pa.nulls(1, kind)})
    assert [(r.key, r.values["x_sum"]) for r in op.advance(math.inf)] == [(None, 3)]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"windows": [sw.tumbling(5), sw.tumbling(5)]}, WindowError, "Two windows have the name"),
        ({"windows": []}, WindowError, "at least one window"),
        ({"windows": ["10m"]}, WindowError, "`windows` takes windows such as"),
        ({"aggs": []}, AggregateError, "needs at least one aggregate in `aggs`"),
        ({"aggs": ["x"]}, AggregateError, "`aggs` takes aggregates"),
        ({"aggs": [SUM, SUM]}, AggregateError, "Two output columns have the name 'x_sum'"),
        ({"aggs": [SUM.alias("end")]}, AggregateError, "the name 'end'"),
        ({"aggs": [sw.agg.sum()]}, AggregateError, "`sum` must name its input column"),
        ({"by": "window"}, ColumnError, "`by` has 'window'"),
        ({"by": ["k", "k"]}, ColumnError, "`by` names each column once; 'k'"),
        ({"emit": "never"}, WindowError, "`emit` is one of 'on_close', 'final', 'on_update'"),
        ({"lateness": -1}, SpanError, "longer than nothing"),
        ({"lateness": sw.rows(3)}, SpanError, "`lateness` is a length of time"),
        ({"lateness": "soon"}, SpanError, "A span as text"),
    ],
)
def test_what_has_no_meaning_is_refused_when_built(
    changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        operator(**changes)


class Greedy(sw.UserWindow):
    """Ends an instance with every event, also when none is open."""

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        return (0, 1)


def test_a_user_window_that_ends_more_than_are_open_is_refused() -> None:
    op = operator(windows=[Greedy(), sw.tumbling(10)])
    op.process({"t": [1], "x": [1]})
    with pytest.raises(WindowError, match="'greedy' ended 1 at time 1 when 0 were open"):
        op.advance(5)


class Fussy(sw.UserWindow):
    """Begins an instance with every event and ends the one before; it cannot take 13."""

    open_now = 0

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        if event["x"] == 13:
            raise ValueError("13 is bad luck")
        if event["x"] == 99:
            return (0, 5)
        ends, self.open_now = self.open_now, 1
        return (1, ends)


class Calm(Fussy):
    """The same, and begins and ends nothing with what the other one cannot take."""

    name = "fussy"

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        return (0, 0) if event["x"] in (13, 99) else super().on_event(time, event)


@pytest.mark.parametrize("ordered", [False, True])
def test_an_event_that_a_user_window_cannot_take_is_bad_and_the_rest_goes_on(ordered: bool) -> None:
    others = [sw.tumbling(10), sw.tumbling(sw.rows(2)), sw.session(3)]
    made: Any = {"aggs": [SUM, sw.agg.count()], "time": "t", "by": "k", "ordered": ordered}
    op = sw.Operator(windows=[Fussy(), *others], **made)
    oracle = Oracle(windows=[Calm(), *others], **made)
    times = [1, 2, 3, 4, 5, 6, 7, 8]
    batch = {"t": times, "k": list("abababab"), "x": [1, 2, 13, 4, 5, 99, 7, 8]}
    expected: list[Any] = [*oracle.process(batch)]
    if ordered:
        with pytest.raises(ValueError, match="13 is bad luck"):
            op.process(batch)
    else:
        op.process(batch)
        with pytest.raises(ValueError, match="13 is bad luck"):
            op.advance(8)
    assert (op.stats.bad, [row["x"] for row in op.late]) == (2, [13, 99])
    op = sw.Operator.restore(op.snapshot())
    more = {"t": [20, 21], "k": ["a", "b"], "x": [1, 2]}
    found = [*op.advance(8), *(op.process(more) or []), *op.advance(math.inf)]
    expected += [*oracle.advance(8), *oracle.process(more), *oracle.advance(math.inf)]
    assert_same_rows(found, expected)


def test_a_stream_goes_on_over_an_event_that_a_user_window_cannot_take() -> None:
    # In Spark's streams errors of single events are counted and not raised.
    op = operator(windows=[Fussy(), sw.tumbling(10)])
    op.errors = ErrorPolicy(raises=False)
    op.process({"t": [1, 2, 3], "x": [1, 13, 2]})
    found = {r.window: r.values["x_sum"] for r in op.advance(math.inf)}
    assert found == {"fussy": 14, "tumbling_10": 16}
    assert (op.stats.bad, op.late) == (1, [{"t": 2, "x": 13}])


class Checked(sw.Aggregate):
    """The sum, which must not be 13 while `strict`."""

    name = "checked"
    arity = 1
    strict = True

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        return value

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        if Checked.strict and state == 13:
            raise ValueError("13 is bad luck")
        return state


@pytest.mark.parametrize(
    "mode", [{}, {"emit": "final"}, {"lateness": 50}, {"emit": "on_update"}], ids=str
)
def test_an_error_of_an_aggregate_loses_no_result(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [sw.tumbling(10), sw.session(3), sw.tumbling(sw.rows(2))]
    made: Any = {"windows": windows, "aggs": [Checked("x")], "time": "t", "by": "k"} | mode
    op, oracle = sw.Operator(**made), Oracle(**made)
    monkeypatch.setattr(Checked, "strict", False)
    first = {"t": [1, 2, 3, 4], "k": list("abab"), "x": [1.0, 2.0, 4.0, 8.0]}
    second = {"t": [21, 22, 25, 26], "k": list("abab"), "x": [13.0, 2.0, 4.0, 8.0]}
    for batch, watermark in ((first, 15), (second, 40)):
        op.process(batch)
        oracle.process(batch)
        if batch is second:
            monkeypatch.setattr(Checked, "strict", True)
            for _ in range(2):
                with pytest.raises(ValueError, match="13 is bad luck"):
                    op.advance(watermark)
            monkeypatch.setattr(Checked, "strict", False)
            op = sw.Operator.restore(op.snapshot())
        assert_same_rows(op.advance(watermark), oracle.advance(watermark))
    op.process({"t": [90], "k": ["a"], "x": [5.0]})
    oracle.process({"t": [90], "k": ["a"], "x": [5.0]})
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))


def test_a_user_window_that_would_have_to_revise_is_refused_when_built() -> None:
    with pytest.raises(CapabilityError, match=r"cannot be revised.*lateness=5"):
        operator(windows=[Greedy()], lateness=5)
    with pytest.raises(CapabilityError, match="emit='on_update'"):
        operator(windows=[Greedy()], emit="on_update")
    operator(windows=[Greedy()], lateness=5, emit="final")


def test_windows_are_added_and_removed_by_name() -> None:
    op = operator()
    with pytest.raises(WindowError, match="Two windows have the name 'tumbling_10'"):
        op.add_window(sw.tumbling(10))
    with pytest.raises(WindowError, match="no window 'other'; there are: 'tumbling_10'"):
        op.remove_window("other")
    with pytest.raises(WindowError, match="'tumbling_10' is its last"):
        op.remove_window("tumbling_10")
    assert op.add_window(sw.session(3)) is None
    op.remove_window("tumbling_10")
    op.process({"t": [1], "x": [1]})
    assert op.add_window(sw.tumbling(4)) == 2


@pytest.mark.parametrize(
    ("watermark", "message"),
    [(math.nan, "given: NaN"), (None, "given: None"), ("soon", "given: 'soon'")],
)
def test_a_watermark_is_a_time(watermark: Any, message: str) -> None:
    op = operator()
    op.process({"t": [1], "x": [1]})
    with pytest.raises(SpanError, match=message):
        op.advance(watermark)
    assert sums(op) == [(0, 1)]


@pytest.mark.parametrize(
    "watermark",
    [
        dt.datetime(2024, 1, 1, 1),
        pd.Timestamp("2024-01-01 01:00"),
        np.datetime64("2024-01-01T01:00"),
        1_704_070_800_000_000,
        np.int64(1_704_070_800_000_000),
        1_704_070_800_000_000.0,
        dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        math.inf,
        2**63,
    ],
    ids=str,
)
def test_watermarks_may_be_moments_and_numbers(watermark: Any) -> None:
    op = operator(windows=[sw.tumbling("1h")])
    op.process({"t": [dt.datetime(2024, 1, 1, 0, 30)], "x": [1]})
    assert op.advance(dt.datetime(2024, 1, 1, 0, 59)) == []
    (result,) = op.advance(watermark)
    assert (result.start, result.end) == (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 1))


def test_a_watermark_at_minus_infinity_or_back_changes_nothing() -> None:
    op = operator()
    op.process({"t": [1, 11], "x": [1, 2]})
    assert sums(op, -math.inf) == []
    assert sums(op, 10) == [(0, 1)]
    assert sums(op, 3) == []
    assert sums(op) == [(10, 2)]


def test_a_broken_promise_of_order_is_refused_and_the_batch_left_out() -> None:
    op = operator(ordered=True)
    op.process({"t": [5], "x": [1]})
    with pytest.raises(OrderError, match="one at 3 came after one at 7"):
        op.process({"t": [7, 3], "x": [2, 4]})
    assert op.process({"t": [12], "x": [8]}) == [
        sw.Result(None, "tumbling_10", 0, 10, {"x_sum": 1})
    ]


def test_results_before_any_event_are_none() -> None:
    op = operator()
    assert op.advance(math.inf) == []
    assert op.advance_arrow(math.inf).num_rows == 0


def test_stats_count_what_was_seen_and_is_kept() -> None:
    op = operator(windows=[sw.tumbling(10), sw.session(2)])
    op.process({"t": [1, 2, 15, None], "x": [1, 2, 4, 8]})
    op.advance(15)
    op.process({"t": [3, 13, 16], "x": [1, 1, 1]})
    op.advance(15)
    stats = op.stats
    assert (stats.events, stats.bad, stats.late_dropped, stats.late_partly) == (7, 1, 1, 0)
    assert stats.slices > 0
    assert stats.stored_rows == 0
    op.advance(math.inf)
    assert op.stats.slices == 0


def test_stored_rows_are_those_that_windows_need() -> None:
    op = operator(windows=[sw.tumbling(sw.rows(2))])
    op.process({"t": [1, 2, 3], "x": [1, 2, 4]})
    op.advance(0)
    assert op.stats.stored_rows == 3


def test_rows_that_are_kept_over_a_column_are_stored_rows_as_soon_as_they_come() -> None:
    window = sw.tumbling(sw.units(10, on="km"))
    for aggregate, rows in ((sw.agg.collect("x"), 3), (SUM, 0)):
        op = operator(windows=[window], aggs=[aggregate])
        op.process({"t": [1, 2, 3], "x": [1, 1, 1], "km": [1, 2, 3]})
        assert op.stats.stored_rows == rows
        assert op.stats.slices == (rows or 1)
        assert op.advance(math.inf)
        assert (op.stats.stored_rows, op.stats.slices) == (0, 0)
