"""How two columns vary together: algebraic, commutative.

An event counts when neither column is null. Deviations are merged as in `spread`, and so are those
of values that are infinite or NaN: they are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate, given
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.spread import checked_ddof
from slicewise.aggregates.sums import decimals, interpreted_floats, nullable
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column

if TYPE_CHECKING:
    import pyarrow as pa


class Cov(Aggregate):
    """Covariance of two columns; null when there are not more than `ddof` pairs.

    Args:
        x: The name of a column of numbers.
        y: The name of another one.
        ddof: What is taken from the number of values in the divisor: 1 for a sample.

    >>> import slicewise as sw
    >>> sw.agg.cov("x", "y").fold([(1, 2), (2, 4), (3, 6)])
    2.0
    """

    commutative = True
    takes = ("numbers", "numbers")

    def __init__(self, x: str | None = None, y: str | None = None, *, ddof: int = 1) -> None:
        super().__init__(*given(x, y))
        self.ddof = checked_ddof(self, ddof)

    def identity(self) -> Any:
        return NOTHING

    def lift(self, x: Any, y: Any) -> Any:
        a, b = float(x), float(y)
        return (1, a, b, (a - a) * (b - b), a - a, b - b)

    def combine(self, older: Any, newer: Any) -> Any:
        if not older[0] or not newer[0]:
            return older if older[0] else newer
        return add_products(older, newer)

    def invert(self, total: Any, oldest: Any) -> Any:
        if not oldest[0]:
            return total
        return NOTHING if oldest[0] == total[0] else drop_products(total, oldest)

    def lower(self, state: Any) -> float | None:
        return float(state[3] / (state[0] - self.ddof)) if state[0] > self.ddof else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        columns = bound_columns(self)
        if reason := decimals(self, columns, types):
            return interpreted_floats(self, reason)
        component = Component(parts.flat(Products), tuple(map(Input, columns)), columns)
        return Bound(self, (component,), lambda states: self._lower_all(states[0]))

    def _lower_all(self, states: States) -> Column:
        counts, products = states[0], states[3]
        with np.errstate(divide="ignore", invalid="ignore"):
            return nullable(products / (counts - self.ddof), counts > self.ddof)


class Corr(Cov):
    """Pearson's correlation of two columns; null unless both of them vary.

    Args:
        x: The name of a column of numbers.
        y: The name of another one.

    >>> import slicewise as sw
    >>> round(sw.agg.corr("x", "y").fold([(1, 2), (2, 4), (3, 6)]), 12)
    1.0
    """

    def __init__(self, x: str | None = None, y: str | None = None) -> None:
        Aggregate.__init__(self, *given(x, y))

    def lower(self, state: Any) -> float | None:
        # One root after the other: the product of two sums of squares may overflow.
        scale = math.sqrt(state[4]) * math.sqrt(state[5])
        return float(state[3] / scale) if state[0] > 1 and scale else None

    def _lower_all(self, states: States) -> Column:
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(states[4]) * np.sqrt(states[5])
            return nullable(states[3] / scale, (states[0] > 1) & (scale != 0.0))


NOTHING = (0, 0.0, 0.0, 0.0, 0.0, 0.0)


def add_products(older: Any, newer: Any) -> Any:
    """Count, both sums, and products of deviations (xy, xx, yy) of two runs that are not empty."""
    m, n = float(older[0]), float(newer[0])
    x = newer[1] / n - older[1] / m
    y = newer[2] / n - older[2] / m
    weight = m * n / (m + n)
    return (
        older[0] + newer[0],
        older[1] + newer[1],
        older[2] + newer[2],
        older[3] + newer[3] + x * y * weight,
        older[4] + newer[4] + x * x * weight,
        older[5] + newer[5] + y * y * weight,
    )


def drop_products(total: Any, oldest: Any) -> Any:
    """The state that `add_products` added to `oldest` to give `total`."""
    m, n = float(oldest[0]), float(total[0] - oldest[0])
    x = (total[1] - oldest[1]) / n - oldest[1] / m
    y = (total[2] - oldest[2]) / n - oldest[2] / m
    weight = m * n / (m + n)
    xx = total[4] - oldest[4] - x * x * weight
    yy = total[5] - oldest[5] - y * y * weight
    return (
        total[0] - oldest[0],
        total[1] - oldest[1],
        total[2] - oldest[2],
        total[3] - oldest[3] - x * y * weight,
        # Rounding must not make a sum of squares negative.
        0.0 if xx < 0.0 else xx,
        0.0 if yy < 0.0 else yy,
    )


class Products(FlatAlgebra):
    """Count, sums and products of deviations of two columns: `add_products`."""

    dtypes = ("i8", "f8", "f8", "f8", "f8", "f8")

    def identity(self) -> Any:
        return (0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def lift(self, x: Any, y: Any) -> Any:
        a, b = np.float64(x), np.float64(y)  # not `float`, which Numba has not for booleans
        return (1, a, b, (a - a) * (b - b), a - a, b - b)

    def combine(self, older: Any, newer: Any) -> Any:
        if older[0] == 0:
            return newer
        if newer[0] == 0:
            return older
        return add_products(older, newer)

    def invert(self, total: Any, oldest: Any) -> Any:
        if oldest[0] == 0:
            return total
        if oldest[0] == total[0]:
            return (0, 0.0, 0.0, 0.0, 0.0, 0.0)
        return drop_products(total, oldest)
