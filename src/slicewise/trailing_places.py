"""From the rows as they came to the order of rolling aggregation, and back with the results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicewise.codegen.product import Finish
from slicewise.columns import Column
from slicewise.grouping import Groups, picked, placed, room


class Places:
    """Where rows are in the order of their groups.

    `usable` says which rows were grouped; it is `None` when all were.
    """

    def __init__(self, groups: Groups, usable: np.ndarray | None) -> None:
        self.groups, self.usable = groups, usable
        self.places = groups.places
        if usable is not None:
            # Rows that are nowhere read any result; it is null for them.
            self.places = np.zeros(len(usable), np.int64)
            known = groups.places
            self.places[usable] = np.arange(len(groups.times)) if known is None else known

    def ordered(self, column: Column) -> Column:
        """The column in the order of the groups."""
        if self.usable is not None:
            column = column.take(np.flatnonzero(self.usable))
        return column if self.groups.places is None else placed(column, self.groups.places)

    def restored(self, column: Column, missing: np.ndarray | None) -> Column:
        """A column in the order of the groups as the rows came; `missing` says what is null."""
        values, valid = column.values, None if missing is None else ~missing
        if self.places is None:
            return Column(values, valid, column.type)
        if not len(values):
            values = np.zeros(len(self.places), values.dtype)
            return Column(values, self.usable, column.type)
        # Reading from many places and writing in order is faster than the reverse.
        values = picked(values, self.places)
        if valid is not None:
            valid = picked(valid, self.places)
        if self.usable is not None:
            valid = self.usable if valid is None else valid & self.usable
        return Column(values, valid, column.type)


class Results:
    """Columns of results that a loop writes in the order of the groups."""

    def __init__(self, finishes: Sequence[Finish], places: Places) -> None:
        self.finishes, self.places = finishes, places
        self.size = len(places.groups.times)
        self.values: list[np.ndarray] = []

    def begin(self) -> None:
        """Be empty again."""
        # What was written is read by now, unless it is what was handed out.
        if not self.values or self.places.places is None:
            self.values = [room(self.size, finish.dtype) for finish in self.finishes]
        self.missing = [np.zeros(self.size, np.bool_) for _ in self.finishes]
        self.nulls = np.zeros(len(self.finishes), np.int64)

    def part(self, rows: slice) -> tuple[np.ndarray, ...]:
        """What the loop writes to for these rows."""
        return (*(array[rows] for array in [*self.values, *self.missing]), self.nulls)

    def columns(self) -> list[Column]:
        """The results, rows as they came."""
        return [
            self.places.restored(Column(of, None, finish.type), gone if some else None)
            for of, gone, some, finish in zip(
                self.values, self.missing, self.nulls, self.finishes, strict=True
            )
        ]
