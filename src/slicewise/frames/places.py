"""From the rows as they came to the order of rolling aggregation, and back with the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slicewise.aggregates.bound import Bound, place_of, read, share
from slicewise.arrays.grouping import Groups, picked, read_only, room
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.codegen.product import Finish
from slicewise.columns import Column


class Places:
    """Where rows are in the order of their groups; without groups they stay where they are.

    `usable` says which rows were grouped; it is `None` when all were.
    """

    def __init__(self, groups: Groups | None, usable: np.ndarray | None) -> None:
        self.groups, self.usable = groups, usable
        self.places = known = None if groups is None else groups.places
        if usable is not None:
            # Rows that are nowhere read any result; it is null for them.
            self.places = np.zeros(len(usable), np.int64)
            self.places[usable] = np.arange(np.count_nonzero(usable)) if known is None else known

    def ordered(self, column: Column) -> Column:
        """The column in the order of the groups."""
        if self.usable is not None:
            column = column.take(np.flatnonzero(self.usable))
        return column if self.groups is None else self.groups.ordered(column)

    def restored(self, found: Found, *, nan_is_null: bool = False) -> Column:
        """A result in the order of the groups as the rows came, in a column of its own.

        With `nan_is_null` nobody asks which float64 are null.
        """
        column, missing = found
        if not nan_is_null or column.values.dtype != np.float64:
            return self._restored(column, missing)
        made = self._restored(column, None)
        if made.valid is not None:
            made.values[~made.valid] = np.nan
        return Column(made.values, None, made.type)

    def _restored(self, column: Column, missing: np.ndarray | None) -> Column:
        values = column.values
        if self.places is None:
            return Column(values, None if missing is None else ~missing, column.type)
        if not len(values):
            values = np.zeros(len(self.places), values.dtype)
            return Column(values, self.usable, column.type)
        # Reading from many places and writing in order is faster than the reverse.
        target = room(len(self.places), values.dtype)
        valid = pick_all(values, missing, self.places, target)
        if self.usable is not None:
            valid = self.usable if valid is None else valid & self.usable
        return Column(target, valid, column.type)


class Found(NamedTuple):
    """A column of results in the order of the groups; `missing` says which are null.

    Floats that are null are NaN. Nobody else has the values.
    """

    column: Column
    missing: np.ndarray | None


class Inputs:
    """What compiled aggregates read, and the way from their states to results.

    `size` is the number of rows in order.
    """

    def __init__(self, bounds: Sequence[Bound], columns: Mapping[str, Column], size: int) -> None:
        self.kept = share(bounds)
        given = [read(component, columns, size) for component in self.kept]
        # Masks for all or for none, since each mixture would be compiled on its own.
        whole = np.ones(size, np.bool_) if any(valid is not None for _, valid in given) else None
        self.algebras = [component.algebra for component in self.kept]
        self.arrays = [tuple(map(read_only, X)) for X, _ in given]
        masks = [whole if valid is None else valid for _, valid in given]
        self.valid = tuple(None if mask is None else read_only(mask) for mask in masks)
        self.X = tuple(array for X in self.arrays for array in X)
        self.wanted = [
            (bound.finish, [place_of(c, self.kept) for c in bound.components])
            for bound in bounds
            if bound.finish is not None
        ]
        self.finishes = [finish for finish, _ in self.wanted]


class Results:
    """Columns of results that a loop writes in the order of the groups."""

    def __init__(self, finishes: Sequence[Finish], size: int) -> None:
        self.finishes = finishes
        self.values = [room(size, finish.dtype) for finish in finishes]
        self.missing = [np.zeros(size, np.bool_) for _ in finishes]
        self.nulls = np.zeros(len(finishes), np.int64)

    def part(self, rows: slice) -> tuple[np.ndarray, ...]:
        """The arrays that the loop writes to for these rows."""
        return (*(array[rows] for array in [*self.values, *self.missing]), self.nulls)

    def found(self) -> list[Found]:
        """The columns that the loop wrote."""
        return [
            Found(Column(values, None, finish.type), missing if nulls else None)
            for values, missing, nulls, finish in zip(
                self.values, self.missing, self.nulls, self.finishes, strict=True
            )
        ]


def pick_all(
    values: np.ndarray, missing: np.ndarray | None, places: np.ndarray, target: np.ndarray
) -> np.ndarray | None:
    """Put the values at these places into `target`; returns which are not null, `None` for all."""
    if missing is not None and values.dtype.kind == "f":
        valid = np.ones(len(places), np.bool_)
        pick_floats.specialise(NOTHING)(values, missing, places, target, valid)
        return valid
    picked(values, places, target)
    return None if missing is None else ~picked(missing, places)


@kernel
def pick_floats(values: Any, missing: Any, places: Any, target: Any, valid: Any) -> None:
    """`target = values[places]`, and which of them are not null: only NaN may be, which is rare."""
    for i in range(len(places)):
        place = np.uint64(places[i])
        value = values[place]
        target[i] = value
        if value != value:
            valid[i] = not missing[place]
