"""Without a time column events are stamped on arrival, and windows close by the clock."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import OrderError


class Clock:
    """A clock that says what it is told to."""

    now = 0

    def __call__(self) -> int:
        return self.now


def operator(clock: Clock, **made: Any) -> sw.Operator:
    defined: Any = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.sum("x")], **made}
    return sw.Operator(**defined, time=None, clock=clock)


def process(op: sw.Operator, clock: Clock, now: int, *values: int) -> Any:
    clock.now = now
    return op.process({"x": list(values)})


def sums(results: Any) -> list[Any]:
    return [(r.window, r.start, r.end, r.values["x_sum"]) for r in results]


def test_windows_close_by_the_clock() -> None:
    clock = Clock()
    op = operator(clock, windows=[sw.tumbling(10), sw.session(5), sw.tumbling(sw.rows(2))])
    process(op, clock, 3, 1, 2)
    process(op, clock, 8, 4)
    assert sums(op.advance(clock())) == [("tumbling_2rows", 0, 2, 3)]
    process(op, clock, 12, 8)
    assert sums(op.advance(clock())) == [("tumbling_10", 0, 10, 7)]
    clock.now = 18
    assert sums(op.advance(clock())) == [
        ("session_5", 3, 17, 15),
        ("tumbling_2rows", 2, 4, 12),
    ]
    assert sums(op.advance(math.inf)) == [("tumbling_10", 10, 20, 8)]
    assert op.stats.late_dropped == op.stats.bad == 0


def test_events_that_arrive_together_have_one_time_and_keep_their_order() -> None:
    clock = Clock()
    op = operator(clock, aggs=[sw.agg.collect("x")])
    process(op, clock, 5, 3, 1, 2)
    process(op, clock, 5, 9)
    assert [r.values["x_collect"] for r in op.advance(10)] == [[3, 1, 2, 9]]


def test_in_order_what_the_clock_closes_is_returned() -> None:
    clock = Clock()
    op = operator(clock, ordered=True)
    assert process(op, clock, 3, 1) == []
    assert sums(process(op, clock, 11, 2)) == [("tumbling_10", 0, 10, 1)]
    # A clock that goes back breaks no promise: events are stamped as the newest one was.
    assert process(op, clock, 4, 4) == []
    assert sums(op.advance(20)) == [("tumbling_10", 10, 20, 6)]


def test_a_clock_that_goes_back_stands_still() -> None:
    clock = Clock()
    op = operator(clock)
    process(op, clock, 12, 1)
    process(op, clock, 5, 2)  # as if it were 12
    assert sums(op.advance(20)) == [("tumbling_10", 10, 20, 3)]


def test_after_the_end_an_event_is_late_or_breaks_the_promise() -> None:
    clock = Clock()
    op = operator(clock)
    op.advance(math.inf)
    process(op, clock, 5, 1)
    assert op.late == [{"x": 1}]
    assert op.stats.late_dropped == 1
    ordered = operator(clock, ordered=True)
    ordered.advance(math.inf)
    with pytest.raises(OrderError, match="promised in the order of time"):
        process(ordered, clock, 5, 1)


def test_without_a_clock_of_ones_own_the_wall_clock_stamps() -> None:
    op = sw.Operator(windows=[sw.tumbling("1h")], aggs=[sw.agg.count()], time=None)
    op.process([{"x": 1}, {"x": 2}])
    assert sum(r.values["count"] for r in op.advance(math.inf)) == 2
    assert op.parts.progress.newest <= time.time_ns() // 1000


@pytest.mark.parametrize("ordered", [False, True])
def test_a_clock_behind_the_watermark_drops_nothing(ordered: bool) -> None:
    clock = Clock()
    op = operator(clock, ordered=ordered)
    process(op, clock, 12, 1)
    op.advance(25)
    process(op, clock, 22, 2)
    assert sums(op.advance(30)) == [("tumbling_10", 20, 30, 2)]
    assert op.stats.late_dropped == 0
