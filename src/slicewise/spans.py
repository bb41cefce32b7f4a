"""Spans: how long a window is, in time, in rows, or in units of an advancing column.

A span is written as a text (`"10m"`, `"1h30m"`, `"1 hour 30 minutes"`), a `timedelta`, a plain int
in units of a time column of numbers, `rows(100)`, or `units(5, on="km")`. Each becomes a small
frozen value here, checked when it is built.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from slicewise.errors import SpanError
from slicewise.limits import REACH
from slicewise.suggestions import meant, taking_names

# Months and years are missing on purpose: they have no fixed length.
MICROSECONDS = {
    "w": 7 * 86_400_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
    "µs": 1,
}
CANONICAL = ("w", "d", "h", "m", "s", "ms", "us")

# Other words for units, in lower case.
WORDS = {
    **dict.fromkeys(("week", "weeks", "wk", "wks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("minute", "minutes", "mins"), "m"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("millisecond", "milliseconds", "millis", "msec", "msecs"), "ms"),
    **dict.fromkeys(("microsecond", "microseconds", "micros", "usec", "usecs", "μs"), "us"),
}
# Words for what has no fixed length, and why not.
UNFIXED = {
    **dict.fromkeys(("mo", "mon", "month", "months"), "a month has 28 to 31 days"),
    **dict.fromkeys(("q", "quarter", "quarters"), "a quarter has 90 to 92 days"),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), "a year has 365 or 366 days"),
}

_PART = re.compile(r"(\d+\.\d+|\.\d+|\d+)\s*([^\W\d_]+)[\s,]*")
_TEXT = re.compile(rf"\s*(?:{_PART.pattern})+")


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time. `text` is how it was written and names output columns.

    >>> span("90m").microseconds, str(span("90m")), span("90m") == span("1h30m")
    (5400000000, '90m', True)
    """

    microseconds: int
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_positive(self.microseconds, self.text or f"{self.microseconds} us")

    def __str__(self) -> str:
        return self.text or canonical(self.microseconds)


@dataclass(frozen=True, slots=True)
class Ticks:
    """A length in units of a time column that holds plain numbers."""

    count: int

    def __post_init__(self) -> None:
        _check_positive(self.count, repr(self.count))

    def __str__(self) -> str:
        return str(self.count)


@dataclass(frozen=True, slots=True)
class Rows:
    """A number of rows of a key, in the order of (time, arrival)."""

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _whole(self.count, "`rows`"))
        _check_positive(self.count, f"rows({self.count})")

    def __str__(self) -> str:
        return f"{self.count}rows"

    def __repr__(self) -> str:
        return f"sw.rows({self.count})"


@dataclass(frozen=True, slots=True)
class Units:
    """A length along an advancing column, such as kilometres or invoice numbers.

    It may have a fraction: half a kilometre is `units(0.5, on="km")`.
    """

    count: int | float
    on: str

    def __post_init__(self) -> None:
        fraction = isinstance(self.count, float | np.floating) and math.isfinite(self.count)
        count = float(self.count) if fraction else _whole(self.count, "`units`")
        object.__setattr__(self, "count", count)
        _check_positive(self.count, f"units({self.count}, on={self.on!r})")
        if type(self.on) is not str or not self.on:
            raise SpanError(f"`units` needs the name of a column as `on`; given: {self.on!r}.")

    def __str__(self) -> str:
        return f"{self.count}{self.on}"

    def __repr__(self) -> str:
        return f"sw.units({self.count!r}, on={self.on!r})"


Span = Duration | Ticks | Rows | Units
# What a span may be given as.
SpanLike = Span | str | int | np.integer[Any] | dt.timedelta | np.timedelta64


@taking_names
def rows(count: int) -> Rows:
    """A span of `count` rows of a key, ending at the row itself.

    Args:
        count: How many rows, one or more.

    >>> str(rows(100))
    '100rows'
    """
    return Rows(count)


@taking_names
def units(count: int | float, *, on: str) -> Units:
    """A span of `count` units of the advancing column `on`.

    Args:
        count: How many units; it may have a fraction.
        on: The column that advances, such as kilometres.

    >>> str(units(5, on="km"))
    '5km'
    """
    return Units(count, on)


def span(given: Any) -> Span:
    """The span that `given` stands for; raises `SpanError` for what cannot be one.

    >>> span("1h30m"), span(100), span(rows(3))
    (Duration(microseconds=5400000000, text='1h30m'), Ticks(count=100), sw.rows(3))
    """
    if isinstance(given, Duration | Ticks | Rows | Units):
        return given
    if isinstance(given, str):
        return Duration(*_parse(given))
    if isinstance(given, dt.timedelta):
        return Duration(_of_timedelta(given))
    if isinstance(given, np.timedelta64):
        return Duration(_of_timedelta64(given))
    return Ticks(_whole(given, "A span"))


def is_nothing(given: Any) -> bool:
    """Return whether a length is that of nothing, which a watermark or a lateness may have.

    >>> is_nothing("0s"), is_nothing(0), is_nothing("1s")
    (True, True, False)
    """
    if isinstance(given, str):
        return (
            bool(_TEXT.fullmatch(given)) and not re.search("[1-9]", given) and not _parse(given)[0]
        )
    if isinstance(given, dt.timedelta):
        return given == dt.timedelta()
    if isinstance(given, np.timedelta64):
        return bool(given == np.timedelta64(0, "us"))
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and given == 0


def canonical(microseconds: int) -> str:
    """The shortest text for a length of time, largest units first.

    >>> canonical(5_400_000_000), canonical(250_000)
    ('1h30m', '250ms')
    """
    text = ""
    for unit in CANONICAL:
        count, microseconds = divmod(microseconds, MICROSECONDS[unit])
        if count:
            text += f"{count}{unit}"
    return text


def _parse(text: str) -> tuple[int, str]:
    """The microseconds of a text, and the short text that names output columns."""
    if not _TEXT.fullmatch(text):
        _refuse_text(text)
    parts = [(count, _unit(text, unit)) for count, unit in _PART.findall(text)]
    total = sum(Fraction(count) * MICROSECONDS[unit] for count, unit in parts)
    if total.denominator != 1:
        raise SpanError(f"A span has whole microseconds; given: {text!r}. Round it first.")
    if any("." in count for count, _ in parts):  # a name of a column has no dots
        return int(total), canonical(int(total))
    return int(total), "".join(count + unit for count, unit in parts)


def _unit(text: str, unit: str) -> str:
    """The unit of time that a word stands for; `text` is all that was written."""
    lower = unit.lower()
    if lower in ("m", "ms") and unit != lower:
        fine, coarse = ("a minute", "month") if lower == "m" else ("milliseconds", "month's start")
        raise SpanError(
            f"The {unit!r} of the span {text!r} may mean {fine} or a {coarse}. Write {lower!r} for "
            f"{fine}; a month has no fixed length, which a span has."
        )
    if lower in UNFIXED:
        raise SpanError(
            f"A span has a fixed length, which the {unit!r} of {text!r} has not: {UNFIXED[lower]}. "
            "Give a number of days or weeks, such as '30d' or '4w'."
        )
    found = lower if lower in MICROSECONDS else WORDS.get(lower)
    if found is None:
        hint = meant(lower, [*MICROSECONDS, *WORDS])
        raise SpanError(f"The {unit!r} of the span {text!r} is no unit of time.{hint} {_UNITS}")
    return found


_UNITS = (
    "Units are w, d, h, m (or min), s, ms and us, and words such as minutes: '10m', '1h30m', "
    "'1 hour 30 minutes'."
)


def _refuse_text(text: str) -> NoReturn:
    """Say what is wrong with a text that is not made of numbers with units."""
    rest, wrong = text.strip(), ""
    if rest[:1] == "-" and _TEXT.fullmatch(rest[1:]):
        raise SpanError(
            f"A span must be longer than nothing; given: {text!r}, which has a minus sign. Write "
            f"{rest[1:].strip()!r}."
        )
    if (number := re.search(r"[\d.]+$", rest)) is not None:
        wrong = f", where {number[0]!r} has no unit"
        if number[0] == rest:
            wrong += "; plain numbers as lengths are numbers, not texts"
    elif rest.isalpha():
        wrong = f", which has no number, as '1{rest}' has"
    raise SpanError(f"A span as text is numbers with units; given: {text!r}{wrong}. {_UNITS}")


def _of_timedelta(given: dt.timedelta) -> int:
    # pandas has a timedelta of its own with nanoseconds below the microseconds.
    if getattr(given, "nanoseconds", 0):
        raise SpanError(f"A span has whole microseconds; given: {given!r}. Round it first.")
    return given // dt.timedelta(microseconds=1)


def _of_timedelta64(given: np.timedelta64) -> int:
    if np.isnat(given):
        raise SpanError("A span is a length of time; given: NaT.")
    unit = np.datetime_data(given.dtype)[0]
    if unit in ("Y", "M"):
        why = UNFIXED["y" if unit == "Y" else "mo"]
        raise SpanError(
            f"A span has a fixed length, which {given!r} has not: {why}. Give a number of days or "
            "weeks, such as '30d' or '4w'."
        )
    if unit == "generic":
        raise SpanError(
            f"A span has a unit; given: {given!r}. Name one, such as np.timedelta64(5, 's')."
        )
    microseconds = given.astype("m8[us]")
    if microseconds != given:
        raise SpanError(f"A span has whole microseconds; given: {given!r}. Round it first.")
    return int(microseconds.astype(np.int64))


def _whole(given: Any, what: str) -> int:
    try:
        if isinstance(given, bool | np.bool_):
            raise TypeError
        return operator.index(given)
    except TypeError:
        raise SpanError(
            f"{what} takes a whole number; given: {given!r}. A span is a text such as '10m', a "
            "timedelta, a whole number in units of the time column, `rows(n)` or `units(n, on=)`."
        ) from None


def _check_positive(count: int | float, shown: str) -> None:
    if count <= 0:
        raise SpanError(f"A span must be longer than nothing; given: {shown}.")
    if count >= REACH:
        raise SpanError(
            f"A span must be below 2**61, or its sum with a time would not fit 64 bits; given: "
            f"{shown}."
        )
