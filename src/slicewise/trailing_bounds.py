"""Where the windows of rolling aggregation begin and end, in rows of the order (key, time)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.grouping import Groups

LOWEST = -(2**63)


@dataclass(frozen=True, slots=True)
class Block:
    """Rows from `begin` on; their windows begin with `firsts` and stop before `ends`.

    Without `ends` each window ends with its own row. `longest` is the most rows in a window.
    """

    begin: int
    firsts: np.ndarray
    ends: np.ndarray | None
    longest: int

    @property
    def rows(self) -> slice:
        return slice(self.begin, self.begin + len(self.firsts))


class Bounds:
    """The windows of a span, block by block."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.size = len(groups.times)
        self.ends: np.ndarray | None = None
        self.most_tied = 1
        if groups.ties:
            self.ends = np.empty(self.size, np.int64)
            self.most_tied = tie_ends.specialise(NOTHING)(groups.times, groups.starts, self.ends)

    def blocks(self, length: int, size: int, *, by_rows: bool) -> Iterator[Block]:
        """Blocks of about `size` rows; one without rows when there are none.

        The next block is in the memory of the one before.
        """
        times, starts = self.groups.times, self.groups.starts
        ends = None if by_rows else self.ends
        by_count, by_time = row_firsts.specialise(NOTHING), time_firsts.specialise(NOTHING)
        cursor = np.zeros(2, np.int64)
        memory = np.empty(min(size + self.most_tied, self.size), np.int64)
        begin = 0
        while begin < self.size or begin == 0:
            stop = min(begin + size, self.size)
            if ends is not None:
                stop = int(ends[stop - 1])  # rows of one time stay together
            firsts = memory[: stop - begin]
            if by_rows:
                by_count(starts, length, cursor, begin, firsts)
                longest = min(length, self.size)
            else:
                longest = by_time(times, starts, length, ends, cursor, begin, firsts)
            yield Block(begin, firsts, None if ends is None else ends[begin:stop], longest)
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
    i, stop = begin, begin + len(firsts)
    while i < stop:
        while starts[g + 1] <= i:
            g += 1
            first = starts[g]
        last = min(starts[g + 1], stop)
        end = last
        if ends is not None:
            end = ends[last - 1]
        # Also when `t - length` would be below the least integer.
        if times[last - 1] < LOWEST + length or times[first] > times[last - 1] - length:
            longest = max(longest, end - first)
            for j in range(i, last):
                firsts[j - begin] = first
        else:
            while times[i] < LOWEST + length:
                firsts[i - begin] = first
                i += 1
                longest = max(longest, (i if ends is None else ends[i - 1]) - first)
            for j in range(i, last):
                limit = times[np.uint64(j)] - length
                while times[np.uint64(first)] <= limit:
                    first += 1
                firsts[np.uint64(j - begin)] = first
                end = j + 1
                if ends is not None:
                    end = ends[j]
                longest = max(longest, end - first)
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
