"""Variance and its relatives: algebraic, commutative.

States hold the count, the sum and the deviations from the mean, merged by the pairwise rule of
Chan, Golub and LeVeque, never raw sums of squares, which lose every digit when the mean is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    States,
    bound_columns,
    given,
    interpreted,
)
from slicewise.aggregates.sums import nullable, number_kind
from slicewise.columns import Column
from slicewise.errors import AggregateError

if TYPE_CHECKING:
    import pyarrow as pa


class Var(Aggregate):
    """Variance of a column; null when there are not more than `ddof` values.

    `ddof=1` is the sample variance, `ddof=0` the variance of a whole population.

    >>> import slicewise as sw
    >>> sw.agg.var("x").fold([1, 2, 3]), sw.agg.var("x", ddof=0).fold([1, 3])
    (1.0, 1.0)
    """

    commutative = True
    kind = "algebraic"

    def __init__(self, column: str | None = None, *, ddof: int = 1) -> None:
        super().__init__(*given(column))
        if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
            raise AggregateError(
                f"`ddof` of `{self.name}` is an integer from 0 on, 1 for a sample and 0 for a "
                f"whole population; given: {ddof!r}."
            )
        self.ddof = ddof

    def identity(self) -> tuple[int, float, float]:
        return (0, 0.0, 0.0)

    def lift(self, value: Any) -> tuple[int, float, float]:
        return (1, float(value), 0.0)

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
        kind = number_kind(self, column, types[0])
        if kind == "decimal":
            return interpreted(self, pa.float64(), f"column {column!r} holds decimals")

        def lower(states: Sequence[States]) -> Column:
            counts, _, squares = states[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                return nullable(self._finish(squares / (counts - self.ddof)), counts > self.ddof)

        return Bound(self, (parts.spread(column, integers=kind == "integer"),), lower)

    @staticmethod
    def _finish(variance: np.ndarray) -> np.ndarray:
        return variance


class Std(Var):
    """Standard deviation of a column; null when there are not more than `ddof` values.

    >>> import slicewise as sw
    >>> sw.agg.std("x").fold([1e9 + 1, 1e9 + 2, 1e9 + 3])
    1.0
    """

    def lower(self, state: tuple[int, float, float]) -> float | None:
        variance = super().lower(state)
        return None if variance is None else math.sqrt(variance)

    @staticmethod
    def _finish(variance: np.ndarray) -> np.ndarray:
        root: np.ndarray = np.sqrt(variance)
        return root
