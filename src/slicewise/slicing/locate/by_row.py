"""The stream slicer where rows are kept: each event is a slice of its own.

They are in the order of (measure, time, arrival), whatever the order of their arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.arrays.ordering import order_of
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.locate.by_time import Sliced
from slicewise.slicing.store.runs import FREE, TOP, Runs


def slice_rows(
    runs: Runs, at: np.ndarray, times: np.ndarray, keys: np.ndarray, wanted: Any, arrival: int
) -> Sliced:
    """Make each event a slice of its own, in the order of (measure, time, arrival).

    `at` is the measure, most often the time itself; `arrival` is the number of the first event.
    """
    rows = np.arange(len(at)) if wanted is None else np.flatnonzero(wanted)
    slots = np.full(len(at), -1, np.int64)
    nothing = np.empty(0, np.int64)
    if not len(rows):
        return Sliced(slots, nothing, (nothing, nothing))
    chosen = times[rows]
    present, starts, order = _ordered(chosen if at is times else at[rows], chosen, keys[rows])
    order = rows[order]
    if runs.cursors[FREE] < len(rows):
        runs.grow(len(rows))
    free = int(runs.cursors[FREE])
    born = runs.free[free - len(rows) : free].copy()
    runs.cursors[FREE] = free - len(rows)
    slots[order] = born
    runs.first[born] = runs.last[born] = times[order]
    runs.rows[born] = 1
    runs.arrival[born] = arrival + order
    groups = (present, starts)
    while run(lacks_room)(groups, runs.arrays):
        runs.grow(len(rows))
    run(merge_rows)(groups, at[order], born, runs.arrays)
    return Sliced(slots, born, (nothing, nothing))


def _ordered(
    at: np.ndarray, times: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys that occur, where the rows of each begin, and the order of the rows."""
    present, codes = np.unique(keys, return_inverse=True)
    order = order_of(times, codes)
    if at is not times:
        order = order[order_of(at[order], codes[order])]
    return present, np.searchsorted(codes[order], np.arange(len(present) + 1)), order


@kernel
def lacks_room(groups: Any, runs: Any) -> bool:
    """Give each run room for the rows that come; whether the pool is too small for that."""
    present, starts = groups
    cursors, offset, size, room = runs.cursors, runs.offset, runs.size, runs.room
    start, slot = runs.start, runs.slot
    for g in range(present.shape[0]):
        k = present[g]
        more = starts[g + 1] - starts[g]
        if size[k] + more <= room[k]:
            continue
        bigger = 2 * (size[k] + more)
        top = cursors[TOP]
        if top + bigger > start.shape[0]:
            return True
        for i in range(size[k]):
            start[top + i] = start[offset[k] + i]
            slot[top + i] = slot[offset[k] + i]
        offset[k] = top
        room[k] = bigger
        cursors[TOP] = top + bigger
    return False


@kernel
def merge_rows(groups: Any, at: Any, born: Any, runs: Any) -> None:
    """Merge sorted rows into the runs of their keys, from the back; ties stay in arrival order."""
    present, starts = groups
    offset, size, start, slot, first = runs.offset, runs.size, runs.start, runs.slot, runs.first
    for g in range(present.shape[0]):
        k = present[g]
        new = starts[g + 1] - 1
        old = offset[k] + size[k] - 1
        to = old + starts[g + 1] - starts[g]
        size[k] += starts[g + 1] - starts[g]
        while new >= starts[g]:
            if old >= offset[k] and (
                start[old] > at[new]
                or (start[old] == at[new] and first[slot[old]] > first[born[new]])
            ):
                start[to] = start[old]
                slot[to] = slot[old]
                old -= 1
            else:
                start[to] = at[new]
                slot[to] = born[new]
                new -= 1
            to -= 1
