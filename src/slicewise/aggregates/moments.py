"""MomentSketch: percentiles estimated from sums of powers (doi:10.14778/3236187.3236212).

The state is that of the PBA paper (KDD 2021, Section 5.1): count, minimum, maximum, the sums of
the first powers of the values and of their logarithms. Its size is fixed and a combine adds, so
it is algebraic and commutative; the extremes keep it from being invertible. The estimate is the
quantile of the density of largest entropy among all with these moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate, given, is_integer
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.distribution import checked_q
from slicewise.aggregates.entropy import estimate_quantiles, tables
from slicewise.aggregates.sums import decimals, interpreted_floats, nullable
from slicewise.codegen.algebra import Algebra
from slicewise.columns import Column
from slicewise.errors import AggregateError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_POWERS = 15  # more cannot be told apart in float64
WORK = 1 << 13  # steps that an estimate takes at the least


class Moments(Aggregate):
    """An estimate of the `q`-quantile of a column from `k` moments; null when there is no value.

    Good for windows of many values from a smooth distribution; NaN if a value is not finite. The
    estimate always lies between the least and the greatest value.

    Args:
        column: The name of a column of numbers.
        k: How many powers are summed.
        q: The place of the quantile that is estimated, from 0 to 1.

    >>> import slicewise as sw
    >>> abs(sw.agg.moments("x", 10).fold(range(1001)) - 500) < 5
    True
    """

    commutative = True
    takes = ("numbers",)

    def __init__(self, column: str | None = None, k: int = 10, *, q: float = 0.5) -> None:
        super().__init__(*given(column))
        if not is_integer(k) or not 1 <= k <= MOST_POWERS:
            raise AggregateError(
                f"`k` of `moments` is how many powers are summed, an integer from 1 to "
                f"{MOST_POWERS}; given: {k!r}."
            )
        self.k = k
        self.q = checked_q(self, q)

    def identity(self) -> tuple[float, ...]:
        return (0.0, math.inf, -math.inf) + (0.0,) * (2 * self.k)

    def lift(self, value: Any) -> tuple[float, ...]:
        x = float(value)
        log = math.log(x) if x > 0.0 else math.nan
        return (1.0, x, x, *_powers(x, self.k), *_powers(log, self.k))

    def combine(self, older: tuple[float, ...], newer: tuple[float, ...]) -> tuple[float, ...]:
        low = older[1] if older[1] < newer[1] else newer[1]
        high = older[2] if older[2] > newer[2] else newer[2]
        sums = (a + b for a, b in zip(older[3:], newer[3:], strict=True))
        return (older[0] + newer[0], low, high, *sums)

    def lower(self, state: tuple[float, ...]) -> float | None:
        if not state[0]:
            return None
        return float(self._estimate(tuple(np.array([part]) for part in state))[0])

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)
        component = Component(algebra(self.k), (Input(column),), (column,))

        def lower(states: Sequence[States]) -> Column:
            return nullable(self._estimate(states[0]), states[0][0] > 0)

        return Bound(self, (component,), lower)

    def _estimate(self, states: States) -> np.ndarray:
        out = np.full(len(states[0]), np.nan)
        run = estimate_quantiles.specialise(algebra(self.k), work=len(out) * WORK)
        run(states, self.k, self.q, *tables(self.k), out)
        return out


def _powers(x: float, k: int) -> list[float]:
    # By multiplication as in the compiled code; `x**k` rounds otherwise, and raises on overflow.
    powers = [x]
    for _ in range(k - 1):
        powers.append(powers[-1] * x)
    return powers


@cache
def algebra(k: int) -> Algebra:
    """The compiled algebra with `k` powers.

    It is written out field by field, because no loop that Numba compiles can build a tuple.
    """
    fields = range(3, 3 + 2 * k)
    zeros = ", 0.0" * (2 * k)
    powers = "\n".join(
        f"    x{j} = x{j - 1} * x1\n    l{j} = l{j - 1} * l1" for j in range(2, k + 1)
    )
    lifted = "".join(f", x{j}" for j in range(1, k + 1)) + "".join(
        f", l{j}" for j in range(1, k + 1)
    )
    sums = "".join(f", a[{j}] + b[{j}]" for j in fields)
    source = f"""
import math

import numpy


@algebra
def identity():
    return (0.0, math.inf, -math.inf{zeros})


@algebra
def lift_value(x):
    x1 = numpy.float64(x)
    l1 = math.log(x1) if x1 > 0.0 else math.nan
{powers}
    return (1.0, x1, x1{lifted})


@algebra
def combine(a, b):
    low = a[1] if a[1] < b[1] else b[1]
    high = a[2] if a[2] > b[2] else b[2]
    return (a[0] + b[0], low, high{sums})
"""
    return Algebra(f"Moments{k}", ("f8",) * (3 + 2 * k), source=source)
