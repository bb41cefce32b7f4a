"""Where the windows of rolling aggregation begin and end, in rows of the order (key, time)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.arrays.grouping import Groups, read_only
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.limits import LEAST


@dataclass(frozen=True, slots=True)
class Block:
    """Rows from `begin` on; their windows begin with `firsts` and stop before `ends`.

    When `ends` is empty each window ends with its own row. `longest` is the most rows in a window.
    """

    begin: int
    firsts: np.ndarray
    ends: np.ndarray
    longest: int

    @property
    def rows(self) -> slice:
        return slice(self.begin, self.begin + len(self.firsts))


class Bounds:
    """The windows of a span, block by block."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.size = len(groups.times)
        self.times = read_only(groups.times)
        self.ends = np.empty(self.size if groups.ties else 0, np.int64)
        self.most_tied = 1
        if groups.ties:
            self.most_tied = tie_ends.specialise(NOTHING)(self.times, groups.starts, self.ends)

    def blocks(self, length: int, size: int, *, by_rows: bool) -> Iterator[Block]:
        """Blocks of about `size` rows; one without rows when there are none.

        The next block is in the memory of the one before.
        """
        times, starts = self.times, self.groups.starts
        ends = self.ends[:0] if by_rows else self.ends
        by_count, by_time = row_firsts.specialise(NOTHING), time_firsts.specialise(NOTHING)
        cursor = np.zeros(2, np.int64)
        memory = np.empty(min(size + self.most_tied, self.size), np.int64)
        begin = 0
        while begin < self.size or begin == 0:
            stop = min(begin + size, self.size)
            if len(ends):
                stop = int(ends[stop - 1])  # rows of one time stay together
            firsts = memory[: stop - begin]
            if by_rows:
                by_count(starts, length, cursor, begin, firsts)
                longest = min(length, self.size)
            else:
                longest = by_time(times, starts, length, ends, cursor, begin, firsts)
            yield Block(begin, firsts, ends[begin:stop], longest)
            begin = max(stop, 1)


@kernel
def tie_ends(times: Any, starts: Any, ends: Any) -> int:
    """For each row, one more than the last row of its key with the same time.

    Returns how many rows of a key have the same time at most.
    """
    most = 1
    for g in range(len(starts) - 1):
        end = starts[g + 1]
        for i in range(starts[g + 1] - 1, starts[g] - 1, -1):
            if times[i] != times[end - 1]:
                end = i + 1
            ends[i] = end
            most = max(most, end - i)
    return most


@kernel
def time_firsts(
    times: Any, starts: Any, length: int, ends: Any, cursor: Any, begin: int, firsts: Any
) -> int:
    """The first row of the window `(t - length, t]` of each row from `begin` on.

    The cursor holds the key and the first row that the row before had. Returns how many rows the
    longest window has.
    """
    g, first, longest = cursor[0], cursor[1], 1
    tied = len(ends) > 0
    i, stop = begin, begin + len(firsts)
    while i < stop:
        while starts[g + 1] <= i:
            g += 1
            first = starts[g]
        last = min(starts[g + 1], stop)
        end = ends[last - 1] if tied else last
        # Also when `t - length` would be below the least integer.
        if times[last - 1] < LEAST + length or times[first] > times[last - 1] - length:
            longest = max(longest, end - first)
            for j in range(i, last):
                firsts[np.uint64(j - begin)] = first
        else:
            while times[i] < LEAST + length:
                firsts[i - begin] = first
                i += 1
                longest = max(longest, (ends[i - 1] if tied else i) - first)
            for j in range(i, last):
                limit = times[np.uint64(j)] - length
                while times[np.uint64(first)] <= limit:
                    first += 1
                firsts[np.uint64(j - begin)] = first
                longest = max(longest, (ends[j] if tied else j + 1) - first)
        i = last
    cursor[0], cursor[1] = g, first
    return longest


@kernel
def row_firsts(starts: Any, count: int, cursor: Any, begin: int, firsts: Any) -> None:
    """The first of the last `count` rows of the key, for each row from `begin` on."""
    g = cursor[0]
    for k in range(len(firsts)):
        while starts[g + 1] <= begin + k:
            g += 1
        firsts[k] = max(starts[g], begin + k + 1 - count)
    cursor[0] = g
