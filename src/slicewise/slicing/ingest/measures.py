"""The columns that windows read: which types they may have, and how their values are kept.

An advancing column holds numbers, and its edges are whole numbers unless the column or a window
over it has fractions. A condition is a boolean column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from slicewise.errors import ColumnTypeError
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


def check_window_columns(windows: Iterable[Window], type_of: Callable[[str], pa.DataType]) -> None:
    """Refuse advancing columns that hold no numbers, and conditions that are not boolean.

    A column of nothing but nulls may still become either.
    """
    import pyarrow as pa

    for window in windows:
        axis, when = window.traits.axis or window.traits.follows, window.traits.condition
        if axis is not None:
            kind = type_of(axis)
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or _unknown(kind)):
                raise ColumnTypeError(
                    f"A window over a column needs integers or floats; {axis!r}, which "
                    f"{window.name!r} is over, holds {kind}. Cast it first, for example to float64."
                )
        if isinstance(when, str):
            kind = type_of(when)
            if not (pa.types.is_boolean(kind) or _unknown(kind)):
                raise ColumnTypeError(
                    f"A condition is a boolean column, and null is false; {when!r}, the condition "
                    f"of {window.name!r}, holds {kind}. Compare it first, or give a function such "
                    f"as `when=lambda event: event[{when!r}] == 1`."
                )


def has_fractions(window: Window) -> bool:
    """Return whether a bound of a window may be no whole number.

    >>> import slicewise as sw
    >>> has_fractions(sw.tumbling(sw.units(2.5, on="km"))), has_fractions(sw.tumbling(5))
    (True, False)
    """
    return any(number % 1 for number in _bounds(window))


def adds_exactly(window: Window) -> bool:
    """Return whether multiples of a window's bounds are floats, so that its edges are exact.

    >>> import slicewise as sw
    >>> [adds_exactly(sw.tumbling(sw.units(n, on="km"))) for n in (5, 0.25, 0.1)]
    [True, True, False]
    """
    return not any((number * 2.0**20) % 1 for number in _bounds(window))


def measure_dtype(kind: pa.DataType, windows: Iterable[Any]) -> str:
    """How the values of an advancing column of this type are kept for these windows over it."""
    import pyarrow as pa

    return "f8" if pa.types.is_floating(kind) or any(map(has_fractions, windows)) else "i8"


def _bounds(window: Window) -> list[int | float]:
    """The numbers of which all edges are made that are known without any event."""
    edges = window.all_edges()
    return [*edges.singles, *(number for rule in edges.progressions for number in rule)]


def _unknown(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_null(kind))
