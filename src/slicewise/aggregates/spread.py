"""Variance and its relatives: algebraic, commutative.

States hold the count, the sum and the deviations from the mean, merged by the pairwise rule of
Chan, Golub and LeVeque, never raw sums of squares, which lose every digit when the mean is large.
A value that is infinite or NaN is at no distance from any mean: its deviation is NaN from the
start, and with it the result, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate, given, is_integer
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.sums import decimals, interpreted_floats, nullable
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column
from slicewise.errors import AggregateError

if TYPE_CHECKING:
    import pyarrow as pa


class Var(Aggregate):
    """Variance of a column; null when there are not more than `ddof` values.

    `ddof=1` is the sample variance, `ddof=0` the variance of a whole population. With a value
    that is infinite or NaN the variance is NaN.

    Args:
        column: The name of a column of numbers.
        ddof: What is taken from the number of values in the divisor: 1 for a sample.

    >>> import slicewise as sw
    >>> sw.agg.var("x").fold([1, 2, 3]), sw.agg.var("x", ddof=0).fold([1, 3])
    (1.0, 1.0)
    """

    commutative = True
    takes = ("numbers",)

    def __init__(self, column: str | None = None, *, ddof: int = 1) -> None:
        super().__init__(*given(column))
        self.ddof = checked_ddof(self, ddof)

    def identity(self) -> tuple[int, float, float]:
        return (0, 0.0, 0.0)

    def lift(self, value: Any) -> tuple[int, float, float]:
        number = float(value)
        return (1, number, number - number)

    def combine(
        self, older: tuple[int, float, float], newer: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        if not older[0] or not newer[0]:
            return older if older[0] else newer
        m, n = older[0], newer[0]
        apart = m * newer[1] - n * older[1]
        squares = older[2] + newer[2] + apart * apart / (m * n * (m + n))
        return (m + n, older[1] + newer[1], squares)

    def invert(
        self, total: tuple[int, float, float], oldest: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        m, n = oldest[0], total[0] - oldest[0]
        if not m:
            return total
        if not n:
            return self.identity()
        rest = total[1] - oldest[1]
        apart = m * rest - n * oldest[1]
        # Rounding must not make a sum of squares negative.
        squares = total[2] - oldest[2] - apart * apart / (m * n * (m + n))
        return (n, rest, 0.0 if squares < 0.0 else squares)

    def lower(self, state: tuple[int, float, float]) -> float | None:
        return state[2] / (state[0] - self.ddof) if state[0] > self.ddof else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)

        def lower(states: Sequence[States]) -> Column:
            counts, _, squares = states[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                return nullable(self._finish(squares / (counts - self.ddof)), counts > self.ddof)

        finish = parts.finish(self._result, pa.float64(), self.ddof)
        return Bound(self, (parts.spread(column, types[0]),), lower, finish=finish)

    _result: ClassVar[type[parts.Variance]] = parts.Variance

    @staticmethod
    def _finish(variance: np.ndarray) -> np.ndarray:
        return variance


class Std(Var):
    """Standard deviation of a column; null when there are not more than `ddof` values.

    Args:
        column: The name of a column of numbers.
        ddof: What is taken from the number of values in the divisor: 1 for a sample.

    >>> import slicewise as sw
    >>> sw.agg.std("x").fold([1e9 + 1, 1e9 + 2, 1e9 + 3])
    1.0
    """

    def lower(self, state: tuple[int, float, float]) -> float | None:
        variance = super().lower(state)
        return None if variance is None else math.sqrt(variance)

    _result = parts.Deviation

    @staticmethod
    def _finish(variance: np.ndarray) -> np.ndarray:
        root: np.ndarray = np.sqrt(variance)
        return root


class Skew(Aggregate):
    """Skewness of a column, of the population as in Spark; null unless two values differ.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> round(sw.agg.skew("x").fold([1, 1, 4]), 6)
    0.707107
    """

    commutative = True
    takes = ("numbers",)

    def identity(self) -> Any:
        return (0, 0.0, 0.0, 0.0)

    def lift(self, value: Any) -> Any:
        number = float(value)
        return (1, number, number - number, number - number)

    def combine(self, older: Any, newer: Any) -> Any:
        if not older[0] or not newer[0]:
            return older if older[0] else newer
        return add_cubes(older, newer)

    def invert(self, total: Any, oldest: Any) -> Any:
        if not oldest[0]:
            return total
        if oldest[0] == total[0]:
            return self.identity()
        return drop_cubes(total, oldest)

    def lower(self, state: Any) -> float | None:
        count, _, squares, cubes = state
        if squares == 0.0:
            return None
        variance = squares / count
        return float(cubes / count / (variance * math.sqrt(variance)))

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)
        smaller = parts.spread(column, types[0])
        provides = ((smaller, (0, 1, 2)), *smaller.provides)
        component = Component(parts.flat(Cubes), (Input(column),), (column,), provides)

        def lower(states: Sequence[States]) -> Column:
            counts, _, squares, cubes = states[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                variance = squares / counts
                skewness = cubes / counts / (variance * np.sqrt(variance))
            return nullable(skewness, squares != 0.0)

        return Bound(self, (component,), lower)


def add_cubes(older: Any, newer: Any) -> Any:
    """The count, sum, squares and cubes of deviations of two runs, neither of them empty."""
    m, n = float(older[0]), float(newer[0])
    total = m + n
    apart = newer[1] / n - older[1] / m
    squares = older[2] + newer[2] + apart * apart * m * n / total
    cubes = older[3] + newer[3] + apart * apart * apart * m * n * (m - n) / (total * total)
    cubes += 3.0 * apart * (m * newer[2] - n * older[2]) / total
    return (older[0] + newer[0], older[1] + newer[1], squares, cubes)


def drop_cubes(total: Any, oldest: Any) -> Any:
    """The state that `add_cubes` added to `oldest` to give `total`."""
    m, n = float(oldest[0]), float(total[0] - oldest[0])
    both = m + n
    rest = total[1] - oldest[1]
    apart = rest / n - oldest[1] / m
    squares = total[2] - oldest[2] - apart * apart * m * n / both
    # Rounding must not make a sum of squares negative.
    squares = 0.0 if squares < 0.0 else squares
    cubes = total[3] - oldest[3] - apart * apart * apart * m * n * (m - n) / (both * both)
    cubes -= 3.0 * apart * (m * squares - n * oldest[2]) / both
    return (total[0] - oldest[0], rest, squares, cubes)


class Cubes(FlatAlgebra):
    """Count, sum, squared and cubed deviations from the mean."""

    dtypes = ("i8", "f8", "f8", "f8")

    def identity(self) -> Any:
        return (0, 0.0, 0.0, 0.0)

    def lift(self, x: Any) -> Any:
        number = np.float64(x)  # not `float`, which Numba has not for booleans
        return (1, number, number - number, number - number)

    def combine(self, older: Any, newer: Any) -> Any:
        if older[0] == 0:
            return newer
        if newer[0] == 0:
            return older
        return add_cubes(older, newer)

    def invert(self, total: Any, oldest: Any) -> Any:
        if oldest[0] == 0:
            return total
        if oldest[0] == total[0]:
            return (0, 0.0, 0.0, 0.0)
        return drop_cubes(total, oldest)


def checked_ddof(aggregate: Aggregate, ddof: int) -> int:
    """`ddof`, if it can be one."""
    if not is_integer(ddof) or ddof < 0:
        raise AggregateError(
            f"`ddof` of `{aggregate.name}` is an integer from 0 on, 1 for a sample and 0 for a "
            f"whole population; given: {ddof!r}."
        )
    return ddof
