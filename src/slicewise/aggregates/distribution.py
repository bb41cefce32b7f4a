"""Quantiles, the most frequent and the distinct values: exact, holistic, commutative.

They all keep the multiset of the values, once for all aggregates of a column. NaN is greater than
every other number and equal to itself; -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slicewise.aggregates.base import Aggregate, given
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.ends import column_and_size
from slicewise.aggregates.extremes import check_ordered
from slicewise.aggregates.interpreted import interpreted, objects_column
from slicewise.aggregates.multiset import Multiset
from slicewise.aggregates.sums import number_kind
from slicewise.codegen.algebra import Algebra
from slicewise.columns import Column
from slicewise.errors import AggregateError

if TYPE_CHECKING:
    import pyarrow as pa

REASON = "it keeps every value, which is no fixed number of numbers"

ALGEBRA = Algebra(
    name="multiset",
    functions=(
        ("identity", Multiset),
        ("lift", Multiset.of),
        ("combine", Multiset.__add__),
        ("invert", Multiset.__sub__),
    ),
)


class OfMultiset(Aggregate):
    """Base of the aggregates whose state is the multiset of the values."""

    commutative = True
    kind = "holistic"
    takes = ("ordered",)

    def identity(self) -> Multiset:
        return Multiset()

    def lift(self, value: Any) -> Multiset:
        return Multiset.of(value)

    def combine(self, older: Multiset, newer: Multiset) -> Multiset:
        return older + newer

    def invert(self, total: Multiset, oldest: Multiset) -> Multiset:
        return total - oldest

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        kind = self._result(column, types[0])
        component = Component(ALGEBRA, (Input(column, "plain"),), (column,))

        def lower(states: Sequence[States]) -> Column:
            return objects_column([self.lower(state) for state in states[0][0]], kind, self)

        return Bound(self, (component,), lower, REASON)

    def _result(self, column: str, kind: pa.DataType) -> pa.DataType:
        """The type of the results for a column of this type; other columns are refused."""
        check_ordered(self, column, kind)
        return kind


class Quantile(OfMultiset):
    """The exact `q`-quantile of a column, interpolated linearly; null when there is no value.

    Args:
        column: The name of a column of numbers.
        q: The place of the quantile, from 0 to 1: 0.95 for the 95th percentile.

    >>> import slicewise as sw
    >>> sw.agg.quantile("x", 0.25).fold([4, 1, 3, 2, 5])
    2.0
    """

    takes = ("numbers",)

    example = MappingProxyType({"q": 0.9})

    def __init__(self, column: str | float | None = None, q: float | None = None) -> None:
        if q is None and isinstance(column, float | int):
            column, q = None, column
        super().__init__(*given(cast("str | None", column)))
        self.q = checked_q(self, q)

    def lower(self, state: Multiset) -> float | None:
        values, counts = state.whole()
        if not len(values):
            return None
        ends = np.cumsum(counts)
        place = self.q * (int(ends[-1]) - 1)
        below = math.floor(place)
        low, high = values[np.searchsorted(ends, [below, math.ceil(place)], side="right")].tolist()
        if low == high or place == below:
            return float(low)  # also keeps an infinity from being subtracted from itself
        share = place - below
        if math.isinf(apart := float(high - low)):
            return float(low) * (1 - share) + float(high) * share  # the difference overflows
        return float(low) + apart * share

    def _result(self, column: str, kind: pa.DataType) -> pa.DataType:
        import pyarrow as pa

        number_kind(self, column, kind)
        return pa.float64()


class Median(Quantile):
    """The exact median of a column; null when there is no value.

    Args:
        column: The name of a column of numbers.

    >>> import slicewise as sw
    >>> sw.agg.median("x").fold([1, 2, 10, None])
    2.0
    """

    example = MappingProxyType({})

    def __init__(self, column: str | None = None) -> None:
        super().__init__(column, 0.5)


class Mode(OfMultiset):
    """The most frequent value of a column, the least of them on a tie; null when there is none.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.mode("x").fold(["b", "a", "b"])
    'b'
    """

    picks = 0

    def lower(self, state: Multiset) -> Any:
        values, counts = state.whole()
        return values[[np.argmax(counts)]].tolist()[0] if len(values) else None


class CountDistinct(OfMultiset):
    """How many different values a column has.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.count_distinct("x").fold([3, 1, 3, None])
    2
    """

    def lower(self, state: Multiset) -> int:
        return len(state.whole()[0])

    def _result(self, column: str, kind: pa.DataType) -> pa.DataType:
        import pyarrow as pa

        check_ordered(self, column, kind)
        return pa.int64()


class CollectDistinct(OfMultiset):
    """The different values of a column in ascending order, as a list.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.collect_distinct("x").fold([3, 1, 3, None])
    [1, 3]
    """

    def lower(self, state: Multiset) -> list[Any]:
        return list(state.whole()[0].tolist())

    def _result(self, column: str, kind: pa.DataType) -> pa.DataType:
        import pyarrow as pa

        check_ordered(self, column, kind)
        return pa.list_(kind)


class TopK(Aggregate):
    """The `k` greatest values of a column in descending order, as a list; NaN comes first.

    Args:
        column: The name of the column, of values that have an order.
        k: How many values, one or more.

    >>> import slicewise as sw
    >>> sw.agg.top_k("x", 2).fold([3, 1, 4, None, 1, 5])
    [5, 4]
    """

    commutative = True
    takes = ("ordered",)

    example = MappingProxyType({"k": 3})

    def __init__(self, column: str | int | None = None, k: int | None = None) -> None:
        column, self.k = column_and_size(self, "k", column, k)
        super().__init__(*given(column))

    def identity(self) -> tuple[Any, ...]:
        return ()

    def lift(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def combine(self, older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
        if not older or not newer:
            return older or newer
        return tuple(descending(older + newer)[: self.k])

    def lower(self, state: tuple[Any, ...]) -> list[Any]:
        return list(state)

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        check_ordered(self, column, types[0])
        return interpreted(self, pa.list_(types[0]), "a list of values is not a number")


def descending(values: Sequence[Any]) -> list[Any]:
    """The values, greatest first; NaN is the greatest."""
    strange = [value for value in values if value != value]
    return strange + sorted((v for v in values if v == v), reverse=True)


def checked_q(aggregate: Aggregate, q: Any) -> float:
    """`q`, if it can be the place of a quantile."""
    if isinstance(q, bool) or not isinstance(q, float | int) or not 0 <= q <= 1:
        raise AggregateError(
            f"`q` of `{aggregate.name}` is a number from 0 to 1, such as 0.9 for the value that "
            f"nine of ten do not exceed; given: {q!r}."
        )
    return float(q)
