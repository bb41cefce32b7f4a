"""Keys of any hashable type as small codes that stay the same over batches.

Whole numbers, times and texts get their codes in a compiled hash table. Other keys, and those of
several columns, are encoded by Arrow, and only the distinct ones of a batch are looked up in a
dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.grouping import encode, frozen, without_minus_zero
from slicewise.arrays.key_tables import KeyTable, table_for
from slicewise.codegen.kernel import kernel, run

if TYPE_CHECKING:
    import pyarrow as pa


class Keys:
    """The keys seen so far, each with a code from 0 on, in the order of their first event.

    Without columns there is one key, the empty one.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._size = 0 if columns else 1
        self._table: KeyTable | None = None
        self._arrays: list[pa.Array] = []  # one per column, as long as there are keys
        self._fresh: list[list[pa.Array]] = []  # what is not in the arrays yet
        self._codes: dict[tuple[Any, ...], int] = {}
        self._zeros = np.zeros(0, np.int64)
        self._every = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._size if self._table is None else self._table.size

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """The code of each of `rows` events, given their keys as Arrow arrays."""
        import pyarrow as pa

        if not self.columns:
            if len(self._zeros) < rows:
                self._zeros = np.zeros(rows, np.int64)
            return self._zeros[:rows]
        if self._table is None and not self._size and len(columns) == 1:
            self._table = table_for(_plain_type(columns[0].type))
        if self._table is not None and not isinstance(columns[0], pa.DictionaryArray):
            return self._table.codes(columns[0])
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

    def _named(self, distinct: Sequence[pa.Array]) -> np.ndarray | list[int]:
        """The codes of distinct keys; those that are new get the next ones."""
        if self._table is not None:
            return self._table.codes(distinct[0].dictionary_decode())
        known, size = self._codes, self._size
        codes, new = [], []
        named: dict[tuple[Any, ...], int] = {}
        plain = all(map(_hashes, distinct))
        for row, key in enumerate(zip(*(c.to_pylist() for c in distinct), strict=True)):
            if not plain:
                key = tuple(map(frozen, key))
            code = known.get(key, named.get(key))
            if code is None:
                code = named[key] = size + len(named)
                new.append(row)
            codes.append(code)
        if named:
            rows = np.array(new)
            fresh = [without_minus_zero(column.take(rows)) for column in distinct]
            known.update(named)
            self._fresh.append(fresh)
            self._size = size + len(named)
        return codes

    def every(self) -> np.ndarray:
        """The codes of all keys, in order; the array is shared and must not be changed."""
        size = len(self)
        if len(self._every) < size:
            self._every = np.arange(2 * size, dtype=np.int64)
        return self._every[:size]

    def arrays(self) -> list[pa.Array]:
        """All keys in the order of their codes, one array per column."""
        import pyarrow as pa

        if self._table is not None:
            return [self._table.array()]
        if self._fresh:
            parts = [self._arrays, *self._fresh] if self._arrays else self._fresh
            joined = [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
            self._arrays, self._fresh = joined, []
        return self._arrays

    def take(self, codes: np.ndarray) -> list[pa.Array]:
        """The keys of these codes, one array per column; none before the first key."""
        import pyarrow as pa

        if self._table is not None:
            return [self._table.take(codes)]
        return [array.take(pa.array(codes)) for array in self.arrays()]

    def retype(self, types: Sequence[pa.DataType]) -> None:
        """Give the keys so far these types; some had none, being nothing but null."""
        import pyarrow as pa

        arrays = self.arrays()
        if arrays and [array.type for array in arrays] != list(types):
            pairs = zip(arrays, types, strict=True)
            self.load([a if a.type == kind else pa.nulls(len(a), kind) for a, kind in pairs])

    def renumber(self, live: np.ndarray) -> None:
        """Forget all keys but those of these codes, each with its place as its new code."""
        self.load(self.take(live))

    def load(self, arrays: Sequence[pa.Array]) -> None:
        """Take over keys, each with its place as its code."""
        if not self.columns:
            return
        self._fresh, self._codes, self._size = [], {}, len(arrays[0])
        self._arrays, self._table, self._every = [], None, self._every[:0].copy()
        if not self._size:
            return
        self._arrays = list(arrays)
        self._table = table_for(arrays[0].type) if len(arrays) == 1 else None
        if self._table is not None:
            self._table.load(arrays[0])
            return
        keys = zip(*(array.to_pylist() for array in arrays), strict=True)
        rows: Iterable[tuple[Any, ...]] = keys
        if not all(map(_hashes, arrays)):
            rows = (tuple(map(frozen, key)) for key in keys)
        self._codes = dict(zip(rows, range(self._size), strict=True))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _hashes(keys: pa.Array) -> bool:
    """Return whether equal keys are equal as Python's values, with equal hashes."""
    import pyarrow as pa

    kind = _plain_type(keys.type)
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


@kernel
def first_rows(codes: Any, firsts: Any) -> None:
    """The first row of each code."""
    for i in range(codes.shape[0] - 1, -1, -1):
        firsts[codes[i]] = i
