"""Slices that come between others: the right answer, and work that follows the slices kept.

A place in the middle of a run moves the slices behind it. A batch that would move too many is put
in order, and then those behind move once, not once for each new slice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.limits import UNLIMITED
from slicewise.slicing.locate.by_session import (
    Rule,
    on_both_sides,
    slice_sessions,
    slice_sorted_sessions,
)
from slicewise.slicing.locate.by_time import Edges, slice_free, slice_sorted
from slicewise.slicing.store.runs import MOVES, Runs
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import KINDS, Step, steps
from slicewise.tuning import Tuning, tuned
from slicewise.windows import Window
from tests.support.operators import assert_follows
from tests.support.refusing import Picky, Ponderous

AGGS = [sw.agg.sum("x"), sw.agg.count()]
KEY = np.zeros(1, np.int64)
UNCUT = on_both_sides(Edges([]))
FREE = [kind for kind in KINDS if kind.startswith(("tumbling", "sliding", "cumulate", "session"))]


@pytest.fixture
def impatient() -> Iterator[None]:
    """The second slice that has to go between others puts the rest of a batch in order."""
    with tuned(moves_per_event=0):
        yield


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", FREE)
def test_batches_that_are_put_in_order_give_what_the_definitions_say(kind: str) -> None:
    @settings(max_examples=50)
    @given(KINDS[kind]("w"), st.sampled_from([None, "k"]), steps(), st.integers(0, 30))
    def check(window: Window, by: Any, script: list[Step], lateness: int) -> None:
        made = {"windows": [window], "aggs": AGGS, "time": "t", "by": by, "lateness": lateness}
        assert_follows(sw.Operator(**made), Oracle(**made), script)

    check()


@pytest.mark.parametrize("limit", [0, Tuning().moves_per_event])
@pytest.mark.parametrize("keys", [1, 3])
def test_batches_that_go_between_others_give_what_the_definitions_say(
    keys: int, limit: int
) -> None:
    random = np.random.default_rng(keys)
    windows = [
        sw.tumbling(7),
        sw.sliding(30, every=11),
        sw.session(4),
        sw.sliding(sw.units(9, on="u"), every=sw.units(4, on="u")),
        sw.tumbling(sw.units(2.5, on="v")),
    ]
    made: dict[str, Any] = {"windows": windows, "aggs": AGGS, "time": "t", "by": "k"}
    op, oracle = sw.Operator(**made), Oracle(**made)
    for size in (200, 200, 1, 5, 300):
        times = random.integers(-2000, 2000, size) * 3
        # Columns that advance with time, but not in its steps.
        batch = {"t": times, "u": times // 4, "v": times / 7.0, "x": times % 5}
        batch["k"] = random.integers(0, keys, size)
        with tuned(moves_per_event=limit):
            op.process(batch)
        oracle.process(batch)
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("aggregate", [Picky, Ponderous])
def test_an_event_that_is_refused_is_itself_handed_out_when_its_batch_is_put_in_order(
    aggregate: type[Picky],
) -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[aggregate("x").alias("x")], time="t")
    with pytest.raises(ValueError, match="13 is bad luck"):
        op.process({"t": [5, 95, 45, 25, 35], "x": [1, 2, 4, 13, 8]})
    found = {r.start: r.values["x"] for r in op.advance(math.inf)}
    assert {start: x for start, x in found.items() if x} == {0: 1, 30: 8, 40: 4, 90: 2}
    assert op.late == [{"t": 25, "x": 13}]


def moves(runs: Runs) -> int:
    """How many slices the last call moved."""
    return UNLIMITED - int(runs.cursors[MOVES])


def known(size: int) -> tuple[Runs, Edges, np.ndarray]:
    """A run of every second of `2 * size` slices, and a time in each of the others."""
    runs, edges = Runs(), Edges([sw.tumbling(10)])
    runs.admit(1)
    even = np.arange(size) * 20
    groups = (KEY, np.array([0, size]))
    slice_sorted(runs, edges, even, (0, int(even[-1])), None, groups)
    assert moves(runs) == 0
    return runs, edges, even + 10


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_slices_of_a_sorted_batch_move_those_behind_them_once(size: int) -> None:
    runs, edges, times = known(size)
    groups = (KEY, np.array([0, size]))
    slice_sorted(runs, edges, times, (10, int(times[-1])), None, groups)
    assert runs.start[runs.places(KEY)].tolist() == list(range(0, 20 * size, 10))
    # A hole that is full is made anew where the run has grown to twice its size.
    assert moves(runs) <= 4 * size


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_sessions_of_a_sorted_batch_move_those_behind_them_once(size: int) -> None:
    runs = Runs()
    runs.admit(1)
    groups, reach = (KEY, np.array([0, size])), (0, 20 * size)
    slice_sorted_sessions(runs, Rule(5), UNCUT, np.arange(size) * 20, reach, groups)
    slice_sorted_sessions(runs, Rule(5), UNCUT, np.arange(size) * 20 + 10, reach, groups)
    assert runs.start[runs.places(KEY)].tolist() == list(range(0, 20 * size, 10))
    assert moves(runs) <= 4 * size
    # Each event fuses two sessions.
    between = np.arange(2 * size - 1) * 10 + 5
    groups = (KEY, np.array([0, len(between)]))
    sliced = slice_sorted_sessions(runs, Rule(5), UNCUT, between, reach, groups)
    assert runs.size[0] == 1
    assert len(sliced.merged[0]) == len(between)
    assert moves(runs) <= 4 * size


def test_a_batch_that_is_not_in_order_stops_before_it_moves_too_many_slices() -> None:
    runs, edges, times = known(10_000)
    times = np.random.default_rng(1).permutation(times)
    reach = (int(times.min()), int(times.max()))
    sliced = slice_free(runs, edges, times, reach, None, None, None, limited=True)
    assert 0 < sliced.events < len(times)
    # It looks before a place is made: the last one may move the whole run.
    assert -int(runs.cursors[MOVES]) <= runs.live
    free = Runs()
    free.admit(1)
    shuffled = np.random.default_rng(1).permutation(30_000) * 9
    again = slice_sessions(free, Rule(1), UNCUT, shuffled, (0, 270_000), None, None)
    assert 0 < again.events < 30_000


@pytest.mark.parametrize(
    "window",
    [sw.tumbling(10), sw.session(5), sw.tumbling(sw.units(10, on="t"))],
    ids=["tumbling", "session", "units"],
)
def test_times_in_any_order_cost_little_more_than_times_in_order(window: Window) -> None:
    """Two hundred thousand slices of one key took four times as long as half of them: 19 s."""
    size = 200_000
    ordered = np.arange(size) * 10
    seconds = []
    for times in (ordered, np.random.default_rng(3).permutation(ordered)):
        table = {"t": times, "x": times // 10}
        begin = time.process_time()
        found = sw.windowed(table, time="t", windows=window, aggs=sw.agg.max("x"))
        seconds.append(time.process_time() - begin)
        np.testing.assert_array_equal(found["start"], ordered)
        np.testing.assert_array_equal(found["x_max"], np.arange(size))
    assert seconds[1] < 20 * seconds[0] + 1
