"""Hash tables from keys to small codes, for keys of one column that compiled code can compare.

The table itself holds nothing but codes, so that it stays in the processor's cache with a million
keys; what a code stands for is looked up in the array of keys, which is that of the results too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.codegen.kernel import kernel
from slicewise.columns import Column, storage
from slicewise.grouping import picked, room
from slicewise.slicing.runs import run

if TYPE_CHECKING:
    import pyarrow as pa

EMPTY = -1
SMALLEST = 16  # places of a new table


def table_for(kind: pa.DataType) -> KeyTable | None:
    """A table for keys of a type, if there is one."""
    import pyarrow as pa

    types = pa.types
    if is_whole(kind):
        return WholeTable(kind)
    if types.is_string(kind) or types.is_binary(kind):
        return TextTable(kind, np.int32)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return TextTable(kind, np.int64)
    return None


def is_whole(kind: pa.DataType) -> bool:
    """Whether keys of a type are whole numbers that fit 64 bits with sign."""
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
            self.table = np.full(4 * len(self.table), EMPTY, np.int32)
            self._insert()

    def load(self, keys: pa.Array) -> None:
        """Take over distinct keys, each with its place as its code."""
        if not keys.null_count:
            self.codes(keys)
            return
        # Null gets its code before the others of a batch, so those before it come first.
        place = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        for part in (keys[:place], keys[place:]):
            if len(part):
                self.codes(part)

    @abstractmethod
    def take(self, codes: np.ndarray) -> pa.Array:
        """The keys of these codes."""

    @abstractmethod
    def array(self) -> pa.Array:
        """All keys in the order of their codes."""

    @abstractmethod
    def _given(self, keys: pa.Array) -> Any:
        """What compiled code needs of the keys, after there is room for all of them to be new."""

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
    """Whole numbers and times."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self.known = np.zeros(SMALLEST, np.int64)

    def _given(self, keys: pa.Array) -> np.ndarray:
        self.known = _with_room(self.known, self.size, len(keys))
        return Column.from_arrow(keys).values.astype(np.int64, copy=False)

    def _put_null(self) -> None:
        self.known = _with_room(self.known, self.size, 1)
        self.known[self.size] = 0

    def _code(
        self, given: Any, valid: np.ndarray | None, done: int, codes: np.ndarray
    ) -> tuple[int, int]:
        found: tuple[int, int] = run(code_whole)(
            given, valid, self.null, self.table, self.known, codes, done, self.size
        )
        return found

    def _insert(self) -> None:
        run(insert_whole)(self.known[: self.size], self.null, self.table)

    def take(self, codes: np.ndarray) -> pa.Array:
        return self._column(picked(self.known, codes), codes)

    def array(self) -> pa.Array:
        return self._column(self.known[: self.size].copy(), np.arange(self.size))

    def _column(self, values: np.ndarray, codes: np.ndarray) -> pa.Array:
        valid = None if self.null < 0 else codes != self.null
        kind = storage(self.type)
        narrow = values if kind.itemsize == 8 else values.astype(kind)
        return Column(narrow, valid, self.type).to_arrow()


class TextTable(KeyTable):
    """Texts and bytes: one after the other in `data`, the one of code k from `ends[k]` on."""

    def __init__(self, kind: pa.DataType, offsets: Any) -> None:
        super().__init__(kind)
        self.data = np.zeros(SMALLEST, np.uint8)
        self.ends = np.zeros(SMALLEST, offsets)
        self.hashes = np.zeros(SMALLEST, np.int64)

    def _given(self, keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        import pyarrow as pa

        _, offsets, data = keys.buffers()
        ends = np.frombuffer(
            offsets, self.ends.dtype, len(keys) + 1, keys.offset * self.ends.itemsize
        )
        used, more = int(self.ends[self.size]), int(ends[-1] - ends[0])
        if used + more > np.iinfo(self.ends.dtype).max:
            raise pa.ArrowCapacityError(
                f"The keys are more than {used + more} bytes together, too many for {self.type}. "
                f"Cast the column to `large_{self.type}` before it is given."
            )
        self.data = _with_room(self.data, used, more)
        self._make_room(len(keys))
        return ends, np.frombuffer(data or b"", np.uint8)

    def _make_room(self, more: int) -> None:
        self.ends = _with_room(self.ends, self.size + 1, more)
        self.hashes = _with_room(self.hashes, self.size, more)

    def _put_null(self) -> None:
        self._make_room(1)
        self.ends[self.size + 1] = self.ends[self.size]

    def _code(
        self, given: Any, valid: np.ndarray | None, done: int, codes: np.ndarray
    ) -> tuple[int, int]:
        known = (self.hashes, self.ends, self.data)
        found: tuple[int, int] = run(code_text)(
            *given, valid, self.null, self.table, known, codes, done, self.size
        )
        return found

    def _insert(self) -> None:
        run(insert_text)(self.hashes[: self.size], self.null, self.table)

    def take(self, codes: np.ndarray) -> pa.Array:
        import pyarrow as pa

        ends = room(len(codes) + 1, self.ends.dtype)
        size = run(measure)(codes, self.ends, ends)
        if size > np.iinfo(ends.dtype).max:
            return self.array().take(pa.array(codes))  # which says that they are too many
        data = room(int(size), np.uint8)
        run(copy_texts)(codes, self.ends, self.data, ends, data)
        return self._made(len(codes), ends, data, codes)

    def array(self) -> pa.Array:
        # What was written stays as it is, so that all arrays share the memory.
        ends = self.ends[: self.size + 1]
        return self._made(self.size, ends, self.data[: ends[-1]], np.arange(self.size))

    def _made(self, size: int, ends: np.ndarray, data: np.ndarray, codes: np.ndarray) -> pa.Array:
        import pyarrow as pa

        valid = None
        if self.null >= 0:
            valid = pa.py_buffer(np.packbits(codes != self.null, bitorder="little"))
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.type, size, buffers)


def _with_room(array: np.ndarray, used: int, more: int) -> np.ndarray:
    """The array with room for `more` values behind those that are used."""
    if used + more <= len(array):
        return array
    wider = np.zeros(max(used + more, 2 * len(array)), array.dtype)
    wider[:used] = array[:used]
    return wider


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
        place = np.uint64(((value * -7046029254386353131) >> 20) & mask)
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
def insert_whole(known: Any, null: int, table: Any) -> None:
    mask = table.shape[0] - 1
    for code in range(known.shape[0]):
        if code != null:
            place = ((known[code] * -7046029254386353131) >> 20) & mask
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = code


@kernel
def code_text(
    ends: Any,
    data: Any,
    valid: Any,
    null: int,
    table: Any,
    known: Any,
    codes: Any,
    done: int,
    size: int,
) -> Any:
    """Codes of texts, the one of row i from `ends[i]` on; stops when the table is half full."""
    hashes, known_ends, known_data = known
    mask = table.shape[0] - 1
    for i in range(done, codes.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        begin, length = ends[i], ends[i + 1] - ends[i]
        mark = length
        for k in range(length):
            mark = (mark ^ data[begin + k]) * 1099511628211
        mark *= -7046029254386353131
        place = (mark >> 20) & mask
        code = table[place]
        while code >= 0:
            if hashes[code] == mark:
                first = known_ends[code]
                k = 0
                if known_ends[code + 1] - first == length:
                    while k < length and known_data[first + k] == data[begin + k]:
                        k += 1
                    if k == length:
                        break
            place = (place + 1) & mask
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            hashes[code] = mark
            first = known_ends[code]
            for k in range(length):
                known_data[first + k] = data[begin + k]
            known_ends[code + 1] = first + length
            size += 1
        codes[i] = code
    return codes.shape[0], size


@kernel
def insert_text(hashes: Any, null: int, table: Any) -> None:
    mask = table.shape[0] - 1
    for code in range(hashes.shape[0]):
        if code != null:
            place = (hashes[code] >> 20) & mask
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = code


@kernel
def measure(codes: Any, known_ends: Any, ends: Any) -> int:
    """Where the texts of codes end, one after the other; how long they are together."""
    size = 0
    ends[0] = 0
    for i in range(codes.shape[0]):
        code = np.uint64(codes[i])
        size += known_ends[code + np.uint64(1)] - known_ends[code]
        ends[i + 1] = size
    return size


@kernel
def copy_texts(codes: Any, known_ends: Any, known_data: Any, ends: Any, data: Any) -> None:
    for i in range(codes.shape[0]):
        source = np.uint64(known_ends[np.uint64(codes[i])])
        for at in range(np.uint64(ends[i]), np.uint64(ends[i + 1])):
            data[at] = known_data[source]
            source += np.uint64(1)
