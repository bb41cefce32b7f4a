"""Keys of any hashable type as small codes that stay the same over batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.codegen.kernel import kernel
from slicewise.columns import Column
from slicewise.grouping import encode
from slicewise.slicing.runs import run

NAN = math.nan  # one object for all NaN keys: a dict compares by identity first


class Keys:
    """The keys seen so far, each with a code from 0 on, in the order of their first event."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.values: list[tuple[Any, ...]] = [] if columns else [()]
        self._codes: dict[tuple[Any, ...], int] = {} if columns else {(): 0}
        # Whole numbers find their code in a table of their own, without Python.
        self._zeros = np.zeros(0, np.int64)
        self._table = np.full((2, 16), -1, np.int64)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, columns: Sequence[Column], size: int) -> np.ndarray:
        """The code of each of `size` events."""
        if not columns:
            if len(self._zeros) < size:
                self._zeros = np.zeros(size, np.int64)
            return self._zeros[:size]
        if len(columns) == 1 and columns[0].values.dtype.kind == "i" and columns[0].valid is None:
            return self._whole(columns[0].values.astype(np.int64, copy=False), columns[0])
        local, count = encode([column.to_arrow() for column in columns])
        assert local is not None
        known: np.ndarray = np.full(count, -1, np.int64)
        present, firsts = np.unique(local, return_index=True)
        rows = zip(*(column.take(firsts).tolist() for column in columns), strict=True)
        known[present] = [self._code(tuple(map(_plain, row))) for row in rows]
        codes: np.ndarray = known[local]
        return codes

    def _code(self, key: tuple[Any, ...]) -> int:
        code = self._codes.setdefault(key, len(self.values))
        if code == len(self.values):
            self.values.append(key)
        return code

    def _whole(self, values: np.ndarray, column: Column) -> np.ndarray:
        codes = np.empty(len(values), np.int64)
        unknown = np.empty(len(values), np.int64)
        while True:
            missing = run(look_up)(values, self._table, codes, unknown)
            if not missing:
                return codes
            rows = unknown[:missing]
            rows = rows[np.unique(values[rows], return_index=True)[1]]
            made = [self._code((key,)) for key in column.take(rows).tolist()]
            needed = len(self.values)
            if 2 * needed > self._table.shape[1]:
                bigger = np.full((2, 1 << (4 * needed).bit_length()), -1, np.int64)
                run(insert_all)(*self._known(), bigger)
                self._table = bigger
            run(insert_all)(values[rows], np.array(made, np.int64), self._table)

    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        used = self._table[1] >= 0
        return self._table[0][used], self._table[1][used]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return NAN if value != value else value + 0.0  # -0.0 is 0.0
    return value


@kernel
def place_of(value: int, table: Any) -> Any:
    """Where `value` is in the table, or where it would go."""
    mask = table.shape[1] - 1
    place = ((value * -7046029254386353131) >> 20) & mask
    while table[1, place] >= 0 and table[0, place] != value:
        place = (place + 1) & mask
    return place


@kernel
def look_up(values: Any, table: Any, codes: Any, unknown: Any) -> int:
    missing = 0
    for i in range(values.shape[0]):
        place = place_of(values[i], table)
        codes[i] = table[1, place]
        if codes[i] < 0:
            unknown[missing] = i
            missing += 1
    return missing


@kernel
def insert_all(values: Any, codes: Any, table: Any) -> None:
    for i in range(values.shape[0]):
        place = place_of(values[i], table)
        table[0, place] = values[i]
        table[1, place] = codes[i]
