"""Sorted runs of slices, one per key: the order in which the aggregate store is read.

A run is a piece of one shared pool, with room to grow at its end; a run that is full moves to the
end of the pool and doubles. Each place of a run names a slot, where the slice itself is kept, so
that inserting into the middle of a run moves three numbers per slice and no state. A late event
finds its slice by search; an event in order looks at the last slice only.

Where many slices go into the middle, those behind them move once and not for each: a run may have
a hole, which goes from slice to slice with the events of a sorted batch and is mended at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import inlined, kernel, run

SMALLEST = 4  # places in a new run
EMPTY = -1

# Cursors of a pool: the end of its used part, free slots, slots made, merges noted, and how many
# slices may still be moved before whoever makes places in the middle has to stop.
TOP, FREE, BORN, MERGED, MOVES = 0, 1, 2, 3, 4

OF_KEYS = ("offset", "size", "room", "base")  # the arrays that have an entry for each key


class RunArrays(NamedTuple):
    """The arrays of runs, as kernels take them: their argument `runs`.

    It is one tuple, and not one inside another, since each that goes to compiled code costs half a
    microsecond a call (measured), and an array next to nothing.
    """

    cursors: np.ndarray
    free: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    room: np.ndarray
    base: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    slot: np.ndarray
    first: np.ndarray
    last: np.ndarray
    rows: np.ndarray


class Runs:
    """The runs of all keys and the slots of their slices.

    `offset`, `size` and `room` describe the run of each key, `base` counts what was evicted from
    its front. A place has `start`, by which a run is sorted and searched, `stop` and its `slot`.
    Slices of windows whose edges are known reach from the edge `start` to before the edge `stop`;
    where events cut them too, `start` is that of the first event. Those of sessions reach from
    their first event, `start`, to their last one, `stop` (the slot knows both as well). A row that
    is a slice has its own measure as `start`, and slices of counted rows the position of their
    first row. A slot has the first and last event time, the number of rows, and the arrival
    number of its oldest event.
    """

    def __init__(self, dtype: str = "i8") -> None:
        self.keys = 0
        self.offset, self.size, self.room, self.base = (np.zeros(8, np.int64) for _ in range(4))
        self.start, self.stop = np.zeros(64, dtype), np.zeros(64, dtype)
        self.slot = np.zeros(64, np.int64)
        self.first, self.last, self.rows, self.arrival = (np.zeros(64, np.int64) for _ in range(4))
        self.free = np.arange(63, -1, -1, dtype=np.int64)
        self.cursors = np.array([0, 64, 0, 0, 0], np.int64)
        self._scratch = np.empty((4, 0), np.int64)
        self._lists = tuple(self._scratch)  # what was asked of it the last time
        self.listed = 0  # how many instances were found the last time

    @property
    def arrays(self) -> RunArrays:
        """The arrays, for a kernel."""
        return RunArrays(
            self.cursors, self.free, self.offset, self.size, self.room, self.base,
            self.start, self.stop, self.slot, self.first, self.last, self.rows,
        )  # fmt: skip

    def arrays_of(self, keys: np.ndarray) -> RunArrays:
        """The arrays for a kernel that looks at some keys alone, which it knows by their order."""
        own = (self.offset[keys], self.size[keys], self.room[keys], self.base[keys])
        offset, size, room, base = own
        return self.arrays._replace(offset=offset, size=size, room=room, base=base)

    @property
    def slots(self) -> int:
        return len(self.rows)

    @property
    def live(self) -> int:
        """The number of slices that are kept."""
        return self.slots - int(self.cursors[FREE])

    def copied(self) -> Runs:
        """A copy of the runs in arrays of its own."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy())
        return other

    def places(self, keys: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
        """All places of the runs of these keys, one run after the other.

        With `keep`, which has a place for each key, only those from there on.
        """
        begin = self.offset[keys] if keep is None else keep[keys]
        size = self.offset[keys] + self.size[keys] - begin
        first: np.ndarray = np.repeat(begin - size.cumsum() + size, size)
        return first + np.arange(len(first))

    def slots_of(self, keys: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
        """The slots of all slices of these keys, one run after the other; see `places`."""
        slots: np.ndarray = self.slot[self.places(keys[keys < self.keys], keep)]
        return slots

    def scratch(self, size: int) -> tuple[np.ndarray, ...]:
        """Four arrays of `size` for the time of one call; fresh memory would cost page faults."""
        if self._scratch.shape[1] < size:
            self._scratch = np.empty((4, size), np.int64)
        if len(self._lists[0]) != size or self._lists[0].base is not self._scratch:
            self._lists = tuple(self._scratch[:, :size])
        return self._lists

    def admit(self, keys: int) -> None:
        """Make room for key codes below `keys`."""
        if keys > len(self.offset):
            more = max(keys, 2 * len(self.offset)) - len(self.offset)
            for name in OF_KEYS:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros(more, np.int64)]))
        self.keys = max(self.keys, keys)

    def renumber(self, live: np.ndarray) -> None:
        """Go on with the runs of these keys alone, in this order; those of the others are empty."""
        for name in OF_KEYS:
            setattr(self, name, of_keys(getattr(self, name), live))
        self.keys = len(live)

    def grow(self, places: int) -> None:
        """Make room for at least `places` more slices, in slots and in the pool."""
        free = int(self.cursors[FREE])
        if free < places:
            more = max(places, self.slots)
            made = np.arange(self.slots + more - 1, self.slots - 1, -1, dtype=np.int64)
            self.free = np.concatenate([made, self.free])  # room for every slot to be free
            self.cursors[FREE] = free + more
            for name in ("first", "last", "rows", "arrival"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.int64)]))
        self._repack(places)

    def _repack(self, places: int) -> None:
        """Move all runs to the front of a new pool with room for growth behind them."""
        used = int(self.size[: self.keys].sum())
        # Runs take at most twice their size now, and each may move once and double.
        pool = 4 * used + 4 * places + SMALLEST * min(self.keys, 4 * places) + 64
        start, stop = np.empty(pool, self.start.dtype), np.empty(pool, self.stop.dtype)
        slot = np.empty(pool, np.int64)
        old = (self.start, self.stop, self.slot)
        self.cursors[TOP] = run(repack)(
            self.keys, self.offset, self.size, self.room, old, (start, stop, slot)
        )
        self.start, self.stop, self.slot = start, stop, slot

    def lay_out(self, size: np.ndarray) -> None:
        """Make room for runs of these sizes and nothing else, each slice in a slot like its place.

        The caller fills in the slices.
        """
        keys, count = len(size), int(size.sum())
        self.admit(keys)
        self.size[:keys] = self.room[:keys] = size
        self.offset[:keys] = np.cumsum(size) - size
        places = max(64, count)
        self.start, self.stop = (
            np.zeros(places, self.start.dtype),
            np.zeros(places, self.stop.dtype),
        )
        self.slot = np.arange(places)
        self.first, self.last, self.rows, self.arrival = (
            np.zeros(places, np.int64) for _ in range(4)
        )
        self.free = np.arange(places - 1, -1, -1)
        self.cursors = np.array([count, places - count, 0, 0, 0], np.int64)

    def evict(self, keep: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """Drop the places before `keep[key]` of each run; returns the slots that became free.

        With `keys`, `keep` has one place for each of these, and other runs stay as they are.
        """
        freed = np.empty(self.live, np.int64)
        if keys is None:
            count = run(drop_before)(self.keys, self.arrays, keep, freed)
        else:
            some = self.arrays_of(keys)
            count = run(drop_before)(len(keys), some, keep, freed)
            for name in OF_KEYS:
                getattr(self, name)[keys] = getattr(some, name)
        self.release(freed[:count])
        return freed[:count]

    def remember(self) -> Callable[[], None]:
        """Gives the slices, as they are now, back to the runs; slots that were let go stay so."""
        before = {
            name: getattr(self, name).copy()
            for name in ("size", "start", "stop", "slot", "first", "last", "rows")
        }

        def undo() -> None:
            for name, array in before.items():
                setattr(self, name, array)

        return undo

    def release(self, slots: np.ndarray) -> None:
        """Give slots back."""
        free = int(self.cursors[FREE])
        self.free[free : free + len(slots)] = slots
        self.cursors[FREE] = free + len(slots)


def of_keys(values: np.ndarray, live: np.ndarray, missing: int = 0) -> np.ndarray:
    """The values of some keys; arrays may lag behind the keys that there are."""
    found = np.full(len(live), missing, values.dtype)
    known = live < len(values)
    found[known] = values[live[known]]
    return found


@kernel
def repack(keys: int, offset: Any, size: Any, room: Any, old: Any, new: Any) -> int:
    top = 0
    for k in range(keys):
        n = size[k]
        if n == 0:
            room[k] = 0
            offset[k] = top
            continue
        a = offset[k]
        for i in range(n):
            new[0][top + i] = old[0][a + i]
            new[1][top + i] = old[1][a + i]
            new[2][top + i] = old[2][a + i]
        offset[k] = top
        room[k] = n + n // 4 + 1
        top += room[k]
    return top


@kernel
def drop_before(keys: int, runs: Any, keep: Any, freed: Any) -> int:
    """Take the places before `keep` from each run; returns how many slots became free."""
    offset, size, room, base = runs.offset, runs.size, runs.room, runs.base
    count = 0
    for k in range(keys):
        gone = min(keep[k], offset[k] + size[k]) - offset[k]
        if gone <= 0:
            continue
        for i in range(offset[k], offset[k] + gone):
            freed[count] = runs.slot[i]
            count += 1
        offset[k] += gone
        size[k] -= gone
        room[k] -= gone
        base[k] += gone
    return count


@kernel
def open_place(k: int, at: int, hole: int, more: int, runs: Any) -> Any:
    """Make a place at `at` in the run of `k`; -1 when there is no room, or no moves are left.

    `hole` places at `at` are empty. If there are none what follows moves, by up to `more` places
    further than it has to. Returns the place, whose slot is new, and how large the hole behind it
    is; the caller fills in the rest.
    """
    cursors, offset, size, room = runs.cursors, runs.offset, runs.size, runs.room
    if cursors[FREE] == 0:
        return -1, hole
    if hole == 0:
        n, position = size[k], at - offset[k]
        if position < n and cursors[MOVES] < 0:
            return -1, 0
        if n == room[k]:
            bigger = max(SMALLEST, 2 * n)
            top = cursors[TOP]
            if top + bigger > runs.start.shape[0]:
                return -1, 0
            move_places(offset[k], offset[k] + n, top - offset[k], runs)
            offset[k] = top
            room[k] = bigger
            cursors[TOP] = top + bigger
        at, end = offset[k] + position, offset[k] + n
        hole = 1
        if at < end:
            hole += min(more, room[k] - n - 1)
            move_places(at, end, hole, runs)
            cursors[MOVES] -= end - at
    size[k] += 1
    cursors[FREE] -= 1
    runs.slot[at] = runs.free[cursors[FREE]]
    return at, hole - 1


@kernel
def move_places(begin: int, end: int, by: int, runs: Any) -> None:
    """Move places to the right, or to the left where `by` is negative."""
    start, stop, slot = runs.start, runs.stop, runs.slot
    if by > 0:
        for i in range(end - 1, begin - 1, -1):
            start[i + by] = start[i]
            stop[i + by] = stop[i]
            slot[i + by] = slot[i]
    else:
        for i in range(begin, end):
            start[i + by] = start[i]
            stop[i + by] = stop[i]
            slot[i + by] = slot[i]


@inlined
def join_places(
    k: int, place: int, after: int, runs: Any, touched: Any, pairs: Any, count: int
) -> int:
    """Let the slice at `place` of `k` take in the one at `after`; their states follow.

    The pair of slots is noted as number `count`, and `touched` gets the least measure that this
    changes. Returns how many pairs there are.
    """
    start, stop, slot = runs.start, runs.stop, runs.slot
    first, last, rows = runs.first, runs.last, runs.rows
    there, gone = slot[place], slot[after]
    older, newer = pairs
    older[count] = there
    newer[count] = gone
    if touched is not None:
        touched[k] = min(touched[k], start[place])
    stop[place] = stop[after]
    first[there] = min(first[there], first[gone])
    last[there] = max(last[there], last[gone])
    rows[there] += rows[gone]
    return count + 1


@kernel
def mend(k: int, at: int, hole: int, runs: Any) -> None:
    """Close the hole at `at` in the run of `k`."""
    end = runs.offset[k] + runs.size[k]
    if hole > 0:
        move_places(at + hole, end + hole, -hole, runs)
        runs.cursors[MOVES] -= end - at


@inlined
def seek(t: Any, k: int, at: int, hole: int, runs: Any) -> Any:
    """The place behind all slices of `k` that begin at or before `t`, and the hole that is there.

    A hole at `at` comes along, or is mended if `t` is before it.
    """
    start, stop, slot = runs.start, runs.stop, runs.slot
    low = runs.offset[k]
    end = low + runs.size[k]  # without the hole
    if hole > 0 and (at == low or start[at - 1] <= t):
        while at < end and start[at + hole] <= t:
            start[at] = start[at + hole]
            stop[at] = stop[at + hole]
            slot[at] = slot[at + hole]
            at += 1
        return at, hole
    mend(k, at, hole, runs)
    if low == end or t >= start[end - 1]:
        return end, 0
    return last_at_most(start, low, end - 1, t) + 1, 0
