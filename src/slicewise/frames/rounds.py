"""Rows that come in rounds: keys that share their times.

A round is all rows of one time. When rows come in the order of time and most keys have a row in
most rounds, as in what is polled or in a table of daily prices, the rows are a table of rounds by
keys as they came, or nearly so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.grouping import index_type, put, read_only, room
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.columns import Column


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rows as a table of rounds by keys: key `k` in round `r` is at place `r * keys + k`.

    `times` has one time for each round. `places` says where each row of the input is; it is `None`
    when no row moves. `present` says which places have a row; it is `None` when all have one.
    """

    times: np.ndarray
    keys: int
    places: np.ndarray | None = None
    present: np.ndarray | None = None

    @property
    def size(self) -> int:
        return len(self.times) * self.keys

    def ordered(self, column: Column) -> Column:
        """The column with each row at its place; null where there is none."""
        if self.places is None:
            return column
        values = room(self.size, column.values.dtype)
        if values.dtype == object:
            values[self.places] = column.values
        else:
            put.specialise(NOTHING)(read_only(column.values), self.places, values)
        valid = self.present
        if column.valid is not None:
            valid = np.zeros(self.size, np.bool_)
            valid[self.places] = column.valid
        return Column(values, valid, column.type)


def rounds_of(
    codes: np.ndarray | None, keys: int, times: np.ndarray, *, full: float
) -> Rounds | None:
    """The rounds of the rows, or `None` when they do not come in rounds.

    They do when times never fall, no key has two rows of one time, and of all pairs of a time and a
    key at least the part `full` has a row. The first row that breaks this ends the search.
    """
    limits = tuning.active()
    if codes is None or keys < limits.rounds_keys or len(codes) < max(keys, limits.rounds_rows):
        return None
    codes, times = read_only(codes), read_only(times)
    if is_table.specialise(NOTHING)(codes, times, keys):
        return Rounds(times[::keys].copy(), keys)
    most = int(len(codes) / full) // keys
    present, moments = np.zeros(most * keys, np.bool_), np.empty(most, np.int64)
    places = room(len(codes), index_type(present))
    count = put_in_rounds.specialise(NOTHING)(codes, times, keys, places, moments, present)
    if not count:
        return None
    whole = count * keys == len(codes)
    return Rounds(moments[:count], keys, places, None if whole else present[: count * keys])


@kernel
def is_table(codes: Any, times: Any, keys: int) -> bool:
    """Return `True` if each round has all keys, in the order of their codes, and a later time."""
    if len(codes) % keys:
        return False
    for begin in range(0, len(codes), keys):
        own, same, time = codes[begin : begin + keys], times[begin : begin + keys], times[begin]
        if begin > 0 and time <= times[begin - 1]:
            return False
        odd = 0
        for k in range(keys):
            odd |= (own[k] ^ k) | (same[k] ^ time)
        if odd != 0:
            return False
    return True


@kernel
def put_in_rounds(
    codes: Any, times: Any, keys: int, places: Any, moments: Any, present: Any
) -> int:
    """Give each row its place, and each round its time; returns how many rounds there are.

    None, if times fall, if a place is taken, or if there are more places without a row than
    `present` has room for.
    """
    r, begin, time = 0, 0, times[0]
    moments[0] = time
    for i in range(len(codes)):
        if times[i] != time:
            r, begin = r + 1, begin + keys
            if times[i] < time or begin - i > len(present) - len(codes):
                return 0
            time = times[i]
            moments[r] = time
        place = begin + codes[i]
        if present[np.uint64(place)]:
            return 0
        present[np.uint64(place)] = True
        places[i] = place
    return r + 1
