"""Where the extremes are, how often, and the four values that draw a line chart.

On a tie `argmin` and `argmax` take the first event (Reactive Aggregator, Table 1), so they do not
commute. NaN is greater than every other number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.ends import newest, oldest
from slicewise.aggregates.extremes import (
    check_ordered,
    largest,
    limits,
    not_flat,
    precedes,
    smallest,
)
from slicewise.aggregates.interpreted import interpreted
from slicewise.aggregates.sums import numbers, typed
from slicewise.codegen.flat import FlatAlgebra
from slicewise.columns import Column, storage

if TYPE_CHECKING:
    import pyarrow as pa


class Argmin(Aggregate):
    """The second column where the first one is least; on a tie that of the first event.

    Events whose first column is null are skipped; the answer itself may be null.

    Args:
        value: The column whose least value is looked for.
        who: The column whose value in that event is the result.

    >>> import slicewise as sw
    >>> sw.agg.argmin("price", "shop").fold([(3, "a"), (1, "b"), (1, "c"), (None, "d")])
    'b'
    """

    selective = True
    takes = ("ordered", "any")
    picks = 1

    def identity(self) -> Any:
        return None

    def lift(self, value: Any, who: Any) -> Any:
        return (value, who)

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return newer if precedes(newer[0], older[0]) else older

    def lower(self, state: Any) -> Any:
        return None if state is None else state[1]

    def needed(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return inputs[:1]

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        value, who = bound_columns(self)
        check_ordered(self, value, types[0])
        if reason := not_flat(value, types[0]) or not_flat(who, types[1]):
            bound = interpreted(self, types[1], reason)
            (component,) = bound.components
            return replace(bound, components=(replace(component, take_over=_as_objects),))
        dtypes = [storage(kind).str for kind in types]
        inputs = (Input(value), Input(who), Input(who, "valid"))
        algebra = parts.flat(self._algebra(), *dtypes)

        def take_over(states: States) -> States:
            there, values, *_ = states
            fresh = tuple(np.zeros(len(there), field.dtype) for field in algebra.new(0))
            if fresh[1].dtype == values.dtype:  # else there was no value yet
                fresh[0][:], fresh[1][:] = there, values
            return fresh

        component = Component(algebra, inputs, (value,), take_over=take_over)

        def lower(states: Sequence[States]) -> Column:
            there, _, found, known = states[0]
            return typed(found, there & known, types[1])

        return Bound(self, (component,), lower)

    @staticmethod
    def _algebra() -> Any:
        return Least


def _as_objects(states: States) -> States:
    """States of `Least` of which no companion is known, as objects."""
    objects = np.empty(len(states[0]), object)
    there, values = (field.tolist() for field in states[:2])
    objects[:] = [(x, None) if one else None for one, x in zip(there, values, strict=True)]
    return (objects,)


class Argmax(Argmin):
    """The second column where the first one is greatest; on a tie that of the first event.

    Args:
        value: The column whose greatest value is looked for.
        who: The column whose value in that event is the result.

    >>> import slicewise as sw
    >>> sw.agg.argmax("price", "shop").fold([(3, "a"), (9, "b"), (9, "c")])
    'b'
    """

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return newer if precedes(older[0], newer[0]) else older

    @staticmethod
    def _algebra() -> Any:
        return Greatest


class Least(FlatAlgebra):
    """Whether there is an event, the least value, and its companion with its validity."""

    selective = True

    def __init__(self, value: str, who: str) -> None:
        self.dtypes = ("?", value, who, "?")  # type: ignore[misc]  # one class for all types

    def identity(self) -> Any:
        return (False, 0, 0, False)

    def lift(self, x: Any, who: Any, known: Any) -> Any:
        return (True, x, who, known)

    def combine(self, older: Any, newer: Any) -> Any:
        if not newer[0]:
            return older
        if not older[0]:
            return newer
        a, b = older[1], newer[1]
        return newer if b < a or (a != a and b == b) else older


class Greatest(Least):
    """Whether there is an event, the greatest value, and its companion with its validity."""

    def combine(self, older: Any, newer: Any) -> Any:
        if not newer[0]:
            return older
        if not older[0]:
            return newer
        a, b = older[1], newer[1]
        return newer if a < b or (b != b and a == a) else older


class MinCount(Aggregate):
    """How many values of a column equal its least one; 0 when there is none.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.min_count("x").fold([2, 1, 3, 1])
    2
    """

    commutative = True
    takes = ("ordered",)

    def identity(self) -> tuple[int, Any]:
        return (0, None)

    def lift(self, value: Any) -> tuple[int, Any]:
        return (1, value)

    def combine(self, older: tuple[int, Any], newer: tuple[int, Any]) -> tuple[int, Any]:
        if not older[0] or not newer[0]:
            return older if older[0] else newer
        if self._better(newer[1], older[1]):
            return newer
        if self._better(older[1], newer[1]):
            return older
        return (older[0] + newer[0], older[1])

    def lower(self, state: tuple[int, Any]) -> int:
        return state[0]

    @staticmethod
    def _better(one: Any, other: Any) -> bool:
        return precedes(one, other)

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        check_ordered(self, column, types[0])
        if reason := not_flat(column, types[0]):
            return interpreted(self, pa.int64(), reason)

        def lower(states: Sequence[States]) -> Column:
            return numbers(states[0][0])

        return Bound(self, (self._component(column, types[0]),), lower)

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        dtype = storage(kind)
        algebra = parts.flat(CountedSmallest, dtype.str, limits(dtype)[1])
        provides = ((smallest(column, kind), (1,)),)
        return Component(algebra, (Input(column),), (column,), provides)


class MaxCount(MinCount):
    """How many values of a column equal its greatest one; 0 when there is none.

    Args:
        column: The name of the column, of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.max_count("x").fold([2, 1, 3, 1])
    1
    """

    @staticmethod
    def _better(one: Any, other: Any) -> bool:
        return precedes(other, one)

    @staticmethod
    def _component(column: str, kind: pa.DataType) -> Component:
        dtype = storage(kind)
        algebra = parts.flat(CountedLargest, dtype.str, limits(dtype)[0])
        provides = ((largest(column, kind), (1,)),)
        return Component(algebra, (Input(column),), (column,), provides)


class CountedSmallest(FlatAlgebra):
    """How often the least value occurs, and that value."""

    def __init__(self, dtype: str, start: Any) -> None:
        self.dtypes = ("i8", dtype)  # type: ignore[misc]  # one class for all types of numbers
        self.start = start

    def identity(self) -> Any:
        return (0, self.start)

    def lift(self, x: Any) -> Any:
        return (1, x)

    def combine(self, older: Any, newer: Any) -> Any:
        a, b = older[1], newer[1]
        if a == b or (a != a and b != b):
            return (older[0] + newer[0], a)
        return older if a < b or b != b else newer


class CountedLargest(CountedSmallest):
    """How often the greatest value occurs, and that value."""

    def combine(self, older: Any, newer: Any) -> Any:
        a, b = older[1], newer[1]
        if a == b or (a != a and b != b):
            return (older[0] + newer[0], a)
        return older if a > b or a != a else newer


class M4(Aggregate):
    """Minimum, maximum, first and last of a column as a struct; null when there is no value.

    These four draw the pixels of one column of a line chart exactly (doi:10.14778/2732951.2732953).

    Args:
        column: The name of a column of values that have an order.

    >>> import slicewise as sw
    >>> sw.agg.m4("x").fold([3, 9, 1, 5])
    {'min': 1, 'max': 9, 'first': 3, 'last': 5}
    """

    name = "m4"
    takes = ("ordered",)

    def identity(self) -> Any:
        return None

    def lift(self, value: Any) -> Any:
        return (value, value, value, value)

    def combine(self, older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        low = newer[0] if precedes(newer[0], older[0]) else older[0]
        high = newer[1] if precedes(older[1], newer[1]) else older[1]
        return (low, high, older[2], newer[3])

    def lower(self, state: Any) -> Any:
        return None if state is None else dict(zip(M4_FIELDS, state, strict=True))

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        (column,) = bound_columns(self)
        kind = types[0]
        check_ordered(self, column, kind)
        result = pa.struct([(name, kind) for name in M4_FIELDS])
        if reason := not_flat(column, kind):
            return interpreted(self, result, reason)

        def lower(states: Sequence[States]) -> Column:
            counts, *found = (fields[-1] for fields in states)
            # Of no value there is a limit of the type, which need not be one of the column's.
            arrays = [Column(np.where(counts, v, 0), None, kind).to_arrow() for v in found]
            nothing = pa.array(counts == 0)
            return Column.from_arrow(
                pa.StructArray.from_arrays(arrays, fields=list(result), mask=nothing)
            )

        makers = (smallest, largest, oldest, newest)
        return Bound(self, (parts.count(column), *(make(column, kind) for make in makers)), lower)


M4_FIELDS = ("min", "max", "first", "last")
