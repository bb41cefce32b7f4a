"""The window operator: any windows, any aggregates, many keys, one pass.

Fed with micro-batches and watermarks, by hand or inside a Spark task. What it keeps is a function
of the events alone, so the order of their arrival never shows in the answer.

The parts are those of general stream slicing (Scotty, Section 5): events are accepted and cut into
slices (`ingest`, the stream slicer), slices are kept and updated (`slices`, the slice manager) with
their states (the aggregate store of each slice group), and the window manager (`emission`) makes
results of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.policy import ErrorPolicy
from slicewise.limits import BEGINNING
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.emit.emission import Result
from slicewise.slicing.guard import changing, reading
from slicewise.slicing.ingest.quarantine import MOST, checked_most
from slicewise.slicing.parts import Parts
from slicewise.slicing.plan import Plan
from slicewise.slicing.progress import Stats, point_of
from slicewise.slicing.settings import Emit, Settings, StoreKind
from slicewise.suggestions import taking_names
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

Made = TypeVar("Made")


class Operator:
    """Window aggregation of a stream of events.

    `process` takes events, `advance` a watermark and returns what that closes. With
    `ordered=True` events are promised in the order of time, each is its own watermark, and
    `process` returns the results. Events of one key and equal time are ordered by the columns of
    `order`, if there are any (null is the least, NaN the greatest), and then by arrival.
    Lengths are durations such as `"1m"` over timestamps, and plain numbers over plain numbers;
    `unit` (`"s"`, `"ms"`, `"us"` or `"ns"`) says what the numbers of the time column mean, so that
    durations can be taken there too. `merger` names an algorithm of `sw.mergers.CATALOGUE` for the
    merging of slices in place of the planner's, and is kept between watermarks; `store` says
    whether slices are merged when a window closes (`"lazy"`) or in trees that are kept (`"eager"`),
    and `partials` where periodic windows cut them; `op.plan` has what was chosen.
    `op.late` has the newest `max_late` of the events that were refused (`None`: all of them).

    Threads may share an operator: its calls wait for each other. A call that was cut short in the
    middle of a change, by Ctrl-C for example, makes every later one raise `TornError`.

    Args:
        windows: The windows, each with a name of its own.
        aggs: The aggregates, each with an output of its own.
        time: The column with the times of events; `None` stamps them by the clock.
        by: The key column, or several; without it all rows have one key.
        lateness: How long after they close windows still take events.
        emit: `"on_close"` (default), `"final"` or `"on_update"`: when results are emitted.
        ordered: Promises events in the order of time; each is then its own watermark.
        order: A column, or several, that orders events of equal time.
        unit: What plain numbers as times mean: `"s"`, `"ms"`, `"us"` or `"ns"`.
        merger: The name of a merger in `sw.mergers.CATALOGUE`; `None` lets the planner choose.
        store: `"lazy"` or `"eager"`: merge slices when windows close, or keep trees over them.
        partials: How periodic windows cut slices: Cutty's way unless given.
        clock: What tells microseconds since the epoch where `time` is `None`.
        max_late: How many refused events `late` keeps; `None` keeps all.

    >>> import slicewise as sw
    >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", by="who")
    >>> op.process([{"who": "a", "t": 3, "x": 1}, {"who": "b", "t": 12, "x": 5}])
    >>> op.process({"who": ["a"], "t": [4], "x": [2]})
    >>> for result in op.advance(20):
    ...     print(result.key, result.window, result.start, result.end, result.values)
    a tumbling_10 0 10 {'x_sum': 3}
    b tumbling_10 10 20 {'x_sum': 5}
    """

    @taking_names
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
        self.settings = settings = Settings.of(
            aggs=aggs,
            time=time,
            by=by,
            lateness=lateness,
            emit=emit,
            ordered=ordered,
            order=order,
            unit=unit,
            merger=merger,
            store=store,
            partials=partials,
            clock=clock,
        )
        self.aggs, self.time = settings.aggs, settings.time
        self.by, self.order = settings.by, settings.order
        self.emit, self.ordered, self.unit = emit, ordered, unit
        self.lateness, self.merger = settings.lateness, merger
        self.store, self.partials = store, partials
        self.parts = Parts(settings, checked_most(max_late))
        self._guard = self.parts.guard
        self.parts.windows.begin(windows)
        self.parts.slices.replan()

    def __repr__(self) -> str:
        given = {"windows": self.windows, **self.settings.given(), "max_late": self.max_late}
        default = inspect.signature(type(self)).parameters
        shown = [f"{k}={v!r}" for k, v in given.items() if v != default[k].default]
        return f"sw.Operator({', '.join(shown)})"

    # Windows.

    @property
    def windows(self) -> list[Window]:
        """The windows, in the order in which they were given."""
        return self.parts.windows.defined

    @changing
    def add_window(self, window: Window) -> Any:
        """Take up another window while running; returns from when on it is complete.

        Instances that start before are not reported; `None` means that there are none. A window
        of time covers the past as far as slices for its edges are kept. One that depends on the
        rows before it, such as a count of rows, sees the events that come after it.
        """
        from slicewise.slicing.groups.adding import known_from, make_room

        parts = self.parts
        window = parts.windows.counted(window)
        since = known_from(parts.slices, window)
        parts.ingest.check_window(window, since)
        self._guard.begin()
        if since != BEGINNING and not window.traits.needs_rows:
            make_room(parts.slices, window)
            parts.emission.mark_all_dirty()
        parts.windows.add(window, since)
        parts.slices.replan()
        return None if since == BEGINNING else since

    @changing
    def remove_window(self, name: str) -> None:
        """Remove a window, and forget what was kept for it alone."""
        parts = self.parts
        entry = parts.windows.find(name)
        self._guard.begin()
        parts.windows.remove(entry)
        parts.emission.log.forget(entry.number)
        parts.slices.replan()

    @property
    def plan(self) -> Plan:
        """The decisions for the windows and aggregates that there are now."""
        return self.parts.slices.plan

    # Events.

    @changing
    def process(self, batch: Any) -> list[Result] | None:
        """Take a batch of events: a dict of columns, a table of any kind, rows, or one event.

        Rows are dicts, and so is one event alone, with single values. Returns the results with
        `ordered=True`, and `None` otherwise.
        """
        self._add(batch)
        if not self.ordered:
            return None
        newest = self.parts.progress.newest
        return self._advanced(newest, self.parts.output.results) if newest > BEGINNING else []

    def _add(self, batch: Any) -> None:
        """Accept events, cut them into slices, and let those wait that are needed in order."""
        parts = self.parts
        accepted = parts.ingest.accept(batch)
        if accepted is None:
            return
        parts.emission.mark_dirty(accepted.events)
        parts.slices.add(accepted)
        bad, error = parts.ingest.refuse_at_once(accepted.columns)
        parts.slices.hold(accepted, bad)
        if error is not None:
            self._guard.end()
            raise error

    # Results.

    @property
    def watermark(self) -> int:
        """The greatest watermark that was given, in the unit of the time column."""
        return self.parts.progress.watermark

    @changing
    def advance(self, watermark: Any) -> list[Result]:
        """Take a watermark; returns the results that it closes, revises and retracts.

        They are sorted by window, in the order given, with retractions first, and then by start and
        end.

        If an aggregate raises an error while results are made, or there are too many results for
        one call, nothing is emitted and nothing is lost: the next call returns what this one would
        have returned, or as much of it as closes at a lower watermark, or raises again.

        If a window or an aggregate of your own raises an error for an event, here or in `process`,
        that window begins and ends no instance with the event, and that aggregate skips it as it
        skips nulls. The event is counted as bad and is in `late`. The error is raised once, and the
        next call goes on.
        """
        return self._advanced(watermark, self.parts.output.results)

    @changing
    def advance_arrow(self, watermark: Any) -> pa.Table:
        """The results of `advance` as an Arrow table."""
        return self._advanced(watermark, lambda table: table)

    def _advanced(self, watermark: Any, made: Callable[[pa.Table], Made]) -> Made:
        """Take a watermark; returns what is `made` of the table of results.

        Nothing is taken for handed out before all of it is made.
        """
        parts, progress, guard = self.parts, self.parts.progress, self._guard
        given = point_of(watermark, self.unit)
        guard.begin()
        progress.watermark = max(progress.watermark, given)
        # What an earlier call could not answer may be asked for in steps.
        point = max(progress.answered, given)
        horizon_before, horizon = progress.open_from, progress.horizon(point)
        final = self.emit == "final"
        parts.slices.release(progress.accepted_from if final else progress.watermark)
        error = parts.ingest.refuse_failed(parts.output)
        if error is not None and self.errors.raises:
            guard.end()
            raise error
        due = parts.emission.due(point)
        with guard.harmless(Exception):
            answer = made(parts.output.table([part for one in due for part in one.answers]))
        # From here on nothing of the user's own runs: what was asked for is handed out.
        parts.emission.record(due)
        progress.answered = point
        closed = horizon if final else point
        parts.slices.let_go(closed, horizon if horizon > horizon_before else None)
        parts.emission.prune()
        parts.forgetting.forget(horizon)
        return answer

    @property
    def errors(self) -> ErrorPolicy:
        """The policy for errors of aggregates; a stream sets another before the first event."""
        return self.parts.schema.errors

    @errors.setter
    def errors(self, policy: ErrorPolicy) -> None:
        self.parts.schema.errors = policy

    @property
    @reading
    def stats(self) -> Stats:
        """The counts of what it has seen, keeps now and has done."""
        return self.parts.stats()

    @reading
    def explain(self) -> str:
        """Says in words which windows share slices, what is stored and why, and what is compiled.

        >>> import slicewise as sw
        >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
        >>> print(op.explain())
        tumbling_10: has its own slices of time, cut at edges every 10 from 0.
        Storage: states alone are kept: no window or aggregate needs rows.
        Changes: no slice is ever cut; no event ever leaves a slice.
        Aggregates: compiled or interpreted is decided by the types of the first batch.
        Merging: lazy, when a window closes, by boundary aggregation (sba).
        """
        from slicewise.slicing.emit.explain import explain

        return explain(self.parts)

    # What was left out.

    @property
    @reading
    def late(self) -> list[dict[str, Any]]:
        """The events that were dropped as late, that fell behind, and those that are bad.

        The newest `max_late` of them; `op.stats.late_forgotten` counts the others.
        """
        return self.parts.quarantine.rows()

    @changing
    def take_late(self) -> pa.Table | None:
        """The events of `late` as one Arrow table, then forgotten; `None` if there are none."""
        self._guard.begin()
        return self.parts.quarantine.take()

    @property
    def max_late(self) -> int | None:
        """How many refused events are kept; `None` stands for all of them."""
        return self.parts.quarantine.most

    # Stopping and going on.

    @changing
    def snapshot(self) -> bytes:
        """Returns all that the operator knows as bytes, from which `restore` goes on.

        >>> import slicewise as sw
        >>> op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
        >>> op.process({"t": [3, 12], "x": [1, 5]})
        >>> blob = op.snapshot()
        >>> again = sw.Operator.restore(blob)
        >>> [result.values for result in again.advance(20)]
        [{'x_sum': 1}, {'x_sum': 5}]
        """
        from slicewise.slicing.state.snapshot import snapshot

        return snapshot(self.parts)

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
        """Returns an operator that goes on where the one that made the snapshot stopped.

        Windows and aggregates that cannot be found by the name of their class are given again, all
        of them as they were: those whose class is not imported here, and those with a function,
        such as a condition that is a lambda. A clock of your own is given again too. Bytes run no
        code unless they are `trusted`: then functions are found by their names as well, modules
        are imported, and pickled values are read. A snapshot has pickled values only where states
        are more than plain ones.
        """
        from slicewise.slicing.state.resume import restore

        return restore(cls, blob, windows=windows, aggs=aggs, clock=clock, trusted=trusted)
