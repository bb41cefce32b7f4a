"""Rows brought into the order of (key, time, arrival).

Keys become small codes, rows are placed by a counting sort, which is stable, and only those keys
whose times are out of order are sorted. What is in order already is not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import Kernel, kernel
from slicewise.columns import Column
from slicewise.errors import ColumnTypeError

if TYPE_CHECKING:
    import pyarrow as pa

LARGE_PAGE = 1 << 21
RUN = 16  # rows that are sorted by insertion before runs are merged


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows in order: `times` of all of them, and the first row of each key in `starts`.

    Rows `starts[g]` to `starts[g + 1] - 1` have one key; there may be keys without a row. `order`
    says which row of the input each is, and is `None` when the input is in order. `ties` says
    whether a key has two rows of the same time.
    """

    times: np.ndarray
    starts: np.ndarray
    order: np.ndarray | None
    ties: bool


def group(codes: np.ndarray | None, size: int, times: np.ndarray) -> Groups:
    """Order rows by (code, time, arrival); codes go from 0 to `size - 1`, `None` is one key."""
    if codes is None:
        starts, order = np.array([0, len(times)]), None
    else:
        starts, order, times = _by_code(codes, size, times)
    in_order, ties = _run(look)(times, starts)
    if not in_order:
        times = times.copy() if order is None else times
        order = np.arange(len(times), dtype=index_type(times)) if order is None else order
        largest = int(np.diff(starts).max())
        spare = np.empty(largest, np.int64), np.empty(largest, order.dtype)
        ties = _run(sort_groups)(times, order, starts, *spare)
    return Groups(times, starts, order, bool(ties))


def index_type(rows: Any) -> type[np.signedinteger[Any]]:
    """The smaller type for positions: touching memory is a good part of the whole cost."""
    return np.int32 if len(rows) < 2**31 else np.int64


def room(size: int, dtype: Any) -> np.ndarray:
    """An array, large ones on whole large pages: touching new memory costs far more on small ones.

    numpy asks for large pages by itself, but only where they fit into an array.
    """
    wanted = size * np.dtype(dtype).itemsize
    if wanted < 2 * LARGE_PAGE or np.dtype(dtype) == object:
        return np.empty(size, dtype)
    raw = np.empty((wanted // LARGE_PAGE + 2) * LARGE_PAGE, np.uint8)
    skip = -raw.ctypes.data % LARGE_PAGE
    return raw[skip : skip + wanted].view(dtype)


def gather(column: Column, order: np.ndarray) -> Column:
    """The column with its rows in `order`."""
    if column.values.dtype == object:
        return column.take(order)
    arrays = [
        None if a is None else room(len(order), a.dtype) for a in (column.values, column.valid)
    ]
    for source, target in zip((column.values, column.valid), arrays, strict=True):
        if target is not None:
            _run(pick)(source, order, target)
    assert arrays[0] is not None
    return Column(arrays[0], arrays[1], column.type)


def inverse(order: np.ndarray, rows: int) -> np.ndarray:
    """For each of `rows` rows its place in `order`; 0 for rows that have none."""
    places = room(rows, order.dtype)
    if len(order) < rows:
        places[:] = 0
    _run(number)(order, places)
    return places


@kernel
def pick(values: Any, order: Any, target: Any) -> None:
    """`target = values[order]`."""
    for i in range(len(order)):
        target[i] = values[order[i]]


@kernel
def number(order: Any, places: Any) -> None:
    """`places[order[i]] = i`."""
    for i in range(len(order)):
        places[order[i]] = i


def _by_code(
    codes: np.ndarray, size: int, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    starts = np.zeros(size + 1, np.int64)
    if _run(count_codes)(codes, starts):
        return starts, None, times
    order, placed = room(len(codes), index_type(codes)), room(len(codes), np.int64)
    _run(place)(codes, times, starts[:-1].copy(), order, placed)
    return starts, order, placed


@cache
def _run(item: Kernel) -> Any:
    return item.specialise(NOTHING)


@kernel
def count_codes(codes: Any, starts: Any) -> bool:
    """Where the rows of each code begin; whether they are in that order already."""
    grouped, last = True, 0
    for code in codes:
        starts[code + 1] += 1
        grouped = grouped and code >= last
        last = code
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    return grouped


@kernel
def place(codes: Any, times: Any, free: Any, order: Any, placed: Any) -> None:
    """Put each row at the next free position of its code."""
    for i in range(len(codes)):
        position = free[codes[i]]
        free[codes[i]] = position + 1
        order[position] = i
        placed[position] = times[i]


@kernel
def look(times: Any, starts: Any) -> Any:
    """Whether the times of each key never fall, and whether two of a key are equal."""
    in_order, ties = True, False
    for g in range(len(starts) - 1):
        for i in range(starts[g] + 1, starts[g + 1]):
            in_order = in_order and times[i] >= times[i - 1]
            ties = ties or times[i] == times[i - 1]
    return in_order, ties


@kernel
def sort_groups(times: Any, order: Any, starts: Any, T: Any, R: Any) -> bool:
    """Sort each key's rows by time, equal ones as they were; whether two are equal."""
    ties = False
    for g in range(len(starts) - 1):
        begin, end = starts[g], starts[g + 1]
        for low in range(begin, end, RUN):
            insertion_sort(times, order, low, min(low + RUN, end))
        width = RUN
        while width < end - begin:
            for low in range(begin, end - width, 2 * width):
                middle = low + width
                if times[middle] < times[middle - 1]:
                    merge(times, order, low, middle, min(middle + width, end), T, R)
            width *= 2
        for i in range(begin + 1, end):
            ties = ties or times[i] == times[i - 1]
    return ties


@kernel
def insertion_sort(times: Any, order: Any, begin: int, end: int) -> None:
    """Sort a few rows by time, equal ones as they were."""
    for i in range(begin + 1, end):
        time, row = times[i], order[i]
        k = i
        while k > begin and times[k - 1] > time:
            times[k], order[k] = times[k - 1], order[k - 1]
            k -= 1
        times[k], order[k] = time, row


@kernel
def merge(times: Any, order: Any, low: int, middle: int, high: int, T: Any, R: Any) -> None:
    """Merge two sorted neighbours; only the left one is set aside."""
    size = middle - low
    T[:size], R[:size] = times[low:middle], order[low:middle]
    left, right, k = 0, middle, low
    while left < size and right < high:
        if T[left] <= times[right]:
            times[k], order[k] = T[left], R[left]
            left += 1
        else:
            times[k], order[k] = times[right], order[right]
            right += 1
        k += 1
    while left < size:
        times[k], order[k] = T[left], R[left]
        left += 1
        k += 1


def encode(keys: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[np.ndarray | None, int]:
    """One code per row for the combination of its keys, and how many codes there may be.

    Null is a key like any other, NaN is one key, and -0.0 is 0.0. Without keys: `None`.
    """
    codes: np.ndarray | None = None
    size = 1
    for key in keys:
        more, count = _encode(key)
        if codes is None:
            codes, size = more, count
            continue
        if size * count > 2**62:
            codes, size = _dense(codes)
        codes, size = codes * count + more, size * count
        # Mostly empty codes would cost more than finding the ones that occur.
        if size > 4 * len(codes) + 1024:
            codes, size = _dense(codes)
    return codes, size


def _encode(key: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(key, pa.ChunkedArray):
        key = key.unify_dictionaries().combine_chunks()
        if isinstance(key, pa.ChunkedArray):
            key = pa.concat_arrays(key.chunks) if key.chunks else pa.array([], key.type)
    if isinstance(key, pa.DictionaryArray):
        # The dictionary may hold a value twice, or null.
        inner, size = _encode(pa.concat_arrays([key.dictionary, pa.nulls(1, key.dictionary.type)]))
        places = key.indices.cast(pa.int64()).fill_null(len(inner) - 1)
        return inner[places.to_numpy()], size
    if pa.types.is_integer(key.type) and not key.null_count and len(key):
        low, high = (bound.as_py() for bound in pc.min_max(key).values())
        if high - low <= 4 * len(key) + 1024:
            values = key.to_numpy()
            if values.dtype != np.uint64:  # narrow types would overflow in the difference
                values = values.astype(np.int64, copy=False)
            if low:
                values = values - values.dtype.type(low)
            return values.astype(np.int64, copy=False), high - low + 1
    if pa.types.is_floating(key.type):
        key = pc.add(key, pa.scalar(0.0, key.type))
    try:
        coded = key.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:
        return _encode_objects(key)
    return coded.indices.to_numpy().astype(np.int64), max(len(coded.dictionary), 1)


def _encode_objects(key: pa.Array) -> tuple[np.ndarray, int]:
    """Codes of values that only Python can compare."""
    known: dict[Any, int] = {}
    try:
        codes = [known.setdefault(value, len(known)) for value in key.to_pylist()]
    except TypeError:
        raise ColumnTypeError(
            f"A key must be hashable; a column of {key.type} is not. Use one of its fields, or a "
            "text made of it."
        ) from None
    return np.array(codes, np.int64), max(len(known), 1)


def _dense(codes: np.ndarray) -> tuple[np.ndarray, int]:
    import pyarrow as pa

    coded = pa.array(codes).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), max(len(coded.dictionary), 1)
