"""What comes first and last in event order: distributive, not commutative.

A null is skipped, so these are the first and last values that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    States,
    bound_columns,
    interpreted,
)
from slicewise.aggregates.extremes import not_flat, typed
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column, storage

if TYPE_CHECKING:
    import pyarrow as pa


class Oldest(FlatAlgebra):
    """Whether there is a value, and the first one."""

    selective = True

    def __init__(self, dtype: str) -> None:
        self.dtypes = ("?", dtype)  # type: ignore[misc]  # one class for all types of numbers

    def identity(self) -> Any:
        return (False, 0)

    def lift(self, x: Any) -> Any:
        return (True, x)

    def combine(self, older: Any, newer: Any) -> Any:
        return older if older[0] else newer


class Newest(Oldest):
    """Whether there is a value, and the last one."""

    def combine(self, older: Any, newer: Any) -> Any:
        return newer if newer[0] else older


class First(Aggregate):
    """The first value of a column in event order; null when there is none.

    >>> import slicewise as sw
    >>> sw.agg.first("x").fold([None, 3, 1])
    3
    """

    selective = True
    kind = "distributive"

    def identity(self) -> tuple[bool, Any]:
        return (False, None)

    def lift(self, value: Any) -> tuple[bool, Any]:
        return (True, value)

    def combine(self, older: tuple[bool, Any], newer: tuple[bool, Any]) -> tuple[bool, Any]:
        return older if older[0] else newer

    def lower(self, state: tuple[bool, Any]) -> Any:
        return state[1]

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        if reason := not_flat(column, types[0]):
            return interpreted(self, types[0], reason)
        component = parts.on_column(self._flat(), column, storage(types[0]).str)

        def lower(states: Sequence[States]) -> Column:
            there, values = states[0]
            return typed(values, there, types[0])

        return Bound(self, (component,), lower)

    @staticmethod
    def _flat() -> type[FlatAlgebra]:
        return Oldest


class Last(First):
    """The last value of a column in event order; null when there is none.

    >>> import slicewise as sw
    >>> sw.agg.last("x").fold([3, 1, None])
    1
    """

    def combine(self, older: tuple[bool, Any], newer: tuple[bool, Any]) -> tuple[bool, Any]:
        return newer if newer[0] else older

    @staticmethod
    def _flat() -> type[FlatAlgebra]:
        return Newest
