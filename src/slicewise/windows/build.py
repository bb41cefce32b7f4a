"""The constructors: `tumbling`, `sliding`, `cumulate`, `session` and the others.

Lengths are spans: a text such as `"10m"`, a `timedelta`, a plain int in raw units of the time
column (microseconds when that holds timestamps), `rows(n)` or `units(n, on=column)`. Which units
are given chooses the kind of window. Origins and starts are plain numbers in the same measure, or
for time also a `datetime` (without a time zone it is UTC) or a span after the epoch.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from slicewise.errors import WindowError
from slicewise.spans import Duration, Rows, Span, Ticks, Units, span
from slicewise.times import since_epoch
from slicewise.windows.base import Condition, Window, check_condition, condition_name
from slicewise.windows.cumulate import Cumulate
from slicewise.windows.fixed import Fixed
from slicewise.windows.periodic import Periodic
from slicewise.windows.punctuated import Punctuated
from slicewise.windows.row_periodic import RowPeriodic
from slicewise.windows.rows_every_time import RowsEveryTime
from slicewise.windows.session import Session
from slicewise.windows.threshold import Threshold
from slicewise.windows.time_every_rows import TimeEveryRows


def tumbling(length: Any, *, origin: Any = 0, name: str | None = None) -> Window:
    """Windows side by side, each `length` long, aligned to `origin`; ends are exclusive.

    >>> import slicewise as sw
    >>> sw.tumbling("10m").name, sw.tumbling(sw.rows(100)).name
    ('tumbling_10m', 'tumbling_100rows')
    """
    long = span(length)
    return _sliding(long, long, origin, _named(name, f"tumbling_{long}"), "tumbling")


def sliding(length: Any, every: Any, *, origin: Any = 0, name: str | None = None) -> Window:
    """Windows of `length` that open every `every`; the units of the two choose the kind.

    Time every time, `units` every `units` of the same column, and rows every rows slide along one
    measure. A length of time every n rows opens a window at every n-th event. A length in rows
    every time step gives the last n events at each multiple of the step.

    >>> import slicewise as sw
    >>> sw.sliding("10m", every="1m").name
    'sliding_10m_1m'
    >>> sw.sliding(sw.rows(10), every="5s")
    RowsEveryTime(name='sliding_10rows_5s', length=10, every=5000000, origin=0)
    """
    long, step = span(length), span(every)
    return _sliding(long, step, origin, _named(name, f"sliding_{long}_{step}"), "sliding")


def cumulate(length: Any, every: Any, *, origin: Any = 0, name: str | None = None) -> Window:
    """Windows that grow by `every` until `length`, then start again; ends are exclusive.

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
        origin=_point(origin, axis, "origin"),
    )


def fixed(start: Any, length: Any, *, name: str | None = None) -> Window:
    """The one window `[start, start + length)`.

    >>> import slicewise as sw
    >>> sw.fixed(100, 50)
    Fixed(name='fixed_100_50', axis=None, start=100, length=50)
    """
    long = span(length)
    axis = _common_axis(long, long, "fixed")
    begin = _point(start, axis, "start")
    return Fixed(
        name=_named(name, f"fixed_{begin}_{long}"), axis=axis, start=begin, length=_number(long)
    )


def session(gap: Any, *, max_length: Any = None, name: str | None = None) -> Window:
    """Runs of events with pauses of at most `gap`, cut at `max_length` when one is given.

    >>> import slicewise as sw
    >>> sw.session("30s").name, sw.session("30s", max_length="1h").name
    ('session_30s', 'session_30s_max_1h')
    """
    pause = span(gap)
    default = f"session_{pause}"
    longest = None
    if max_length is not None:
        limit = span(max_length)
        longest = _time(limit, "`max_length` of a session")
        default += f"_max_{limit}"
    return Session(
        name=_named(name, default), gap=_time(pause, "`gap` of a session"), max_length=longest
    )


def punctuated(when: Condition, *, name: str | None = None) -> Window:
    """Runs of events, each opened by an event for which `when` is true, or by the first event.

    >>> import slicewise as sw
    >>> sw.punctuated("flag").name, sw.punctuated(lambda event: event["x"] > 5).name
    ('punctuated_flag', 'punctuated')
    """
    check_condition("a punctuated window", when)
    return Punctuated(name=_named(name, _with("punctuated", when)), when=when)


def threshold(when: Condition, *, min_rows: int = 1, name: str | None = None) -> Window:
    """Maximal runs of at least `min_rows` events for which `when` is true.

    >>> import slicewise as sw
    >>> sw.threshold("hot", min_rows=3)
    Threshold(name='threshold_hot', when='hot', min_rows=3)
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
            return TimeEveryRows(name=name, length=_time(long, "`length`"), every=step.count)
        case Rows(), (Duration() | Ticks()):
            begin = _point(origin, None, "origin")
            return RowsEveryTime(
                name=name,
                length=long.count,
                every=_time(step, "`every`"),
                origin=begin,
            )
    axis = _common_axis(long, step, verb)
    return Periodic(
        name=name,
        axis=axis,
        length=_number(long),
        every=_number(step),
        origin=_point(origin, axis, "origin"),
    )


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


def _point(given: Any, axis: str | None, what: str) -> Any:
    """An origin or start as a number; the window itself refuses what is none."""
    if isinstance(given, np.number):
        given = given.item()
    if axis is not None:
        return given
    if isinstance(given, dt.datetime):
        return since_epoch(given)
    if isinstance(given, str | dt.timedelta):
        return _time(span(given), f"`{what}`")
    return given


def _refuse_origin(origin: Any, verb: str) -> None:
    if isinstance(origin, bool) or origin != 0:
        raise WindowError(
            f"`{verb}` every n rows counts from the first event of a key and has no `origin`; "
            f"given: {origin!r}. Leave it out."
        )


def _named(name: str | None, default: str) -> str:
    return default if name is None else name


def _with(kind: str, when: Condition) -> str:
    called = condition_name(when)
    return f"{kind}_{called}" if called else kind
