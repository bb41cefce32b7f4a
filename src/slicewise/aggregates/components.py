"""Components that several aggregates share: counts, sums, squared deviations, extremes.

Each is an algebra on flat states, compiled into every kernel that needs it. A component skips
events whose column is null, so a state alone does not say whether there was any: aggregates that
are null on nothing also keep the `Count` of the column.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.bound import Component, Input
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.flat import FlatAlgebra, FlatFinish, finish_source
from slicewise.codegen.product import Finish
from slicewise.columns import storage

if TYPE_CHECKING:
    import pyarrow as pa

LOW_32 = 0xFFFFFFFF


class Count(FlatAlgebra):
    """How many events have a value."""

    dtypes = ("i8",)
    exact = True

    def identity(self) -> int:
        return 0

    def lift(self, x: Any) -> int:
        return 1

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def invert(self, total: int, oldest: int) -> int:
        return total - oldest

    def spark(self, F: Any, x: Any) -> list[Any]:
        return [F.count(x)]


class FloatSum(FlatAlgebra):
    """Sum in float64; `invert` leaves rounding behind and is used only on request."""

    dtypes = ("f8",)

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        return x

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def invert(self, total: float, oldest: float) -> float:
        return total - oldest

    def spark(self, F: Any, x: Any) -> list[Any]:
        return [F.sum(x.cast("double"))]


class IntSum(FlatAlgebra):
    """Exact sum of integers as `high * 2**32 + low`.

    Neither part can overflow before 2**31 events were added, so the sum never wraps: whether it
    fits 64 bits is decided when the state is lowered.
    """

    dtypes = ("i8", "i8")
    exact = True

    def identity(self) -> tuple[int, int]:
        return (0, 0)

    def lift(self, x: int) -> tuple[int, int]:
        return (x >> 32, x & LOW_32)

    def combine(self, older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
        return (older[0] + newer[0], older[1] + newer[1])

    def invert(self, total: tuple[int, int], oldest: tuple[int, int]) -> tuple[int, int]:
        return (total[0] - oldest[0], total[1] - oldest[1])

    def spark(self, F: Any, x: Any) -> list[Any]:
        whole = x.cast("bigint")
        return [F.sum(F.shiftright(whole, 32)), F.sum(whole.bitwiseAND(LOW_32))]


class Spread(FlatAlgebra):
    """Count, sum and squared deviations from the mean.

    Deviations merge by the pairwise rule of Chan, Golub and LeVeque: the difference of the two
    means enters, never a raw sum of squares. A value that is infinite or NaN has no deviation: it
    makes that of its run NaN, as in Spark.
    """

    dtypes = ("i8", "f8", "f8")

    def identity(self) -> tuple[int, float, float]:
        return (0, 0.0, 0.0)

    def lift(self, x: float) -> tuple[int, float, float]:
        number = np.float64(x)  # not `float`, which Numba has not for booleans
        return (1, number, number - number)

    def combine(
        self, older: tuple[int, float, float], newer: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        # Without a branch, so that compilers may merge several states at once.
        m, n = float(older[0]), float(newer[0])
        apart, weight = m * newer[1] - n * older[1], m * n * (m + n)
        between = apart * apart / weight if weight > 0.0 else 0.0
        return (older[0] + newer[0], older[1] + newer[1], older[2] + newer[2] + between)

    def invert(
        self, total: tuple[int, float, float], oldest: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        if oldest[0] == 0:
            return total
        if oldest[0] == total[0]:
            return (0, 0.0, 0.0)
        m, n = float(oldest[0]), float(total[0] - oldest[0])
        rest = total[1] - oldest[1]
        apart = m * rest - n * oldest[1]
        squares = total[2] - oldest[2] - apart * apart / (m * n * (m + n))
        # Rounding must not make a sum of squares negative.
        return (total[0] - oldest[0], rest, 0.0 if squares < 0.0 else squares)

    def spark(self, F: Any, x: Any) -> list[Any]:
        number = x.cast("double")
        return [F.count(x), F.sum(number), F.var_pop(number) * F.count(x)]


class Largest(FlatAlgebra):
    """The greatest value; NaN is greater than every other.

    Each form is one machine instruction that is right unless one of the two is NaN, and a
    correction for that one. It must not be the one that the step before made, or else every step
    waits for a comparison: measured half as fast again.
    """

    selective = True

    def __init__(self, dtype: str, lowest: float) -> None:
        self.dtypes = (dtype,)  # type: ignore[misc]  # one class for all types of numbers
        self.lowest = lowest

    def identity(self) -> Any:
        return self.lowest

    def lift(self, x: Any) -> Any:
        return x

    def combine(self, older: Any, newer: Any) -> Any:
        greater = newer if newer > older else older
        return greater if newer == newer else newer

    def prepend(self, older: Any, newer: Any) -> Any:
        greater = older if older > newer else newer
        return greater if older == older else older

    def spark(self, F: Any, x: Any) -> list[Any]:
        return [F.max(x)]


class Smallest(Largest):
    """The least value; NaN is greater than every other, so it is the identity of floats."""

    def combine(self, older: Any, newer: Any) -> Any:
        lesser = older if older < newer else newer
        return lesser if newer == newer else older

    def prepend(self, older: Any, newer: Any) -> Any:
        lesser = newer if newer < older else older
        return lesser if older == older else newer

    def spark(self, F: Any, x: Any) -> list[Any]:
        return [F.min(x)]


class Itself(FlatFinish):
    """The state as it is."""

    def finish(self, state: Any) -> Any:
        return state

    def spark(self, F: Any, state: Any) -> Any:
        return state[0]


class IfAny(FlatFinish):
    """The state of the second component, if the first counted any."""

    def finish(self, count: int, state: Any) -> Any:
        if count == 0:
            return None
        return state

    def spark(self, F: Any, count: Any, state: Any) -> Any:
        return state[0]  # which is null if there is none


class Ratio(FlatFinish):
    """A sum of floats by a count."""

    def finish(self, count: int, total: float) -> float | None:
        if count == 0:
            return None
        return total / count

    def spark(self, F: Any, count: Any, total: Any) -> Any:
        return F.when(count[0] > 0, total[0] / count[0])


class IntRatio(FlatFinish):
    """A sum of integers by a count."""

    def finish(self, count: int, total: tuple[int, int]) -> float | None:
        if count == 0:
            return None
        return (float(total[0] + (total[1] >> 32)) * 2.0**32 + (total[1] & LOW_32)) / count


class Variance(FlatFinish):
    """The variance of a `Spread`."""

    def __init__(self, ddof: int) -> None:
        self.ddof = ddof

    def finish(self, state: tuple[int, float, float]) -> float | None:
        if state[0] <= self.ddof:
            return None
        return state[2] / (state[0] - self.ddof)

    def spark(self, F: Any, state: Any) -> Any:
        count, _, squares = state
        return F.when(count > self.ddof, squares / (count - F.lit(self.ddof)))


class Deviation(Variance):
    """The standard deviation of a `Spread`."""

    def finish(self, state: tuple[int, float, float]) -> float | None:
        if state[0] <= self.ddof:
            return None
        return math.sqrt(state[2] / (state[0] - self.ddof))

    def spark(self, F: Any, state: Any) -> Any:
        return F.sqrt(super().spark(F, state))


def finish(cls: Any, kind: pa.DataType, *arguments: Any) -> Finish:
    """The compiled way to results of the type `kind`, and Spark's where there is one."""
    spark = getattr(cls(*arguments), "spark", None)
    return Finish(finish_source(cls, *arguments), "own_finish", storage(kind).str, kind, spark)


@cache
def flat(cls: Any, *arguments: Any) -> Algebra:
    """The algebra of a subclass of `FlatAlgebra`, made once."""
    made: FlatAlgebra = cls(*arguments)
    return made.algebra


def component(
    cls: Any, inputs: tuple[Input, ...], required: tuple[str, ...], *arguments: Any, **more: Any
) -> Component:
    """The component of a subclass of `FlatAlgebra` on columns, with its form in Spark."""
    spark = getattr(cls(*arguments), "spark", None)
    return Component(flat(cls, *arguments), inputs, required, spark=spark, **more)


def on_column(cls: Any, column: str, *arguments: Any, **more: Any) -> Component:
    """The component of an algebra of one input on a column."""
    return component(cls, (Input(column),), (column,), *arguments, **more)


def count(column: str) -> Component:
    """How many values of the column are not null; they may be of any type."""
    return component(Count, (Input(column, "valid"),), (column,))


def rows() -> Component:
    """How many events there are, nulls or not."""
    return component(Count, (Input("", "rows"),), ())


def float_sum(column: str) -> Component:
    """The sum of a column in float64."""
    return on_column(FloatSum, column)


def int_sum(column: str) -> Component:
    """The exact sum of a column of integers."""
    return on_column(IntSum, column)


def spread(column: str, kind: pa.DataType) -> Component:
    """Count, sum and squared deviations; of floats it also serves as their count and sum."""
    provides: tuple[tuple[Component, tuple[int, ...]], ...] = ((count(column), (0,)),)
    if storage(kind).kind == "f":
        provides += ((float_sum(column), (1,)),)
    return on_column(Spread, column, provides=provides)
