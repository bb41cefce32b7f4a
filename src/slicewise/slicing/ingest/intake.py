"""What an operator makes of a batch: times, types, conditions, and which events count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from slicewise.aggregates.base import Bound, bound_columns
from slicewise.aggregates.laws import check_first_run
from slicewise.limits import INFINITY
from slicewise.names import missed_name
from slicewise.slicing.arrangement import arrange
from slicewise.slicing.buffer import Batch, events_of
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.parting import part
from slicewise.slicing.ingest.events import Columns, check_same_times, fitted
from slicewise.slicing.ingest.late import Late, Verdict
from slicewise.slicing.ingest.measures import check_window_columns
from slicewise.slicing.ingest.reach import within
from slicewise.slicing.settings import check_measured, guessed
from slicewise.times import Measure, Parsed, parsed
from slicewise.windows.base import holds

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.operator import Operator


def times_of(op: Operator, columns: Columns) -> Parsed:
    """The times of a batch; without a time column, the moment of its arrival."""
    import pyarrow as pa

    if op.time is None:
        assert op._clock is not None
        # Whatever the clock says, an event that comes now is not before what is over.
        over = op.watermark if op.watermark < INFINITY else op._newest
        now = max(op._clock(), op._newest, over)
        op._time_type = pa.int64()
        return Parsed(np.full(columns.rows, now, np.int64), None, now, now, ordered=True)
    column = columns[op.time]
    times = parsed(column, op.time)
    if op._time_type is not None:
        check_same_times(op._time_type, column.type, op.time)
    elif not pa.types.is_null(column.type):
        late_by = op.lateness_unit is not None if op.lateness else None
        check_measured(Measure.of(op.time, column.type, op.unit), op.windows, late_by)
        op._time_type = column.type
    return within(times, op.reach)


def bind(op: Operator, columns: Columns) -> None:
    """Learn the types of columns from the first batch; hold later ones to them."""
    import pyarrow as pa

    needed = op._facts.columns
    if op._facts.read:
        check_window_columns(op._facts.read, columns.type_of)
    if op._types is None:
        types = {name: columns.type_of(name) for name in needed}
        untyped = {name for name, kind in types.items() if pa.types.is_null(kind)}
        op._untyped = untyped
        bind_to(op, types | {name: guessed(name, op.aggs, op.windows) for name in untyped})
    elif op._untyped:
        _learn(op, columns)
    known = op._types or {}
    for name in needed:
        given = columns.type_of(name)
        kind = known.setdefault(name, given)
        if given != kind:
            columns.put(name, fitted(columns[name], kind, name))
    check_first_run(op.aggs, columns)


def bind_to(op: Operator, types: dict[str, pa.DataType]) -> None:
    """Settle the types of columns, and with them how aggregates run."""
    bounds = _bound(op, types)
    op._guard.begin()
    op._bounds = bounds
    op._types = types
    arrange(op)
    op._guard.end()


def _bound(op: Operator, types: dict[str, pa.DataType]) -> list[Bound]:
    import pyarrow as pa

    return [
        op.errors.applied(
            a.bind([types[c] for c in a.columns] or [pa.int64()] * len(bound_columns(a)))
        )
        for a in op.aggs
    ]


def _learn(op: Operator, columns: Columns) -> None:
    """Take over the types of columns that had nothing but nulls before."""
    import pyarrow as pa

    found = {name: columns.type_of(name) for name in op._untyped if name in columns}
    found = {name: kind for name, kind in found.items() if not pa.types.is_null(kind)}
    if not found:
        return
    types = {**(op._types or {}), **found}
    bounds = _bound(op, types)
    op._guard.begin()
    op._bounds = bounds
    op._types = types
    op._untyped -= found.keys()
    op._nothing = None
    op._keys.retype([types[name] for name in op.by])
    for group in op._groups.values():
        group.keep_by_key()
        group.store.rebind(op._bounds)
    op._waiting.retype(found)
    op._guard.end()


def marks_of(
    op: Operator, columns: Columns, usable: np.ndarray | None
) -> tuple[dict[int, np.ndarray], np.ndarray | None]:
    """Which events meet the conditions of windows; one that raises an error is unusable."""
    marks: dict[int, np.ndarray] = {}
    events: np.ndarray | None = None
    for entry in op._facts.conditions:
        when = entry.window.traits.condition
        if isinstance(when, str):
            column = columns[when]
            mark = column.values.astype(np.bool_)
            marks[entry.number] = mark if column.valid is None else mark & column.valid
            continue
        events = events_of(columns) if events is None else events
        mark = np.zeros(columns.rows, np.bool_)
        for row, event in enumerate(events):
            try:
                mark[row] = holds(when, event)
            except Exception:
                usable = np.ones(columns.rows, np.bool_) if usable is None else usable.copy()
                usable[row] = False
        marks[entry.number] = mark
    return marks, usable


def readable(op: Operator, columns: Columns, usable: np.ndarray | None) -> np.ndarray | None:
    """The events whose keys and values are text, where they are read and should be."""
    every = any(window.reads is None for window in op.windows)
    for name in columns if every else op._facts.columns:
        bad = columns.unreadable(name)
        if bad is not None:
            usable = ~bad if usable is None else usable & ~bad
    return usable


def within_reach(op: Operator, columns: Columns, usable: np.ndarray | None) -> np.ndarray | None:
    """The events whose advancing columns can be used too: infinite values reach no instance."""
    for group in op._takers:
        if isinstance(group, MeasureGroup):
            inside = group.usable(columns[group.axis])
            if not inside.all():
                usable = inside if usable is None else usable & inside
    return usable


@dataclass(frozen=True, slots=True, eq=False)
class Intake:
    """Which events of a batch count.

    `wanted` marks those that count for every window, all of them if it is `None`. `shares` has, for
    slice groups that take late events too, all that they take.
    """

    wanted: np.ndarray | None = None
    shares: Mapping[SliceGroup, np.ndarray] = field(default_factory=dict)

    def counted(self) -> np.ndarray | None:
        """The events that count for any window."""
        if self.wanted is None or not self.shares:
            return self.wanted
        found: np.ndarray = np.logical_or.reduce([self.wanted, *self.shares.values()])
        return found

    def share(self, events: Batch, group: SliceGroup) -> Batch | None:
        """What a slice group takes of a batch of all that count, if it takes anything."""
        taken = self.shares.get(group, self.wanted)
        if taken is None or taken is events.wanted:
            return events
        chosen = events.times[taken]
        if not len(chosen):
            return None
        return replace(events, wanted=taken, low=int(chosen.min()), high=int(chosen.max()))


def sort_out(
    op: Operator, given: Parsed, keys: np.ndarray, usable: np.ndarray | None, columns: Columns
) -> Intake:
    """Which events count for which windows; what is left out is counted and handed out."""
    horizon = op._horizon(op.watermark)
    if usable is None and given.low >= horizon:
        return Intake()
    below = given.values < horizon
    wanted = ~below
    if usable is not None:
        op._stats.bad += int(len(usable) - usable.sum())
        below &= usable
        wanted &= usable
    if wanted.all():
        return Intake()
    left_out = ~wanted
    found = Intake(wanted)
    if below.any():
        rows = np.flatnonzero(below)
        # What was not handed out yet can still change, though the watermark may have passed it.
        late = Late(rows, given.values[rows], keys[rows], columns, op._horizon(op._answered))
        found = _sort_out_late(op, late, wanted, columns, left_out)
    if left_out.any():
        op._late.add(columns.table(np.flatnonzero(left_out)))
    return found


def _sort_out_late(
    op: Operator, late: Late, wanted: np.ndarray, columns: Columns, left_out: np.ndarray
) -> Intake:
    """Find who takes late events; `left_out` keeps those that came too late for every window."""
    rows = late.rows
    verdicts: dict[int, Verdict] = {}
    for group in op._groups.values():
        group.know(len(op._keys))
        verdicts |= group.verdicts(late)
    part(op, verdicts)
    took = np.logical_or.reduce([verdict.took for verdict in verdicts.values()])
    missed = np.logical_or.reduce([verdict.missed for verdict in verdicts.values()])
    left_out[rows] = missed & ~took
    op._stats.late_dropped += int((missed & ~took).sum())
    partly = np.flatnonzero(missed & took)
    if len(partly):
        op._stats.late_partly += len(partly)
        by_name = {p.window.name: verdicts[p.number].missed[partly] for p in op._windows}
        op._late.add(with_missed(columns.table(rows[partly]), by_name))
    shares = {}
    for group in op._groups.values():
        taken = group.takes(late, verdicts)
        if taken.any() and group not in op._waiters:
            group.drop_closed(np.unique(late.keys[taken]), late.horizon)
            share = wanted.copy()
            share[rows[taken]] = True
            shares[group] = share
    return Intake(wanted, shares)


def with_missed(table: pa.Table, by_name: Mapping[str, np.ndarray]) -> pa.Table:
    """Events with the names of the windows that missed them, in a column of its own."""
    import pyarrow as pa

    marks = list(by_name.items())
    names = [[name for name, mark in marks if mark[row]] for row in range(table.num_rows)]
    column = pa.array(names, pa.list_(pa.string()))
    return table.append_column(missed_name(table.column_names), column)
