"""Keys of any hashable type as small codes that stay the same over batches.

Whole numbers and times get their codes in a compiled hash table. Other keys are encoded by Arrow,
and only the distinct ones of a batch are looked up in a dict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.codegen.kernel import kernel
from slicewise.columns import Column, storage
from slicewise.grouping import encode
from slicewise.slicing.runs import run

if TYPE_CHECKING:
    import pyarrow as pa

NAN = math.nan  # one object for all NaN keys: a dict compares by identity first


class Keys:
    """The keys seen so far, each with a code from 0 on, in the order of their first event.

    Without columns there is one key, the empty one.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._size = 0 if columns else 1
        self._arrays: list[pa.Array] = []  # one per column, as long as there are keys
        self._fresh: list[list[pa.Array]] = []  # what is not in the arrays yet
        self._codes: dict[tuple[Any, ...], int] = {}
        self._table = np.full((2, 16), -1, np.int64)
        self._null = -1  # the code of null among whole numbers
        self._zeros = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._size

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """The code of each of `rows` events, given their keys as Arrow arrays."""
        if not self.columns:
            if len(self._zeros) < rows:
                self._zeros = np.zeros(rows, np.int64)
            return self._zeros[:rows]
        if len(columns) == 1 and is_whole(columns[0].type):
            return self._whole(columns[0])
        local, count = encode(columns)
        assert local is not None
        firsts = np.full(count, -1, np.int64)
        run(first_rows)(local, firsts)
        present = np.flatnonzero(firsts >= 0)
        distinct = [column.take(firsts[present]) for column in columns]
        known = np.full(count, -1, np.int64)
        known[present] = self._named(distinct)
        codes: np.ndarray = known[local]
        return codes

    def _named(self, distinct: Sequence[pa.Array]) -> list[int]:
        """The codes of distinct keys; those that are new get the next ones."""
        known, size = self._codes, self._size
        codes, new = [], []
        for row, key in enumerate(zip(*(c.to_pylist() for c in distinct), strict=True)):
            if any(isinstance(value, float) for value in key):
                key = tuple(map(_plain, key))
            code = known.get(key)
            if code is None:
                code = known[key] = self._size
                self._size += 1
                new.append(row)
            codes.append(code)
        if self._size > size:
            self._fresh.append([column.take(np.array(new)) for column in distinct])
        return codes

    def _whole(self, keys: pa.Array) -> np.ndarray:
        column = Column.from_arrow(keys)
        values = column.values.astype(np.int64, copy=False)
        codes = np.empty(len(values), np.int64)
        made = np.empty(len(values), np.int64)
        done, new, size = 0, 0, self._size
        if column.valid is not None and self._null < 0:
            # Null is a key like any other; it takes its place before the numbers of this batch.
            self._null, size = size, size + 1
            self._fresh.append([keys.take(np.flatnonzero(~column.valid)[:1])])
        while True:
            done, new = run(code_whole)(
                values, column.valid, self._null, self._table, codes, made, done, new, size
            )
            if done == len(values):
                break
            self._table = _wider(self._table)
        if new:
            self._fresh.append([Column(made[:new], None, column.type).to_arrow()])
        self._size = size + new
        return codes

    def arrays(self) -> list[pa.Array]:
        """All keys in the order of their codes, one array per column."""
        import pyarrow as pa

        if self._fresh:
            parts = [self._arrays, *self._fresh] if self._arrays else self._fresh
            self._arrays = [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
            self._fresh = []
        return self._arrays

    def retype(self, types: Sequence[pa.DataType]) -> None:
        """Give the keys so far these types; some had none, being nothing but null."""
        import pyarrow as pa

        arrays = self.arrays()
        if arrays and [array.type for array in arrays] != list(types):
            pairs = zip(arrays, types, strict=True)
            self.load([a if a.type == kind else pa.nulls(len(a), kind) for a, kind in pairs])

    def load(self, arrays: Sequence[pa.Array]) -> None:
        """Take over keys, each with its place as its code."""
        if not self.columns or not len(arrays[0]):
            return
        self._fresh = []
        self._arrays, self._size = list(arrays), len(arrays[0])
        if len(arrays) == 1 and is_whole(arrays[0].type):
            column = Column.from_arrow(arrays[0])
            values, codes = column.values.astype(np.int64), np.arange(self._size)
            if column.valid is not None:
                self._null = int(np.flatnonzero(~column.valid)[0])
                values, codes = values[column.valid], codes[column.valid]
            self._table = np.full((2, 1 << (2 * self._size + 16).bit_length()), -1, np.int64)
            run(insert_all)(values, codes, self._table)
            return
        keys = zip(*(array.to_pylist() for array in arrays), strict=True)
        rows: Iterable[tuple[Any, ...]] = keys
        if any(storage(array.type).kind == "f" for array in arrays):
            rows = (tuple(map(_plain, key)) for key in keys)
        self._codes = dict(zip(rows, range(self._size), strict=True))


def is_whole(kind: pa.DataType) -> bool:
    """Whether keys of a type are whole numbers that fit 64 bits with sign."""
    import pyarrow as pa

    return storage(kind).kind in "iu" and not pa.types.is_uint64(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return NAN if value != value else value + 0.0  # -0.0 is 0.0
    return value


def _wider(table: np.ndarray) -> np.ndarray:
    wider = np.full((2, 4 * table.shape[1]), -1, np.int64)
    used = table[1] >= 0
    run(insert_all)(table[0][used], table[1][used], wider)
    return wider


@kernel
def first_rows(codes: Any, firsts: Any) -> None:
    """The first row of each code."""
    for i in range(codes.shape[0] - 1, -1, -1):
        firsts[codes[i]] = i


@kernel
def place_of(value: int, table: Any) -> Any:
    """Where `value` is in the table, or where it would go."""
    mask = table.shape[1] - 1
    place = ((value * -7046029254386353131) >> 20) & mask
    while table[1, place] >= 0 and table[0, place] != value:
        place = (place + 1) & mask
    return place


@kernel
def code_whole(
    values: Any,
    valid: Any,
    null: int,
    table: Any,
    codes: Any,
    made: Any,
    done: int,
    new: int,
    size: int,
) -> Any:
    """Codes of whole numbers; stops when the table is half full."""
    for i in range(done, values.shape[0]):
        if valid is not None and not valid[i]:
            codes[i] = null
            continue
        place = place_of(values[i], table)
        if table[1, place] < 0:
            if 2 * (size + new) >= table.shape[1]:
                return i, new
            table[0, place] = values[i]
            table[1, place] = size + new
            made[new] = values[i]
            new += 1
        codes[i] = table[1, place]
    return values.shape[0], new


@kernel
def insert_all(values: Any, codes: Any, table: Any) -> None:
    for i in range(values.shape[0]):
        place = place_of(values[i], table)
        table[0, place] = values[i]
        table[1, place] = codes[i]
