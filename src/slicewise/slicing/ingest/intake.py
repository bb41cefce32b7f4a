"""From a batch that is given to events that are accepted: times, types, conditions, lateness.

Events without a usable time or value, and those that come too late, go to the quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.laws import check_first_run
from slicewise.errors import OrderError, WindowError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.names import missed_name
from slicewise.slicing.families.acceptance import Late
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.slice_manager import SliceManager
from slicewise.slicing.guard import Guard
from slicewise.slicing.ingest.batch import BAD, Accepted, Batch, events_of
from slicewise.slicing.ingest.events import Columns, check_same_times, fitted
from slicewise.slicing.ingest.measures import check_window_columns
from slicewise.slicing.ingest.quarantine import Quarantine
from slicewise.slicing.ingest.reach import limits_of
from slicewise.slicing.settings import check_measured
from slicewise.times import Measure, Parsed, parsed
from slicewise.windows import Window
from slicewise.windows.base import holds

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.emit.output import Output


class Ingest:
    """Accepts events, or refuses them.

    `holds_order` says that events which are promised in the order of time are held to it.
    """

    def __init__(self, slices: SliceManager, quarantine: Quarantine, guard: Guard) -> None:
        self.slices, self.quarantine, self.guard = slices, quarantine, guard
        self.settings, self.windows = slices.settings, slices.windows
        self.schema, self.keys, self.progress = slices.schema, slices.keys, slices.progress
        self.holds_order = self.settings.ordered

    def accept(self, batch: Any) -> Accepted | None:
        """The events of a batch that count; `None` if none does."""
        import pyarrow as pa

        columns = Columns(batch)
        size = columns.rows
        if not size:
            return None
        progress, guard = self.progress, self.guard
        given = self._times(columns)
        usable = self._readable(columns, given.usable)
        self._bind(columns)
        marks, usable = self._marks(columns, usable)
        usable = self.slices.usable(columns, usable)
        if self.holds_order:
            self._check_order(given, usable)
        with guard.harmless(pa.ArrowException):
            guard.begin()
            keys = self.keys.codes([columns.arrow(name) for name in self.settings.by], size)
        self.slices.know()
        arrival = progress.events
        progress.events += size
        wanted, shares = self._sort_out(given, keys, usable, columns)
        counted: np.ndarray | None = wanted
        if wanted is not None and shares:
            counted = np.logical_or.reduce([wanted, *shares.values()])
        times, low, high = given.values, given.low, given.high
        if counted is not None:
            chosen = times[counted]
            if not len(chosen):
                return None
            low, high = int(chosen.min()), int(chosen.max())
        progress.oldest = min(progress.oldest, low)
        progress.newest = max(progress.newest, high)
        ordered = given.ordered and counted is None
        events = Batch(times, keys, columns, counted, marks, arrival, low, high, ordered=ordered)
        return Accepted(events, wanted, shares, columns)

    # Types.

    def learn(self, columns: Columns) -> None:
        """Learn the types of columns that have no rows."""
        self._times(columns)
        self._bind(columns)

    def check_window(self, window: Window, since: Any) -> None:
        """Refuse a window whose lengths, or whose instances of events so far, cannot be said.

        `since` is the least start of its instances that are reported.
        """
        kind, progress = self.schema.time, self.progress
        if kind is None:
            return
        if self.settings.time is not None:
            check_measured(Measure.of(self.settings.time, kind, self.settings.unit), [window])
        first, last = window.times_within(*limits_of(kind))
        early = since == BEGINNING and progress.oldest < first
        if early or progress.newest > last:
            raise WindowError(
                f"Events at the very {'beginning' if early else 'end'} of the range of {kind} were "
                f"taken already, and bounds of {window.name!r} around them would be out of that "
                "range. Give the window when the operator is built: such events are bad then."
            )

    def _times(self, columns: Columns) -> Parsed:
        """The times of a batch; without a time column, the moment of its arrival."""
        import pyarrow as pa

        settings, schema, progress = self.settings, self.schema, self.progress
        if settings.time is None:
            assert settings.clock is not None
            # Whatever the clock says, an event that comes now is not before what is over.
            over = progress.watermark if progress.watermark < INFINITY else progress.newest
            now = max(settings.clock(), progress.newest, over)
            schema.time = pa.int64()
            return Parsed(np.full(columns.rows, now, np.int64), None, now, now, ordered=True)
        column = columns[settings.time]
        times = parsed(column, settings.time)
        if schema.time is not None:
            check_same_times(schema.time, column.type, settings.time)
        elif not pa.types.is_null(column.type):
            late_by = settings.lateness_unit is not None if settings.lateness else None
            measure = Measure.of(settings.time, column.type, settings.unit)
            check_measured(measure, self.windows.defined, late_by)
            if any(window.durations is False for window in self.windows.defined):
                measure.warn_of_unit(times.values, times.usable)
            schema.time = column.type
            schema.find_reach()
        return times.within(*schema.reach)

    def _bind(self, columns: Columns) -> None:
        """Learn the types of columns from the first batch; hold later ones to them."""
        facts, schema = self.windows.facts, self.schema
        if facts.read:
            check_window_columns(facts.read, columns.type_of)
        if schema.columns is None:
            types, untyped = schema.first_types(columns)
            bounds = schema.bound_to(types)
            self.guard.begin()
            schema.adopt(types, untyped, bounds)
            self.slices.arrange()
            self.guard.end()
        elif schema.untyped and (found := schema.new_types(columns)):
            types = {**schema.columns, **found}
            bounds = schema.bound_to(types)
            self.guard.begin()
            schema.adopt(types, schema.untyped - found.keys(), bounds)
            self.keys.retype([types[name] for name in self.settings.by])
            self.slices.rebind(found)
            self.guard.end()
        assert schema.columns is not None
        for name in facts.columns:
            given = columns.type_of(name)
            kind = schema.columns.setdefault(name, given)
            if given != kind:
                columns.put(name, fitted(columns[name], kind, name))
        check_first_run(self.settings.aggs, columns)

    # Which events are usable.

    def _readable(self, columns: Columns, usable: np.ndarray | None) -> np.ndarray | None:
        """The events whose keys and values are text, where they are read and should be."""
        every = any(window.reads is None for window in self.windows.defined)
        for name in columns if every else self.windows.facts.columns:
            bad = columns.unreadable(name)
            if bad is not None:
                usable = ~bad if usable is None else usable & ~bad
        return usable

    def _marks(
        self, columns: Columns, usable: np.ndarray | None
    ) -> tuple[dict[int, np.ndarray], np.ndarray | None]:
        """The marks of events for windows; an event that a condition raises an error for is bad."""
        marks: dict[int, np.ndarray] = {}
        events: np.ndarray | None = None
        for entry in self.windows.facts.marking:
            when, follows = entry.window.traits.condition, entry.window.traits.follows
            if follows is not None:
                marks[entry.number] = columns[follows].to_floats()
                continue
            assert when is not None
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

    def _check_order(self, given: Parsed, usable: np.ndarray | None) -> None:
        """Hold events to the promise that they come in the order of time."""
        reached = max(self.progress.newest, self.progress.watermark)
        if given.ordered and given.low >= reached:
            return
        chosen = given.values if usable is None else given.values[usable]
        before = np.maximum.accumulate(np.concatenate([[reached], chosen]))
        early = np.flatnonzero(chosen < before[:-1])
        if len(early):
            row = int(early[0])
            raise OrderError(
                f"Events were promised in the order of time; one at {chosen[row]} came after one "
                f"at {before[row]}. Leave out `ordered` and advance by watermarks."
            )

    # Which events come too late.

    def _sort_out(
        self, given: Parsed, keys: np.ndarray, usable: np.ndarray | None, columns: Columns
    ) -> tuple[np.ndarray | None, Mapping[SliceGroup, np.ndarray]]:
        """The events that every window takes, and those that slice groups take with late ones.

        What is left out is counted and handed out.
        """
        horizon = self.progress.accepted_from
        if usable is None and given.low >= horizon:
            return None, {}
        below = given.values < horizon
        wanted = ~below
        if usable is not None:
            self.quarantine.bad += int(len(usable) - usable.sum())
            below &= usable
            wanted &= usable
        if wanted.all():
            return None, {}
        left_out = ~wanted
        shares: Mapping[SliceGroup, np.ndarray] = {}
        if below.any():
            rows = np.flatnonzero(below)
            # What was not handed out yet can still change, though the watermark may have passed it.
            open_from = self.progress.open_from
            late = Late(rows, given.values[rows], keys[rows], columns, open_from)
            shares = self._sort_out_late(late, wanted, columns, left_out)
        if left_out.any():
            self.quarantine.add(columns.table(np.flatnonzero(left_out)))
        return wanted, shares

    def _sort_out_late(
        self, late: Late, wanted: np.ndarray, columns: Columns, left_out: np.ndarray
    ) -> Mapping[SliceGroup, np.ndarray]:
        """Find who takes late events; `left_out` keeps those that are too late for every window."""
        rows = late.rows
        verdicts = self.slices.verdicts(late)
        took = np.logical_or.reduce([verdict.took for verdict in verdicts.values()])
        missed = np.logical_or.reduce([verdict.missed for verdict in verdicts.values()])
        left_out[rows] = missed & ~took
        self.quarantine.late_dropped += int((missed & ~took).sum())
        partly = np.flatnonzero(missed & took)
        if len(partly):
            self.quarantine.late_partly += len(partly)
            entries = self.windows.entries
            by_name = {p.window.name: verdicts[p.number].missed[partly] for p in entries}
            self.quarantine.add(with_missed(columns.table(rows[partly]), by_name))
        return self.slices.shares(late, verdicts, wanted)

    # Events that aggregates or windows of the user's own raised an error for. States leave them
    # out, as they do with nulls. Each is bad: counted and handed out once, however many windows it
    # is in, and the error is raised once, when all else is done.

    def refuse_at_once(self, columns: Columns) -> tuple[np.ndarray | None, Exception | None]:
        """Hand out events that fell behind or were refused; the refused, and the first error."""
        regressed = self.slices.take_regressed()
        if regressed is not None:
            rows = np.flatnonzero(regressed)
            self.quarantine.behind += len(rows)
            self.quarantine.add(columns.table(rows))
        refused, error = self.slices.take_refused(columns.rows)
        if refused is not None:
            rows = np.flatnonzero(refused)
            self.quarantine.bad += len(rows)
            self.quarantine.add(columns.table(rows))
        return refused, error

    def refuse_failed(self, output: Output) -> Exception | None:
        """Make events bad that what is the user's own could not take; the first error."""
        import pyarrow as pa

        failed = self.slices.take_failed()
        refused, errors = self._refused_later(output)
        known = {id(event): event for event, _ in failed}
        events = [*known.values(), *(event for event in refused if id(event) not in known)]
        errors = [*(error for _, error in failed), *errors]
        if events:
            self.quarantine.bad += len(events)
            self.quarantine.add(pa.Table.from_pylist(events))
        return errors[0] if errors else None

    def _refused_later(self, output: Output) -> tuple[list[dict[str, Any]], list[Exception]]:
        """The events that were refused when the watermark passed them, and the errors.

        They have their key, their time and the columns that aggregates read, or all that they had
        where windows of the user's own see them.
        """
        found: Counter[Any] = Counter()
        events: dict[Any, dict[str, Any]] = {}
        errors: list[Exception] = []
        for refused in self.slices.take_refused_later():
            here: Counter[Any] = Counter()
            for batch, row, error in refused:
                if BAD in batch.marks and batch.marks[BAD][row]:
                    continue
                errors.append(error)
                whole = None if batch.objects is None else batch.objects[row]
                event = output.event(batch, row) if whole is None else whole
                said = repr(event) if whole is None else id(whole)
                here[said] += 1
                events[said] = event
            found |= here  # slice groups that refuse the same event mean one
        return [events[said] for said in found.elements()], errors


def with_missed(table: pa.Table, by_name: Mapping[str, np.ndarray]) -> pa.Table:
    """Events with the names of the windows that missed them, in a column of its own."""
    import pyarrow as pa

    marks = list(by_name.items())
    names = [[name for name, mark in marks if mark[row]] for row in range(table.num_rows)]
    column = pa.array(names, pa.list_(pa.string()))
    return table.append_column(missed_name(table.column_names), column)
