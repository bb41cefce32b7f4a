"""Which windows share slices: each belongs to a slice group, which keeps slices of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.limits import BEGINNING
from slicewise.slicing.buffer import Waiting
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import RowGroup, SessionGroup, SliceGroup, WindowEntry
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.ingest.measures import adds_exactly, measure_dtype
from slicewise.slicing.ingest.ties import Ties

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator


def group_of(op: Operator, entry: WindowEntry) -> Any:
    """The slice group that a window belongs to: a measure, sessions, events in order, or rows."""
    traits = entry.window.traits
    sorts = not op.ordered and any(not a.commutative for a in op.aggs)
    if traits.axis is not None:
        return ("measure", traits.axis, sorts)
    if sorts and op._apart and not traits.needs_rows:
        return "sorted" if traits.context_free else ("sorted", entry.number)
    if traits.needs_rows or (sorts and not op._settled):
        kind = "order" if op._settled and traits.context != "forward aware" else "rows"
        if kind == "order" and op.ordered and traits.takes_ties:
            kind = "ties"  # the opening row may come after others of its time
        new = entry.since > BEGINNING and traits.needs_rows
        return (kind, entry.number) if new else kind  # it does not count the rows before it
    if traits.context_free:
        return "sessions" if op.plan.combined else "time"
    return ("sessions", entry.number) if op._apart else "sessions"


def _waits(op: Operator, place: Any) -> bool:
    """Whether a slice group gets its events in order, when the watermark passes them."""
    kind = place if isinstance(place, str) else place[0]
    if op.ordered or kind == "order":
        return kind == "ties" or not op.ordered
    sorts = any(not aggregate.commutative for aggregate in op.aggs)
    return sorts and op._settled and kind in ("time", "sessions")


def arrange(op: Operator) -> None:
    """Give each window its slice group, and each slice group its windows."""
    op._combined = op.plan.combined  # and it stays so, as slices are there
    wanted: dict[Any, list[WindowEntry]] = {}
    for entry in op._windows:
        wanted.setdefault(group_of(op, entry), []).append(entry)
    groups = {}
    for place, windows in wanted.items():
        group = op._groups.get(place)
        if group is None or not _suits(group, windows):
            group = _make_track(op, place, windows)
        group.technique = op.plan.partials
        group.set_windows(windows)
        if group.tie_order.order != op.order:
            group.tie_order = Ties(op.order)
        group.know(len(op._keys))
        groups[place] = group
    op._groups = groups
    for group in groups.values():
        if (group.store.tree is not None) != (op.plan.store == "eager"):
            group.store.set_eager(eager=op.plan.store == "eager")
    op._waiters = [group for place, group in groups.items() if _waits(op, place)]
    for group in op._waiters:
        group.slices.waits = True
    op._takers = [group for place, group in groups.items() if not _waits(op, place)]
    if not op._waiters:
        op._waiting = Waiting()
    op._waiting.keeps = any(not isinstance(group, OrderedGroup) for group in op._waiters)


def _suits(group: SliceGroup, windows: Sequence[WindowEntry]) -> bool:
    """Return whether the slice group can tell the edges of these windows exactly."""
    return not isinstance(group, MeasureGroup) or all(group.cuts(p.window) for p in windows)


def _make_track(op: Operator, place: Any, windows: Sequence[WindowEntry]) -> SliceGroup:
    kind = place if isinstance(place, str) else place[0]
    how: Any = {"merger": op._merger, "eager": op.plan.store == "eager"}
    if kind in ("order", "ties"):
        after = 0 if isinstance(place, str) else op._stats.events
        op._waiting.separate(after)
        return OrderedGroup(op._bounds, after=after, **how)
    if kind in ("rows", "sorted"):
        return RowGroup(op._bounds, **how)
    if kind == "sessions":
        return SessionGroup(op._bounds, **how)
    if kind == "time":
        return GridGroup(op._bounds, settled=op._settled, **how)
    assert op._types is not None
    _, axis, sorts = place
    defined = [entry.window for entry in windows]
    dtype = measure_dtype(op._types[axis], defined)
    rows = sorts or not all(map(adds_exactly, defined))
    return MeasureGroup(op._bounds, axis, dtype, rows=rows, **how)
