"""Cutty at work: where an operator's periodic windows cut slices (doi:10.1145/2983323.2983807).

Pairs cuts where windows begin and end, Panes at the greatest common divisor. Cutty cuts only where
windows begin. An end must part the events before it from those after it until the windows that
end there are beyond change; then the slices on its two sides become one, and what is kept is that
of Cutty, whatever order events come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.edges.partials import Technique, cutting
from slicewise.slicing.locate.by_time import Edges, bounds_of
from slicewise.slicing.store.runs import Runs, join_places
from slicewise.windows import Window


def cut_by(windows: Sequence[Window], technique: Technique, dtype: str = "i8") -> Edges:
    """The edges at which slices of these windows are cut."""
    if technique != "panes":
        return Edges(windows, dtype)
    periodic = [w for w in windows if w.as_periodic() is not None]
    others = [w for w in windows if w.as_periodic() is None]
    return Edges([*(cutting(periodic, technique) if periodic else ()), *others], dtype)


def kept_by(windows: Sequence[Window], technique: Technique, edges: Edges) -> Edges | None:
    """The edges at which Cutty keeps slices apart, if those are fewer than `edges`."""
    if technique != "cutty" or all(w.all_edges() == w.begin_edges() for w in windows):
        return None
    begins = Edges.of_begins(windows, edges.steps.dtype.str)
    same = all(
        np.array_equal(getattr(begins, name), getattr(edges, name))
        for name in ("steps", "phases", "singles")
    )
    return None if same else begins


def cuts_alike(windows: Sequence[Window], technique: Technique, other: Window) -> bool:
    """Return whether all edges of another window are edges at which these keep slices apart."""
    cut = cut_by(windows, technique)
    cut, new = kept_by(windows, technique, cut) or cut, Edges([other])
    known = list(zip(cut.steps.tolist(), cut.phases.tolist(), strict=True))
    return all(
        any(step % s == 0 and (phase - p) % s == 0 for s, p in known)
        for step, phase in zip(new.steps.tolist(), new.phases.tolist(), strict=True)
    ) and all(
        edge in cut.singles or any((edge - p) % s == 0 for s, p in known)
        for edge in new.singles.tolist()
    )


def fuse_ends(
    runs: Runs, edges: Edges, begins: Edges, low: int, high: np.ndarray, touched: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Make one of neighbours that only ends up to `high` part, one value or one for each key.

    Ends up to `low` were looked at before. Returns pairs (older, newer) of slots that became one;
    `touched` gets the least measure of each key that this changes.
    """
    older, newer = np.empty(runs.live, np.int64), np.empty(runs.live, np.int64)
    pairs = (older, newer)
    edges_of_both = (_bounds(edges), _bounds(begins))
    count = run(fuse_places)(*edges_of_both, low, high, runs.keys, runs.arrays, touched, pairs)
    return older[:count], newer[:count]


def _bounds(edges: Edges) -> tuple[np.ndarray, ...]:
    return edges.none, edges.steps, edges.phases, edges.singles


@kernel
def fuse_places(
    edges: Any, begins: Any, low: Any, highs: Any, keys: int, runs: Any, touched: Any, pairs: Any
) -> int:
    """Join neighbours in the runs, as `fuse_ends` says; returns how many pairs became one."""
    offset, size, start, stop, slot = runs.offset, runs.size, runs.start, runs.stop, runs.slot
    count = 0
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        if a == z:
            continue
        high = highs[0] if highs.shape[0] == 1 else highs[code]
        # What lies beyond is cut at the next end, which is not passed yet.
        beyond = bounds_of(high, edges)[1]
        w = max(last_at_most(start, a, z, low), a)
        next_begin = bounds_of(start[w], begins)[1]
        for i in range(w + 1, z):
            if start[i] <= high and start[i] < next_begin:
                count = join_places(code, w, i, runs, touched, pairs, count)
                continue
            if start[w] <= high:
                stop[w] = max(stop[w], min(next_begin, beyond))
            w += 1
            start[w], stop[w], slot[w] = start[i], stop[i], slot[i]
            next_begin = bounds_of(start[w], begins)[1]
        if start[w] <= high:
            stop[w] = max(stop[w], min(next_begin, beyond))
        size[code] = w + 1 - a
    return count
