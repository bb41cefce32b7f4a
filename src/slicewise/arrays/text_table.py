"""The hash table of keys that are texts or bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.grouping import room
from slicewise.arrays.key_tables import EMPTY, SMALLEST, Given, KeyTable, with_room
from slicewise.codegen.kernel import kernel, run

if TYPE_CHECKING:
    import pyarrow as pa


class TextTable(KeyTable):
    """Texts and bytes: one after the other in `data`, the one of code k from `ends[k]` on.

    Its mark is a hash, and texts that have one mark are told apart afterwards.
    """

    spread = -1  # the bits of marks that are used

    def __init__(self, kind: pa.DataType, offsets: Any) -> None:
        super().__init__(kind)
        self.data = np.zeros(SMALLEST, np.uint8)
        self.ends = np.zeros(SMALLEST, offsets)
        self.longest = 0

    def _given(self, keys: pa.Array) -> Given:
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
        self.data = with_room(self.data, used, more + 1)  # an empty text is somewhere too
        self.ends = with_room(self.ends, self.size + 1, len(keys))
        given = np.frombuffer(data or b"", np.uint8)
        marks = np.empty(len(keys), np.int64)
        run(mark_texts)(ends, given, self.spread, marks)
        return marks, ends, given

    def _take_over(self, given: Given) -> None:
        self.marks, ends, data = given
        self.ends = ends - ends[0]
        self.data = np.append(data[ends[0] : ends[-1]], np.uint8(0))
        self.longest = int(np.diff(ends).max())

    def _put_null(self) -> None:
        super()._put_null()
        self.ends = with_room(self.ends, self.size + 1, 1)
        self.ends[self.size + 1] = self.ends[self.size]

    def codes(self, keys: pa.Array) -> np.ndarray:
        tuning.took("text table")
        before = self.size
        codes = super().codes(keys)
        if self.size > before:
            longest = int(np.diff(self.ends[before : self.size + 1]).max())
            self.longest = max(self.longest, longest)
        return codes

    def _keep(self, given: Given, rows: np.ndarray, codes: np.ndarray, done: int, stop: int) -> int:
        marks, texts, known = given[0], given[1:], (self.ends, self.data)
        run(put_texts)(rows, texts, known, self.size)
        self.size += len(rows)
        # Each step is a loop of its own, in which the processor waits for many keys at once.
        if run(unlike)(texts, known, codes, done, stop, self.null):
            more = (self.table, (self.marks, known), codes)
            stop, self.size = run(code_again)((marks, texts), *more, done, stop, self.size)
        return stop

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
def put_word(data: Any, at: Any, word: Any) -> None:
    """Write eight bytes at once, the inverse of reading them."""
    data[at] = np.uint8(word)
    data[at + np.uint64(1)] = np.uint8(word >> np.uint64(8))
    data[at + np.uint64(2)] = np.uint8(word >> np.uint64(16))
    data[at + np.uint64(3)] = np.uint8(word >> np.uint64(24))
    data[at + np.uint64(4)] = np.uint8(word >> np.uint64(32))
    data[at + np.uint64(5)] = np.uint8(word >> np.uint64(40))
    data[at + np.uint64(6)] = np.uint8(word >> np.uint64(48))
    data[at + np.uint64(7)] = np.uint8(word >> np.uint64(56))


# Texts are taken by words of eight bytes; the last one reaches back into the one before it.


@kernel
def mark_texts(ends: Any, data: Any, spread: int, marks: Any) -> None:
    """A hash of each text."""
    for i in range(marks.shape[0]):
        at, end = np.uint64(ends[i]), np.uint64(ends[i + 1])
        mark = (end - at) * np.uint64(0xD6E8FEB86659FD93)
        word = np.uint64(8)
        if at + word <= end:
            while at + word < end:
                mark = (mark ^ word_at(data, at)) * np.uint64(0x9E3779B97F4A7C15)
                mark ^= mark >> np.uint64(32)
                at += word
            mark = (mark ^ word_at(data, end - word)) * np.uint64(0x9E3779B97F4A7C15)
            mark ^= mark >> np.uint64(32)
        else:
            while at < end:
                mark = (mark ^ np.uint64(data[at])) * np.uint64(1099511628211)
                at += np.uint64(1)
        marks[i] = np.int64(mark * np.uint64(0x9E3779B97F4A7C15)) & spread


@kernel
def put_text(i: int, texts: Any, known: Any, code: int) -> None:
    """Make text `i` the one of a new code."""
    ends, data = texts
    known_ends, known_data = known
    at = known_ends[code]
    for k in range(ends[i], ends[i + 1]):
        known_data[at] = data[k]
        at += 1
    known_ends[code + 1] = at


@kernel
def put_texts(rows: Any, texts: Any, known: Any, code: int) -> None:
    """Make the texts of these rows those of the codes from `code` on."""
    for k in range(rows.shape[0]):
        put_text(rows[k], texts, known, code + k)


@kernel
def same_text(i: int, texts: Any, known: Any, code: int) -> Any:
    """Return whether text `i` is that of a code."""
    ends, data = texts
    known_ends, known_data = known
    row, other = np.uint64(i), np.uint64(code)
    one, word = np.uint64(1), np.uint64(8)
    at, first = np.uint64(ends[row]), np.uint64(known_ends[other])
    length = np.uint64(ends[row + one]) - at
    if np.uint64(known_ends[other + one]) - first != length:
        return False
    different = np.uint64(0)
    k = np.uint64(0)
    if length >= word:
        while k + word < length:
            different |= word_at(data, at + k) ^ word_at(known_data, first + k)
            k += word
        k = length - word
        different |= word_at(data, at + k) ^ word_at(known_data, first + k)
    else:
        while k < length:
            different |= np.uint64(data[at + k] ^ known_data[first + k])
            k += one
    return different == np.uint64(0)


@kernel
def unlike(texts: Any, known: Any, codes: Any, done: int, stop: int, null: int) -> bool:
    """Take the codes from texts that only have the mark of another; whether there are any."""
    found = False
    for i in range(done, stop):
        if codes[i] != null and not same_text(i, texts, known, codes[i]):
            codes[i] = EMPTY
            found = True
    return found


@kernel
def code_again(
    given: Any,
    table: Any,
    known: Any,
    codes: Any,
    done: int,
    stop: int,
    size: int,
) -> Any:
    """Codes of texts that have none, each compared with all of its mark."""
    marks, texts = given
    known_marks, known_texts = known
    mask = table.shape[0] - 1
    for i in range(done, stop):
        if codes[i] != EMPTY:
            continue
        place = (marks[i] >> 40) & mask
        code = table[place]
        while code >= 0 and not (
            known_marks[code] == marks[i] and same_text(i, texts, known_texts, code)
        ):
            place = (place + 1) & mask
            code = table[place]
        if code < 0:
            if 2 * size >= mask:
                return i, size
            code = size
            table[place] = code
            known_marks[code] = marks[i]
            put_text(i, texts, known_texts, code)
            size += 1
        codes[i] = code
    return stop, size


@kernel
def copy_texts(codes: Any, known_ends: Any, known_data: Any, ends: Any, data: Any) -> None:
    """The texts of codes, one after the other."""
    one, word = np.uint64(1), np.uint64(8)
    at = np.uint64(0)
    ends[0] = 0
    for i in range(codes.shape[0]):
        code = np.uint64(codes[i])
        first = np.uint64(known_ends[code])
        length = np.uint64(known_ends[code + one]) - first
        k = np.uint64(0)
        if length >= word:
            while k + word < length:
                put_word(data, at + k, word_at(known_data, first + k))
                k += word
            k = length - word
            put_word(data, at + k, word_at(known_data, first + k))
        else:
            while k < length:
                data[at + k] = known_data[first + k]
                k += one
        at += length
        ends[i + 1] = at
