"""What the numbers of a time column mean, for operators fed by hand."""

from __future__ import annotations

import datetime as dt
import math
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import (
    BadRowsWarning,
    SnapshotError,
    SpanError,
    UnitWarning,
    WindowError,
)
from slicewise.testing import Oracle

SUM = sw.agg.sum("x")
MOMENT = dt.datetime(2024, 1, 1)


def operator(**more: Any) -> sw.Operator:
    query: dict[str, Any] = {"windows": [sw.tumbling("1m")], "aggs": [SUM], "time": "t"}
    return sw.Operator(**query | more)


def bounds(op: sw.Operator, watermark: Any = 10**18) -> list[tuple[Any, Any, int]]:
    return [(r.start, r.end, r.values["x_sum"]) for r in op.advance(watermark)]


def test_rule_01_an_operator_takes_durations_over_numbers_of_a_unit() -> None:
    op = operator(unit="s", lateness="30s", windows=[sw.tumbling("1m"), sw.session("5s")])
    assert op.lateness == 30
    op.process({"t": [0, 59, 60], "x": [1, 2, 4]})
    assert bounds(op, 60) == [(0, 60, 3), (0, 5, 1)]
    op.add_window(sw.tumbling("2m"))
    # A moment is a watermark too.
    assert bounds(op, dt.datetime(1970, 1, 1, 0, 2)) == [
        (60, 120, 4),
        (59, 65, 6),
        (0, 120, 7),
    ]


@pytest.mark.parametrize(
    ("more", "time", "message"),
    [
        ({}, 5, "the window 'tumbling_1m' is measured in durations .* holds int64. Say what its"),
        ({}, 5.0, "holds double. Say what its numbers mean"),
        ({"windows": [sw.session(5)]}, MOMENT, "the window 'session_5' is measured in plain"),
        ({"windows": [sw.punctuated("x")], "lateness": "1s"}, 5, "`lateness` is measured in dura"),
        ({"lateness": 5}, MOMENT, "`lateness` is measured in plain numbers"),
        ({"unit": "s"}, MOMENT, "'t' holds timestamp.us., which says so itself"),
    ],
)
def test_rule_01_an_operator_refuses_the_first_batch_of_another_measure(
    more: dict[str, Any], time: Any, message: str
) -> None:
    op = operator(**more)
    for _ in range(2):
        with pytest.raises(SpanError, match=message):
            op.process({"t": [time], "x": [1]})
    assert (op.stats.events, op.late) == (0, [])


def test_rule_01_an_operator_stays_usable_after_a_batch_of_another_measure() -> None:
    op = operator()
    with pytest.raises(SpanError, match="Say what its numbers mean"):
        op.process({"t": [5], "x": [1]})
    op.process({"t": [None], "x": [1]})  # no type yet
    op.process({"t": [MOMENT], "x": [2]})
    assert bounds(op) == [(MOMENT, MOMENT + dt.timedelta(minutes=1), 2)]
    assert op.stats.bad == 1
    with pytest.raises(SpanError, match="the window 'w' is measured in plain numbers"):
        op.add_window(sw.tumbling(5, name="w"))
    assert [window.name for window in op.windows] == ["tumbling_1m"]


def test_rule_01_a_clock_counts_microseconds() -> None:
    op = sw.Operator(windows=[sw.tumbling("1s")], aggs=[SUM], time=None, clock=lambda: 1_500_000)
    op.process({"x": [1]})
    assert bounds(op) == [(1_000_000, 2_000_000, 1)]
    with pytest.raises(SpanError, match="a clock counts microseconds; given: unit='s'"):
        operator(time=None, unit="s")


def test_rule_01_a_snapshot_knows_the_unit_of_times() -> None:
    windows = [sw.tumbling("1m"), sw.sliding("2m", every=sw.rows(2))]
    op = operator(windows=windows, unit="ms", lateness="1s")
    for again in (sw.Operator.restore(op.snapshot()), operator().restore(op.snapshot())):
        assert (again.unit, again.lateness) == ("ms", 1000)
    op.process({"t": [59_999, 60_000], "x": [1, 2]})
    again = sw.Operator.restore(op.snapshot(), windows=windows)
    assert bounds(again, 120_000) == [(0, 60_000, 1), (60_000, 120_000, 2)]
    with pytest.raises(SnapshotError, match=r"'tumbling_1m' .* is not what the snapshot was made"):
        sw.Operator.restore(op.snapshot(), windows=[sw.tumbling("2m", name="tumbling_1m")])


def test_rule_01_a_snapshot_before_the_first_event_still_tells_durations_from_numbers() -> None:
    op = operator(lateness="1s")
    again = sw.Operator.restore(op.snapshot())
    with pytest.raises(SpanError, match=r"'tumbling_1m' is measured in durations"):
        again.process({"t": [5], "x": [1]})
    again.process({"t": [MOMENT], "x": [1]})
    assert again.stats.events == 1


def test_rule_01_fractions_of_a_unit_are_bad_rows() -> None:
    op = operator(unit="s")
    op.process({"t": [0.0, 0.5, float("inf"), 61.0], "x": [1, 2, 4, 8]})
    assert bounds(op) == [(0, 60, 1), (60, 120, 8)]
    assert (op.stats.bad, [row["x"] for row in op.late]) == (2, [2, 4])


@pytest.mark.parametrize(
    ("times", "usable"),
    [
        ([0.0, 0.5, math.inf, math.nan, -3.0], [0, 4]),
        ([0.0, 2.0**61, -(2.0**61), 2.0**60], [0, 3]),
        ([5, 2**61, -(2**61), 2**61 - 1, 1 - 2**61], [0, 3, 4]),
        (np.array([5, 2**63, 2**64 - 1], np.uint64), [0]),
        (pa.array([5, 2**61 - 1, 2**62]).cast(pa.duration("us")), [0, 1]),
        (pa.array([5, 2**51, 2**62]).cast(pa.duration("ms")), [0, 1]),
        (pa.array([5, 2**61, 2**62]).cast(pa.duration("ns")), [0, 1, 2]),
    ],
)
def test_windows_take_the_same_times_in_every_verb(times: Any, usable: list[int]) -> None:
    data = pa.table({"t": times, "x": range(len(times))})
    durations = pa.types.is_temporal(data["t"].type)
    counted, length = [sw.agg.count(), sw.agg.collect("x")], "1h" if durations else 10
    rolled = sw.agg.count().alias("rolled")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadRowsWarning)
        found = sw.windowed(data, time="t", windows=sw.tumbling(length), aggs=counted)
        passed = sw.rolling(data, time="t", over=length, aggs=rolled)
    op = sw.Operator(windows=[sw.tumbling(length)], aggs=counted, time="t")
    op.process(data)
    oracle = Oracle(windows=[sw.tumbling(length)], aggs=counted, time="t")
    rows = [x for kept in found["x_collect"].to_pylist() for x in kept]
    assert sorted(rows) == usable
    assert sorted(x for r in op.advance(math.inf) for x in r.values["x_collect"]) == usable
    # `rolling` has no bounds to say, and takes whole numbers and moments of any 64 bits.
    (results,) = (passed[name].to_pylist() for name in passed.column_names if "rolled" in name)
    taken = [x for x, count in enumerate(results) if count is not None]
    if pa.types.is_floating(data["t"].type):
        assert taken == usable
    else:
        assert set(taken) >= set(usable)
    if not durations:
        oracle.process(data)
        oracles = [x for row in oracle.advance(math.inf) for x in row.values["x_collect"]]
        assert sorted(oracles) == usable


def test_more_instances_than_can_be_meant_are_refused_before_they_are_listed() -> None:
    #   events further apart than the window is long: each is in ten million instances of its own
    window = sw.sliding(10_000_000, every=1)
    table: dict[str, Any] = {"t": [k * 20_000_000 for k in range(120)], "x": [1] * 120}
    message = r"1,073,741,824 window instances at most; this one would report about 1,200,000"
    begun = time.monotonic()
    with pytest.raises(WindowError, match=message):
        sw.windowed(table, time="t", windows=window, aggs=SUM)
    keyed = {**table, "k": list(range(120)), "t": [5] * 120}
    with pytest.raises(WindowError, match=message):
        sw.windowed(keyed, by="k", time="t", windows=window, aggs=SUM)
    growing = sw.cumulate(10_000_000, every=1)
    with pytest.raises(WindowError, match=r"length=10000000 and every=1\. Make `every` larger, or"):
        sw.windowed(table, time="t", windows=growing, aggs=SUM)
    assert time.monotonic() - begun < 30  # listing them takes hours
    op = sw.Operator(windows=[window, sw.tumbling(10)], aggs=[SUM], time="t")
    op.process(table)
    with pytest.raises(WindowError, match=message):
        op.advance(math.inf)
    op.remove_window(window.name)
    assert len(op.advance(math.inf)) == 120


@pytest.mark.parametrize("emit", ["on_close", "final"])
def test_what_is_too_much_for_one_call_is_answered_in_steps(emit: Any) -> None:
    window = sw.sliding(10_000_000, every=1)
    times = [k * 20_000_000 for k in range(120)]
    windows = [window, sw.tumbling(sw.rows(2)), sw.tumbling(20_000_000), sw.session(5)]
    query: dict[str, Any] = {"time": "t", "aggs": [SUM], "emit": emit, "lateness": 5}
    op = sw.Operator(windows=windows, **query)
    other = sw.Operator(windows=windows[2:], **query)
    for one in (op, other):
        one.process({"t": times, "x": [1] * 120})
    with pytest.raises(WindowError, match="1,073,741,824 window instances at most"):
        op.advance(math.inf)
    found = [result for watermark in (1_000, 1_500) for result in op.advance(watermark)]
    many = 1_500 - 5 if emit == "final" else 1_500
    assert [r.end for r in found if r.window == window.name] == [*range(1, many + 1)]
    # An event that comes now counts for windows of time that were not handed out.
    for one in (op, other):
        one.process({"t": [1_000_001], "x": [7]})
    op.remove_window(window.name)
    found = [r for r in found if r.window != window.name]
    for watermark in (50_000_000, 1_500_000_000):
        found += op.advance(watermark)
    found = [*found, *sw.Operator.restore(op.snapshot()).advance(math.inf)]
    counted = [r for r in found if r.window == "tumbling_2rows"]
    assert [r.values["x_sum"] for r in counted] == [2] * 60
    timed = [r for r in found if r.window != "tumbling_2rows"]
    assert sorted(map(repr, timed)) == sorted(map(repr, other.advance(math.inf)))


def test_a_day_every_second_goes_on_working() -> None:
    window = sw.sliding("1d", every="1s")
    table = {"t": [MOMENT, MOMENT + dt.timedelta(hours=12)], "x": [1, 2]}
    found = sw.windowed(pa.table(table), time="t", windows=window, aggs=SUM)
    assert found.num_rows == 86_400 + 43_200


# Numbers that look like moments of our time.

LOOKS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@pytest.mark.parametrize("unit", LOOKS)
def test_times_that_look_like_seconds_beside_plain_lengths_are_warned_of_once(unit: str) -> None:
    times = [1_700_000_000 * 1000 ** list(LOOKS).index(unit) + k for k in range(3)]
    table: dict[str, Any] = {"t": times, "x": [1, 2, 3]}
    windows, spans = [sw.tumbling(60), sw.session(10**7)], [60, 3600]
    message = (
        f"'t' look like {LOOKS[unit]} since the epoch: {times[0]} would be 2023-11-14 22:13:20"
        f".*plain numbers, so they are {LOOKS[unit]} too. Say so with `unit='{unit}'`"
    )
    op = sw.Operator(windows=windows, aggs=[SUM], time="t")
    for ask in (
        lambda: sw.windowed(pd.DataFrame(table), time="t", windows=windows, aggs=SUM),
        lambda: sw.rolling(table, time="t", over=spans, aggs=SUM),
        lambda: op.process(table),
    ):
        with pytest.warns(UnitWarning, match=message) as caught:
            ask()
        assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.process(table)  # it has said so
        sw.windowed(table, time="t", windows=windows, aggs=SUM, unit=unit)
        sw.rolling(table, time="t", over=spans, aggs=SUM, unit=unit)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "times",
    [[0, 5, 2_400_000_000], [1_700_000_000, 5], [900_000_000], [2_500_000_000_000], [], [-1]],
    ids=str,
)
def test_numbers_that_are_no_moments_of_our_time_are_not_warned_of(times: list[int]) -> None:
    table = pa.table({"t": pa.array(times, pa.int64()), "x": pa.array([1.0] * len(times))})
    sw.rolling(table, time="t", over=5, aggs=SUM)
    sw.windowed(table, time="t", windows=sw.tumbling(5), aggs=SUM)


@pytest.mark.filterwarnings("error")
def test_windows_without_lengths_of_time_are_not_warned_of() -> None:
    table: dict[str, Any] = {"t": [1_700_000_000, 1_700_000_001], "x": [1, 2]}
    sw.windowed(table, time="t", windows=sw.tumbling(sw.rows(1)), aggs=SUM)
    sw.rolling(table, time="t", over=sw.rows(1), aggs=SUM)
