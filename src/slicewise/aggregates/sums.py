"""Counts, sums and what follows from them: distributive and algebraic, all invertible.

Sums of integers are exact; a result that does not fit 64 bits raises `OverflowedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    Component,
    States,
    bound_columns,
    interpreted,
)
from slicewise.columns import Column
from slicewise.errors import ColumnTypeError, OverflowedError

if TYPE_CHECKING:
    import pyarrow as pa


class Count(Aggregate):
    """How many values of a column are not null; without a column, how many events there are.

    >>> import slicewise as sw
    >>> sw.agg.count("x").fold([3, None]), sw.agg.count().fold([3, None])
    (1, 2)
    """

    commutative = True
    kind = "distributive"

    def identity(self) -> int:
        return 0

    def lift(self, value: Any) -> int:
        return 1

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def invert(self, total: int, oldest: int) -> int:
        return total - oldest

    def lower(self, state: int) -> int:
        return state

    def needed(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return inputs if self.columns else ()

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        component = parts.count(self.columns[0]) if self.columns else parts.rows()

        def lower(states: Sequence[States]) -> Column:
            return numbers(states[0][0])

        return Bound(self, (component,), lower)


class Sum(Aggregate):
    """Sum of a column, exact for integers; null when there is no value.

    >>> import slicewise as sw
    >>> sw.agg.sum("x").fold([1, None, 3])
    4
    """

    commutative = True
    kind = "distributive"

    def identity(self) -> tuple[int, Any]:
        return (0, 0)

    def lift(self, value: Any) -> tuple[int, Any]:
        return (1, value)

    def combine(self, older: tuple[int, Any], newer: tuple[int, Any]) -> tuple[int, Any]:
        return (older[0] + newer[0], older[1] + newer[1])

    def invert(self, total: tuple[int, Any], oldest: tuple[int, Any]) -> tuple[int, Any]:
        return (total[0] - oldest[0], total[1] - oldest[1])

    def lower(self, state: tuple[int, Any]) -> Any:
        return state[1] if state[0] else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        kind = number_kind(self, column, types[0])
        if kind == "decimal":
            return interpreted(
                self, pa.decimal128(38, types[0].scale), f"column {column!r} holds decimals"
            )

        def lower(states: Sequence[States]) -> Column:
            counts, sums = states[0][0], total(self, states[1])
            return nullable(sums, counts > 0)

        return Bound(self, (parts.count(column), sum_component(column, kind)), lower)


class Mean(Sum):
    """Arithmetic mean of a column; null when there is no value.

    >>> import slicewise as sw
    >>> sw.agg.mean("x").fold([1, 2, 6])
    3.0
    """

    kind = "algebraic"

    def lower(self, state: tuple[int, Any]) -> float | None:
        return float(state[1] / state[0]) if state[0] else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        kind = number_kind(self, column, types[0])
        if kind == "decimal":
            return interpreted(self, pa.float64(), f"column {column!r} holds decimals")

        def lower(states: Sequence[States]) -> Column:
            return quotient(float_total(states[1]), states[0][0])

        return Bound(self, (parts.count(column), sum_component(column, kind)), lower)


def number_kind(aggregate: Aggregate, column: str, kind: pa.DataType) -> str:
    """`"integer"`, `"float"` or `"decimal"`; other columns are refused."""
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    raise ColumnTypeError(
        f"`{aggregate.name}` needs a column of numbers; {column!r} holds {kind}. "
        "Cast the column, or use an aggregate that takes any type, such as `last` or `collect`."
    )


def sum_component(column: str, kind: str) -> Component:
    return parts.int_sum(column) if kind == "integer" else parts.float_sum(column)


def total(aggregate: Aggregate, states: States) -> np.ndarray:
    """The sums of `FloatSum` or `IntSum` states."""
    if len(states) == 1:
        return states[0]
    high, low = states
    high, low = high + (low >> 32), low & parts.LOW_32
    if ((high < -(2**31)) | (high >= 2**31)).any():
        raise OverflowedError(
            f"`{aggregate.output}` does not fit 64 bits: the exact sum of integers left the range "
            "from -2**63 to 2**63 - 1. Cast the column to float64 or decimal before summing."
        )
    return (high << 32) | low


def float_total(states: States) -> np.ndarray:
    """The sums of `FloatSum` or `IntSum` states as floats, which hold any sum."""
    if len(states) == 1:
        return states[0]
    high, low = states
    wide: np.ndarray = (high + (low >> 32)) * float(2**32) + (low & parts.LOW_32)
    return wide


def quotient(totals: np.ndarray, counts: np.ndarray) -> Column:
    """A column of `totals / counts`; null where the count is not positive."""
    valid = counts > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return nullable(totals / counts, valid)


def numbers(values: np.ndarray) -> Column:
    """A column of numbers, none of them null."""
    import pyarrow as pa

    return Column(values, None, pa.from_numpy_dtype(values.dtype))


def nullable(values: np.ndarray, valid: np.ndarray) -> Column:
    """A column of numbers; the mask is dropped when nothing is null."""
    import pyarrow as pa

    return Column(values, None if valid.all() else valid, pa.from_numpy_dtype(values.dtype))
