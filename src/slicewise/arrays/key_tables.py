"""Hash tables from keys to small codes, for keys of one column that compiled code can compare.

The table itself holds nothing but codes, so that it stays in the processor's cache with a million
keys; what a code stands for is looked up in the array of keys, which is that of the results too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.grouping import picked, room
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column, storage

if TYPE_CHECKING:
    import pyarrow as pa

EMPTY = -1
SMALLEST = 16  # places of a new table
MIX = -7046029254386353131  # odd, so that numbers times it are as different as they were


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
        self.table = np.full(SMALLEST, EMPTY, np.int32)

    def codes(self, keys: pa.Array) -> np.ndarray:
        """The code of each key; those that are new get the next ones."""
        valid = None
        if keys.null_count:
            valid = keys.is_valid().to_numpy(zero_copy_only=False)
            if self.null < 0:
                # It takes its place before the others of this batch.
                self.null = self.size
                self._put_null()
                self.size += 1
        codes = np.empty(len(keys), np.int64)
        given = self._given(keys)
        done = 0
        while True:
            done, self.size = self._code(given, valid, done, codes)
            if done == len(keys):
                return codes
            self._clear(4 * len(self.table))
            self._insert()

    def load(self, keys: pa.Array) -> None:
        """Take over distinct keys, each with its place as its code."""
        self._take_over(keys)
        self.size = len(keys)
        if keys.null_count:
            self.null = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        self._clear(1 << (2 * self.size + SMALLEST).bit_length())
        self._insert()

    def _clear(self, places: int) -> None:
        self.table = room(places, np.int32)
        self.table.fill(EMPTY)

    @abstractmethod
    def take(self, codes: np.ndarray) -> pa.Array:
        """The keys of these codes."""

    @abstractmethod
    def array(self) -> pa.Array:
        """All keys in the order of their codes."""

    @abstractmethod
    def _given(self, keys: pa.Array) -> Any:
        """Return the arrays that compiled code reads, with room for as many new keys."""

    @abstractmethod
    def _take_over(self, keys: pa.Array) -> None:
        """Make these the known keys."""

    @abstractmethod
    def _put_null(self) -> None:
        """Write something in the place of null."""

    @abstractmethod
    def _code(
        self, given: Any, valid: np.ndarray | None, done: int, codes: np.ndarray
    ) -> tuple[int, int]:
        """Find codes from key `done` on; where it stopped, and how many keys there are."""

    @abstractmethod
    def _insert(self) -> None:
        """Put all keys into a table that is empty."""


class WholeTable(KeyTable):
    """Whole numbers and times.

    As long as they lie close together, such as numbers that count something, the code of a number
    is found at its distance from `low` in `places`; from then on in the hash table.
    """

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self.known = np.zeros(SMALLEST, np.int64)
        self.low = 0
        self.places: np.ndarray | None = np.zeros(0, np.int32)

    def _take_over(self, keys: pa.Array) -> None:
        self.known = Column.from_arrow(keys).values.astype(np.int64)
        self.places = np.zeros(0, np.int32)
        valid = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
        if len(valid):
            self._reach(int(self.known[valid].min()), int(self.known[valid].max()))
        if self.places is not None:
            self.places[self.known[valid] - self.low] = valid

    def _given(self, keys: pa.Array) -> np.ndarray:
        self.known = with_room(self.known, self.size, len(keys))
        values: np.ndarray = Column.from_arrow(keys).values.astype(np.int64, copy=False)
        if self.places is not None and len(values):
            self._reach(int(values.min()), int(values.max()))
        return values

    def _reach(self, low: int, high: int) -> None:
        """Make room for numbers from `low` to `high`, or turn to hashing."""
        assert self.places is not None
        if len(self.places):
            last = self.low + len(self.places) - 1
            if self.low <= low and high <= last:
                return
            low, high = min(low, self.low), max(high, last)
        most = tuning.active().places_per_key * len(self.known)
        if high - low >= most:
            self.places = None
            self._clear(1 << (2 * self.size + SMALLEST).bit_length())
            self._insert()
            return
        wider = room(min(2 * (high - low + 1), most), np.int32)
        wider.fill(EMPTY)
        begin = self.low - low
        wider[begin : begin + len(self.places)] = self.places
        self.low, self.places = low, wider

    def _put_null(self) -> None:
        self.known = with_room(self.known, self.size, 1)
        self.known[self.size] = 0

    def _code(
        self, given: Any, valid: np.ndarray | None, done: int, codes: np.ndarray
    ) -> tuple[int, int]:
        found: tuple[int, int]
        if self.places is not None:
            where = (self.places, self.low)
            size = run(code_places)(given, valid, self.null, *where, self.known, codes, self.size)
            return len(codes), int(size)
        found = run(code_whole)(
            given, valid, self.null, self.table, self.known, codes, done, self.size
        )
        return found

    def _insert(self) -> None:
        run(insert)(self.known[: self.size] * MIX, self.null, self.table)

    def take(self, codes: np.ndarray) -> pa.Array:
        return self._column(picked(self.known, codes), codes)

    def array(self) -> pa.Array:
        return self._column(self.known[: self.size].copy(), np.arange(self.size))

    def _column(self, values: np.ndarray, codes: np.ndarray) -> pa.Array:
        valid = None if self.null < 0 else codes != self.null
        kind = storage(self.type)
        narrow = values if kind.itemsize == 8 else values.astype(kind)
        return Column(narrow, valid, self.type).to_arrow()


def with_room(array: np.ndarray, used: int, more: int) -> np.ndarray:
    """The array with room for `more` values behind those that are used."""
    if used + more <= len(array):
        return array
    wider = room(max(used + more, 2 * len(array)), array.dtype)
    wider[:used] = array[:used]
    return wider


@kernel
def code_places(
    values: Any, valid: Any, null: int, places: Any, low: int, known: Any, codes: Any, size: int
) -> int:
    """Codes of whole numbers by their distance from `low`; how many keys there are then."""
    for i in range(values.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        place = np.uint64(values[i] - low)
        code = places[place]
        if code < 0:
            code = size
            places[place] = code
            known[code] = values[i]
            size += 1
        codes[i] = code
    return size


@kernel
def code_whole(
    values: Any,
    valid: Any,
    null: int,
    table: Any,
    known: Any,
    codes: Any,
    done: int,
    size: int,
) -> Any:
    """Codes of whole numbers; stops when the table is half full."""
    mask = table.shape[0] - 1
    for i in range(done, values.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        value = values[i]
        place = np.uint64(((value * MIX) >> 20) & mask)
        code = table[place]
        while code >= 0 and known[np.uint64(code)] != value:
            place = (place + np.uint64(1)) & np.uint64(mask)
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            known[code] = value
            size += 1
        codes[i] = code
    return values.shape[0], size


@kernel
def insert(marks: Any, null: int, table: Any) -> None:
    """Put the codes of keys into an empty table, each by the mark of its key."""
    mask = table.shape[0] - 1
    for code in range(marks.shape[0]):
        if code != null:
            place = (marks[code] >> 20) & mask
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = code
