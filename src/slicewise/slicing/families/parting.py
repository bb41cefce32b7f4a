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
from slicewise.slicing.families.free_track import FreeTrack
from slicewise.slicing.families.tracks import RowTrack, SessionTrack, Track
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
        track
        for track in op._tracks.values()
        if any(verdicts[placed.number].took.any() for placed in track.windows)
    ]
    for track in takers:
        if track in op._waiters and not _complete(op, track):
            for placed in track.windows:
                took, missed = verdicts[placed.number]
                verdicts[placed.number] = Verdict(np.zeros_like(took), missed | took)
        elif track in op._waiters or track.parts:
            _part(op)
            return


def _complete(op: Operator, track: Track) -> bool:
    """Whether the rows are known of all slices that open windows need."""
    if op._waiting.kept_from == BEGINNING:
        return True
    track.evict_at = 0
    track.evict(op._horizon(op._answered))
    runs = track.runs
    places = runs.places(np.arange(runs.keys))
    return not len(places) or bool(runs.start[places].min() >= op._waiting.kept_from)


def _part(op: Operator) -> None:
    before, waiting = op._tracks, op._waiting
    places = {p.number: track for track in before.values() for p in track.windows}
    in_waiting = {id(track) for track in op._waiters}
    op._apart, op._combined = True, False
    op._replan()
    for track in op._tracks.values():
        old = places[track.windows[0].number]
        if old is track:
            continue
        if id(old) in in_waiting:
            track.store.since = dict(old.store.since)
            _fill(track, waiting.kept)
            track.refused = []  # they were handed out when the watermark passed them
            _fill(track, waiting.batches)
            refused, track.refused = track.refused, []
            op._waiting.refused = max(op._waiting.refused, refused, key=len)
        else:
            _copy(old, track)
    op._waiting.kept = []


def _fill(track: Track, rows: Sequence[Batch]) -> None:
    """Give rows to a track that keeps them."""
    for batch in rows:
        track.add(batch)


def _copy(old: Track, track: Track) -> None:
    """Give the slices of a track to another one."""
    runs = old.runs.copied()
    track.runs, track.store = runs, old.store.copied(runs)
    if isinstance(old, RowTrack) and isinstance(track, RowTrack):
        track.anchors = {n: old.anchors[n].copy() for n in old.anchors}
        track.tie_order = old.tie_order.copied()
    if isinstance(old, SessionTrack) and isinstance(track, FreeTrack):
        edges = track.edges
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
    for track in op._waiters:
        needed = track.rows_from(horizon)
        least = least if needed is None else np.minimum(least, needed)

    def gone(batch: Batch) -> np.ndarray:
        of_each = least if len(least) == 1 else least[batch.keys]
        found: np.ndarray = batch.times < of_each
        return found

    waiting.forget(gone)
