"""The stream slicer for events of one key that come in no order.

Each of them would search the run for its slice, and a processor guesses badly how such a search
goes on. Here the edges between the least and the greatest time of a batch are laid under a grid of
equal steps: an event finds the last edge before its step, and there is rarely one within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import inlined, kernel
from slicewise.slicing.locate.by_time import (
    Edges,
    Sliced,
    bounds_for,
    into_slices,
    place_in_slices,
    run_slicer,
)
from slicewise.slicing.store.runs import Runs

STEPS_PER_CELL, MOST_STEPS = 8, 1 << 14


def slice_alone(runs: Runs, edges: Edges, at: np.ndarray, reach: tuple[Any, Any]) -> Sliced:
    """Put events of key 0 into slices between the edges of context-free windows."""
    cells = cells_for(edges, at, reach)
    if cells is not None:
        tuning.took("cells")
        return run_slicer(runs, len(at), into_cells, (at, *cells), limited=True)
    given = (at, None, None, None, bounds_for(edges, reach, len(at)))
    return run_slicer(runs, len(at), into_slices, given, limited=True)


def cells_for(
    edges: Edges, at: np.ndarray, reach: tuple[Any, Any]
) -> tuple[tuple[np.ndarray, ...], int, int] | None:
    """The arguments of `bounds_of` with a list of edges, and the cells between them.

    The second value tells which edge is the first before all events, the third how many cells lie
    between it and the first edge after them; `None` if a grid does not pay.
    """
    most = len(at) // tuning.active().events_per_cell
    listed = edges.listed(*reach, most) if at.dtype.kind == "i" else edges.none
    first, last = listed.searchsorted(reach, "right") - 1
    if first < 0 or last + 1 >= len(listed) or last - first >= most:
        return None
    return (listed, edges.steps, edges.phases, edges.singles), first, last + 1 - first


@kernel
def into_cells(
    at: Any,
    bounds: Any,
    lowest: int,
    count: int,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Slices of events within `count` cells between listed edges, the first one at `lowest`.

    `homes` has the slots of the slices that cover a cell whole, and behind them how many events
    came; `grid` the cell in which each step begins.
    """
    offset, size, start, stop, slot = runs.offset, runs.size, runs.start, runs.stop, runs.slot
    slots, born, homes, grid = found
    rows, counts = runs.rows, homes[count:]
    edges = bounds[0][lowest:]
    laid = (edges, grid, edges[0], lay_grid(edges, count, grid))
    place, end = last_at_most(start, offset[0], offset[0] + size[0], edges[0]), offset[0] + size[0]
    for cell in range(count):
        while place + 1 < end and start[place + 1] <= edges[cell]:
            place += 1
        whole = (
            place >= offset[0] and start[place] <= edges[cell] and edges[cell + 1] <= stop[place]
        )
        homes[cell] = slot[place] if whole else -1
        counts[2 * cell] = counts[2 * cell + 1] = 0
    edge, next_edge = edges[0], edges[0]
    done = into_homes(at, laid, homes, counts, slots, begin)
    while done < at.shape[0]:
        place, edge, next_edge = place_in_slices(at[done], 0, edge, next_edge, bounds, runs, born)
        if place < 0:
            break
        slots[done] = slot[place]
        rows[slot[place]] += 1
        cell = last_at_most(edges, 0, count, at[done])
        if start[place] <= edges[cell] and edges[cell + 1] <= stop[place]:
            homes[cell] = slot[place]
        done = into_homes(at, laid, homes, counts, slots, done + 1)
    for cell in range(count):
        if homes[cell] >= 0:
            rows[homes[cell]] += counts[2 * cell] + counts[2 * cell + 1]
    return done


@kernel
def lay_grid(edges: Any, count: int, grid: Any) -> int:
    """Note the cell in which each step of a grid over `count` cells begins.

    Returns how far a distance from the first edge is shifted to give a step.
    """
    base = edges[0]
    reach = edges[count] - base - 1
    steps = min(STEPS_PER_CELL * count, MOST_STEPS, grid.shape[0])
    shift = 0
    while (reach >> shift) >= steps:
        shift += 1
    cell = 0
    for step in range((reach >> shift) + 1):
        while edges[cell + 1] <= base + (step << shift):
            cell += 1
        grid[step] = cell
    return shift


@inlined
def cell_of(t: int, laid: Any) -> Any:
    """The cell of an event, by edges, a grid, the first edge and what `lay_grid` returned.

    Indices are unsigned: a signed one would be looked at, and counted from the end if negative.
    """
    edges, grid, base, shift = laid
    one = np.uint64(1)
    cell = np.uint64(grid[np.uint64((t - base) >> shift)])
    cell += np.uint64(edges[cell + one] <= t)
    while edges[cell + one] <= t:
        cell += one
    return cell


@kernel
def into_homes(at: Any, laid: Any, homes: Any, counts: Any, slots: Any, begin: int) -> Any:
    """Events from `begin` on whose cells have homes; the first one that has none."""
    at, slots = at[begin:], slots[begin:]  # so that no index can be negative
    for i in range(at.shape[0]):
        cell = cell_of(at[i], laid)
        home = homes[cell]
        if home < 0:
            return begin + i
        # Neighbours mostly are of one slice: one need not wait for the other's count.
        counts[cell + cell + np.uint64(i & 1)] += 1
        slots[i] = home
    return begin + at.shape[0]
