"""Windows that share slices, parted by the first late event that some of them take.

As long as no event is late, windows of time and sessions of several gaps share slices, and where
the order of events matters events become states once the watermark has passed them. A late event
may belong to some windows and not to others, and may come between events of a slice. From then on
each session has slices of its own, and where order matters rows are kept: what there is is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.codegen.kernel import kernel, run
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.buffer import Batch
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import RowGroup, SessionGroup, SliceGroup
from slicewise.slicing.ingest.late import Verdict
from slicewise.slicing.locate.by_time import bounds_of

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator


def part(op: Operator, verdicts: dict[int, Verdict]) -> None:
    """Give windows slices of their own if late events come to some that share them.

    Windows that cannot take late events any more have missed them.
    """
    if op._apart:
        return
    takers = [
        group
        for group in op._groups.values()
        if any(verdicts[entry.number].took.any() for entry in group.windows)
    ]
    for group in takers:
        if group in op._waiters and not _complete(op, group):
            for entry in group.windows:
                took, missed = verdicts[entry.number]
                verdicts[entry.number] = Verdict(np.zeros_like(took), missed | took)
        elif group in op._waiters or group.parts:
            _part(op)
            return


def _complete(op: Operator, group: SliceGroup) -> bool:
    """Whether the rows are known of all slices that open windows need."""
    if op._waiting.kept_from == BEGINNING:
        return True
    group.evict_at = 0
    group.evict(op._horizon(op._answered))
    return bool(group.slices.first_start >= op._waiting.kept_from)


def _part(op: Operator) -> None:
    before, waiting = op._groups, op._waiting
    places = {p.number: group for group in before.values() for p in group.windows}
    in_waiting = {id(group) for group in op._waiters}
    op._apart, op._combined = True, False
    op._replan()
    for group in op._groups.values():
        old = places[group.windows[0].number]
        if old is group:
            continue
        if id(old) in in_waiting:
            group.slices.since = dict(old.slices.since)
            _fill(group, waiting.kept)
            group.refused = []  # they were handed out when the watermark passed them
            _fill(group, waiting.batches)
            refused, group.refused = group.refused, []
            op._waiting.refused = max(op._waiting.refused, refused, key=len)
        else:
            _copy(old, group)
    op._waiting.kept = []


def _fill(group: SliceGroup, rows: Sequence[Batch]) -> None:
    """Give rows to a slice group that keeps them."""
    for batch in rows:
        group.add(batch)


def _copy(old: SliceGroup, group: SliceGroup) -> None:
    """Give the slices of a slice group to another one."""
    runs = old.runs.copied()
    group.use(old.store.copied(runs))
    if isinstance(old, RowGroup) and isinstance(group, RowGroup):
        group.anchors = {n: old.anchors[n].copy() for n in old.anchors}
        group.tie_order = old.tie_order.copied()
    if isinstance(old, SessionGroup) and isinstance(group, GridGroup):
        edges = group.edges
        bounds = (edges.none, edges.steps, edges.phases, edges.singles)
        run(to_edges)(bounds, runs.places(np.arange(runs.keys)), runs.start, runs.stop)


@kernel
def to_edges(bounds: Any, places: Any, start: Any, stop: Any) -> None:
    """Let slices that knew their first and last event reach from edge to edge."""
    for place in places:
        stop[place] = bounds_of(stop[place], bounds)[1]
        start[place] = bounds_of(start[place], bounds)[0]


def prune_kept(op: Operator, *, all_of_it: bool = False) -> None:
    """Let go of kept rows that no open window needs: now and then, or all of them."""
    waiting = op._waiting
    if not waiting.kept or (waiting.rows_kept < waiting.prune_at and not all_of_it):
        return
    horizon = op._horizon(op._answered)
    least = np.array([INFINITY])
    for group in op._waiters:
        needed = group.rows_from(horizon)
        least = least if needed is None else np.minimum(least, needed)

    def gone(batch: Batch) -> np.ndarray:
        of_each = least if len(least) == 1 else least[batch.keys]
        found: np.ndarray = batch.times < of_each
        return found

    waiting.forget(gone)
