"""What comes first and last in event order: distributive, not commutative.

A null is skipped, so these are the first and last values that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate, Kind, given, is_integer
from slicewise.aggregates.bound import Bound, Component, States, bound_columns
from slicewise.aggregates.extremes import not_flat
from slicewise.aggregates.interpreted import interpreted
from slicewise.aggregates.sums import typed
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column, storage
from slicewise.errors import AggregateError

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

    It is no lag: in `sw.rolling` over `sw.rows(2)` the first row of a key, and a row after a null,
    get their own value, because the row itself is in its frame.

    Args:
        column: The name of the column, of any type.

    >>> import slicewise as sw
    >>> sw.agg.first("x").fold([None, 3, 1])
    3
    """

    selective = True
    kind: ClassVar[Kind] = "distributive"
    picks = 0

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
        component = self._component(column, types[0])

        def lower(states: Sequence[States]) -> Column:
            there, values = states[0]
            return typed(values, there, types[0])

        return Bound(self, (component,), lower)

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        return oldest(column, kind)


class Last(First):
    """The last value of a column in event order; null when there is none.

    Args:
        column: The name of the column, of any type.

    >>> import slicewise as sw
    >>> sw.agg.last("x").fold([3, 1, None])
    1
    """

    def combine(self, older: tuple[bool, Any], newer: tuple[bool, Any]) -> tuple[bool, Any]:
        return newer if newer[0] else older

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        return newest(column, kind)


class FirstN(Aggregate):
    """The first `n` values of a column in event order, as a list.

    Args:
        column: The name of the column, of any type.
        n: How many values, one or more.

    >>> import slicewise as sw
    >>> sw.agg.first_n("x", 2).fold([5, None, 3, 4])
    [5, 3]
    """

    example = MappingProxyType({"n": 3})

    def __init__(self, column: str | int | None = None, n: int | None = None) -> None:
        column, self.n = column_and_size(self, "n", column, n)
        super().__init__(*given(column))

    def identity(self) -> tuple[Any, ...]:
        return ()

    def lift(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def combine(self, older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
        return older + newer[: self.n - len(older)] if len(older) < self.n else older

    def lower(self, state: tuple[Any, ...]) -> list[Any]:
        return list(state)

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        return interpreted(self, pa.list_(types[0]), "a list of values is not a number")


class LastN(FirstN):
    """The last `n` values of a column in event order, as a list, oldest first.

    Args:
        column: The name of the column, of any type.
        n: How many values, one or more.

    >>> import slicewise as sw
    >>> sw.agg.last_n("x", 2).fold([5, 3, None, 4])
    [3, 4]
    """

    def combine(self, older: tuple[Any, ...], newer: tuple[Any, ...]) -> tuple[Any, ...]:
        return older[len(newer) - self.n :] + newer if len(newer) < self.n else newer


def oldest(column: str, kind: pa.DataType) -> Component:
    """The first value of a column of numbers or times."""
    return parts.on_column(Oldest, column, storage(kind).str)


def newest(column: str, kind: pa.DataType) -> Component:
    """The last value of a column of numbers or times."""
    return parts.on_column(Newest, column, storage(kind).str)


def column_and_size(
    aggregate: Aggregate, parameter: str, column: str | int | None, size: int | None
) -> tuple[str | None, int]:
    """The column, if it was named, and how many values are asked for, if it can be a number."""
    if size is None and is_integer(column):
        column, size = None, cast(int, column)
    if not is_integer(size) or cast(int, size) <= 0:
        raise AggregateError(
            f"`{parameter}` of `{aggregate.name}` is how many values to keep, an integer from 1 "
            f"on; given: {size!r}."
        )
    return cast("str | None", column), cast(int, size)
