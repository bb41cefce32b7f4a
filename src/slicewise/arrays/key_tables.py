"""Hash tables from keys to small codes, for keys of one column that compiled code can compare.

The table itself holds nothing but codes, so that it stays in the processor's cache with a million
keys. A key is found by its mark, a number of 64 bits. Whole numbers and times are as different as
their marks, so marks are all that is kept of them; texts (`text_table`) are compared afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.grouping import picked, room
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column, storage

if TYPE_CHECKING:
    import pyarrow as pa

EMPTY = -1
SMALLEST = 16  # places of a new table
# Odd, so that numbers times it are as different as they were; and what it takes to undo that.
MIX, UNMIX = -7046029254386353131, -1018231460777725123
Given = tuple[np.ndarray, ...]  # the marks of keys, and whatever else compiled code reads of them


def table_for(kind: pa.DataType) -> KeyTable | None:
    """A table for keys of a type, if there is one."""
    import pyarrow as pa

    from slicewise.arrays.text_table import TextTable

    types = pa.types
    if is_whole(kind):
        return WholeTable(kind)
    if types.is_string(kind) or types.is_binary(kind):
        return TextTable(kind, np.int32)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return TextTable(kind, np.int64)
    return None


def is_whole(kind: pa.DataType) -> bool:
    """Return whether keys of a type are whole numbers that fit 64 bits with sign."""
    import pyarrow as pa

    return storage(kind).kind in "iu" and not pa.types.is_uint64(kind)


class KeyTable(ABC):
    """Keys of one type, each with a code from 0 on, in the order of their first event."""

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self.size = 0
        self.null = EMPTY  # the code of null, which is a key like any other
        self.marks = np.zeros(SMALLEST, np.int64)  # of all keys, by their codes
        self.table = np.full(SMALLEST, EMPTY, np.int32)

    def codes(self, keys: pa.Array) -> np.ndarray:
        """The code of each key; those that are new get the next ones."""
        valid = None
        if keys.null_count:
            valid = keys.is_valid().to_numpy(zero_copy_only=False)
            if self.null < 0:
                # It takes its place before the others of this batch.
                self.null = self.size
                self.marks = with_room(self.marks, self.size, 1)
                self._put_null()
                self.size += 1
        given = self._given(keys)
        self.marks = with_room(self.marks, self.size, len(keys))
        codes, rows = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        done = 0
        while True:
            known, found = (self.table, self.marks), (codes, rows)
            stop, size = run(code_marks)(given[0], valid, self.null, known, found, done, self.size)
            done = self._keep(given, rows[: size - self.size], codes, done, stop)
            if done == len(keys):
                return codes
            self._insert(2 * len(self.table))

    def load(self, keys: pa.Array) -> None:
        """Take over distinct keys, each with its place as its code."""
        self._take_over(self._given(keys))
        self.size = len(keys)
        if keys.null_count:
            self.null = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        self._insert(1 << (2 * self.size + SMALLEST).bit_length())

    def _insert(self, places: int) -> None:
        """Put all keys into a new table."""
        self.table = room(places, np.int32)
        self.table.fill(EMPTY)
        run(insert)(self.marks[: self.size], self.null, self.table)

    @abstractmethod
    def take(self, codes: np.ndarray) -> pa.Array:
        """The keys of these codes."""

    @abstractmethod
    def array(self) -> pa.Array:
        """All keys in the order of their codes."""

    @abstractmethod
    def _given(self, keys: pa.Array) -> Given:
        """Return the marks of keys, and whatever else compiled code reads."""

    @abstractmethod
    def _keep(self, given: Given, rows: np.ndarray, codes: np.ndarray, done: int, stop: int) -> int:
        """Keep the keys of these rows, which have the next codes.

        Returns up to which key codes are right, having looked at those from `done` to `stop`.
        """

    @abstractmethod
    def _take_over(self, given: Given) -> None:
        """Make these the known keys."""

    def _put_null(self) -> None:
        """Write something in the place of null, which has room for a mark."""
        self.marks[self.size] = 0


class WholeTable(KeyTable):
    """Whole numbers and times: a mark is the number times `MIX`."""

    def _given(self, keys: pa.Array) -> Given:
        return (Column.from_arrow(keys).values.astype(np.int64, copy=False) * MIX,)

    def _keep(self, given: Given, rows: np.ndarray, codes: np.ndarray, done: int, stop: int) -> int:
        self.size += len(rows)
        return stop

    def _take_over(self, given: Given) -> None:
        (self.marks,) = given

    def take(self, codes: np.ndarray) -> pa.Array:
        return self._column(picked(self.marks, codes), codes)

    def array(self) -> pa.Array:
        return self._column(self.marks[: self.size], np.arange(self.size))

    def _column(self, marks: np.ndarray, codes: np.ndarray) -> pa.Array:
        valid = None if self.null < 0 else codes != self.null
        values = (marks * UNMIX).astype(storage(self.type), copy=False)
        return Column(values, valid, self.type).to_arrow()


def with_room(array: np.ndarray, used: int, more: int) -> np.ndarray:
    """The array with room for `more` values behind those that are used."""
    if used + more <= len(array):
        return array
    wider = room(max(used + more, 2 * len(array)), array.dtype)
    wider[:used] = array[:used]
    return wider


@kernel
def code_marks(
    marks: Any, valid: Any, null: int, known: Any, found: Any, done: int, size: int
) -> Any:
    """The codes of keys by their marks, and the rows of new ones; stops at a half full table.

    `known` has the table and the marks in it, and `found` room for codes and rows.
    """
    table, marked = known
    codes, rows = found
    mask, before = table.shape[0] - 1, size
    for i in range(done, marks.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        mark = marks[i]
        place = np.uint64((mark >> 40) & mask)
        code = table[place]
        while code >= 0 and marked[np.uint64(code)] != mark:
            place = (place + np.uint64(1)) & np.uint64(mask)
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            marked[code] = mark
            rows[size - before] = i
            size += 1
        codes[i] = code
    return marks.shape[0], size


@kernel
def insert(marks: Any, null: int, table: Any) -> None:
    """Put the codes of keys into an empty table, each by the mark of its key."""
    mask = table.shape[0] - 1
    for code in range(marks.shape[0]):
        if code != null:
            place = (marks[code] >> 40) & mask
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = code
