"""Times and lengths of time: the one parser of time columns, and the one rule of their units.

A time column holds moments (timestamps, dates, times of day, durations) or plain numbers. Moments
count microseconds, unless they have nanoseconds and are asked to keep them. Plain numbers are taken
as they are. Durations such as `"10m"` belong to moments and plain numbers as lengths to plain
numbers as times; with a unit, which says what the numbers mean, durations become numbers of it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.columns import Column
from slicewise.errors import ColumnTypeError, SpanError, UnitWarning, warn
from slicewise.limits import GREATEST, REACH
from slicewise.spans import MICROSECONDS, Duration, Ticks, canonical, is_nothing, span

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# How many microseconds a unit has, as a fraction.
UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# The years in which most events happen, 2001 to 2049, in seconds since the epoch.
OUR_TIME = (1_000_000_000, 2_500_000_000)


def since_epoch(moment: dt.datetime) -> int:
    """Microseconds from the epoch to a moment; without a time zone it is UTC.

    >>> since_epoch(dt.datetime(1970, 1, 1, 0, 1))
    60000000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)


# Units and lengths.


def check_unit(unit: Any) -> None:
    """Refuse a unit of a time column that there is not."""
    if unit is not None and (type(unit) is not str or unit not in UNITS):
        shown = ", ".join(map(repr, UNITS))
        raise SpanError(
            f"`unit` says what the numbers of the time column mean, and is one of {shown}; given: "
            f"{unit!r}."
        )


def converted(microseconds: int, unit: str, what: str) -> int:
    """A duration or a moment as a number of units; refuses one that is no whole number of them.

    >>> converted(60_000_000, "s", "a gap"), converted(5, "ns", "a gap")
    (60, 5000)
    """
    many, one = UNITS[unit]
    count, rest = divmod(microseconds * one, many)
    if rest:
        raise SpanError(
            f"A duration over numbers with unit={unit!r} is a whole number of that unit; {what} "
            f"has {canonical(abs(microseconds))}. Multiply the time column and name a finer unit, "
            "or use another duration."
        )
    if abs(count) >= REACH:
        raise SpanError(
            f"A length must be below 2**61 in the unit of the time column, {unit!r}; {what} has "
            f"{count}."
        )
    return count


def as_length(name: str, given: Any) -> Duration | Ticks | None:
    """A length of time that may be nothing (`None`), such as a lateness."""
    if is_nothing(given):
        return None
    try:
        length = span(given)
    except SpanError as error:
        raise SpanError(f"`{name}` is a length of time such as '10s'; {error}") from error
    if not isinstance(length, Duration | Ticks):
        raise SpanError(f"`{name}` is a length of time such as '10s'; given: {given!r}.")
    return length


@dataclass(frozen=True, slots=True)
class Measure:
    """What lengths of time mean beside a time column: the rule of units, for every verb.

    `holds` is the column's type, and `None` as long as it is not known or where events are stamped
    by a clock, which counts microseconds. `unit` says what the numbers of the column mean.
    """

    name: str | None
    holds: pa.DataType | None = None
    unit: str | None = None

    @staticmethod
    def of(name: str, holds: pa.DataType, unit: str | None) -> Measure:
        """The measure of a column; refuses a unit for moments."""
        import pyarrow as pa

        check_unit(unit)
        if pa.types.is_dictionary(holds):
            holds = holds.value_type
        known = None if pa.types.is_null(holds) else holds
        measure = Measure(name, known, unit)
        if unit is not None and measure.moments:
            raise SpanError(
                f"`unit` says what the numbers of a time column mean; {name!r} holds {holds}, "
                "which says so itself. Leave `unit` out."
            )
        return measure

    @property
    def moments(self) -> bool | None:
        """Return whether the column holds moments, not plain numbers; `None` if unknown."""
        import pyarrow as pa

        return None if self.holds is None else bool(pa.types.is_temporal(self.holds))

    def check(self, what: str, *, durations: bool | None) -> None:
        """Refuse durations beside plain numbers of no unit, and plain numbers beside moments."""
        if durations and self.moments is False and self.unit is None:
            raise SpanError(
                f"Durations belong to timestamps, or to numbers of which the unit is known; {what} "
                f"is measured in durations and the time column {self.name!r} holds {self.holds}. "
                'Say what its numbers mean with `unit="s"`, "ms", "us" or "ns", or give plain '
                "numbers as lengths."
            )
        if durations is False and self.moments:
            raise SpanError(
                f"Plain numbers as lengths belong to plain numbers as times; {what} is measured in "
                f"plain numbers and the time column {self.name!r} holds {self.holds}. Give "
                "durations such as '10s'."
            )

    def warn_of_unit(self, values: np.ndarray, usable: np.ndarray | None) -> None:
        """Warn of plain numbers as times that look like seconds or the like since the epoch.

        It is for who gives plain numbers as lengths beside them and may take them for others.
        """
        seen = values if usable is None else values[usable]
        if self.moments is not False or self.unit is not None or not len(seen):
            return
        unit = epoch_unit(int(seen[0]))
        if unit and unit == epoch_unit(int(seen.min())) == epoch_unit(int(seen.max())):
            many, one = UNITS[unit]
            moment = _EPOCH + dt.timedelta(microseconds=int(seen[0]) * many // one)
            warn(
                f"The numbers in the time column {self.name!r} look like {NAMES[unit]} since the "
                f"epoch: {seen[0]} would be {moment:%Y-%m-%d %H:%M:%S}. Lengths beside them are "
                f"plain numbers, so they are {NAMES[unit]} too. Say so with `unit={unit!r}`, which "
                "also takes durations such as '10m' as lengths.",
                UnitWarning,
            )

    def length(self, what: str, given: Duration | Ticks | None) -> int:
        """A length in units of the column, which are microseconds for moments."""
        if given is None:
            return 0
        self.check(what, durations=isinstance(given, Duration))
        if isinstance(given, Ticks):
            return given.count
        if self.unit is None:
            return given.microseconds
        return converted(given.microseconds, self.unit, what)


def epoch_unit(number: int) -> str | None:
    """The unit in which a number of units since the epoch is a moment of our time, if any is.

    >>> epoch_unit(1_700_000_000), epoch_unit(1_700_000_000_000), epoch_unit(600)
    ('s', 'ms', None)
    """
    low, high = OUR_TIME
    for unit, (many, one) in UNITS.items():
        if low * 1_000_000 <= number * many // one < high * 1_000_000:
            return unit
    return None


# Columns.


class Parsed(NamedTuple):
    """Times of events. `usable` is `None` when all are; then `low` and `high` are their bounds.

    `ordered` tells that they are known never to fall. A microsecond has `per_microsecond` units.
    """

    values: np.ndarray
    usable: np.ndarray | None
    low: int
    high: int
    ordered: bool = False
    per_microsecond: int = 1

    def within(self, first: int, last: int) -> Parsed:
        """Times of which those before `first` or after `last` are not usable."""
        if self.usable is None and self.low >= first and self.high <= last:
            return self
        inside: np.ndarray = (self.values >= first) & (self.values <= last)
        if self.usable is not None:
            inside &= self.usable
            if (inside == self.usable).all():
                return self
        return Parsed(self.values, inside, 0, 0)


def parsed(column: Column, name: str, *, fine: bool = False) -> Parsed:
    """Times in microseconds, or in the column's own unit for plain numbers, and which are usable.

    Null, NaN, fractions of plain numbers and times from 2**61 on are not. With `fine`, nanoseconds
    stay nanoseconds, and all that fits 64 bits is usable.
    """
    import pyarrow as pa

    kind, types = column.type, pa.types
    values, valid = column.values, column.valid
    multiply, divide = 1, 1
    if types.is_null(kind):
        return Parsed(np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), 0, 0)
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind):
        multiply, divide = UNITS[kind.unit]
    elif types.is_date32(kind):
        multiply = MICROSECONDS["d"]
    elif types.is_date64(kind):
        multiply = 1_000
    elif types.is_floating(kind):
        with np.errstate(invalid="ignore"):
            whole = (np.abs(values) < REACH) & (np.floor(values) == values)
        valid = whole if valid is None else valid & whole
        values = np.where(whole, values, 0)
    elif not types.is_integer(kind):
        raise ColumnTypeError(
            f"A time column holds timestamps, dates or whole numbers; {name!r} holds {kind}. "
            "Cast it first, for example with `pandas.to_datetime` or polars' `str.to_datetime`."
        )
    per_microsecond = divide if fine else 1
    if not len(values):
        return Parsed(np.empty(0, np.int64), None, 0, 0, per_microsecond=per_microsecond)
    reach = (GREATEST + 1 if fine else REACH) * divide // multiply
    low, high, ordered = bounds_of_times(values)
    least = -reach if fine else 1 - reach
    if low < least or high >= reach:
        inside = (values >= least) & (values < reach)
        valid = inside if valid is None else valid & inside
        values = np.where(inside, values, 0)
    times = values.astype(np.int64, copy=False)
    if multiply != 1:
        times = times * multiply
    if divide != per_microsecond:
        times = times // divide
    if valid is not None:
        if not valid.all():
            return Parsed(times, valid, 0, 0, per_microsecond=per_microsecond)
        bounds = (int(times.min()), int(times.max()))
        return Parsed(times, None, *bounds, per_microsecond=per_microsecond)
    scale = divide // per_microsecond
    bounds = (low * multiply // scale, high * multiply // scale)
    return Parsed(times, None, *bounds, ordered, per_microsecond)


def bounds_of_times(values: np.ndarray) -> tuple[int, int, bool]:
    """The least and the greatest of some values, and whether each is at least the one before."""
    if values.dtype == np.int64 and values.flags.c_contiguous:
        low, high, falls = look_over.specialise(NOTHING)(values)
        return int(low), int(high), not falls
    return int(values.min()), int(values.max()), never_falls(values)


@kernel
def look_over(values: Any) -> Any:
    """The least, the greatest, and whether there is one below the one before."""
    low, high, falls = values[0], values[0], False
    for i in range(1, values.shape[0]):
        low = min(low, values[i])
        high = max(high, values[i])
        falls |= values[i] < values[i - 1]
    return low, high, falls


def never_falls(values: np.ndarray) -> bool:
    """Return whether each value is at least the one before."""
    return bool((values[1:] >= values[:-1]).all())


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of events in units of their own. `valid` is `None` when every event has one.

    `per_microsecond` is how many units a microsecond of moments has.
    """

    values: np.ndarray
    valid: np.ndarray | None
    per_microsecond: int
    measure: Measure

    def without(self, bad: np.ndarray | None) -> Times:
        """Times without those of `bad` rows (`None`: there are none)."""
        if bad is None:
            return self
        return replace(self, valid=~bad if self.valid is None else self.valid & ~bad)

    def length(self, given: Duration | Ticks) -> int:
        """A span in the unit of these times."""
        length = self.measure.length(f"the span {given}", given)
        length *= self.per_microsecond
        if length > GREATEST:
            raise SpanError(
                f"A span must fit 64 bits in the unit of {self.measure.name!r}; given: {given}."
            )
        return length


def times_of(column: Column, name: str, unit: str | None = None) -> Times:
    """The times in a column, nanoseconds included; an event without a usable one is not valid."""
    found = parsed(column, name, fine=True)
    measure = Measure.of(name, column.type, unit)
    return Times(found.values, found.usable, found.per_microsecond, measure)


def unusable(column: Column, valid: np.ndarray | None) -> int:
    """How many events have a time that cannot be used; those without one (null, NaN) have none."""
    if valid is None:
        return 0
    there = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    if column.values.dtype.kind == "f":
        there = there & ~np.isnan(column.values)
    return int((there & ~valid).sum())
