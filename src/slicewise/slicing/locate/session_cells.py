"""The stream slicer for sessions beside windows of time, for events of one key in no order.

As in `cell_slicer`, edges of windows part the time of a batch into cells, which events find by a
grid. Most cells hold one slice. An event that is near enough to it belongs to it, and nothing else
has to be looked at; all others go the way of `session_slicer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import kernel
from slicewise.slicing.locate.by_session import Rule, place_in_sessions
from slicewise.slicing.locate.by_time import Edges, Sliced, run_slicer
from slicewise.slicing.locate.time_cells import MOST_STEPS, cell_of, cells_for, lay_grid
from slicewise.slicing.store.runs import Runs, mend, seek


def slice_sessions_alone(
    runs: Runs, rule: Rule, edges: Edges, times: np.ndarray, reach: tuple[int, int]
) -> Sliced | None:
    """Put events of key 0 into sessions that are cut at edges; `None` if a grid does not pay."""
    cells = cells_for(edges, times, reach)
    if cells is None:
        return None
    tuning.took("session cells")
    homes, grid = np.empty((4, 2 * cells[2]), np.int64), np.empty(MOST_STEPS, np.int64)
    bounds, lowest, count = cells
    given = (times, tuple(rule), bounds, (lowest, count), (homes, grid))
    return run_slicer(runs, len(times), into_session_cells, given, limited=True)


@kernel
def into_session_cells(
    times: Any,
    rule: Any,
    bounds: Any,
    cells: Any,
    memory: Any,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Sessions of events within `count` cells between listed edges, the first one at `lowest`.

    `cells` are these two, and `memory` is room for homes and a grid. `homes` has the slot of
    the only slice of each cell, its first event, its last one and how many came; two of the latter:
    every other event goes to the second.
    """
    lowest, count = cells
    homes, grid = memory
    slots, slot, rows = found[0], runs.slot, runs.rows
    edges = bounds[0][lowest:]
    laid = (edges, grid, edges[0], lay_grid(edges, count, grid))
    for cell in range(count):
        find_home(cell, edges, homes, runs)
    done = into_session_homes(times, rule[0], laid, homes, slots, begin)
    while done < times.shape[0]:
        t = times[done]
        cell = cell_of(t, laid)
        give_back(cell, edges, homes, runs)
        at, hole = seek(t, 0, runs.offset[0], 0, runs)
        around = (rule, edges[cell], edges[cell + np.uint64(1)])
        place, at, hole = place_in_sessions(t, 0, around, at, hole, 0, runs, found)
        if place < 0:
            break
        mend(0, at, hole, runs)
        slots[done] = slot[place]
        rows[slot[place]] += 1
        find_home(cell, edges, homes, runs)
        done = into_session_homes(times, rule[0], laid, homes, slots, done + 1)
    for cell in range(count):
        give_back(cell, edges, homes, runs)
    return done


@kernel
def into_session_homes(times: Any, gap: int, laid: Any, homes: Any, slots: Any, begin: int) -> Any:
    """Events from `begin` on that are near the only slice of their cell; the first that is not."""
    home, first, last, counts = homes[0], homes[1], homes[2], homes[3]
    times, slots = times[begin:], slots[begin:]  # so that no index can be negative
    for i in range(times.shape[0]):
        t = times[i]
        cell = cell_of(t, laid)
        # Neighbours mostly are of one slice: one need not wait for what the other noted.
        half = cell + cell + np.uint64(i & 1)
        high, low = last[half], first[cell]
        if home[cell] < 0 or t - high > gap or low - t > gap:
            return begin + i
        if t < low:  # rarely, but most are later than all before them
            first[cell] = t
        last[half] = max(high, t)
        counts[half] += 1
        slots[i] = home[cell]
    return begin + times.shape[0]


@kernel
def find_home(cell: int, edges: Any, homes: Any, runs: Any) -> None:
    """Take the slice of a cell at hand, if it is the only one and reaches into no other cell."""
    start, stop, slot = runs.start, runs.stop, runs.slot
    begin, end = runs.offset[0], runs.offset[0] + runs.size[0]
    low, high = edges[cell], edges[cell + 1]
    homes[0][cell] = -1
    place = last_at_most(start, begin, end, high - 1)
    if place < begin or start[place] < low or stop[place] >= high:
        return
    if place > begin and stop[place - 1] >= low:
        return
    homes[0][cell] = slot[place]
    homes[1][cell] = start[place]
    for half in (2 * cell, 2 * cell + 1):
        homes[2][half], homes[3][half] = stop[place], 0


@kernel
def give_back(cell: int, edges: Any, homes: Any, runs: Any) -> None:
    """Note what came to the slice of a cell, which is not at hand any more."""
    start, stop = runs.start, runs.stop
    first, last, rows = runs.first, runs.last, runs.rows
    home = homes[0][cell]
    if home < 0:
        return
    begin, end = runs.offset[0], runs.offset[0] + runs.size[0]
    place = last_at_most(start, begin, end, edges[cell + 1] - 1)
    one, other = 2 * cell, 2 * cell + 1
    start[place] = first[home] = homes[1][cell]
    stop[place] = last[home] = max(homes[2][one], homes[2][other])
    rows[home] += homes[3][one] + homes[3][other]
    homes[0][cell] = -1
