"""The least and the greatest: distributive, commutative, not invertible.

NaN is greater than every other number, as Spark orders it, and -0.0 equals 0.0. Works for every
type that has an order: numbers, dates, times, timestamps, durations, strings, bytes, decimals.
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
from slicewise.columns import Column, storage
from slicewise.errors import ColumnTypeError

if TYPE_CHECKING:
    import pyarrow as pa


class Max(Aggregate):
    """The greatest value of a column; null when there is none.

    >>> import slicewise as sw
    >>> sw.agg.max("x").fold([3, None, 7, 5])
    7
    """

    commutative = True
    selective = True
    kind = "distributive"

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
            return typed(states[1][0], states[0][0] > 0, types[0])

        return Bound(self, (parts.count(column), self._component(column, types[0])), lower)

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        return largest(column, kind)


class Min(Max):
    """The least value of a column; null when there is none.

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


def precedes(one: Any, other: Any) -> bool:
    """Whether `one` comes strictly before `other`; NaN comes last."""
    if other != other:
        return bool(one == one)
    return bool(one < other)


def largest(column: str, kind: pa.DataType) -> Component:
    dtype = storage(kind)
    return parts.on_column(parts.Largest, column, dtype.str, limits(dtype)[0])


def smallest(column: str, kind: pa.DataType) -> Component:
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
    return ""


def typed(values: np.ndarray, valid: np.ndarray, kind: pa.DataType) -> Column:
    """A column of the input's own type; the mask is dropped when nothing is null."""
    return Column(values, None if valid.all() else valid, kind)
