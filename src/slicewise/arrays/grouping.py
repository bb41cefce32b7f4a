"""Rows brought into the order of (key, time, arrival).

Keys become small codes, rows are placed by a counting sort, which is stable, and only those keys
whose times are out of order are sorted. What is in order already is not moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column, python_values, without_views

if TYPE_CHECKING:
    import pyarrow as pa

LARGE_PAGE = 1 << 21
NAN = math.nan
RUN = 16  # rows that are sorted by insertion before runs are merged


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in order: `times` of all of them, and the first row of each key in `starts`.

    Rows `starts[g]` to `starts[g + 1] - 1` have one key; there may be keys without a row. `ties`
    says whether a key has two rows of the same time. Who groups gives `sorted_from` or
    `sorted_to`, or neither when the input is in order; the other one is found when it is wanted.
    """

    times: np.ndarray
    starts: np.ndarray
    ties: bool
    sorted_from: np.ndarray | None = None
    sorted_to: np.ndarray | None = None

    @cached_property
    def order(self) -> np.ndarray | None:
        """Which row of the input each row is; `None` when the input is in order."""
        if self.sorted_from is None and self.sorted_to is not None:
            return inverse(self.sorted_to)
        return self.sorted_from

    @cached_property
    def places(self) -> np.ndarray | None:
        """Where each row of the input is; `None` when the input is in order."""
        if self.sorted_to is None and self.sorted_from is not None:
            return inverse(self.sorted_from)
        return self.sorted_to

    def ordered(self, column: Column) -> Column:
        """The column in this order."""
        return column if self.places is None else placed(column, self.places)


def group(codes: np.ndarray | None, size: int, times: np.ndarray) -> Groups:
    """Order rows by (code, time, arrival); codes go from 0 to `size - 1`, `None` is one key."""
    places = None
    starts = np.zeros(size + 1, np.int64)
    codes = None if codes is None else read_only(codes)
    if codes is None:
        starts[1] = len(times)
    elif not run(count_codes)(codes, starts):
        places = room(len(codes), index_type(codes))
        free = starts[:-1].copy()
        for rows in _pieces(len(codes)):
            run(place)(codes[rows], free, places[rows])
        times = _put(times, places)
    in_order, ties = run(look)(read_only(times), starts)
    if in_order:
        return Groups(times, starts, bool(ties), None, places)
    times = times.copy() if places is None else times
    order = np.arange(len(times), dtype=index_type(times)) if places is None else inverse(places)
    return Groups(times, starts, _sort(times, order, starts), order)


def _pieces(size: int) -> Iterator[slice]:
    """The rows in pieces: Ctrl-C is heard between them."""
    most = tuning.active().rows_sorted
    return (slice(begin, begin + most) for begin in range(0, size, most))


def _sort(times: np.ndarray, order: np.ndarray, starts: np.ndarray) -> bool:
    """Sort each key's rows by time, equal ones as they were; whether two are equal.

    Keys are sorted some at a time, and a key of many rows in pieces that are merged.
    """
    most, ties = tuning.active().rows_sorted, False
    largest = int(np.diff(starts).max())
    spare = np.empty(largest, np.int64), np.empty(largest, order.dtype)
    key = 0
    while key < len(starts) - 1:
        begin, end = int(starts[key]), int(starts[key + 1])
        if end - begin <= most:
            after = int(starts.searchsorted(begin + most, "right")) - 1
            ties |= bool(run(sort_groups)(times, order, starts[key : after + 1], *spare))
            key = after
            continue
        for low in range(begin, end, most):
            piece = np.array([low, min(low + most, end)])
            run(sort_groups)(times, order, piece, *spare)
        width = most
        while width < end - begin:
            for low in range(begin, end - width, 2 * width):
                middle = low + width
                if times[middle] < times[middle - 1]:
                    run(merge)(times, order, low, middle, min(middle + width, end), *spare)
            width *= 2
        ties |= bool(run(look)(read_only(times), starts[key : key + 2])[1])
        key += 1
    return ties


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


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of the same memory that may not be written to.

    Compiled code is made anew for arrays that may be written to and those that may not. What comes
    from Arrow may not, so what is only read is always handed over like this.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def placed(column: Column, places: np.ndarray) -> Column:
    """The column with each row at its place."""
    if column.values.dtype == object:
        return column.take(inverse(places))
    valid = None if column.valid is None else _put(column.valid, places)
    return Column(_put(column.values, places), valid, column.type)


def picked(values: np.ndarray, places: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """`values[places]`, in `target` if there is one."""
    if target is None:
        target = room(len(places), values.dtype)
    if values.dtype == object:
        target[:] = values[places]
    else:
        for rows in _pieces(len(places)):
            run(pick)(values, places[rows], target[rows])
    return target


def inverse(places: np.ndarray) -> np.ndarray:
    """For each place the row that goes there."""
    return _put(np.arange(len(places), dtype=places.dtype), places)


def _put(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    target = room(len(places), values.dtype)
    values = read_only(values)
    for rows in _pieces(len(places)):
        run(put)(values[rows], places[rows], target)
    return target


# Positions are without sign here, so that no machine code is spent on negative ones: these loops
# then take half the time. So they do when they do one thing each.


@kernel
def put(values: Any, places: Any, target: Any) -> None:
    """`target[places] = values`."""
    for i in range(len(places)):
        target[np.uint64(places[i])] = values[i]


@kernel
def pick(values: Any, places: Any, target: Any) -> None:
    """`target = values[places]`."""
    for i in range(len(places)):
        target[i] = values[np.uint64(places[i])]


@kernel
def count_codes(codes: Any, starts: Any) -> bool:
    """Where the rows of each code begin; whether they are in that order already."""
    falls, last = False, 0
    for code in codes:
        starts[np.uint64(code + 1)] += 1
        falls |= code < last
        last = code
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    return not falls


@kernel
def place(codes: Any, free: Any, places: Any) -> None:
    """Give each row the next free place of its code."""
    for i in range(len(codes)):
        code = np.uint64(codes[i])
        places[i] = free[code]
        free[code] += 1


@kernel
def look(times: Any, starts: Any) -> Any:
    """Return whether the times of each key never fall, and whether two are equal."""
    falls, ties = False, False
    for g in range(len(starts) - 1):
        own = times[starts[g] : starts[g + 1]]
        for i in range(1, len(own)):
            falls |= own[i] < own[i - 1]
            ties |= own[i] == own[i - 1]
    return not falls, ties


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

    key = without_views(key)
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
    try:
        plain = key if pa.types.is_nested(key.type) else without_minus_zero(key)
        coded = plain.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:
        return _encode_objects(key)
    return coded.indices.to_numpy().astype(np.int64), max(len(coded.dictionary), 1)


def without_minus_zero(key: pa.Array) -> pa.Array:
    """Return the keys with 0.0 for -0.0, which are one key, also within structs and lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = key.type, pa.types
    if types.is_floating(kind):
        return pc.add(key, pa.scalar(0.0, kind))
    if types.is_struct(kind) and kind.num_fields:
        fields = [without_minus_zero(key.field(k)) for k in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=key.is_null())
    return pa.array(map(_without, key.to_pylist()), kind) if types.is_nested(kind) else key


def _without(value: Any) -> Any:
    """A key with 0.0 for -0.0 at any depth."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _without(part) for name, part in value.items()}
    return type(value)(map(_without, value)) if isinstance(value, list | tuple) else value


def _encode_objects(key: pa.Array) -> tuple[np.ndarray, int]:
    """Codes of values that only Python can compare."""
    known: dict[Any, int] = {}
    codes = [known.setdefault(frozen(value), len(known)) for value in python_values(key)]
    return np.array(codes, np.int64), max(len(known), 1)


def frozen(value: Any) -> Any:
    """A key that a dict takes: tuples for lists, and for structs those of their values.

    All NaN are one object, since a dict compares by identity first, and -0.0 is 0.0.
    """
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple(map(frozen, value.values()))
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def _dense(codes: np.ndarray) -> tuple[np.ndarray, int]:
    import pyarrow as pa

    coded = pa.array(codes).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), max(len(coded.dictionary), 1)
