"""Which windows share slices: each belongs to a track, which keeps slices of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.limits import BEGINNING
from slicewise.slicing.buffer import Waiting
from slicewise.slicing.families.free_track import FreeTrack
from slicewise.slicing.families.measure_track import MeasureTrack
from slicewise.slicing.families.order import OrderTrack
from slicewise.slicing.families.tracks import Placed, RowTrack, SessionTrack, Track
from slicewise.slicing.ingest.measures import adds_exactly, measure_dtype
from slicewise.slicing.ingest.ties import Ties
from slicewise.slicing.plan import context_free, needs_rows
from slicewise.windows import RowsEveryTime, TimeEveryRows

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator


def track_of(op: Operator, placed: Placed) -> Any:
    """The track that a window belongs to: a measure, sessions, events in order, or rows."""
    window = placed.window
    sorts = not op.ordered and any(not a.commutative for a in op.aggs)
    axis = getattr(window, "axis", None)
    if axis is not None:
        return ("measure", axis, sorts)
    if sorts and op._apart and not needs_rows(window):
        return "sorted" if context_free(window) else ("sorted", placed.number)
    if needs_rows(window) or (sorts and not op._settled):
        kind = "order" if op._settled and not isinstance(window, RowsEveryTime) else "rows"
        if kind == "order" and op.ordered and isinstance(window, TimeEveryRows):
            kind = "ties"  # the opening row may come after others of its time
        new = placed.since > BEGINNING and needs_rows(window)
        return (kind, placed.number) if new else kind  # it does not count the rows before it
    if context_free(window):
        return "sessions" if op.plan.combined else "time"
    return ("sessions", placed.number) if op._apart else "sessions"


def _waits(op: Operator, place: Any) -> bool:
    """Whether a track gets its events in order, when the watermark passes them."""
    kind = place if isinstance(place, str) else place[0]
    if op.ordered or kind == "order":
        return kind == "ties" or not op.ordered
    sorts = any(not aggregate.commutative for aggregate in op.aggs)
    return sorts and op._settled and kind in ("time", "sessions")


def arrange(op: Operator) -> None:
    """Give each window its track, and each track its windows."""
    op._combined = op.plan.combined  # and it stays so, as slices are there
    wanted: dict[Any, list[Placed]] = {}
    for placed in op._windows:
        wanted.setdefault(track_of(op, placed), []).append(placed)
    tracks = {}
    for place, windows in wanted.items():
        track = op._tracks.get(place)
        if track is None or not _suits(track, windows):
            track = _make_track(op, place, windows)
        track.technique = op.plan.partials
        track.set_windows(windows)
        if track.tie_order.order != op.order:
            track.tie_order = Ties(op.order)
        track.runs.admit(len(op._keys))
        tracks[place] = track
    op._tracks = tracks
    for track in tracks.values():
        if (track.store.tree is not None) != (op.plan.store == "eager"):
            track.store.set_eager(eager=op.plan.store == "eager")
    op._waiters = [track for place, track in tracks.items() if _waits(op, place)]
    op._takers = [track for place, track in tracks.items() if not _waits(op, place)]
    if not op._waiters:
        op._waiting = Waiting()
    op._waiting.keeps = any(not isinstance(track, OrderTrack) for track in op._waiters)


def _suits(track: Track, windows: Sequence[Placed]) -> bool:
    """Whether a track can have these windows, as it can whatever comes after the first event."""
    return not isinstance(track, MeasureTrack) or all(track.cuts(p.window) for p in windows)


def _make_track(op: Operator, place: Any, windows: Sequence[Placed]) -> Track:
    kind = place if isinstance(place, str) else place[0]
    how: Any = {"merger": op._merger, "eager": op.plan.store == "eager"}
    if kind in ("order", "ties"):
        after = 0 if isinstance(place, str) else op._stats.events
        op._waiting.separate(after)
        return OrderTrack(op._bounds, after=after, **how)
    if kind in ("rows", "sorted"):
        return RowTrack(op._bounds, **how)
    if kind == "sessions":
        return SessionTrack(op._bounds, **how)
    if kind == "time":
        return FreeTrack(op._bounds, settled=op._settled, **how)
    assert op._types is not None
    _, axis, sorts = place
    defined = [placed.window for placed in windows]
    dtype = measure_dtype(op._types[axis], defined)
    rows = sorts or not all(map(adds_exactly, defined))
    return MeasureTrack(op._bounds, axis, dtype, rows=rows, **how)
