"""The slow, obvious twin of the operator.

It keeps all events, recomputes all instances of all windows from their definitions at each
watermark, and compares them with what it emitted before.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from slicewise.aggregates.base import Aggregate
from slicewise.errors import OrderError, WindowError
from slicewise.limits import REACH
from slicewise.testing.definitions import Arrived, Event, Instance, Number, accepted, missed
from slicewise.times import since_epoch
from slicewise.windows import RowPeriodic, RowsEveryTime, Window

Emit = Literal["on_close", "final", "on_update"]
Identity = tuple[Any, str, Number, Number]


class Emitted(NamedTuple):
    """One emitted row, with the attributes of the operator's results."""

    key: Any
    window: str
    start: Number
    end: Number
    values: dict[str, Any]
    revision: int = 0
    retracted: bool = False


class Oracle:
    """What an operator with the same arguments must emit, up to the order of the rows of a call.

    Where the end of an instance is not known yet (rows that are not full, punctuated, threshold
    and user windows), `"on_update"` emits nothing before it is. `since` of a window that was added
    late hides the instances that start before it. `late` has the events that no window took,
    `partly` those that some instance took and another one missed, with the names of the windows
    that missed them.

    >>> import slicewise as sw
    >>> oracle = Oracle(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t")
    >>> oracle.process([{"t": 3, "x": 1}, {"t": 12, "x": 5}, {"t": 4, "x": 2}])
    []
    >>> [(r.start, r.end, r.values) for r in oracle.advance(12)]
    [(0, 10, {'x_sum': 3})]
    """

    def __init__(
        self,
        *,
        windows: Iterable[Window],
        aggs: Iterable[Aggregate],
        time: str,
        by: str | Sequence[str] | None = None,
        lateness: int = 0,
        emit: Emit = "on_close",
        ordered: bool = False,
    ) -> None:
        self.aggs = list(aggs)
        self.time = time
        self.by = by
        self.lateness = lateness
        self.emit = emit
        self.ordered = ordered
        self.watermark: Number = -math.inf
        self.floor: Number = -math.inf  # where the horizon was before the lateness changed
        self.late: list[Mapping[str, Any]] = []
        self.partly: list[tuple[Mapping[str, Any], list[str]]] = []
        self.bad: list[Mapping[str, Any]] = []
        self.windows: dict[str, Window] = {}
        self._since: dict[str, Number] = {}
        self._arrived: dict[Any, list[Arrived]] = {}
        self._arrivals = 0
        # By (key, window), and there by identity: each looks only at its own.
        self._emitted: dict[tuple[Any, str], dict[Identity, tuple[Emitted, frozenset[int]]]] = {}
        for window in windows:
            self.add_window(window)

    def add_window(self, window: Window, *, since: Number = -math.inf) -> None:
        """Report `window` too: its instances that start at `since` or later.

        Where `start` is a number of rows, the time of the first of them counts.
        """
        if window.name in self.windows:
            raise WindowError(f"Two windows have the name {window.name!r}. Give one a `name`.")
        self.windows[window.name] = window
        self._since[window.name] = since

    def remove_window(self, name: str) -> None:
        """Report the window no more, and forget what it emitted."""
        del self.windows[name], self._since[name]
        self._emitted = {k: kept for k, kept in self._emitted.items() if k[1] != name}

    @property
    def horizon(self) -> Number:
        """The point at or before which nothing that closed changes any more."""
        return max(self.floor, self.watermark - self.lateness)

    def process(self, batch: Any) -> list[Emitted]:
        """Take events: rows as dicts, a dict of columns, or an Arrow table.

        With `ordered` each event is its own watermark, and what that closes is returned.
        """
        horizon = self.horizon
        events: dict[Any, list[Event]] = {}
        for row in rows_of(batch):
            time = time_of(row[self.time])
            if time is None:
                self.bad.append(row)
                continue
            if self.ordered:
                if time < self.watermark:
                    raise OrderError(
                        f"Events were promised in the order of time; one at {time} came after one "
                        f"at {self.watermark}. Leave out `ordered` and advance by watermarks."
                    )
                self.watermark = time
            events.setdefault(self._key(row), []).append(Event(time, self._arrivals, row))
            self._arrivals += 1
        for key, of_key in events.items():
            self._take(key, Arrived(horizon, tuple(of_key)))
        return self.advance(self.watermark) if self.ordered else []

    def _take(self, key: Any, batch: Arrived) -> None:
        """Keep the events of a key, and tell which of them came too late for what."""
        before = self._arrived.setdefault(key, [])
        verdicts = {
            name: missed(window, before, batch, self._since[name])
            for name, window in self.windows.items()
        }
        for event in batch.events:
            if event.time >= batch.horizon:
                continue
            of_event = {name: found[event.arrival] for name, found in verdicts.items()}
            names = [name for name, (_, by_one) in of_event.items() if by_one]
            if names and any(took for took, _ in of_event.values()):
                self.partly.append((event.row, names))
            elif names:
                self.late.append(event.row)
        before.append(batch)

    def advance(self, watermark: Any) -> list[Emitted]:
        """The results emitted when the watermark comes; one that goes back changes nothing."""
        self.watermark = max(self.watermark, _watermark(watermark))
        emitted: list[Emitted] = []
        for key, batches in self._arrived.items():
            for window in self.windows.values():
                emitted += self._report(key, window, accepted(window, batches))
        return in_order(emitted, list(self.windows))

    def _report(self, key: Any, window: Window, found: list[Instance]) -> list[Emitted]:
        emitted = []
        exists = set()
        before = self._emitted.setdefault((key, window.name), {})
        for instance in found:
            if _begin(window, instance) < self._since[window.name]:
                continue
            identity = (key, window.name, instance.start, instance.end)
            exists.add(identity)
            if self._is_due(identity, instance):
                emitted.append(self._emit(identity, instance))
        if self.emit != "final":
            gone = [k for k, (row, _) in before.items() if k not in exists and not row.retracted]
            emitted += [self._retract(k) for k in gone]
        return emitted

    def _is_due(self, identity: Identity, instance: Instance) -> bool:
        before = self._emitted[identity[:2]].get(identity)
        if self.emit == "final":
            return before is None and self.horizon >= instance.close
        if self.emit == "on_close" and self.watermark < instance.close:
            return False
        return before is None or before[1] != _members(instance)

    def _emit(self, identity: Identity, instance: Instance) -> Emitted:
        before = self._emitted[identity[:2]].get(identity)
        revision = 0 if before is None else before[0].revision + 1
        values = {a.output: value_of(a, [e.row for e in instance.events]) for a in self.aggs}
        row = Emitted(*identity, values, revision)
        self._emitted[identity[:2]][identity] = (row, _members(instance))
        return row

    def _retract(self, identity: Identity) -> Emitted:
        row, _ = self._emitted[identity[:2]][identity]
        row = row._replace(revision=row.revision + 1, retracted=True)
        # It holds nothing, so it may come back.
        self._emitted[identity[:2]][identity] = (row, frozenset())
        return row

    def _key(self, row: Mapping[str, Any]) -> Any:
        if self.by is None or isinstance(self.by, str):
            return None if self.by is None else row[self.by]
        return tuple(row[column] for column in self.by)


def windowed_rows(
    events: Any,
    *,
    windows: Iterable[Window],
    aggs: Iterable[Aggregate],
    time: str,
    by: str | Sequence[str] | None = None,
) -> dict[Identity, dict[str, Any]]:
    """The batch answer, values by (key, window, start, end): the watermark ends at infinity.

    >>> import slicewise as sw
    >>> rows = [{"t": 1, "x": 2.0}, {"t": 7, "x": 3.0}]
    >>> windowed_rows(rows, windows=[sw.session(5)], aggs=[sw.agg.sum("x")], time="t")
    {(None, 'session_5', 1, 6): {'x_sum': 2.0}, (None, 'session_5', 7, 12): {'x_sum': 3.0}}
    """
    oracle = Oracle(windows=windows, aggs=aggs, time=time, by=by, emit="final")
    oracle.process(events)
    return fold(oracle.advance(math.inf))


def fold(emitted: Iterable[Any]) -> dict[Identity, dict[str, Any]]:
    """The current answer of emitted rows: last revision of each, retracted ones removed.

    >>> a = Emitted(None, "w", 0, 5, {"n": 1})
    >>> fold([a, a._replace(values={"n": 2}, revision=1)])
    {(None, 'w', 0, 5): {'n': 2}}
    >>> fold([a, a._replace(revision=1, retracted=True)])
    {}
    """
    latest: dict[Identity, Any] = {}
    for row in emitted:
        identity = (row.key, row.window, row.start, row.end)
        if identity not in latest or row.revision > latest[identity].revision:
            latest[identity] = row
    return {k: dict(row.values) for k, row in latest.items() if not row.retracted}


def in_order(emitted: Iterable[Any], windows: Sequence[str]) -> list[Any]:
    """Rows by (key, window, start, end), windows in the order in which they were given."""
    rank = {name: k for k, name in enumerate(windows)}

    def place(row: Any) -> Any:
        # Keys of different types have no order of their own, so a type at a time.
        key = row.key if isinstance(row.key, tuple) else (row.key,)
        sortable = tuple((k is not None, type(k).__name__, 0 if k is None else k) for k in key)
        return (sortable, rank.get(row.window, len(rank)), row.start, row.end, row.revision)

    return sorted(emitted, key=place)


def assert_same_rows(got: Iterable[Any], expected: Iterable[Any]) -> None:
    """Fail unless both calls emitted the same rows in some order.

    Floats may differ in their last digits, since they are not always added in the same order. NaN
    equals NaN.
    """
    wanted = list(expected)
    given = list(got)
    names = sorted({row.window for row in (*wanted, *given)})
    fields = ("key", "window", "start", "end", "revision", "retracted")
    left, right = in_order(given, names), in_order(wanted, names)
    heads = [[tuple(getattr(row, f) for f in fields) for row in side] for side in (left, right)]
    assert heads[0] == heads[1], f"emitted {heads[0]}, expected {heads[1]}"
    for ours, theirs in zip(left, right, strict=True):
        assert alike(ours.values, theirs.values), f"emitted {ours}, expected {theirs}"


def alike(left: Any, right: Any) -> bool:
    """Return whether two results are equal up to rounding; NaN equals NaN.

    >>> alike({"m": 0.1 + 0.2}, {"m": 0.3}), alike([float("nan")], [float("nan")]), alike(1, None)
    (True, True, False)
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(alike(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, float) and isinstance(right, int | float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(left == right)


def value_of(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> Any:
    """The result of an aggregate over rows in order, by its natural algebra."""
    columns = aggregate.columns
    if aggregate.arity > 1:
        return aggregate.fold([tuple(row[c] for c in columns) for row in rows])
    return aggregate.fold([row[columns[0]] if columns else None for row in rows])


def rows_of(batch: Any) -> list[Mapping[str, Any]]:
    """Rows of a batch: dicts as they are, a dict of columns, or an Arrow table."""
    if isinstance(batch, Mapping):
        lists = [getattr(c, "tolist", lambda c=c: list(c))() for c in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*lists, strict=True)]
    return list(batch.to_pylist()) if hasattr(batch, "to_pylist") else list(batch)


def time_of(value: Any) -> int | None:
    """A time as an integer, in microseconds for a `datetime`; `None` when it is unusable.

    >>> time_of(5), time_of(5.0), time_of(float("nan")), time_of(None), time_of(2**61)
    (5, 5, None, None, None)
    """
    if isinstance(value, dt.datetime):
        value = since_epoch(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if -REACH < value < REACH else None


def _watermark(value: Any) -> Number:
    time = time_of(value)
    return value if time is None else time


def _begin(window: Window, instance: Instance) -> Number:
    """Where an instance starts in the measure in which windows are added."""
    by_rows = isinstance(window, RowPeriodic | RowsEveryTime)
    return instance.events[0].time if by_rows else instance.start


def _members(instance: Instance) -> frozenset[int]:
    return frozenset(event.arrival for event in instance.events)
