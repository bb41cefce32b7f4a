"""The least and the greatest: distributive, commutative, not invertible.

NaN is greater than every other number, as Spark orders it, and -0.0 equals 0.0. Works for every
type that has an order: numbers, dates, times, timestamps, durations, strings, bytes, decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, Component, States, bound_columns
from slicewise.aggregates.interpreted import interpreted
from slicewise.aggregates.sums import interpreted_floats, minus, number_kind, positive, typed
from slicewise.columns import Column, storage
from slicewise.errors import ColumnTypeError, OverflowedError

if TYPE_CHECKING:
    import pyarrow as pa


class Max(Aggregate):
    """The greatest value of a column; null when there is none.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.max("x").fold([3, None, 7, 5])
    7
    """

    commutative = True
    selective = True
    kind = "distributive"
    takes = ("ordered",)
    picks = 0

    def identity(self) -> Any:
        return None

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return newer if precedes(older, newer) else older

    def lower(self, state: Any) -> Any:
        return state

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        check_ordered(self, column, types[0])
        if reason := not_flat(column, types[0]):
            return interpreted(self, types[0], reason)

        def lower(states: Sequence[States]) -> Column:
            return typed(states[1][0], positive(states[0][0]), types[0])

        components = (parts.count(column), self._component(column, types[0]))
        finish = parts.finish(parts.IfAny, types[0])
        return Bound(self, components, lower, finish=finish, if_any=True)

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        return largest(column, kind)


class Min(Max):
    """The least value of a column; null when there is none.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.min("x").fold(["pear", "fig", None])
    'fig'
    """

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return newer if precedes(newer, older) else older

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        return smallest(column, kind)


class Range(Aggregate):
    """The greatest value of a column minus the least; null when there is none.

    Of timestamps, dates and durations it is a duration. Integers whose range does not fit 64 bits
    raise `OverflowedError`.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> sw.agg.range("x").fold([3, 10, 5])
    7
    """

    commutative = True
    takes = ("numbers",)

    def identity(self) -> Any:
        return None

    def lift(self, value: Any) -> Any:
        return (value, value)

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        low = newer[0] if precedes(newer[0], older[0]) else older[0]
        high = newer[1] if precedes(older[1], newer[1]) else older[1]
        return (low, high)

    def lower(self, state: Any) -> Any:
        return None if state is None else minus(state[1], state[0])

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        kind = types[0]
        result = self._difference(kind)
        if result is None and number_kind(self, column, kind) == "decimal":
            wider = pa.decimal128(min(38, kind.precision + 1), kind.scale)
            return interpreted(self, wider, f"column {column!r} holds decimals")
        if reason := not_flat(column, kind):
            return interpreted_floats(self, reason)

        def lower(states: Sequence[States]) -> Column:
            gaps = self._gaps(states[1][0], states[2][0])
            if pa.types.is_date32(kind):
                gaps = gaps * SECONDS_A_DAY
            return typed(gaps, positive(states[0][0]), result or pa.from_numpy_dtype(gaps.dtype))

        components = (parts.count(column), smallest(column, kind), largest(column, kind))
        return Bound(self, components, lower, if_any=True)

    @staticmethod
    def _difference(kind: pa.DataType) -> pa.DataType | None:
        """The type of the difference of two values in time; `None` for numbers."""
        import pyarrow as pa

        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            return pa.duration(kind.unit)
        if pa.types.is_date(kind):
            return pa.duration("s" if pa.types.is_date32(kind) else "ms")
        return None

    def _gaps(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        if low.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                return np.asarray(np.subtract(high, low, dtype=np.float64))
        # Unsigned arithmetic is right modulo 2**64, and the range of 64-bit integers is below it.
        # Where there is no value, low is above high; only masked results come of it.
        unsigned = high.astype(np.int64).view(np.uint64) - low.astype(np.int64).view(np.uint64)
        gaps = unsigned.view(np.int64)
        if ((gaps < 0) & (high >= low)).any():
            raise OverflowedError(
                f"`{self.output}` does not fit 64 bits: the greatest integer minus the least is "
                "above 2**63 - 1. Cast the column to float64 or decimal."
            )
        return gaps


SECONDS_A_DAY = 86_400


def precedes(one: Any, other: Any) -> bool:
    """Return whether `one` comes strictly before `other`; NaN comes last."""
    if other != other:
        return bool(one == one)
    return bool(one < other)


def largest(column: str, kind: pa.DataType) -> Component:
    """The greatest value of a column of numbers or times."""
    dtype = storage(kind)
    return parts.on_column(parts.Largest, column, dtype.str, limits(dtype)[0])


def smallest(column: str, kind: pa.DataType) -> Component:
    """The least value of a column of numbers or times."""
    dtype = storage(kind)
    return parts.on_column(parts.Smallest, column, dtype.str, limits(dtype)[1])


def limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest value in the order of this module."""
    if dtype.kind == "f":
        return -np.inf, np.nan
    if dtype.kind == "b":
        return False, True
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def check_ordered(aggregate: Aggregate, column: str, kind: pa.DataType) -> None:
    """Refuse columns whose values have no order."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        raise ColumnTypeError(
            f"`{aggregate.name}` needs a column whose values have an order; {column!r} holds "
            f"{kind}. Use one of its fields, or an aggregate that takes any type, such as `last`."
        )


def not_flat(column: str, kind: pa.DataType) -> str:
    """Why values of this type cannot be in flat states; empty when they can."""
    if storage(kind) == np.dtype(object):
        return f"column {column!r} holds {kind}, not numbers"
    if storage(kind) == np.dtype(np.float16):
        return f"column {column!r} holds {kind}, which Numba does not know"
    return ""
