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
from slicewise.limits import BEGINNING
from slicewise.slicing.families.acceptance import Verdict
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.session import SessionGroup
from slicewise.slicing.ingest.batch import Batch
from slicewise.slicing.locate.by_time import bounds_of

if TYPE_CHECKING:
    from slicewise.slicing.groups.slice_manager import SliceManager


def part(slices: SliceManager, verdicts: dict[int, Verdict]) -> None:
    """Give windows slices of their own if late events come to some that share them.

    Windows that cannot take late events any more have missed them.
    """
    if slices.apart:
        return
    takers = [
        group
        for group in slices.groups.values()
        if any(verdicts[entry.number].took.any() for entry in group.windows)
    ]
    for group in takers:
        if group in slices.waiters and not _complete(slices, group):
            for entry in group.windows:
                took, missed = verdicts[entry.number]
                verdicts[entry.number] = Verdict(np.zeros_like(took), missed | took)
        elif group in slices.waiters or group.parts:
            _part(slices)
            return


def _complete(slices: SliceManager, group: SliceGroup) -> bool:
    """Return whether the rows are known of all slices that open windows need."""
    if slices.buffer.kept_from == BEGINNING:
        return True
    group.evict_at = 0
    group.evict(slices.progress.open_from)
    return bool(group.slices.first_start >= slices.buffer.kept_from)


def _part(slices: SliceManager) -> None:
    before, buffer = slices.groups, slices.buffer
    places = {p.number: group for group in before.values() for p in group.windows}
    in_waiting = {id(group) for group in slices.waiters}
    slices.apart, slices.combined = True, False
    slices.replan()
    for group in slices.groups.values():
        old = places[group.windows[0].number]
        if old is group:
            continue
        if id(old) in in_waiting:
            group.slices.since = dict(old.slices.since)
            _fill(group, buffer.kept)
            group.refused = []  # they were handed out when the watermark passed them
            _fill(group, buffer.batches)
            refused, group.refused = group.refused, []
            slices.buffer.refused = max(slices.buffer.refused, refused, key=len)
        else:
            _copy(old, group)
    slices.buffer.kept = []


def _fill(group: SliceGroup, rows: Sequence[Batch]) -> None:
    """Give rows to a slice group that keeps them."""
    for batch in rows:
        group.add(batch)


def _copy(old: SliceGroup, group: SliceGroup) -> None:
    """Give the slices of a slice group to another one."""
    runs = old.runs.copied()
    group.use(old.store.copied(runs))
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
