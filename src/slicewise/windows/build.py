"""The constructors: `tumbling`, `sliding`, `cumulate`, `session` and the others.

Lengths are spans: a duration (a text such as `"10m"`, a `timedelta`), a plain int in the units of a
time column of numbers, `rows(n)` or `units(n, on=column)`. Which units are given chooses the kind
of window. Origins and starts are plain numbers beside plain numbers. Beside durations they are
moments (a date, a `datetime` or an ISO text such as `"2024-01-31T09:30"`; without a time zone it is
UTC) or durations after the epoch. Without an origin windows are aligned to 0, the epoch, and those
of whole weeks to Monday, 1970-01-05.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from slicewise.errors import WindowError
from slicewise.spans import (
    MICROSECONDS,
    Duration,
    Rows,
    Span,
    SpanLike,
    Ticks,
    Units,
    is_nothing,
    span,
)
from slicewise.suggestions import taking_names
from slicewise.times import since_epoch
from slicewise.windows.base import (
    DURATIONS,
    MONDAY,
    Condition,
    Window,
    check_condition,
    condition_name,
)
from slicewise.windows.cumulate import Cumulate
from slicewise.windows.fixed import Fixed
from slicewise.windows.periodic import Periodic
from slicewise.windows.punctuated import Punctuated
from slicewise.windows.row_periodic import RowPeriodic
from slicewise.windows.rows_every_time import RowsEveryTime
from slicewise.windows.session import Session
from slicewise.windows.threshold import Threshold
from slicewise.windows.time_every_rows import TimeEveryRows

# How a text begins that is a moment and no duration.
_DATE = re.compile(r"\d{4}-")


@taking_names
def tumbling(length: SpanLike, *, origin: Any = None, name: str | None = None) -> Window:
    """Windows side by side, each `length` long, aligned to `origin`; ends are exclusive.

    Without an `origin` they are aligned to 0, the epoch, and whole weeks to Mondays.

    Args:
        length: How long an instance is: a duration, a number, `sw.rows(n)` or `sw.units(n,
            on=...)`.
        origin: The point that windows are aligned to: a number, or a moment beside durations.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.tumbling("10m").name, sw.tumbling(sw.rows(100)).name
    ('tumbling_10m', 'tumbling_100rows')
    """
    long = span(length)
    return _sliding(long, long, origin, _named(name, f"tumbling_{long}"), "tumbling")


@taking_names
def sliding(
    length: SpanLike, every: SpanLike, *, origin: Any = None, name: str | None = None
) -> Window:
    """Windows of `length` that open every `every`; the units of the two choose the kind.

    If both are time, both are rows, or both are `units` of the same column, windows slide along
    that measure. With a `length` of time and an `every` of n rows, a window of that length opens at
    every n-th event. With a `length` of n rows and an `every` of time, the last n events are
    reported at each multiple of `every`.

    Args:
        length: How long an instance is: a duration, a number, `sw.rows(n)` or `sw.units(n,
            on=...)`.
        every: How far instances are apart, in the unit of `length` or another one.
        origin: The point that windows are aligned to: a number, or a moment beside durations.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.sliding("10m", every="1m").name
    'sliding_10m_1m'
    >>> sw.sliding(sw.rows(10), every="5s")
    sw.sliding(sw.rows(10), every='5s')
    """
    long, step = span(length), span(every)
    return _sliding(long, step, origin, _named(name, f"sliding_{long}_{step}"), "sliding")


@taking_names
def cumulate(
    length: SpanLike, every: SpanLike, *, origin: Any = None, name: str | None = None
) -> Window:
    """Windows that grow by `every` until `length`, then start again; ends are exclusive.

    Args:
        length: How long an instance is when it starts again, in time or in `sw.units`.
        every: By how much it grows.
        origin: The point that windows are aligned to: a number, or a moment beside durations.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.cumulate("1d", every="1h").name
    'cumulate_1d_1h'
    """
    long, step = span(length), span(every)
    axis = _common_axis(long, step, "cumulate")
    return Cumulate(
        name=_named(name, f"cumulate_{long}_{step}"),
        axis=axis,
        length=_number(long),
        every=_number(step),
        origin=_origin(origin, axis, long, step),
        unit=_unit(long, step),
    )


@taking_names
def fixed(start: Any, length: SpanLike, *, name: str | None = None) -> Window:
    """The one window `[start, start + length)`.

    Args:
        start: Where the instance starts: a number, or a moment such as `"2024-01-31"`.
        length: How long it is, in time or in `sw.units`.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.fixed(100, 50)
    sw.fixed(100, 50)
    """
    long = span(length)
    axis = _common_axis(long, long, "fixed")
    begin = _point(start, axis, "start", long)
    return Fixed(
        name=_named(name, f"fixed_{begin}_{long}"),
        axis=axis,
        start=begin,
        length=_number(long),
        unit=_unit(long),
    )


@taking_names
def session(
    gap: SpanLike, *, max_length: SpanLike | None = None, name: str | None = None
) -> Window:
    """Runs of events that are at most `gap` apart, cut at `max_length` when one is given.

    Args:
        gap: The longest pause between two events of a session: a duration or a number.
        max_length: The length at which a session is cut, if at any.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.session("30s").name, sw.session("30s", max_length="1h").name
    ('session_30s', 'session_30s_max_1h')
    """
    spans = [span(gap)]
    pause = _time(spans[0], "`gap` of a session")
    default = f"session_{spans[0]}"
    longest = None
    if max_length is not None:
        spans.append(span(max_length))
        longest = _time(spans[1], "`max_length` of a session")
        default += f"_max_{spans[1]}"
    return Session(name=_named(name, default), gap=pause, max_length=longest, unit=_unit(*spans))


@taking_names
def punctuated(when: Condition, *, name: str | None = None) -> Window:
    """Runs of events: one begins with the first event, and at each for which `when` is true.

    Args:
        when: A boolean column, or a function of the event, which is a mapping of its columns.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.punctuated("flag").name, sw.punctuated(lambda event: event["x"] > 5).name
    ('punctuated_flag', 'punctuated')
    """
    check_condition("a punctuated window", when)
    return Punctuated(name=_named(name, _with("punctuated", when)), when=when)


@taking_names
def threshold(when: Condition, *, min_rows: int = 1, name: str | None = None) -> Window:
    """Runs of at least `min_rows` events in a row for which `when` is true.

    Args:
        when: A boolean column, or a function of the event, which is a mapping of its columns.
        min_rows: How many events a run has at least.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.threshold("hot", min_rows=3)
    sw.threshold('hot', min_rows=3)
    """
    check_condition("a threshold window", when)
    return Threshold(name=_named(name, _with("threshold", when)), when=when, min_rows=min_rows)


def _sliding(long: Span, step: Span, origin: Any, name: str, verb: str) -> Window:
    match long, step:
        case Rows(), Rows():
            _refuse_origin(origin, verb)
            return RowPeriodic(name=name, length=long.count, every=step.count)
        case ((Duration() | Ticks()), Rows()):
            _refuse_origin(origin, verb)
            return TimeEveryRows(
                name=name, length=_time(long, "`length`"), every=step.count, unit=_unit(long)
            )
        case Rows(), (Duration() | Ticks()):
            return RowsEveryTime(
                name=name,
                length=long.count,
                every=_time(step, "`every`"),
                origin=_origin(origin, None, step),
                unit=_unit(step),
            )
    axis = _common_axis(long, step, verb)
    return Periodic(
        name=name,
        axis=axis,
        length=_number(long),
        every=_number(step),
        origin=_origin(origin, axis, long, step),
        unit=_unit(long, step),
    )


def _unit(*lengths: Span) -> str | None:
    """The unit of a window's lengths of time: that of durations, or `None` for plain numbers."""
    durations = {isinstance(length, Duration) for length in lengths}
    if len(durations) > 1:
        given = ", ".join(map(str, lengths))
        raise WindowError(
            "The lengths of a window are all durations, such as '10m', or all plain numbers; "
            f"given: {given}. Write them alike."
        )
    return DURATIONS if durations == {True} else None


def _common_axis(long: Span, step: Span, verb: str) -> str | None:
    """The measure of both spans: `None` for time, else a column."""
    match long, step:
        case ((Duration() | Ticks()), (Duration() | Ticks())):
            return None
        case Units(), Units():
            if long.on == step.on:
                return long.on
    given = f"{long}" if long is step else f"{long} every {step}"
    meant = (
        "time every time, rows every rows, time every rows, rows every time, or units of one column"
        if verb == "sliding"
        else "time, or units of one column"
    )
    raise WindowError(f"`{verb}` has no meaning for these units; given: {given}. Use {meant}.")


def _number(length: Span) -> int | float:
    return length.microseconds if isinstance(length, Duration) else length.count


def _time(length: Span, what: str) -> int:
    if isinstance(length, Duration):
        return length.microseconds
    if isinstance(length, Ticks):
        return length.count
    raise WindowError(
        f"{what} is a length of time; given: {length}. Use a text such as '30s', a timedelta, or a "
        "whole number in units of the time column."
    )


def _origin(given: Any, axis: str | None, *lengths: Span) -> Any:
    """The point that a window is aligned to: 0 if nothing is said, and Monday for whole weeks."""
    if given is not None:
        return _point(given, axis, "origin", *lengths)
    week = MICROSECONDS["w"]
    weeks = [s for s in lengths if isinstance(s, Duration) and s.microseconds % week == 0]
    return MONDAY if weeks else 0


def _point(given: Any, axis: str | None, what: str, *lengths: Span) -> Any:
    """An origin or start as a number; the window itself refuses what is none."""
    if isinstance(given, np.number):
        given = given.item()
    if axis is not None:
        return given
    moment = isinstance(given, dt.date | dt.timedelta | str | np.timedelta64 | np.datetime64)
    found: Any = _since_epoch(given, what) if moment else given
    # Where nothing has passed since the epoch the unit does not matter.
    number = type(given) is int and given != 0
    if (moment or number) and moment != (_unit(*lengths) == DURATIONS):
        raise WindowError(
            f"`{what}` is a moment or a duration after the epoch where the lengths of a window are "
            f"durations, and a plain number where they are; given: {given!r} beside "
            f"{', '.join(map(str, lengths))}. Write them alike."
        )
    return found


def _since_epoch(given: Any, what: str) -> int:
    """Microseconds from the epoch to a moment, or of a duration after it."""
    if isinstance(given, str) and _DATE.match(given.strip()):
        try:
            given = dt.datetime.fromisoformat(given.strip())
        except ValueError as error:
            raise WindowError(
                f"`{what}` as text is a moment such as '2024-01-31' or '2024-01-31T09:30'; given: "
                f"{given!r} ({error})."
            ) from error
    if isinstance(given, np.datetime64):
        given = given.astype("M8[us]").item()  # `None` if it is NaT
    if given is None or given != given:
        raise WindowError(f"`{what}` is a moment; given: NaT.")
    if isinstance(given, dt.datetime):
        return since_epoch(given)
    if isinstance(given, dt.date):
        return since_epoch(dt.datetime(given.year, given.month, given.day))
    if isinstance(given, int):  # a moment before or after the years of a datetime
        return given
    return 0 if is_nothing(given) else _time(span(given), f"`{what}`")


def _refuse_origin(origin: Any, verb: str) -> None:
    if origin is not None and (isinstance(origin, bool) or origin != 0):
        raise WindowError(
            f"`{verb}` every n rows counts from the first event of a key and has no `origin`; "
            f"given: {origin!r}. Leave it out."
        )


def _named(name: str | None, default: str) -> str:
    return default if name is None else name


def _with(kind: str, when: Condition) -> str:
    called = condition_name(when)
    return f"{kind}_{called}" if called else kind
