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
PLACES_PER_KEY = 16  # numbers that lie no further apart are looked up without a hash
TILE = 256  # texts that are compared together
IN_CACHE = 1 << 14  # so many texts are near enough to the processor without further ado


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
        """What compiled code needs of the keys, after there is room for all of them to be new."""

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
        self.places = None

    def _given(self, keys: pa.Array) -> np.ndarray:
        self.known = _with_room(self.known, self.size, len(keys))
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
        if high - low >= PLACES_PER_KEY * len(self.known):
            self.places = None
            self._clear(1 << (2 * self.size + SMALLEST).bit_length())
            self._insert()
            return
        wider = room(min(2 * (high - low + 1), PLACES_PER_KEY * len(self.known)), np.int32)
        wider.fill(EMPTY)
        begin = self.low - low
        wider[begin : begin + len(self.places)] = self.places
        self.low, self.places = low, wider

    def _put_null(self) -> None:
        self.known = _with_room(self.known, self.size, 1)
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
    """Texts and bytes: one after the other in `data`, the one of code k from `ends[k]` on.

    A text is found by its mark, a hash of 64 bits, and compared afterwards.
    """

    spread = -1  # the bits of marks that are used

    def __init__(self, kind: pa.DataType, offsets: Any) -> None:
        super().__init__(kind)
        self.data = np.zeros(SMALLEST, np.uint8)
        self.ends = np.zeros(SMALLEST, offsets)
        self.hashes = np.zeros(SMALLEST, np.int64)
        self.longest = 0

    def _given(self, keys: pa.Array) -> tuple[np.ndarray, ...]:
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
        self.data = _with_room(self.data, used, more + 1)  # an empty text is somewhere too
        self._make_room(len(keys))
        given = np.frombuffer(data or b"", np.uint8)
        marks = np.empty(len(keys), np.int64)
        run(mark_texts)(ends, given, self.spread, marks)
        return marks, ends, given

    def _take_over(self, keys: pa.Array) -> None:
        self.hashes, ends, data = self._given(keys)
        self.ends = ends - ends[0]
        self.data = np.append(data[ends[0] : ends[-1]], np.uint8(0))
        self.longest = int(np.diff(ends).max())

    def _make_room(self, more: int) -> None:
        self.ends = _with_room(self.ends, self.size + 1, more)
        self.hashes = _with_room(self.hashes, self.size, more)

    def _put_null(self) -> None:
        self._make_room(1)
        self.ends[self.size + 1] = self.ends[self.size]

    def codes(self, keys: pa.Array) -> np.ndarray:
        before = self.size
        codes = super().codes(keys)
        if self.size > before:
            longest = int(np.diff(self.ends[before : self.size + 1]).max())
            self.longest = max(self.longest, longest)
        return codes

    def _code(
        self, given: Any, valid: np.ndarray | None, done: int, codes: np.ndarray
    ) -> tuple[int, int]:
        known = (self.hashes, self.ends, self.data)
        more = (self.table, known, codes)
        stop, self.size = run(code_marks)(*given, valid, self.null, *more, done, self.size)
        # Each step is a loop of its own, in which the processor waits for many keys at once.
        if run(unlike)(*given[1:], *known[1:], codes, done, stop, self.null)[0]:
            stop, self.size = run(code_again)(*given, *more, done, stop, self.size)
        return stop, self.size

    def _insert(self) -> None:
        run(insert_text)(self.hashes[: self.size], self.null, self.table)

    def take(self, codes: np.ndarray) -> pa.Array:
        import pyarrow as pa

        size = len(codes) * self.longest
        if size > np.iinfo(self.ends.dtype).max:
            size = int((self.ends[codes + 1] - self.ends[codes]).sum(dtype=np.int64))
            if size > np.iinfo(self.ends.dtype).max:
                return self.array().take(pa.array(codes))  # which says that they are too long
        ends, data = room(len(codes) + 1, self.ends.dtype), room(size, np.uint8)
        run(copy_texts)(codes, self.ends, self.data, ends, data)
        return self._made(len(codes), ends, data[: ends[-1]], codes)

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
def word_at(data: Any, at: Any) -> Any:
    """Eight bytes as one number: the compiler makes one load of them."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@kernel
def mark_texts(ends: Any, data: Any, spread: int, marks: Any) -> None:
    """A hash of each text."""
    for i in range(marks.shape[0]):
        at, end = np.uint64(ends[i]), np.uint64(ends[i + 1])
        mark = (end - at) * np.uint64(0xD6E8FEB86659FD93)
        while at + np.uint64(8) <= end:
            mark = (mark ^ word_at(data, at)) * np.uint64(0x9E3779B97F4A7C15)
            mark ^= mark >> np.uint64(32)
            at += np.uint64(8)
        while at < end:
            mark = (mark ^ np.uint64(data[at])) * np.uint64(1099511628211)
            at += np.uint64(1)
        marks[i] = np.int64(mark * np.uint64(0x9E3779B97F4A7C15)) & spread


@kernel
def put_text(i: int, marks: Any, ends: Any, data: Any, known: Any, code: int) -> None:
    """Make text `i` the one of a new code."""
    hashes, known_ends, known_data = known
    at = known_ends[code]
    for k in range(ends[i], ends[i + 1]):
        known_data[at] = data[k]
        at += 1
    hashes[code] = marks[i]
    known_ends[code + 1] = at


@kernel
def code_marks(
    marks: Any,
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
    """Codes of texts by their marks alone; stops when the table is half full."""
    hashes = known[0]
    mask = table.shape[0] - 1
    for i in range(done, marks.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        mark = marks[i]
        place = np.uint64((mark >> 20) & mask)
        code = table[place]
        while code >= 0 and hashes[np.uint64(code)] != mark:
            place = (place + np.uint64(1)) & np.uint64(mask)
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            put_text(i, marks, ends, data, known, code)
            size += 1
        codes[i] = code
    return marks.shape[0], size


@kernel
def same_text(i: int, ends: Any, data: Any, known_ends: Any, known_data: Any, code: int) -> Any:
    """Whether text `i` is that of a code."""
    begin, first = ends[i], known_ends[code]
    length = ends[i + 1] - begin
    if known_ends[code + 1] - first != length:
        return False
    different = 0
    for k in range(np.uint64(length)):
        different |= data[np.uint64(begin) + k] ^ known_data[np.uint64(first) + k]
    return different == 0


@kernel
def unlike(
    ends: Any,
    data: Any,
    known_ends: Any,
    known_data: Any,
    codes: Any,
    done: int,
    stop: int,
    null: int,
) -> Any:
    """Take the codes from texts that only have the mark of another; whether there are any.

    The texts of some hundred codes are touched before they are compared: the processor waits for
    many of them at once in a loop that does nothing else.
    """
    found, touched = False, 0
    for begin in range(done, stop, TILE):
        end = min(begin + TILE, stop)
        for i in range(begin, end if known_ends.shape[0] > IN_CACHE else begin):
            touched += known_ends[np.uint64(max(codes[i], 0))]
        for i in range(begin, end if known_ends.shape[0] > IN_CACHE else begin):
            touched += known_data[np.uint64(known_ends[np.uint64(max(codes[i], 0))])]
        for i in range(begin, end):
            if codes[i] != null and not same_text(i, ends, data, known_ends, known_data, codes[i]):
                codes[i] = EMPTY
                found = True
    return found, touched


@kernel
def code_again(
    marks: Any,
    ends: Any,
    data: Any,
    table: Any,
    known: Any,
    codes: Any,
    done: int,
    stop: int,
    size: int,
) -> Any:
    """Codes of texts that have none, each compared with all of its mark."""
    hashes, known_ends, known_data = known
    mask = table.shape[0] - 1
    for i in range(done, stop):
        if codes[i] != EMPTY:
            continue
        place = (marks[i] >> 20) & mask
        code = table[place]
        while code >= 0 and not (
            hashes[code] == marks[i] and same_text(i, ends, data, known_ends, known_data, code)
        ):
            place = (place + 1) & mask
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            put_text(i, marks, ends, data, known, code)
            size += 1
        codes[i] = code
    return stop, size


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
def copy_texts(codes: Any, known_ends: Any, known_data: Any, ends: Any, data: Any) -> None:
    """The texts of codes, one after the other. Those of codes in sequence are copied as one."""
    n = codes.shape[0]
    i, at = 0, 0
    ends[0] = 0
    while i < n:
        first = known_ends[codes[i]]
        apart = at - first
        code = codes[i]
        while i < n and codes[i] == code:
            code += 1
            i += 1
            ends[i] = known_ends[code] + apart
        length = known_ends[code] - first
        for k in range(np.uint64(length)):
            data[np.uint64(at) + k] = known_data[np.uint64(first) + k]
        at += length
