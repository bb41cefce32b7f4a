"""Mergers that are kept between watermarks.

Each window of each key has a merger of its own, which takes the slices that come and lets those go
that its windows have left behind; the work of one watermark is not done again at the next. Mergers
that answer for newest parts, as FlatFIT does, are one for each key, which all of its windows ask,
the longest first (FlatFIT, Section 3.2).

A batch tells the least measure that it has touched of each key. Where that lies in slices that a
merger has taken already, which only late events do, it begins anew with those of its next window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import States
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import OPEN, kernel, run
from slicewise.codegen.prelude import identity, load, part, store
from slicewise.codegen.tally import tallied
from slicewise.limits import INFINITY
from slicewise.mergers.array import cores
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.tree import least_of_each

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

NEVER = np.iinfo(np.int64).max


class Asked(NamedTuple):
    """Windows as a merger is asked for them, those of one merger in the order of their ends.

    `row` says where a result goes, `stream` which merger has it. `[low, high)` are its slices by
    numbers that stay while slices go; `base` is the first that the merger still needs, and `shift`
    is what is added to a number for its place.
    """

    row: np.ndarray
    stream: np.ndarray
    low: np.ndarray
    high: np.ndarray
    base: np.ndarray
    shift: np.ndarray


class Streams(NamedTuple):
    """The mergers of one component: where their cursors and states lie, and how far they are.

    Merger `s` has room for `room[s]` slices. Its cursors, `width[s]` of them, begin at `cursors[s]`
    and its states, `slots[s]`, at `states[s]`. It has seen the slices from `begin[s]` to before
    `end[s]`.
    """

    room: np.ndarray
    cursors: np.ndarray
    width: np.ndarray
    states: np.ndarray
    slots: np.ndarray
    begin: np.ndarray
    end: np.ndarray


class Mergers:
    """The mergers of one component, for all keys and windows, in arrays that they share."""

    def __init__(self, cls: type[FlatMerger], algebra: Any) -> None:
        self.cls, self.algebra = cls, algebra
        self.streams = Streams(*(np.zeros(0, np.int64) for _ in Streams._fields))
        self.p = np.zeros(0, np.int64)
        self.M: States = algebra.new(0)
        self.used = [0, 0]  # of the cursors and of the states
        self.ahead: Future[None] | None = None  # what another thread does until the next call

    def admit(self, count: int) -> None:
        """Make room for so many mergers."""
        more = count - len(self.streams.room)
        if more > 0:
            none = np.zeros(more, np.int64)
            self.streams = Streams(*(np.append(array, none) for array in self.streams))

    def changed(self, firsts: np.ndarray) -> None:
        """Take note, for each merger, of the first slice that is no longer what it was."""
        end = self.streams.end[: len(firsts)]
        end[end > firsts] = NEVER  # beyond what is asked for: it begins anew

    def ask(
        self, asked: Asked, S: States, slot: np.ndarray, chunks: np.ndarray, out: States
    ) -> int:
        """Put the states of windows into `out`; returns the combines that it took.

        `chunks` has the size of chunks for each window of a key, for mergers that have some.
        """
        self.wait()
        together = self.cls.properties.suffixes
        need = np.zeros(len(self.streams.room), np.int64)
        np.maximum.at(need, asked.stream, asked.high - asked.base)
        grown = np.flatnonzero(need > self.streams.room)
        if len(grown):
            self._grow(grown, need[grown])
            if self.cls.chunked:
                self.p[self.streams.cursors[grown] + self.cls.cursors] = chunks[grown % len(chunks)]
        at = np.flatnonzero(need)
        tallies = self.streams.cursors[at] + self.streams.width[at] - 1
        using = tuple(map(tallied, self.cls.kernels_for(self.algebra)))
        # No merger takes more combines than one that has nothing but the slices.
        work = float((asked.high - asked.low).sum())
        way = (ask_together if together else ask_each).specialise(self.algebra, using, work=work)
        way(S, slot, asked, self.streams, self.cls.cursors, (self.p, self.M), out)
        combines = int(self.p[tallies].sum())
        self.p[tallies] = 0
        return combines

    def work_ahead(self, other: Executor) -> None:
        """Let another thread make what will be asked for next, as PBA's suffixes."""
        using = tuple(map(tallied, self.cls.kernels_for(self.algebra)))
        run = work_ahead_of_all.specialise(self.algebra, using, work=math.inf)
        self.ahead = other.submit(run, self.streams, (self.p, self.M))

    def wait(self) -> None:
        """Let the other thread end."""
        if self.ahead is not None:
            done, self.ahead = self.ahead, None
            done.result()

    def _grow(self, grown: np.ndarray, need: np.ndarray) -> None:
        """Give mergers more room, in another place."""
        before = Streams(*(array[grown] for array in self.streams))
        wanted = np.where(before.room > 0, np.maximum(need, 2 * before.room), need)
        cls = self.cls
        lengths, of_each = np.unique(wanted, return_inverse=True)
        rooms = [cls.capacity_for(length) for length in lengths.tolist()]
        room = np.array(rooms)[of_each]
        width = np.array([cls.cursors + cls.numbers(one) + 1 for one in rooms])[of_each]
        slots = np.array([cls.slots(one) for one in rooms])[of_each]
        cursors, states = (
            np.cumsum(sizes) - sizes + used
            for sizes, used in zip((width, slots), self.used, strict=True)
        )
        self.used = [self.used[0] + int(width.sum()), self.used[1] + int(slots.sum())]
        self.p = _longer(self.p, self.used[0])
        self.M = tuple(_longer(array, self.used[1]) for array in self.M)
        places = {"cursors": cursors, "width": width, "states": states, "slots": slots}
        after = before._replace(room=room, **places)
        for mine, array in zip(self.streams, after, strict=True):
            mine[grown] = array
        using = cls.kernels_for(self.algebra)
        carry.specialise(self.algebra, using)(before, after, cls.cursors, (self.p, self.M))


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for so many values, and for more when it is full."""
    if size <= len(array):
        return array
    more = np.zeros(max(size, 2 * len(array)) - len(array), array.dtype)
    return np.concatenate([array, more])


class KeptMergers:
    """The mergers of a store: those of each component, and what has changed since they were asked.

    `chunks` has the size of chunks by the numbers of windows, for mergers that have some. `windows`
    has a place for each window by its number, and `lows` the first slice that each of
    them was asked for the last time, by key. `touched` is the least measure of each key that has
    changed.
    """

    def __init__(self, cls: type[FlatMerger], runs: Runs, chunks: Mapping[int, int]) -> None:
        self.cls, self.runs, self.chunks = cls, runs, chunks
        self.other: Executor | None = None
        self.windows: dict[int, int] = {}
        self.lows = np.full((0, 1), NEVER)
        self.touched = np.full(len(runs.offset), INFINITY, runs.start.dtype)
        self.components: dict[int, Mergers] = {}

    def touch(self, at: np.ndarray, keys: np.ndarray | None) -> None:
        """Take note that events of these measures come."""
        touched = self.least()
        if keys is None:
            touched[0] = min(touched[0], at.min(initial=INFINITY))
        else:
            run(least_of_each)(at, keys, touched)

    def least(self) -> np.ndarray:
        """`touched`, with room for every key."""
        more = len(self.runs.offset) - len(self.touched)
        if more > 0:
            fresh = np.full(more, INFINITY, self.touched.dtype)
            self.touched = np.append(self.touched, fresh)
        return self.touched

    def asked(
        self, windows: np.ndarray, keys: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> Asked:
        """The windows `[left, right)` of these keys, in the order in which mergers are asked."""
        self._settle()
        gone = self.runs.base[keys]
        shift = self.runs.offset[keys] - gone
        low, high = left - shift, right - shift
        places = self._places(windows)
        if self.cls.properties.suffixes:
            stream = keys
            self.lows[keys, places] = NEVER
            np.minimum.at(self.lows, (keys, places), low)
            base = np.maximum(self.lows.min(axis=1)[keys], gone)
        else:
            stream, base = keys * self.lows.shape[1] + places, low
        row = np.lexsort((low, high, stream))
        order = (row, stream[row], low[row], high[row], base[row], shift[row])
        return Asked(*order)

    def ask(
        self, number: int, algebra: Any, asked: Asked, S: States, slot: np.ndarray
    ) -> tuple[States, int]:
        """The states of windows of the component of that number, and the combines that took."""
        mergers, out = self._mergers(number, algebra), algebra.new(len(asked.row))
        chunks = np.zeros(self.lows.shape[1], np.int64)
        for window, place in self.windows.items():
            chunks[place] = self.chunks.get(window, 0)
        combines = mergers.ask(asked, S, slot, chunks, out)
        limits = tuning.active()
        room = int(mergers.streams.room.max(initial=0))
        if self.cls.chunked and algebra.compiled and room >= limits.threads_length and cores() > 1:
            tuning.took("suffixes ahead")
            if self.other is None:
                from concurrent.futures import ThreadPoolExecutor

                self.other = ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba")
            mergers.work_ahead(self.other)
        return out, combines

    def _mergers(self, number: int, algebra: Any) -> Mergers:
        """The mergers of the component of that number."""
        count = self.lows.size
        if number not in self.components:
            self.components[number] = Mergers(self.cls, algebra)
        self.components[number].admit(count)
        return self.components[number]

    def _places(self, windows: np.ndarray) -> np.ndarray:
        """The places of windows by their numbers; each key has room for all of them."""
        for number in np.unique(windows).tolist():
            self.windows.setdefault(number, len(self.windows))
        keys, wide = self.lows.shape
        if len(self.windows) > wide:
            wide = max(len(self.windows), 2 * wide)
            self.lows = np.full((keys, wide), NEVER)
            self.components = {}  # mergers have other places now
        more = self.runs.keys - keys
        if more > 0:
            self.lows = np.concatenate([self.lows, np.full((more, wide), NEVER)])
        place = np.zeros(max(self.windows) + 1, np.int64)
        place[list(self.windows)] = list(self.windows.values())
        found: np.ndarray = place[windows]
        return found

    def _settle(self) -> None:
        """Tell mergers which slices have changed."""
        runs, touched = self.runs, self.least()
        if not self.components:
            touched[:] = INFINITY
            return
        firsts = np.full(runs.keys, NEVER)
        run(first_changed)(touched, runs.keys, runs.arrays, firsts)
        touched[:] = INFINITY
        if not self.cls.properties.suffixes:
            firsts = np.repeat(firsts, self.lows.shape[1])
        for mergers in self.components.values():
            mergers.wait()
            mergers.admit(len(firsts))
            mergers.changed(firsts)


@kernel
def first_changed(touched: Any, keys: int, runs: Any, firsts: Any) -> None:
    """The number of the first slice of each key that has events at or after what was touched."""
    offset, size, start, base = runs.offset, runs.size, runs.start, runs.base
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        if touched[code] < INFINITY:
            place = first_at_least(start, a, z, touched[code])
            if place > a and (place == z or start[place] > touched[code]):
                place -= 1
            firsts[code] = place - a + base[code]


insert: Any = OPEN
evict: Any = OPEN
query: Any = OPEN
suffix: Any = OPEN
move: Any = OPEN
work_ahead: Any = OPEN


@kernel
def afresh(p: Any, M: Any, cursors: int) -> None:
    """Empty a merger."""
    for i in range(cursors):
        if i != 2:
            p[i] = 0
    neutral = identity()
    for i in range(M[0].shape[0]):
        store(M, i, neutral)


@kernel
def carry(before: Any, after: Any, cursors: int, pools: Any) -> None:
    """Move mergers to places where they have more room."""
    P, M = pools
    for s in range(after.room.shape[0]):
        q = P[after.cursors[s] : after.cursors[s] + after.width[s]]
        T = part(M, after.states[s], after.states[s] + after.slots[s])
        q[2] = after.room[s] - 1
        afresh(q, T, cursors)
        if before.room[s] > 0:
            p = P[before.cursors[s] : before.cursors[s] + before.width[s]]
            move(p, part(M, before.states[s], before.states[s] + before.slots[s]), q, T)


@kernel
def ask_each(
    S: Any, slot: Any, asked: Any, streams: Any, cursors: int, pools: Any, out: Any
) -> None:
    """Ask the merger of each window for all that it holds."""
    P, M = pools
    begin, end = streams.begin, streams.end
    for k in range(asked.row.shape[0]):
        s, low, high = asked.stream[k], asked.low[k], asked.high[k]
        p = P[streams.cursors[s] : streams.cursors[s] + streams.width[s]]
        T = part(M, streams.states[s], streams.states[s] + streams.slots[s])
        if low < begin[s] or low >= end[s] or high < end[s]:
            afresh(p, T, cursors)
            begin[s], end[s] = low, low
        while begin[s] < low:
            evict(p, T)
            begin[s] += 1
        while end[s] < high:
            insert(p, T, load(S, slot[end[s] + asked.shift[k]]))
            end[s] += 1
        store(out, asked.row[k], query(p, T))


@kernel
def ask_together(
    S: Any, slot: Any, asked: Any, streams: Any, cursors: int, pools: Any, out: Any
) -> None:
    """Ask the merger of each key for the newest part that a window is."""
    P, M = pools
    begin, end = streams.begin, streams.end
    for k in range(asked.row.shape[0]):
        s, low, high, base = asked.stream[k], asked.low[k], asked.high[k], asked.base[k]
        p = P[streams.cursors[s] : streams.cursors[s] + streams.width[s]]
        T = part(M, streams.states[s], streams.states[s] + streams.slots[s])
        if low < begin[s] or end[s] < base or high < end[s]:
            afresh(p, T, cursors)
            begin[s], end[s] = base, base
        while begin[s] < base:
            evict(p, T)
            begin[s] += 1
        while end[s] < high:
            insert(p, T, load(S, slot[end[s] + asked.shift[k]]))
            end[s] += 1
        store(out, asked.row[k], suffix(p, T, high - low))


@kernel
def work_ahead_of_all(streams: Any, pools: Any) -> None:
    """Let every merger do what it can before it is asked."""
    P, M = pools
    for s in range(streams.room.shape[0]):
        if streams.room[s] > 0:
            p = P[streams.cursors[s] : streams.cursors[s] + streams.width[s]]
            T = part(M, streams.states[s], streams.states[s] + streams.slots[s])
            work_ahead(p, T)
