"""Counts, sums, means and products: distributive or algebraic, commutative.

Sums of integers are exact; a result that does not fit 64 bits raises `OverflowedError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate, Kind
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.interpreted import interpreted
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column
from slicewise.errors import ColumnTypeError, OverflowedError

if TYPE_CHECKING:
    import pyarrow as pa

# Python rounds decimals to 28 digits unless told otherwise; a column's have up to 76.
EXACT = Context(prec=120)


class Count(Aggregate):
    """How many values of a column are not null; without a column, how many events there are.

    Args:
        column: The column whose values count; without it, rows do.

    >>> import slicewise as sw
    >>> sw.agg.count("x").fold([3, None]), sw.agg.count().fold([3, None])
    (1, 2)
    """

    commutative = True
    kind = "distributive"
    __signature__ = Signature([Parameter("column", Parameter.POSITIONAL_OR_KEYWORD, default=None)])

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
        import pyarrow as pa

        component = parts.count(self.columns[0]) if self.columns else parts.rows()

        def lower(states: Sequence[States]) -> Column:
            return numbers(states[0][0])

        return Bound(self, (component,), lower, finish=parts.finish(parts.Itself, pa.int64()))


class Sum(Aggregate):
    """Sum of a column, exact for integers; null when there is no value.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> sw.agg.sum("x").fold([1, None, 3])
    4
    """

    commutative = True
    kind: ClassVar[Kind] = "distributive"
    takes = ("numbers",)

    def identity(self) -> tuple[int, Any]:
        return (0, 0)

    def lift(self, value: Any) -> tuple[int, Any]:
        return (1, value)

    def combine(self, older: tuple[int, Any], newer: tuple[int, Any]) -> tuple[int, Any]:
        return (older[0] + newer[0], plus(older[1], newer[1]))

    def invert(self, total: tuple[int, Any], oldest: tuple[int, Any]) -> tuple[int, Any]:
        return (total[0] - oldest[0], minus(total[1], oldest[1]))

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
            return nullable(sums, positive(counts))

        # Sums of integers may not fit, and are lowered where that can be told.
        finish = parts.finish(parts.IfAny, pa.float64()) if kind == "float" else None
        components = (parts.count(column), sum_component(column, kind))
        return Bound(self, components, lower, finish=finish, if_any=True)


class Mean(Sum):
    """Arithmetic mean of a column; null when there is no value.

    Args:
        column: The name of a column of numbers.

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
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)
        kind = number_kind(self, column, types[0])

        def lower(states: Sequence[States]) -> Column:
            return quotient(float_total(states[1]), states[0][0])

        ratio = parts.Ratio if kind == "float" else parts.IntRatio
        components = (parts.count(column), sum_component(column, kind))
        return Bound(self, components, lower, finish=parts.finish(ratio, pa.float64()))


class WeightedMean(Aggregate):
    """Mean of a column weighted by another; null when the weights sum to 0 or there are none.

    Args:
        value: The name of the column of values.
        weight: The name of the column of their weights.

    >>> import slicewise as sw
    >>> sw.agg.weighted_mean("price", "volume").fold([(10.0, 1), (20.0, 3)])
    17.5
    """

    commutative = True
    takes = ("numbers", "numbers")

    def identity(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def lift(self, value: Any, weight: Any) -> tuple[float, float]:
        return (float(value) * float(weight), float(weight))

    def combine(self, older: tuple[float, float], newer: tuple[float, float]) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def invert(self, total: tuple[float, float], oldest: tuple[float, float]) -> Any:
        return (total[0] - oldest[0], total[1] - oldest[1])

    def lower(self, state: tuple[float, float]) -> float | None:
        return state[0] / state[1] if state[1] else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        columns = bound_columns(self)
        if reason := decimals(self, columns, types):
            return interpreted_floats(self, reason)
        component = Component(parts.flat(WeightedSum), tuple(map(Input, columns)), columns)

        def lower(states: Sequence[States]) -> Column:
            totals, weights = states[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                return nullable(totals / weights, weights != 0)

        return Bound(self, (component,), lower)


class WeightedSum(FlatAlgebra):
    """The sum of values times weights, and the sum of weights."""

    dtypes = ("f8", "f8")

    def identity(self) -> Any:
        return (0.0, 0.0)

    def lift(self, value: Any, weight: Any) -> Any:
        # Not `float`, which leaves single precision as it is.
        return (np.float64(value) * np.float64(weight), weight)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def invert(self, total: Any, oldest: Any) -> Any:
        return (total[0] - oldest[0], total[1] - oldest[1])


class Geomean(Aggregate):
    """Geometric mean of a column; null when there is no value, 0 with a 0, NaN below 0.

    It sums logarithms, so it is right where the product would overflow.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> round(sw.agg.geomean("x").fold([1, 10, 100]), 9)
    10.0
    """

    commutative = True
    takes = ("numbers",)

    def identity(self) -> tuple[int, float]:
        return (0, 0.0)

    def lift(self, value: Any) -> tuple[int, float]:
        if value > 0:
            return (1, math.log(value))
        return (1, -math.inf if value == 0 else math.nan)

    def combine(self, older: tuple[int, float], newer: tuple[int, float]) -> tuple[int, float]:
        return (older[0] + newer[0], older[1] + newer[1])

    def invert(self, total: tuple[int, float], oldest: tuple[int, float]) -> tuple[int, float]:
        return (total[0] - oldest[0], total[1] - oldest[1])

    def lower(self, state: tuple[int, float]) -> float | None:
        return math.exp(state[1] / state[0]) if state[0] else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)

        def lower(states: Sequence[States]) -> Column:
            means = quotient(states[1][0], states[0][0])
            return Column(np.exp(means.values), means.valid, means.type)

        return Bound(self, (parts.count(column), parts.on_column(LogSum, column)), lower)


class LogSum(FlatAlgebra):
    """The sum of natural logarithms."""

    dtypes = ("f8",)

    def identity(self) -> float:
        return 0.0

    def lift(self, x: Any) -> float:
        if x > 0:
            return math.log(np.float64(x))  # not in single precision
        return -math.inf if x == 0 else math.nan

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def invert(self, total: float, oldest: float) -> float:
        return total - oldest


def plus(one: Any, other: Any) -> Any:
    """The exact sum of two integers or decimals, and that of floats."""
    return EXACT.add(one, other) if isinstance(other, Decimal) else one + other


def minus(one: Any, other: Any) -> Any:
    """The exact difference of two integers or decimals, and that of floats."""
    return EXACT.subtract(one, other) if isinstance(other, Decimal) else one - other


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


def decimals(aggregate: Aggregate, columns: Sequence[str], types: Sequence[pa.DataType]) -> str:
    """Why an aggregate of numbers cannot be compiled; columns without numbers are refused."""
    kinds = [number_kind(aggregate, c, t) for c, t in zip(columns, types, strict=True)]
    if "decimal" in kinds:
        return f"column {columns[kinds.index('decimal')]!r} holds decimals"
    return ""


def interpreted_floats(aggregate: Aggregate, reason: str) -> Bound:
    """Run the methods of an aggregate whose results are floats."""
    import pyarrow as pa

    return interpreted(aggregate, pa.float64(), reason)


def sum_component(column: str, kind: str) -> Component:
    """The sum of a column: exact for integers, in float64 for floats."""
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
    return np.asarray((high << 32) | low)


def float_total(states: States) -> np.ndarray:
    """The sums of `FloatSum` or `IntSum` states as floats, which hold any sum."""
    if len(states) == 1:
        return states[0]
    high, low = states
    wide = (high + (low >> 32)).astype(np.float64) * 2.0**32
    return np.asarray(wide + (low & parts.LOW_32))


def quotient(totals: np.ndarray, counts: np.ndarray) -> Column:
    """A column of `totals / counts`; null where the count is not positive."""
    valid = positive(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return nullable(totals / counts, valid)


def numbers(values: np.ndarray) -> Column:
    """A column of numbers, none of them null."""
    import pyarrow as pa

    return Column(values, None, pa.from_numpy_dtype(values.dtype))


def positive(counts: np.ndarray) -> np.ndarray | None:
    """Which counts are positive; `None` when all are.

    Equal counts may come as one value of stride 0, and are compared once: over a long column the
    comparison would cost as much as a window's sum.
    """
    if counts.strides == (0,) and len(counts) and counts[0] > 0:
        return None
    mask: np.ndarray = counts > 0
    return mask


def nullable(values: np.ndarray, valid: np.ndarray | None) -> Column:
    """A column of numbers; the mask is dropped when nothing is null."""
    import pyarrow as pa

    return typed(values, valid, pa.from_numpy_dtype(values.dtype))


def typed(values: np.ndarray, valid: np.ndarray | None, kind: pa.DataType) -> Column:
    """A column of the type `kind`; the mask is dropped when nothing is null."""
    return Column(values, None if valid is None or valid.all() else valid, kind)
