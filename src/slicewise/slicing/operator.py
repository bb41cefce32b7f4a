"""The window operator: any windows, any aggregates, many keys, one pass.

Fed with micro-batches and watermarks, by hand or inside a Spark task. What it keeps is a function
of the events alone, so the order of their arrival never shows in the answer.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate, Bound, reads
from slicewise.aggregates.policy import ErrorPolicy
from slicewise.arrays.grouping import frozen
from slicewise.arrays.keys import Keys
from slicewise.columns import pylist
from slicewise.errors import CapabilityError, OrderError, SpanError, WindowError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.arrangement import arrange
from slicewise.slicing.buffer import (
    BAD,
    Batch,
    Grouped,
    Waiting,
    in_sequence,
)
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.emit.emission import (
    Answers,
    Due,
    Listed,
    Result,
    answers_of,
    fingerprints,
    in_pieces,
    retractions,
)
from slicewise.slicing.emit.log import Changes, EmissionLog
from slicewise.slicing.emit.output import table_of, value_types
from slicewise.slicing.forgetting import forget_keys
from slicewise.slicing.groups.group import (
    SliceGroup,
    WindowEntry,
)
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.groups.parting import prune_kept
from slicewise.slicing.guard import Guard, changing, reading
from slicewise.slicing.ingest.events import (
    Columns,
    names,
)
from slicewise.slicing.ingest.intake import (
    bind,
    marks_of,
    readable,
    sort_out,
    times_of,
    within_reach,
)
from slicewise.slicing.ingest.quarantine import MOST, Quarantine, checked_most
from slicewise.slicing.ingest.reach import EVER, Reach, limits_of, reach_of
from slicewise.slicing.ingest.refusing import hand_out_failed, refused_at_once
from slicewise.slicing.plan import Plan, StoreKind, plan, settles
from slicewise.slicing.settings import (
    POSITIONS,
    RESULT_COLUMNS,
    TIMES,
    Emit,
    QueryFacts,
    check_emit,
    check_measured,
    check_merging,
    check_results,
    check_window,
    merger_of,
    wall_clock,
)
from slicewise.spans import Duration
from slicewise.times import UNITS, Measure, as_length, check_unit, since_epoch
from slicewise.windows import Window
from slicewise.windows.base import DURATIONS

if TYPE_CHECKING:
    import pyarrow as pa

Made = TypeVar("Made")


@dataclass(slots=True)
class Stats:
    """What an operator has seen, keeps and has done.

    `events` counts all that were given, `late_dropped` those that came too late for every window,
    `late_partly` those that count but came too late for some instance of a window, `bad` those
    without a usable time or value of an advancing column. `behind` counts those of which an
    advancing column fell behind what its key had reached for good: windows over that column leave
    them out, the others do not. `slices` and `stored_rows` are kept when `op.stats` is asked for;
    rows that wait for the watermark, or stay for late ones to come between them, are among them.
    `combines` has those of a merger given as `merger=` too, and each `invert` that it makes.
    `late_forgotten` counts refused events that `op.late` no longer has, since there were more than
    `max_late`.
    """

    events: int = 0
    late_dropped: int = 0
    late_partly: int = 0
    bad: int = 0
    behind: int = 0
    slices: int = 0
    stored_rows: int = 0
    combines: int = 0
    late_forgotten: int = 0


class Operator:
    """Window aggregation of a stream of events.

    `process` takes events, `advance` a watermark and returns what that closes. With
    `ordered=True` events are promised in the order of time, each is its own watermark, and
    `process` returns the results. Events of one key and equal time are ordered by the columns of
    `order`, if there are any (null is the least, NaN the greatest), and then by arrival.
    Lengths are durations such as `"1m"` over timestamps, and plain numbers over plain numbers;
    `unit` (`"s"`, `"ms"`, `"us"` or `"ns"`) says what the numbers of the time column mean, so that
    durations can be taken there too. `merger` names an algorithm of
    `sw.mergers.CATALOGUE` for the merging of slices in place of the planner's; `store` says whether
    slices are merged when a window closes (`"lazy"`) or in trees that are kept (`"eager"`), and
    `partials` where periodic windows cut them; `op.plan` has what was chosen.
    `op.late` has the newest `max_late` of the events that were refused (`None`: all of them).

    Threads may share an operator: its calls wait for each other. A call that was cut short in the
    middle of a change, by Ctrl-C for example, makes every later one raise `TornError`.

    >>> import slicewise as sw
    >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", by="who")
    >>> op.process([{"who": "a", "t": 3, "x": 1}, {"who": "b", "t": 12, "x": 5}])
    >>> op.process({"who": ["a"], "t": [4], "x": [2]})
    >>> for result in op.advance(20):
    ...     print(result.key, result.window, result.start, result.end, result.values)
    a tumbling_10 0 10 {'x_sum': 3}
    b tumbling_10 10 20 {'x_sum': 5}
    """

    def __init__(
        self,
        *,
        windows: Iterable[Window],
        aggs: Iterable[Aggregate],
        time: str | None,
        by: str | Sequence[str] | None = None,
        lateness: Any = 0,
        emit: Emit = "on_close",
        ordered: bool = False,
        order: str | Sequence[str] | None = None,
        unit: str | None = None,
        merger: str | None = None,
        store: StoreKind | None = None,
        partials: Technique | None = None,
        clock: Callable[[], int] | None = None,
        max_late: int | None = MOST,
    ) -> None:
        self._guard = Guard()
        self.errors = ErrorPolicy()  # a stream sets another before the first event
        self.aggs = [aggs] if isinstance(aggs, Aggregate) else list(aggs)
        self.time = time
        self.by = names(by)
        self._by_one = isinstance(by, str)
        self.emit: Emit = emit
        self.ordered = ordered
        self.order = names(order)
        if ordered and self.order:
            raise CapabilityError(
                "`ordered=True` promises that events come in their order, those of equal time too, "
                f"so there is nothing for `order` to decide; given: order={order!r}. Leave one of "
                "them out."
            )
        check_unit(unit)
        if unit is not None and time is None:
            raise SpanError(
                "`unit` says what the numbers of the time column mean; without a time column a "
                f"clock counts microseconds; given: unit={unit!r}. Leave it out."
            )
        self.unit = unit
        said = as_length("lateness", lateness)
        self.lateness = Measure(time, unit=unit).length("`lateness`", said)
        # In which unit that is, as windows have one.
        self.lateness_unit = DURATIONS if isinstance(said, Duration) and unit is None else None
        self.merger = merger
        self.store: StoreKind | None = store
        self.partials: Technique | None = partials
        self._clock = wall_clock if time is None and clock is None else clock
        check_emit(emit)
        check_results(self.aggs, self.by)
        check_merging(merger, store, partials)
        self._merger = None if merger is None else merger_of(merger, self.aggs)
        self.watermark = BEGINNING
        self._answered = BEGINNING  # the watermark up to which results were handed out
        self._stats = Stats()
        self._late = Quarantine(checked_most(max_late))
        self._types: dict[str, pa.DataType] | None = None
        self._untyped: set[str] = set()  # columns that have had nothing but nulls
        self._time_type: pa.DataType | None = None
        self._keys = Keys(self.by)
        self._codes = np.empty(0, np.int64)
        self._forget_at = (
            tuning.active().forget_at_least
        )  # how many keys it takes to look for dead ones
        self._nothing: pa.Table | None = None
        self._reach: Reach | None = None
        self._log = EmissionLog()
        self._dirty: list[np.ndarray] = []
        self._newest = BEGINNING
        self._floor = BEGINNING  # nothing below it is accepted, whatever the lateness
        self._next_number = 0
        self._windows: list[WindowEntry] = []
        self._taken: set[str] = set()
        self._groups: dict[Any, SliceGroup] = {}
        self._waiting = Waiting()
        self._waiters: list[SliceGroup] = []
        self._takers: list[SliceGroup] = []
        self._bounds: list[Bound] = []
        self._combined: bool | None = None  # whether slices are, once there may be some
        self._apart = False  # whether a late event has come to windows that shared slices
        for window in [windows] if isinstance(windows, Window) else windows:
            self._place(self._counted(window), BEGINNING)
        if not self._windows:
            raise WindowError("An operator needs at least one window; given: none.")
        self._replan()

    # Windows.

    @property
    def windows(self) -> list[Window]:
        """The windows, in the order in which they were given."""
        return [entry.window for entry in self._windows]

    def _counted(self, window: Window) -> Window:
        """The window in the units of the time column, as far as they are known."""
        check_window(window, self._taken, emit=self.emit, lateness=self.lateness)
        if self.unit is not None:
            window = window.counted_in(self.unit)
        if self.time is not None and self._time_type is not None:
            check_measured(Measure.of(self.time, self._time_type, self.unit), [window])
        return window

    def _place(self, window: Window, since: Any) -> None:
        self._taken.add(window.name)
        self._windows.append(WindowEntry(self._next_number, window, since))
        self._next_number += 1

    @changing
    def add_window(self, window: Window) -> Any:
        """Take up another window while running; returns from when on it is complete.

        Instances that start before are not reported; `None` means that there are none. A window
        of time covers the past as far as slices for its edges are kept. One that depends on the
        rows before it, such as a count of rows, sees the events that come after it.
        """
        from slicewise.slicing.adding import known_from, make_room

        window = self._counted(window)
        self._check_reach(window)
        since = known_from(self, window)
        self._guard.begin()
        make_room(self, window, since)
        self._place(window, since)
        self._replan()
        return None if since == BEGINNING else since

    def _check_reach(self, window: Window) -> None:
        """Refuse a window that has instances of events so far which no result could say."""
        if self._time_type is None or self._newest == BEGINNING:
            return
        if self._newest > window.times_within(*limits_of(self._time_type))[1]:
            raise WindowError(
                f"The bounds of {window.name!r} could not be said as {self._time_type} for events "
                "that were taken already, at the very end of what that can say. Give the window "
                "when the operator is built: such events are bad then."
            )

    @changing
    def remove_window(self, name: str) -> None:
        """Drop a window; what only it needed is forgotten."""
        found = [entry for entry in self._windows if entry.window.name == name]
        if not found:
            known = ", ".join(repr(entry.window.name) for entry in self._windows)
            raise WindowError(f"There is no window {name!r}; there are: {known}.")
        if len(self._windows) == 1:
            raise WindowError(f"An operator needs at least one window; {name!r} is its last.")
        self._guard.begin()
        self._windows.remove(found[0])
        self._taken.remove(name)
        self._log.forget(found[0].number)
        self._replan()

    @property
    def _settled(self) -> bool:
        """Whether what is emitted never changes."""
        return settles(self.emit, self.lateness, ordered=self.ordered)

    def _replan(self) -> None:
        """Decide anew what the windows and aggregates need."""
        self.plan: Plan = plan(
            self.windows,
            self.aggs,
            ordered=self.ordered,
            settled=self._settled,
            keyed=bool(self.by),
            store="lazy" if self.merger and not self.store else self.store,
            partials=self.partials,
            combined=self._combined,
        )
        self._facts = QueryFacts.of(
            self._windows, [*self.by, *self.order], self.aggs, self._next_number
        )
        self._nothing = self._reach = None
        if self._types is not None:
            arrange(self)

    @property
    def reach(self) -> Reach:
        """The least and the greatest time of events that are taken, in microseconds.

        The bounds of their instances can be said in the type of the results.
        """
        if self._time_type is None:
            return EVER
        if self._reach is None:
            self._reach = reach_of(self.windows, self._time_type)
        return self._reach

    # Events.

    @changing
    def process(self, batch: Any) -> list[Result] | None:
        """Take a batch of events: a dict of columns, an Arrow, pandas or polars table, or rows.

        Returns the results with `ordered=True`, and `None` otherwise.
        """
        self._add(batch)
        if not self.ordered:
            return None
        return self._advanced(self._newest, self._results) if self._newest > BEGINNING else []

    def _add(self, batch: Any) -> None:
        import pyarrow as pa

        columns = Columns(batch)
        size = columns.rows
        if not size:
            return
        given = times_of(self, columns)
        usable = readable(self, columns, given.usable)
        bind(self, columns)
        marks, usable = marks_of(self, columns, usable)
        usable = within_reach(self, columns, usable)
        if self.ordered and not (given.ordered and given.low >= max(self._newest, self.watermark)):
            self._check_order(given.values, usable)
        with self._guard.harmless(pa.ArrowException):
            self._guard.begin()
            keys = self._keys.codes([columns.arrow(name) for name in self.by], size)
        for group in self._groups.values():
            group.know(len(self._keys))  # also those whose events are all left out
        self._stats.events += size
        intake = sort_out(self, given, keys, usable, columns)
        wanted = intake.counted()
        times, low, high = given.values, given.low, given.high
        if wanted is not None:
            chosen = times[wanted]
            if not len(chosen):
                return
            low, high = int(chosen.min()), int(chosen.max())
        self._newest = max(self._newest, high)
        self._note_changes(times, keys, wanted, low)
        arrival = self._stats.events - size
        ordered = given.ordered and wanted is None
        events = Batch(times, keys, columns, wanted, marks, arrival, low, high, ordered=ordered)
        for group in self._takers:
            share = intake.share(events, group)
            if share is None:
                continue
            if isinstance(group, OrderedGroup):
                plain = self._plain(share)
                group.add(plain.numbered() if group.store.own else plain)
            else:
                group.add(share)
        self._hand_out_fallen(columns)
        bad, error = refused_at_once(self, columns)
        waits = intake.share(events, self._waiters[0]) if self._waiters else None
        if waits is not None:
            known = waits if bad is None else replace(waits, marks={**marks, BAD: bad})
            self._waiting.add(self._plain(known))
        if error is not None:
            self._guard.end()
            raise error

    def _hand_out_fallen(self, columns: Columns) -> None:
        """Count and keep the events of which an advancing column fell behind."""
        regressed = [t.take_fallen() for t in self._takers if isinstance(t, MeasureGroup)]
        marked = [rows for rows in regressed if rows is not None]
        if marked:
            rows = np.flatnonzero(np.logical_or.reduce(marked))
            self._stats.behind += len(rows)
            self._late.add(columns.table(rows))

    def _plain(self, batch: Batch) -> Batch:
        """The batch with the columns that aggregates read, and with events for user windows."""
        columns = {name: batch.columns[name] for name in self._kept()}
        users = any(entry.window.traits.user_defined for entry in self._windows)
        objects = batch.events() if users else None
        keys = batch.keys if self.by else np.broadcast_to(np.int64(0), len(batch))
        return replace(batch, keys=keys, columns=columns, objects=objects)

    def _aggregated(self) -> list[str]:
        """The columns that aggregates read."""
        components = (c for bound in self._bounds for c in bound.components)
        return list(dict.fromkeys(name for c in components for name in reads(c)))

    def _kept(self) -> list[str]:
        """The columns of events that wait: what aggregates read, and what decides ties."""
        return list(dict.fromkeys([*self._aggregated(), *self.order]))

    def _check_order(self, times: np.ndarray, usable: np.ndarray | None) -> None:
        """Hold events to the promise that they come in the order of time."""
        chosen = times if usable is None else times[usable]
        reached = max(self._newest, self.watermark)
        before = np.maximum.accumulate(np.concatenate([[reached], chosen]))
        early = np.flatnonzero(chosen < before[:-1])
        if len(early):
            row = int(early[0])
            raise OrderError(
                f"Events were promised in the order of time; one at {chosen[row]} came after one "
                f"at {before[row]}. Leave out `ordered` and advance by watermarks."
            )

    def _note_changes(
        self, times: np.ndarray, keys: np.ndarray, wanted: np.ndarray | None, low: int
    ) -> None:
        """Remember keys whose emitted instances this batch may change."""
        if self.emit == "final" or (self.emit == "on_close" and not self.lateness):
            return
        if self.emit == "on_close" and low >= self.watermark:
            return
        touched = np.ones(len(times), np.bool_) if wanted is None else wanted
        if self.emit == "on_close":
            touched = touched & (times < self.watermark)
        if touched.any():
            self._dirty.append(np.unique(keys[touched]))

    # Results.

    def _horizon(self, watermark: int) -> int:
        """The time below which nothing changes any more."""
        if watermark in (BEGINNING, INFINITY):
            return watermark
        return max(self._floor, watermark - self.lateness)

    @changing
    def advance(self, watermark: Any) -> list[Result]:
        """Take a watermark; the results that it closes, revises and retracts.

        They come by window, as given, retractions first, and then by start and end.

        If an aggregate raises an error, nothing is handed out and nothing is lost: the next call
        gives what this one would have given, or raises again until the event is gone or the
        aggregate can take it. If a window or an aggregate of one's own raises an error for an event
        when it is taken, here or in `process`, that window begins and ends no instance with it and
        that aggregate leaves it out as it does nulls; the event is counted as bad and handed out in
        `late`, and the error is raised once; the next call goes on.
        """
        return self._advanced(watermark, self._results)

    @changing
    def advance_arrow(self, watermark: Any) -> pa.Table:
        """The same as `advance`, as an Arrow table."""
        return self._advanced(watermark, lambda table: table)

    def _advanced(self, watermark: Any, made: Callable[[pa.Table], Made]) -> Made:
        """Take a watermark; what is `made` of the table of results.

        Nothing is taken for handed out before all of it is made.
        """
        guard = self._guard
        point = max(self.watermark, self._point(watermark))
        guard.begin()
        self.watermark = point
        before, horizon_before = self._answered, self._horizon(self._answered)
        horizon = self._horizon(self.watermark)
        if self._waiting.batches:
            self._release(horizon if self.emit == "final" else self.watermark)
        error = hand_out_failed(self)
        if error is not None and self.errors.raises:
            guard.end()
            raise error
        every = self._all_keys()
        dirty = np.unique(np.concatenate(self._dirty)) if self._dirty else every[:0]
        due: list[Due] = []
        for group in self._groups.values():
            if self.emit == "final":
                due += self._closed(group, every, horizon_before, horizon)
            elif self.emit == "on_close":
                if len(dirty):
                    clean = np.setdiff1d(every, dirty, assume_unique=True)
                    due += self._revised(group, dirty, horizon_before, self.watermark)
                else:
                    clean = every
                due += self._closed(group, clean, before, self.watermark)
            elif len(dirty):
                due += self._revised(group, dirty, horizon_before, INFINITY)
        with guard.harmless(Exception):
            answer = made(table_of(self, [part for one in due for part in one.answers]))
        # From here on nothing of the user's own runs: what was asked for is handed out.
        for one in due:
            if one.changes is not None:
                self._log.record(one.changes)
        self._answered, self._dirty = self.watermark, []
        for group in self._groups.values():
            if isinstance(group, OrderedGroup):
                group.handed_out(horizon if self.emit == "final" else self.watermark)
            if horizon > horizon_before:
                group.evict(horizon)
        prune_kept(self)
        if self.emit != "final":
            self._prune(horizon)
        if len(self._keys) >= self._forget_at and horizon < INFINITY:
            forget_keys(self)
        return answer

    def _results(self, table: pa.Table) -> list[Result]:
        """The rows of a table of results, in order."""
        plain = {*self.by, *RESULT_COLUMNS}
        values = [name for name in table.column_names if name not in plain]
        others = {window.name for window in self._facts.others}
        results = []
        for row in pylist(table):
            key: Any = tuple(map(frozen, (row[name] for name in self.by)))
            key = None if not key else key[0] if self._by_one else key
            apart = POSITIONS[0] in row and row["window"] in others
            start, end = (row[name] for name in (POSITIONS if apart else TIMES))
            results.append(
                Result(
                    key,
                    row["window"],
                    start,
                    end,
                    {name: row[name] for name in values},
                    row["revision"],
                    row["retracted"],
                )
            )
        rank = {entry.window.name: number for number, entry in enumerate(self._windows)}
        return in_pieces(results, lambda r: (rank[r.window], not r.retracted, r.start, r.end))

    def _release(self, point: int) -> None:
        """Give the events below `point` to those who take them in order."""
        ready = self._waiting.release(point)
        sorted_: dict[int, list[Grouped]] = {}
        for group in self._waiters if ready else ():
            after = getattr(group, "after", 0)
            if after not in sorted_:
                batches = in_sequence(batch for batch in ready if batch.arrival >= after)
                sorted_[after] = [Grouped.of(batch, self.order) for batch in batches]
            for grouped in sorted_[after]:
                group.add_in_order(grouped)
        self._waiting.keep(ready, point)

    def _prune(self, horizon: int) -> None:
        """Forget what was emitted and is beyond change, each window in its own measure."""
        if self._log.size < self._log.pruned_at:
            return
        floors: dict[int, np.ndarray] = {}
        for group in self._groups.values():
            of_keys = group.floors(self._all_keys(), horizon)
            floors.update(dict.fromkeys((entry.number for entry in group.windows), of_keys))
        self._log.prune(floors)

    def _all_keys(self) -> np.ndarray:
        if len(self._codes) < len(self._keys):
            self._codes = np.arange(2 * len(self._keys), dtype=np.int64)
        return self._codes[: len(self._keys)]

    def _point(self, watermark: Any) -> int:
        moment: int | None = None
        if isinstance(watermark, np.datetime64) and not np.isnat(watermark):
            moment = int(watermark.astype("M8[us]").astype(np.int64))
        elif isinstance(watermark, dt.datetime) and watermark == watermark:  # NaT is one too
            moment = since_epoch(watermark)
        if moment is not None:
            many, one = UNITS[self.unit or "us"]
            return -(-moment * one // many)
        number = isinstance(watermark, int | float | np.integer | np.floating)
        if not number or watermark != watermark:
            shown = "NaN" if number else repr(watermark)
            raise SpanError(
                f"A watermark is a time, a moment or a number like those of the events; given: "
                f"{shown}."
            )
        if watermark >= INFINITY:
            return INFINITY
        return max(BEGINNING, math.ceil(watermark) if watermark > -math.inf else BEGINNING)

    def _closed(self, group: SliceGroup, keys: np.ndarray, low: int, high: int) -> list[Due]:
        """What closed since the last watermark, for keys of which nothing emitted has changed."""
        if high <= low or not len(keys):
            return []
        with self._guard.harmless(Exception):
            together = group.closed(low, high)
        if together is not None:
            return [Due([together])] if len(together) else []
        with self._guard.harmless(WindowError):  # too many of them
            listed = Listed.of(group, keys, low, high)
        if not len(listed.instances):
            return []
        with self._guard.harmless(Exception):
            answers = [answers_of(group, listed)]
        if self.emit == "on_close" and self.lateness:
            return [Due(answers, Changes(listed.instances, fingerprints(group, listed)))]
        return [Due(answers)]

    def _revised(self, group: SliceGroup, keys: np.ndarray, low: int, high: int) -> list[Due]:
        """What is new, has changed or no longer exists, for keys of which anything may have."""
        with self._guard.harmless(WindowError):  # too many of them
            listed = Listed.of(group, keys, low, high)
        windows = np.array([entry.number for entry in group.windows])
        floors = group.floors(keys, low)
        answers: list[Answers] = []
        changes, seen = Changes(), None
        if len(listed.instances):
            prints = fingerprints(group, listed)
            due, revisions, seen = self._log.diff(listed.instances, prints)
            rows = np.flatnonzero(due)
            if len(rows):
                with self._guard.harmless(Exception):
                    answers = [answers_of(group, listed.take(rows), revisions[rows])]
            changes = Changes(listed.instances, prints)
        missing = self._log.missing(windows, keys, floors, seen)
        if len(missing):
            gone = self._log.retracted(missing, floors.dtype)
            answers.insert(0, retractions(gone, value_types(self)))
        return [Due(answers, replace(changes, gone=missing))]

    @property
    @reading
    def stats(self) -> Stats:
        """What it has seen, keeps now and has done."""
        prune_kept(self, all_of_it=True)
        groups, stats = self._groups.values(), self._stats
        stats.slices = sum(group.live for group in groups)
        rows = sum(group.live for group in groups if group.keeps_rows)
        stats.stored_rows = rows + len(self._waiting) + self._waiting.rows_kept
        stats.combines = sum(group.combines for group in groups)
        stats.late_forgotten = self._late.forgotten
        return stats

    @reading
    def explain(self) -> str:
        """In words: which windows share slices, what is stored and why, what is compiled.

        >>> import slicewise as sw
        >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
        >>> print(op.explain())
        tumbling_10: has slices of its own of time, cut at edges that come every 10 from 0.
        Storage: states alone are kept: no window or aggregate needs rows.
        Changes: no slice is ever cut; no event ever leaves a slice.
        Aggregates: compiled or interpreted is decided by the types of the first batch.
        Merging: lazy, when a window closes, by boundary aggregation (sba).
        """
        from slicewise.slicing.emit.explain import explain

        return explain(self)

    # What was left out.

    @property
    @reading
    def late(self) -> list[dict[str, Any]]:
        """The events that were dropped as late, that fell behind, and those that are bad.

        The newest `max_late` of them; `op.stats.late_forgotten` counts the others.
        """
        return self._late.rows()

    @changing
    def take_late(self) -> pa.Table | None:
        """The same as one Arrow table, which is then forgotten; `None` if there are none."""
        self._guard.begin()
        return self._late.take()

    @property
    def max_late(self) -> int | None:
        """How many refused events are kept; `None` stands for all of them."""
        return self._late.most

    # Stopping and going on.

    @changing
    def snapshot(self) -> bytes:
        """All that the operator knows, to go on from later or elsewhere; see `restore`.

        >>> import slicewise as sw
        >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
        >>> op.process({"t": [3, 12], "x": [1, 5]})
        >>> blob = op.snapshot()
        >>> again = sw.Operator.restore(blob)
        >>> [result.values for result in again.advance(20)]
        [{'x_sum': 1}, {'x_sum': 5}]
        """
        from slicewise.slicing.state.snapshot import snapshot

        return snapshot(self)

    @classmethod
    def restore(
        cls,
        blob: bytes,
        *,
        windows: Iterable[Window] | None = None,
        aggs: Iterable[Aggregate] | None = None,
        clock: Callable[[], int] | None = None,
        trusted: bool = False,
    ) -> Operator:
        """An operator that goes on where the one of the snapshot stopped.

        Windows and aggregates that cannot be found by the name of their class are given again, all
        of them as they were: those whose class is not imported here, and those with a function,
        such as a condition that is a lambda. A clock of one's own is given again too. Bytes run no
        code unless they are `trusted`: then functions are found by their names as well, modules
        are imported, and pickled values are read. A snapshot has pickled values only where states
        are more than plain ones.
        """
        from slicewise.slicing.state.snapshot import restore

        return restore(cls, blob, windows=windows, aggs=aggs, clock=clock, trusted=trusted)
