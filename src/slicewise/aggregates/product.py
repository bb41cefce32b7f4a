"""Products: distributive, commutative, not invertible because a 0 cannot be divided out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, States, bound_columns
from slicewise.aggregates.sums import (
    decimals,
    interpreted_floats,
    nullable,
    number_kind,
    positive,
)
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column
from slicewise.errors import OverflowedError

if TYPE_CHECKING:
    import pyarrow as pa


class Product(Aggregate):
    """Product of a column, exact for integers; null when there is no value.

    A product of integers that does not fit 64 bits raises `OverflowedError`. Of decimals it is
    a float.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> sw.agg.product("x").fold([2, None, 3])
    6
    """

    commutative = True
    kind = "distributive"
    takes = ("numbers",)

    def identity(self) -> Any:
        return None

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return older * newer

    def lower(self, state: Any) -> Any:
        return float(state) if isinstance(state, Decimal) else state

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        if reason := decimals(self, (column,), types):
            return interpreted_floats(self, reason)
        exact = number_kind(self, column, types[0]) == "integer"
        component = parts.on_column(IntProduct if exact else FloatProduct, column)

        def lower(states: Sequence[States]) -> Column:
            products = self._integers(states[1]) if exact else states[1][0]
            return nullable(products, positive(states[0][0]))

        return Bound(self, (parts.count(column), component), lower)

    def _integers(self, states: States) -> np.ndarray:
        negative, size, overflowed = states
        if (overflowed | (size > np.uint64(2**63 - 1) + negative.astype(np.uint64))).any():
            raise OverflowedError(
                f"`{self.output}` does not fit 64 bits: the exact product of integers left the "
                "range from -2**63 to 2**63 - 1. Cast the column to float64, or use `geomean`."
            )
        unsigned = size.astype(np.int64)  # 2**63 becomes -2**63, which is its own negative
        return np.where(negative, -unsigned, unsigned)


class FloatProduct(FlatAlgebra):
    """Product in float64."""

    dtypes = ("f8",)

    def identity(self) -> float:
        return 1.0

    def lift(self, x: float) -> float:
        return x

    def combine(self, older: float, newer: float) -> float:
        return older * newer


class IntProduct(FlatAlgebra):
    """Exact product of integers: whether it is negative, its size, whether that passed 64 bits.

    The size of a product only grows, until a 0 makes an end of it; so it does not depend on the
    order of multiplication whether it passes 64 bits.
    """

    dtypes = ("?", "u8", "?")

    def identity(self) -> Any:
        return (False, np.uint64(1), False)

    def lift(self, x: Any) -> Any:
        return (x < 0, np.uint64(0 - x) if x < 0 else np.uint64(x), False)

    def combine(self, older: Any, newer: Any) -> Any:
        if (older[1] == 0 and not older[2]) or (newer[1] == 0 and not newer[2]):
            return (False, np.uint64(0), False)
        over = older[2] or newer[2] or newer[1] > np.uint64(2**64 - 1) // older[1]
        size = np.uint64(1) if over else older[1] * newer[1]
        return (older[0] != newer[0], size, over)
