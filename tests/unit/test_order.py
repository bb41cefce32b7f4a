"""Events in order are sliced without rows; those not promised so wait for the watermark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.arrays.ordering import order_of
from slicewise.arrays.searches import near_at_most
from slicewise.codegen.kernel import run
from slicewise.windows import Window


class Pairs(sw.UserWindow):
    """An instance of two events begins with every second one."""

    seen = 0

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        self.seen += 1
        return (self.seen % 2, int(self.seen > 1 and self.seen % 2))


IN_ORDER: list[Window] = [
    sw.tumbling(sw.rows(100)),
    sw.sliding(sw.rows(300), every=sw.rows(100)),
    sw.sliding(1000, every=sw.rows(100)),
    sw.punctuated("flag"),
    sw.threshold("flag"),
    sw.session(5, max_length=500),
    Pairs(),
]


def stream(begin: int, size: int) -> dict[str, np.ndarray]:
    times = np.arange(begin, begin + size)
    return {"t": times, "x": times * 1.0, "flag": times // 100 % 2 == 0}


@pytest.mark.parametrize("window", IN_ORDER, ids=lambda window: window.name)
def test_events_promised_in_order_are_sliced_without_rows(window: Window) -> None:
    op = sw.Operator(windows=[window], aggs=[sw.agg.first("x")], time="t", ordered=True)
    assert not op.plan.stores_rows
    for begin in range(0, 20_000, 1000):
        op.process(stream(begin, 1000))
    # At most what one batch and the longest window hold, and far fewer slices than events.
    assert op.stats.slices < 1000 + 256
    assert op.stats.stored_rows <= 1


def test_the_last_rows_before_a_multiple_of_time_need_rows_even_in_order() -> None:
    window = sw.sliding(sw.rows(10), every=100)
    op = sw.Operator(windows=[window], aggs=[sw.agg.sum("x")], time="t", ordered=True)
    assert op.plan.stores_rows
    assert "begin is known only when they end" in op.explain()


def test_events_that_wait_are_counted_as_rows_and_leave_with_the_watermark() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.last("x")], time="t")
    op.process(stream(0, 100))
    op.advance(40)
    assert op.stats.stored_rows == 60
    op.advance(100)
    assert op.stats.stored_rows == 0


def test_long_ranges_of_events_are_added_in_their_order() -> None:
    aggs = [sw.agg.first("x"), sw.agg.last("x"), sw.agg.collect("x"), sw.agg.argmax("x", "i")]
    for size in (1, 63, 64, 65, 300):
        op = sw.Operator(windows=[sw.tumbling(1000)], aggs=aggs, time="t", ordered=True)
        x = [None if n % 7 == 3 else float(n % 50) for n in range(size)]
        op.process({"t": list(range(size)), "x": x, "i": list(range(size))})
        known = [value for value in x if value is not None]
        (result,) = op.advance(1000)
        assert result.values == {
            "x_first": known[0],
            "x_last": known[-1],
            "x_collect": known,
            "x_argmax": x.index(max(known)),
        }


def test_arrays_may_be_used_again_after_they_were_processed() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.last("x")], time="t")
    given_ = stream(0, 10)
    op.process(given_)
    given_["t"][:], given_["x"][:] = 0, -1.0
    assert [r.values for r in op.advance(10)] == [{"x_last": 9.0}]


def test_a_window_added_later_does_not_see_events_that_wait() -> None:
    op = sw.Operator(windows=[sw.tumbling(sw.rows(2))], aggs=[sw.agg.collect("x")], time="t")
    op.process({"t": [1, 2, 3], "x": [1, 2, 3]})
    op.add_window(sw.tumbling(sw.rows(2), name="later"))
    op.process({"t": [4, 5, 6], "x": [4, 5, 6]})
    found = {r.window: r.values["x_collect"] for r in op.advance(6) if r.start == 0}
    assert found == {"tumbling_2rows": [1, 2], "later": [4, 5]}


def test_small_batches_that_wait_are_joined() -> None:
    op = sw.Operator(windows=[sw.tumbling(10**9)], aggs=[sw.agg.last("x")], time="t")
    for time in range(2000):
        op.process({"t": [(time * 7) % 2000], "x": [time]})
    assert len(op.parts.slices.buffer.batches) < 20
    (result,) = op.advance(10**9)
    assert (result.values["x_last"] * 7) % 2000 == 1999


def expected_of(times: np.ndarray, keys: np.ndarray) -> list[int]:
    return sorted(range(len(keys)), key=lambda row: (keys[row], times[row]))


whole = st.integers(-(2**61), 2**61) | st.integers(-3, 3)


@given(st.lists(st.tuples(st.integers(0, 5), whole), min_size=1, max_size=60))
def test_rows_are_ordered_by_key_and_time_and_then_as_they_came(
    rows: list[tuple[int, int]],
) -> None:
    keys, times = (np.array(column) for column in zip(*rows, strict=True))
    assert order_of(times, keys).tolist() == expected_of(times, keys)
    by_time = sorted(range(len(rows)), key=lambda row: rows[row][1])
    assert order_of(times).tolist() == by_time
    assert order_of(times / 2.0**70, keys).tolist() == expected_of(times / 2.0**70, keys)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1), st.integers(-(10**6), 10**6))
def test_a_guess_finds_the_same_place_as_a_search(gaps: list[int], x: int) -> None:
    values = np.cumsum(np.abs(np.array(gaps * 40))) - 10**6
    guessed = run(near_at_most)(values, 0, len(values), x)
    assert guessed == np.searchsorted(values, x, "right") - 1
