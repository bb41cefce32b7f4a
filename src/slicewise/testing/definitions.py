"""Window instances straight from the definitions: slow, obvious, and what tests trust.

Nothing here uses the arithmetic of the window classes, so that a mistake there is not repeated.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from slicewise.windows import (
    Cumulate,
    Fixed,
    Periodic,
    Punctuated,
    RowPeriodic,
    RowsEveryTime,
    Session,
    Threshold,
    TimeEveryRows,
    UserWindow,
    Window,
)
from slicewise.windows.base import holds
from slicewise.windows.delta import Delta

Number = int | float
Bounds = tuple[Number, Number]


class Event(NamedTuple):
    """An event of one key. Sorting events sorts them by (time, arrival)."""

    time: int
    arrival: int
    row: Mapping[str, Any]


class Instance(NamedTuple):
    """A window instance and its events in order.

    It closes at the first watermark that is not below `close`.
    """

    start: Number
    end: Number
    events: tuple[Event, ...]
    close: Number


class Arrived(NamedTuple):
    """Events of one key that arrived together, and what the horizon was then.

    The horizon is the watermark less the lateness: nothing that closed at or before it changes.
    """

    horizon: Number
    events: tuple[Event, ...]


def accepted(window: Window, batches: Sequence[Arrived]) -> list[Instance]:
    """All instances of a window over the events of one key that counted for them when they came.

    An instance of time takes an event as long as the horizon has not passed its close point. A
    session does too: events that arrive together join those of sessions that are still open, and
    what closes at or before the horizon all the same is not taken. What closed is gone: no later
    event joins it. Windows that depend on the rows before them take what is not below the horizon.
    """
    if _is_of_time(window):
        return _accepted_by_time(window, batches)
    if _is_session(window):
        closed, still_open = _accepted_by_sessions(window, batches)
        return [*closed, *instances(window, still_open)]
    return instances(window, [e for h, events in batches for e in events if e.time >= h])


def missed(
    window: Window, before: Sequence[Arrived], batch: Arrived, since: Number
) -> dict[int, tuple[bool, bool]]:
    """Return for each late event whether an instance takes it, and whether another missed it.

    Instances that start before `since` are not reported and miss nothing.
    """
    late = [event for event in batch.events if event.time < batch.horizon]
    if not late:
        return {}
    if _is_session(window):
        closed, still_open = _accepted_by_sessions(window, [*before, batch])
        held = {e.arrival for i in closed for e in i.events} | {e.arrival for e in still_open}
        return {
            e.arrival: (e.arrival in held, e.arrival not in held and e.time >= since) for e in late
        }
    found = {}
    for event in late:
        if _is_of_time(window):
            near = _bounds_near(window, event.time)  # type: ignore[arg-type]  # one of time
            closes = [e for s, e in near if s <= event.time < e and s >= since]
            took = any(close > batch.horizon for close in closes)
            found[event.arrival] = took, any(close <= batch.horizon for close in closes)
        else:
            place = _measure(window.traits.axis, event)
            found[event.arrival] = False, place is not None and place >= since
    return found


def _is_of_time(window: Window) -> bool:
    return isinstance(window, Periodic | Cumulate | Fixed) and window.axis is None


def _is_session(window: Window) -> bool:
    return isinstance(window, Session) and window.max_length is None


def _accepted_by_time(window: Window, batches: Sequence[Arrived]) -> list[Instance]:
    horizon_of = {e.arrival: h for h, events in batches for e in events}
    found = []
    for instance in instances(window, [e for _, events in batches for e in events]):
        counted = tuple(e for e in instance.events if horizon_of[e.arrival] < instance.close)
        if counted:
            found.append(instance._replace(events=counted))
    return found


def _accepted_by_sessions(
    window: Window, batches: Sequence[Arrived]
) -> tuple[list[Instance], list[Event]]:
    """The sessions that are closed for good, and the events of those that are not."""
    closed: list[Instance] = []
    kept: list[Event] = []
    for horizon, events in batches:
        closed += [one for one in instances(window, kept) if one.close <= horizon]
        kept = [e for one in instances(window, kept) if one.close > horizon for e in one.events]
        both = instances(window, [*kept, *events])
        kept = [e for one in both if one.close > horizon for e in one.events]
    return closed, kept


def instances(window: Window, events: Sequence[Event]) -> list[Instance]:
    """All instances of a window over the events of one key that hold an event.

    Those whose end is not known yet are left out: rows that do not fill an instance, and
    punctuated, threshold and user windows before the event that ends them. Instances with equal
    bounds are one, with the events of all of them.
    """
    ordered = sorted(events, key=lambda event: event[:2])
    found: dict[Bounds, Instance] = {}
    for item in _all(window, ordered):
        same = found.get((item.start, item.end), item)
        both = {e.arrival: e for e in (*same.events, *item.events)}
        merged = tuple(sorted(both.values(), key=lambda event: event[:2]))
        close = max(same.close, item.close)
        found[item.start, item.end] = Instance(item.start, item.end, merged, close)
    return sorted((i for i in found.values() if i.events), key=lambda i: (i.start, i.end))


def _all(window: Window, events: list[Event]) -> Iterator[Instance]:
    match window:
        case Periodic() | Cumulate() | Fixed():
            return _aligned(window, events)
        case RowPeriodic():
            return _rows(window, events)
        case TimeEveryRows():
            return _time_every_rows(window, events)
        case RowsEveryTime():
            return _rows_every_time(window, events)
        case Session():
            return _sessions(window, events)
        case Punctuated():
            return _punctuated(window, events)
        case Threshold():
            return _threshold(window, events)
        case Delta():
            return _delta(window, events)
        case UserWindow():
            return _user(window, events)
    raise AssertionError(f"no definition of {window!r}")


def _aligned(window: Periodic | Cumulate | Fixed, events: list[Event]) -> Iterator[Instance]:
    """Known intervals of time or of a column; events are in by their measure alone."""
    placed = [(m, e) for e in events if (m := _measure(window.axis, e)) is not None]
    near = {bounds for m, _ in placed for bounds in _bounds_near(window, m)}
    for start, end in near:
        inside = tuple(e for m, e in placed if start <= m < end)
        if window.axis is None:
            yield Instance(start, end, inside, end)
        else:
            past = [e.time + 1 for m, e in placed if m >= end]
            yield Instance(start, end, inside, min(past, default=math.inf))


def _measure(axis: str | None, event: Event) -> Number | None:
    if axis is None:
        return event.time
    value: Number | None = event.row[axis]
    return None if value is None or math.isnan(value) else value


def _bounds_near(window: Periodic | Cumulate | Fixed, m: Number) -> Iterator[Bounds]:
    """Bounds of all instances that could hold `m`, and some more."""
    match window:
        case Fixed():
            yield window.start, window.start + window.length
        case Periodic():
            newest = int((m - window.origin) // window.every) + 1
            for k in range(newest - int(window.length // window.every) - 3, newest + 1):
                start = window.origin + k * window.every
                yield start, start + window.length
        case Cumulate():
            middle = int((m - window.origin) // window.length)
            for k in (middle - 1, middle, middle + 1):
                base = window.origin + k * window.length
                for j in range(1, int(window.length // window.every) + 2):
                    yield base, min(base + j * window.every, base + window.length)


def _rows(window: RowPeriodic, events: list[Event]) -> Iterator[Instance]:
    """Full runs of `length` positions."""
    for start in range(0, len(events), window.every):
        inside = tuple(events[start : start + window.length])
        if len(inside) == window.length:
            yield Instance(start, start + window.length, inside, inside[-1].time + 1)


def _time_every_rows(window: TimeEveryRows, events: list[Event]) -> Iterator[Instance]:
    """Lengths of time from every n-th event on."""
    for opener in events[:: window.every]:
        start, end = opener.time, opener.time + window.length
        yield Instance(start, end, tuple(e for e in events if start <= e.time < end), end)


def _rows_every_time(window: RowsEveryTime, events: list[Event]) -> Iterator[Instance]:
    """The last n events at each multiple that saw an event since the one before."""
    steps = {(e.time - window.origin) // window.every + 1 for e in events}
    for mark in (window.origin + step * window.every for step in steps):
        last = [e for e in events if e.time < mark][-window.length :]
        yield Instance(last[0].time, mark, tuple(last), mark)


def _sessions(window: Session, events: list[Event]) -> Iterator[Instance]:
    """Events at distances of at most `gap`, less than `max_length` from the first."""
    longest = math.inf if window.max_length is None else window.max_length
    runs: list[list[Event]] = []
    for event in events:
        near = bool(runs) and event.time - runs[-1][-1].time <= window.gap
        if near and event.time - runs[-1][0].time < longest:
            runs[-1].append(event)
        else:
            runs.append([event])
    for run in runs:
        first, last = run[0].time, run[-1].time
        end = min(last + window.gap, first + longest)
        yield Instance(first, end, tuple(run), min(last + window.gap + 1, first + longest))


def _punctuated(window: Punctuated, events: list[Event]) -> Iterator[Instance]:
    """From the first event or a marked one up to before the next marked one."""
    openers = [p for p, e in enumerate(events) if p == 0 or holds(window.when, e.row)]
    for begin, stop in pairwise(openers):
        yield _between(events, begin, stop)


def _threshold(window: Threshold, events: list[Event]) -> Iterator[Instance]:
    """Maximal runs of marked events that an event that is not marked follows."""
    marks = [holds(window.when, e.row) for e in events]
    for begin in range(len(events)):
        if marks[begin] and (begin == 0 or not marks[begin - 1]):
            stop = next((p for p in range(begin, len(events)) if not marks[p]), None)
            if stop is not None and stop - begin >= window.min_rows:
                yield _between(events, begin, stop)


def _delta(window: Delta, events: list[Event]) -> Iterator[Instance]:
    """From the first event or one that has moved up to before the next that has."""
    openers = [0]
    for position, event in enumerate(events):
        known = [
            m for e in events[openers[-1] : position] if (m := _measure(window.on, e)) is not None
        ]
        value = _measure(window.on, event)
        if known and value is not None and abs(value - known[0]) >= window.by:
            openers.append(position)
    for begin, stop in pairwise(openers):
        yield _between(events, begin, stop)


def _user(window: UserWindow, events: list[Event]) -> Iterator[Instance]:
    """Apply what `on_event` says: the oldest open instances end, then new ones begin."""
    mine = window.fresh()
    open_since: deque[int] = deque()
    for position, event in enumerate(events):
        begins, ends = mine.step(event.time, event.row, len(open_since))
        for _ in range(ends):
            yield _between(events, open_since.popleft(), position)
        open_since.extend([position] * begins)


def _between(events: list[Event], begin: int, stop: int) -> Instance:
    """The events from position `begin` up to before `stop`; the event at `stop` ends it."""
    end = events[stop].time
    return Instance(events[begin].time, end, tuple(events[begin:stop]), end + 1)
