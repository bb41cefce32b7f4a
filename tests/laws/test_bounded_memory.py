"""Memory follows the slices kept, and windows whose edges coincide keep them once.

It grows neither with the idle time between events, nor with the instances that overlap, nor with
the events seen.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.windows import Window

ALL_KINDS: list[Window] = [
    sw.tumbling(10),
    sw.sliding(100, every=7),
    sw.cumulate(100, every=10),
    sw.tumbling(sw.units(30, on="km")),
    sw.session(5),
    sw.session(5, max_length=50, name="bounded"),
    sw.tumbling(sw.rows(5)),
    sw.sliding(50, every=sw.rows(3), name="opened"),
    sw.sliding(sw.rows(3), every=10, name="last_rows"),
    sw.punctuated("flag"),
    sw.threshold("flag"),
]
HOW: dict[str, dict[str, Any]] = {
    "on_close": {},
    "final": {"emit": "final", "lateness": 20},
    "late": {"lateness": 20},
    "early": {"emit": "on_update"},
    "ordered": {"ordered": True},
}


def operator(*windows: Window, **made: Any) -> sw.Operator:
    return sw.Operator(windows=windows, aggs=[sw.agg.sum("x")], time="t", **made)


def events(begin: int, size: int = 1, apart: int = 1) -> dict[str, Any]:
    """Events of three keys in order, from the event number `begin` on."""
    numbers = np.arange(begin, begin + size)
    times = numbers * apart
    return {"t": times, "k": numbers % 3, "x": numbers, "km": times, "flag": numbers % 7 < 4}


def feed(op: sw.Operator, batches: Iterable[dict[str, Any]]) -> None:
    """Process these batches, each with a watermark at its last event."""
    for batch in batches:
        op.process(batch)
        op.advance_arrow(int(batch["t"][-1]))


def bytes_after(batches: Iterable[dict[str, Any]], *windows: Window, **made: Any) -> int:
    """What an operator holds after these batches."""
    tracemalloc.start()
    try:
        op = operator(*windows, **made)
        before = tracemalloc.get_traced_memory()[0]
        feed(op, batches)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def batches(many: int, size: int, apart: int = 1) -> Iterator[dict[str, Any]]:
    return (events(number * size, size, apart) for number in range(many))


@pytest.mark.parametrize("how", HOW)
def test_memory_does_not_grow_with_the_idle_time_between_events(how: str) -> None:
    def held(apart: int) -> int:
        return bytes_after(batches(60, 1, apart), *ALL_KINDS, by="k", **HOW[how])

    # What is compiled and imported on the way counts only once, and takes long while it is traced.
    feed(operator(*ALL_KINDS, by="k", **HOW[how]), batches(60, 1, 1000))
    held(1000)
    assert held(10**13) < 1.2 * held(1000)


@pytest.mark.parametrize("how", HOW)
def test_memory_does_not_grow_with_the_events_seen(how: str) -> None:
    def held(many: int) -> int:
        return bytes_after(batches(many, 200), *ALL_KINDS, by="k", **HOW[how])

    feed(operator(*ALL_KINDS, by="k", **HOW[how]), batches(80, 200))
    held(10)
    assert held(80) < 1.5 * held(10)


def test_memory_does_not_grow_with_the_instances_that_overlap() -> None:
    # An event of each key: 1000 instances of the sliding window hold it, and one of the other.
    def held(window: Window) -> int:
        return bytes_after([events(0, 3000) | {"k": np.arange(3000)}], window, by="k")

    one, thousand = sw.tumbling(10**6), sw.sliding(10**6, every=1000)
    held(one), held(thousand)
    assert held(thousand) < 1.2 * held(one)


def test_slices_are_as_many_as_edges_whatever_overlaps_and_none_is_left_at_the_end() -> None:
    kept = {}
    for every in (1000, 1):
        op = operator(sw.sliding(1000, every=every))
        op.process(events(0, 900, apart=100))
        op.advance(0)
        kept[every] = op.stats.slices
        op.advance(math.inf)
        assert op.stats.slices == 0
    # Ten events share a slice of the one; of the other each has its own, and not one per instance.
    assert kept == {1000: 90, 1: 900}


SHARED: list[list[Window]] = [
    [sw.tumbling(4)],
    [sw.tumbling(4), sw.tumbling(8), sw.sliding(8, every=4)],
    [sw.sliding(4 * n, every=4) for n in range(1, 40)],
]


@pytest.mark.parametrize("how", [{}, {"lateness": 10**6}, {"by": "k"}], ids=str)
def test_windows_whose_edges_coincide_keep_slices_once_and_combine_once(how: Any) -> None:
    random = np.random.default_rng(5)
    batch = events(0, 5000)
    batch["t"] = batch["t"] + random.integers(0, 50, 5000)
    stats = []
    for windows in SHARED:
        op = operator(*windows, **how)
        op.process(batch)
        op.advance(0)
        stats.append((op.stats.slices, op.stats.combines))
    assert stats[0] == stats[1] == stats[2]
    # An event begins a slice or is combined with one.
    assert sum(stats[0]) == 5000


def test_more_windows_make_more_slices_and_not_more_combines_at_adding() -> None:
    combines = []
    for many in (1, 50):
        op = operator(*(sw.tumbling(1000 + n) for n in range(many)))
        op.process(events(0, 50_000))
        op.advance(0)
        assert op.stats.slices <= many * 50
        combines.append(op.stats.combines)
    assert combines[1] <= combines[0] < 50_000
