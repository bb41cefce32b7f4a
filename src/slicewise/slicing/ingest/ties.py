"""Events of one key and time, in the order of columns that decide between them.

Without such columns they stay in the order of arrival. Only events that tie are ever ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.ranks import ranks
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column, storage
from slicewise.slicing.store.runs import Runs

if TYPE_CHECKING:
    import pyarrow as pa


def order_of_ties(
    new: np.ndarray, pick: Callable[[np.ndarray], Sequence[pa.Array | pa.ChunkedArray]]
) -> np.ndarray | None:
    """The order of rows that are sorted already, with those that tie in the order of columns.

    `new` marks the rows that differ from the one before; `pick` gives the columns of some rows.
    `None` means that all stay.
    """
    tied = ~new
    tied[:-1] |= ~new[1:]
    rows = np.flatnonzero(tied)
    if not len(rows):
        return None
    found = ranks(pick(rows))
    places = np.arange(len(new))
    places[rows] = rows[np.lexsort((found, np.cumsum(new)[rows]))]
    return places


class Ties:
    """What decides between rows that are kept, by the slot of each."""

    def __init__(self, order: Sequence[str]) -> None:
        self.order = tuple(order)
        self.columns: dict[str, Column] = {}

    def sort(
        self,
        runs: Runs,
        at: np.ndarray,
        times: np.ndarray,
        keys: np.ndarray,
        slots: np.ndarray,
        columns: Mapping[str, Column],
    ) -> None:
        """Put rows that have just come into the order of the columns among those of their time.

        `at` is their measure, and `slots` has a slot for each that was taken.
        """
        rows = np.flatnonzero(slots >= 0)
        if not self.order or not len(rows):
            return
        for name in self.order:
            self._put(name, columns[name].take(rows), slots[rows], runs.slots)
        begins, ends = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        given = (keys[rows], at[rows], times[rows], runs.arrays)
        count = run(find_ties)(*given, begins, ends)
        if not count:
            return
        begins, firsts = np.unique(begins[:count], return_index=True)
        sizes = ends[:count][firsts] - begins
        starts = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(begins - starts, sizes)
        known = runs.slot[places]
        found = ranks([self.columns[name].take(known).to_arrow() for name in self.order])
        runs.slot[places] = known[np.lexsort((found, np.repeat(np.arange(len(sizes)), sizes)))]

    def _put(self, name: str, column: Column, slots: np.ndarray, size: int) -> None:
        known = self.columns.get(name)
        if known is None or known.type != column.type or len(known) < size:
            known = self.columns[name] = _grown(known, column.type, size)
        assert known.valid is not None
        known.values[slots] = column.values
        known.valid[slots] = True if column.valid is None else column.valid

    def table(self, slots: np.ndarray) -> pa.Table | None:
        """A table of what is known of some slots; `None` if nothing decides between rows."""
        import pyarrow as pa

        if not self.columns:
            return None
        return pa.table({n: c.take(slots).to_arrow() for n, c in self.columns.items()})

    def load(self, table: pa.Table, size: int) -> None:
        """Take over what `table` gave, for the first of so many slots."""
        for name in set(self.order) & set(table.column_names):
            self._put(name, Column.from_arrow(table[name]), np.arange(table.num_rows), size)

    def copied(self) -> Ties:
        """A copy that shares no arrays."""
        made = Ties(self.order)
        made.columns = {n: _grown(c, c.type, len(c)) for n, c in self.columns.items()}
        return made


def _grown(known: Column | None, kind: pa.DataType, size: int) -> Column:
    """A column with room for more; where nothing was put there is null."""
    values, valid = np.zeros(size, storage(kind)), np.zeros(size, np.bool_)
    if known is not None and known.type == kind:  # or else all of it was null
        assert known.valid is not None
        values[: len(known)], valid[: len(known)] = known.values, known.valid
    return Column(values, valid, kind)


@kernel
def find_ties(keys: Any, at: Any, times: Any, runs: Any, begins: Any, ends: Any) -> int:
    """The places of rows that tie with a new one: from where to where, and how many such there are.

    Ranges come once for each new row in them.
    """
    offset, size, start, slot, first = runs.offset, runs.size, runs.start, runs.slot, runs.first
    count = 0
    for i in range(keys.shape[0]):
        k = keys[i]
        z = offset[k] + size[k]
        begin = first_at_least(start, offset[k], z, at[i])
        while begin < z and first[slot[begin]] < times[i]:
            begin += 1
        end = begin
        while end < z and start[end] == at[i] and first[slot[end]] == times[i]:
            end += 1
        if end - begin > 1:
            begins[count] = begin
            ends[count] = end
            count += 1
    return count
