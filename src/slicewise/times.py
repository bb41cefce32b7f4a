"""Time columns as 64-bit integers, and spans in the same unit.

Timestamps, dates and durations count microseconds, unless they have nanoseconds and would lose
them. Plain numbers are taken as they are; a length of time such as `"10m"` counts microseconds of
them, as it does for windows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np

from slicewise.columns import Column
from slicewise.errors import ColumnTypeError, SpanError
from slicewise.spans import LONGEST, Duration, Ticks

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# How many of a time's own units a microsecond is worth, and back.
_PER_MICROSECOND = {"s": (1, 1_000_000), "ms": (1, 1_000), "us": (1, 1), "ns": (1_000, 1)}


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of events. `valid` is `None` when every event has one.

    `per_microsecond` is how many units a microsecond has.
    """

    name: str
    values: np.ndarray
    valid: np.ndarray | None
    per_microsecond: int

    def length(self, span: Duration | Ticks) -> int:
        """A span in the unit of these times."""
        count = span.microseconds if isinstance(span, Duration) else span.count
        length = count * self.per_microsecond
        if length > LONGEST:
            raise SpanError(f"A span must fit 64 bits in the unit of {self.name!r}; given: {span}.")
        return length


def since_epoch(moment: dt.datetime) -> int:
    """Microseconds from the epoch to a moment; without a time zone it is UTC.

    >>> since_epoch(dt.datetime(1970, 1, 1, 0, 1))
    60000000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)


def times_of(column: Column, name: str) -> Times:
    """The times in a column; an event without a usable one (null, NaN, infinite) is not valid."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind):
        return _temporal(column, name, kind.unit)
    if types.is_date32(kind):
        return _scaled(column, name, 1, 86_400_000_000)
    if types.is_date64(kind):
        return _temporal(column, name, "ms")
    if types.is_integer(kind):
        return _integers(column, name)
    if types.is_floating(kind):
        return _floats(column, name)
    if types.is_null(kind):
        nothing = np.zeros(len(column), np.bool_)
        return Times(name, np.zeros(len(column), np.int64), nothing, 1)
    raise ColumnTypeError(
        f"A time column holds timestamps, dates or whole numbers; {name!r} holds {kind}. "
        "Cast it first, for example with `pandas.to_datetime` or polars' `str.to_datetime`."
    )


def _temporal(column: Column, name: str, unit: str) -> Times:
    return _scaled(column, name, *_PER_MICROSECOND[unit])


def _scaled(column: Column, name: str, per_microsecond: int, factor: int) -> Times:
    values = column.values
    if factor != 1:
        if column.valid is not None:
            values = np.where(column.valid, values, 0)
        if len(values) and max(-int(values.min()), int(values.max())) > LONGEST // factor:
            raise ColumnTypeError(
                f"The time column {name!r} of type {column.type} has a time that does not fit 64 "
                "bits in microseconds. Set such times to null first."
            )
        values = values * factor
    return Times(name, values, column.valid, per_microsecond)


def _integers(column: Column, name: str) -> Times:
    values = column.values
    if values.dtype == np.uint64 and len(values) and int(values.max()) > LONGEST:
        raise ColumnTypeError(
            f"The time column {name!r} has a time above 2**63 - 1, the greatest that fits."
        )
    return Times(name, values.astype(np.int64, copy=False), column.valid, 1)


def _floats(column: Column, name: str) -> Times:
    """Whole numbers that are floats because some are missing, as in pandas."""
    valid = np.isfinite(column.values)
    if column.valid is not None:
        valid &= column.valid
    values = np.where(valid, column.values, 0.0)
    if (np.abs(values) > 2**53).any() or (values != np.floor(values)).any():
        raise ColumnTypeError(
            f"A time column of floats must hold whole numbers up to 2**53; {name!r} has others. "
            "Multiply by the wanted precision and cast it to int64, or cast it to a timestamp."
        )
    return Times(name, values.astype(np.int64), None if valid.all() else valid, 1)
