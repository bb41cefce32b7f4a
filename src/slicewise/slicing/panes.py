"""Slices of many keys, kept by time: edges of context-free windows are the same for all keys.

A pane holds the slices of all keys between two edges, as lists of (key, rows, state) in the order
of keys. A batch is put in the order of (pane, key) and adds a list to each pane that it touches; a
list that is not much smaller than the one before it is merged with it, so that a pane has few
lists and a small batch costs little. Everything is read from the front to the back: where there
are a million keys, a look at each key's own run would cost several cache misses a slice.

Source:  the lists of a pane are a logarithmic method, doi:10.1016/0196-6774(80)90015-2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slicewise.aggregates.base import Component, States, read, taken
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load, store
from slicewise.columns import Column
from slicewise.slicing.batches import order_of
from slicewise.slicing.runs import Runs, last_at_most, run
from slicewise.slicing.slicer import Edges, bounds_for, bounds_of
from slicewise.slicing.store import ROWS, Store, add_events, fill_identity
from slicewise.slicing.triggers import INFINITY

MOST_AT_ONCE = 1 << 18  # events that are put in order together
PANE_BITS = 12  # no more panes than this in one go
# A pane costs some microseconds whatever it holds, so there must not be many with little in them.
FEW_PANES, FULL_PANE = 64, 64
# Slices are counted, not sorted, where there are at most so many places for each event.
PLACES_PER_EVENT = 2

Range = tuple[int, int]


class Pool:
    """Slices in flat arrays: keys, rows and states. Lists of them are ranges of places.

    `states` has the arrays of each component, or `None` where a count is that of the rows.
    """

    def __init__(self, components: Sequence[Component]) -> None:
        self.components = list(components)
        self.codes = np.empty(0, np.int32)
        self.rows = np.empty(0, np.int64)
        self.states: list[States | None] = [
            None if c.algebra == ROWS.algebra else c.algebra.new(0) for c in components
        ]
        self.top = 0

    def part(self, number: int) -> None:
        """Give a component states of its own: its counts are no longer those of the rows."""
        if self.states[number] is None:
            self.states[number] = (self.rows.copy(),)

    def reserve(self, places: int, lists: Sequence[list[Range]]) -> None:
        """Make room at the end for slices; what is in none of the lists is forgotten."""
        if self.top + places <= len(self.codes):
            return
        ranges = sorted(
            (*place, k, n) for k, of_pane in enumerate(lists) for n, place in enumerate(of_pane)
        )
        live = sum(end - begin for begin, end, _, _ in ranges)
        size = len(self.codes)
        if 2 * (live + places) > size:
            size = 4 * (live + places)
        old = self._arrays()
        new = old if size == len(self.codes) else [np.empty(size, a.dtype) for a in old]
        self.top = 0
        for begin, end, k, n in ranges:
            lists[k][n] = (self.top, self.top + end - begin)
            for source, target in zip(old, new, strict=True):
                target[self.top : self.top + end - begin] = source[begin:end]
            self.top += end - begin
        self._set(new)

    def _arrays(self) -> list[np.ndarray]:
        return [self.codes, self.rows, *(a for S in self.states if S is not None for a in S)]

    def _set(self, arrays: list[np.ndarray]) -> None:
        self.codes, self.rows, *rest = arrays
        fields = iter(rest)
        self.states = [None if S is None else tuple(next(fields) for _ in S) for S in self.states]


class Panes:
    """The slices of all keys by time.

    `starts` and `stops` are the bounds of panes in order, the first `count` of them, and `lists`
    the ranges of the pool where their slices are, each in the order of keys. A pane may reach into
    the next one where windows were added or removed: an instance holds the panes that start in it.
    """

    def __init__(self, components: Sequence[Component], dtype: np.dtype[Any]) -> None:
        self.components = list(components)
        self.pool = Pool(components)
        self.starts, self.stops = np.zeros(0, dtype), np.zeros(0, dtype)
        self.lists: list[list[Range]] = []
        self.line = Runs(dtype.str)  # the panes as the run of one key, for who lists instances
        self.keys = 0
        self.combines = 0
        self.scratch: dict[str, np.ndarray] = {}

    @property
    def count(self) -> int:
        return len(self.lists)

    @property
    def sizes(self) -> list[int]:
        """How many slices there are in each pane; of one key there may be one in each list."""
        return [sum(end - begin for begin, end in ranges) for ranges in self.lists]

    @property
    def live(self) -> int:
        """How many slices are kept."""
        return sum(self.sizes)

    @property
    def sparse(self) -> bool:
        """Whether there are many panes with few slices each."""
        return self.count > FEW_PANES and self.live < FULL_PANE * self.count

    def borrow(self, name: str, size: int, dtype: Any) -> np.ndarray:
        """An array for the time of one call: fresh memory would cost page faults."""
        known = self.scratch.get(name)
        if known is None or len(known) < size:
            known = self.scratch[name] = np.empty(size + size // 4, dtype)
        return known[:size]

    # Events.

    def add(
        self,
        edges: Edges,
        times: np.ndarray,
        reach: tuple[int, int],
        keys: np.ndarray,
        wanted: np.ndarray | None,
        columns: Mapping[str, Column],
    ) -> int:
        """Add events to their slices; how many were added before panes became too many."""
        size = len(times)
        inputs: list[Any] = []
        for number, component in enumerate(self.components):
            valid = taken(component, columns)
            if component.algebra == ROWS.algebra and valid is not None:
                self.pool.part(number)
            inputs.append(
                None if self.pool.states[number] is None else read(component, columns, size)
            )
        bounds = bounds_for(edges, reach, size)
        if size <= MOST_AT_ONCE:
            return size if self._add(bounds, times, keys, wanted, inputs) else 0
        for begin in range(0, size, MOST_AT_ONCE):
            rows = slice(begin, min(begin + MOST_AT_ONCE, size))
            some = None if wanted is None else wanted[rows]
            part = [None if g is None else _part_of(g, rows) for g in inputs]
            if not self._add(bounds, times[rows], keys[rows], some, part):
                return begin
        return size

    def _add(
        self,
        bounds: tuple[np.ndarray, ...],
        times: np.ndarray,
        keys: np.ndarray,
        wanted: np.ndarray | None,
        inputs: Sequence[Any],
    ) -> bool:
        """Add some of the events of a batch, all of them or none."""
        size = len(times)
        of_each = self.borrow("panes", size, np.int64)
        places = self._find(bounds, times, wanted, of_each)
        if places is None:
            return False
        pool, count = self.pool, self.count
        pool.reserve(size, self.lists)
        top = pool.top
        slots = self.borrow("slots", size, np.int64)
        ends = np.zeros(count, np.int64)
        out = (top, slots, pool.codes, pool.rows, ends)
        if count * self.keys <= PLACES_PER_EVENT * size:
            table = np.zeros(count * self.keys, np.int32)
            run(count_slots)(of_each, places, keys, self.keys, table, *out)
        else:
            # A number holds pane, key and row, and is sorted as such.
            packed = self.borrow("packed", size, np.int64)
            bits = (max(self.keys - 1, 1).bit_length(), size.bit_length())
            found = run(pack)(of_each, places, keys, bits, slots, packed)
            packed = packed[:found]
            packed.sort()
            run(number_slots)(packed, bits, *out)
        pool.top = int(ends.max(initial=top))
        self._fill(inputs, slots, top)
        self.combines += int(np.count_nonzero(of_each >= 0)) - (pool.top - top)
        begin = top
        touched = []
        for pane, end in enumerate(ends.tolist()):
            if end > begin:
                self.lists[pane].append((begin, end))
                touched.append(self.lists[pane])
                begin = end
        for ranges in touched:
            self._settle(ranges)
        return True

    def _find(
        self,
        bounds: tuple[np.ndarray, ...],
        times: np.ndarray,
        wanted: np.ndarray | None,
        of_each: np.ndarray,
    ) -> np.ndarray | None:
        """The pane of each event, by a number of its own, and where the panes of numbers are.

        `None` when there are too many of them.
        """
        before = self.count
        room = min(before + max(FEW_PANES, len(times) // FULL_PANE), 1 << PANE_BITS)
        if before >= room:
            return None
        starts, stops = np.empty(room, self.starts.dtype), np.empty(room, self.stops.dtype)
        starts[:before], stops[:before] = self.starts[:before], self.stops[:before]
        ids = np.arange(room)
        count = run(into_panes)(times, wanted, bounds, before, starts, stops, ids, of_each)
        if count < 0:
            return None
        self.starts, self.stops = starts, stops
        known = self.lists
        self.lists = [known[k] if k < before else [] for k in ids[:count].tolist()]
        places = np.empty(count, np.int64)
        places[ids[:count]] = np.arange(count)
        return places

    def _fill(self, inputs: Sequence[Any], slots: np.ndarray, top: int) -> None:
        """Add events to the states of slices that are new."""
        born = np.arange(top, self.pool.top)
        for component, given, S in zip(self.components, inputs, self.pool.states, strict=True):
            if given is not None:
                fill_identity.specialise(component.algebra)(S, born)
                add_events.specialise(component.algebra)(*given, slots, S)

    def _settle(self, ranges: list[Range], most: int = 2) -> None:
        """Merge the last lists as long as they are not much smaller than those before them."""
        while len(ranges) > 1:
            newer, older = ranges[-1], ranges[-2]
            if most * (newer[1] - newer[0]) < older[1] - older[0]:
                return
            room = newer[1] - newer[0] + older[1] - older[0]
            self.pool.reserve(room, self.lists)
            newer, older = ranges.pop(), ranges.pop()
            ranges.append(self._merged(older, newer, room))

    def _merged(self, older: Range, newer: Range, room: int) -> Range:
        pool, top = self.pool, self.pool.top
        left, right = self.borrow("left", room, np.int64), self.borrow("right", room, np.int64)
        size = run(merge_codes)(pool.codes, pool.rows, older, newer, top, left, right)
        for component, S in zip(self.components, pool.states, strict=True):
            if S is not None:
                where = (left[:size], right[:size])
                merge_states.specialise(component.algebra)(S, *where, top)
        self.combines += room - size
        pool.top = top + size
        return top, top + size

    # Letting go.

    def evict(self, least: Any) -> None:
        """Drop the panes that start before `least`."""
        gone = int(self.starts[: self.count].searchsorted(least))
        if gone:
            self._keep(np.arange(gone, self.count), self.lists[gone:])

    def fuse(self, begins: Edges, point: Any) -> None:
        """Make one of neighbours that only ends of windows up to `point` part."""
        count = self.count
        heads = np.ones(count, np.bool_)
        if count > 1:
            bounds = (begins.none, begins.steps, begins.phases, begins.singles)
            run(mark_heads)(self.starts[:count], self.stops[:count], point, bounds, heads)
        if heads.all():
            return
        head = 0
        for pane in range(1, count):
            if heads[pane]:
                head = pane
                continue
            while self.lists[pane]:
                self.lists[head].append(self.lists[pane].pop(0))
                self._settle(self.lists[head])
        places = np.flatnonzero(heads)
        self._keep(places, [self.lists[k] for k in places.tolist()])

    def _keep(self, places: np.ndarray, lists: list[list[Range]]) -> None:
        self.starts, self.stops = self.starts[places], self.stops[places]
        self.lists = lists

    # From runs and back.

    @staticmethod
    def of_runs(runs: Runs, kept: Store) -> Panes:
        """The slices of runs, by time."""
        panes = Panes(kept.components, runs.start.dtype)
        panes.keys = runs.keys
        every = np.arange(runs.keys)
        places = runs.places(every)
        if not len(places):
            return panes
        codes = np.repeat(every, runs.size[: runs.keys])
        order = order_of([runs.start[places], codes])
        places, codes = places[order], codes[order]
        slots, starts = runs.slot[places], runs.start[places]
        pool = panes.pool
        pool.codes, pool.rows, pool.top = codes.astype(np.int32), runs.rows[slots], len(codes)
        pool.states = [None if S is None else tuple(a[slots] for a in S) for S in kept.states]
        # A key may have slices of one start, parted when a window was added: the later ones go to
        # another list.
        panes.starts = np.unique(starts)
        panes.stops = np.full(len(panes.starts), INFINITY, panes.starts.dtype)
        number = panes.starts.searchsorted(starts)
        np.minimum.at(panes.stops, number, runs.stop[places])
        cuts = np.append(True, (starts[1:] != starts[:-1]) | (codes[1:] == codes[:-1]))
        begins = np.flatnonzero(cuts).tolist()
        panes.lists = [[] for _ in panes.starts]
        for begin, end in zip(begins, [*begins[1:], len(starts)], strict=True):
            panes.lists[number[begin]].append((begin, end))
        return panes

    def fill_runs(self, runs: Runs, kept: Store) -> None:
        """Give the slices to empty runs and their store, by key."""
        pool = self.pool
        size = np.zeros(self.keys, np.int64)
        for ranges in self.lists:
            self._settle(ranges, most=pool.top + 1)
            for begin, end in ranges:
                size[pool.codes[begin:end]] += 1
        pool = self.pool
        runs.lay_out(size)
        next_place = runs.offset.copy()
        kept.states = [
            None if S is None else c.algebra.new(runs.slots)
            for c, S in zip(self.components, pool.states, strict=True)
        ]
        for pane, ranges in enumerate(self.lists):
            for begin, end in ranges:
                codes = pool.codes[begin:end]
                places = next_place[codes]
                next_place[codes] += 1
                runs.start[places], runs.stop[places] = self.starts[pane], self.stops[pane]
                runs.rows[places] = pool.rows[begin:end]
                for S, T in zip(pool.states, kept.states, strict=True):
                    for source, target in zip(S or (), T or (), strict=True):
                        target[places] = source[begin:end]


def _part_of(given: Any, rows: slice) -> Any:
    """The inputs of some events."""
    arrays, valid = given
    return tuple(array[rows] for array in arrays), None if valid is None else valid[rows]


@kernel
def into_panes(
    times: Any,
    wanted: Any,
    bounds: Any,
    count: int,
    starts: Any,
    stops: Any,
    ids: Any,
    of_each: Any,
) -> int:
    """The pane of each event, by its number in `ids`; how many there are, -1 if there is no room.

    An event that goes nowhere has -1.
    """
    here = -1
    low, high = times[0], times[0]
    made = count
    for i in range(times.shape[0]):
        if wanted is not None and not wanted[i]:
            of_each[i] = -1
            continue
        t = times[i]
        if low <= t < high:
            of_each[i] = here
            continue
        p = last_at_most(starts, 0, count, t)
        if p < 0 or t >= stops[p]:
            edge, next_edge = bounds_of(t, bounds)
            p = last_at_most(starts, 0, count, edge)
            if p < 0 or starts[p] != edge:
                if count == starts.shape[0]:
                    return -1
                p += 1
                for k in range(count, p, -1):
                    starts[k], stops[k], ids[k] = starts[k - 1], stops[k - 1], ids[k - 1]
                starts[p] = edge
                ids[p] = made
                made += 1
                count += 1
            stops[p] = next_edge
        of_each[i] = ids[p]
        # A late event is an exception: the pane of those in order stays at hand.
        if t >= high or here < 0:
            here, low, high = ids[p], starts[p], stops[p]
    return count


@kernel
def count_slots(
    of_each: Any,
    places: Any,
    keys: Any,
    many: int,
    table: Any,
    top: int,
    slots: Any,
    codes: Any,
    rows: Any,
    ends: Any,
) -> None:
    """A slot for each slice that events touch, from `top` on in the order of (pane, key).

    `ends` gets where the slots of each pane end.
    """
    for i in range(of_each.shape[0]):
        slots[i] = -1
        if of_each[i] >= 0:
            slots[i] = places[of_each[i]] * many + keys[i]
            table[slots[i]] += 1
    at, made = 0, top
    for pane in range(places.shape[0]):
        for code in range(many):
            if table[at] > 0:
                rows[made] = table[at]
                codes[made] = code
                table[at] = made - top
                made += 1
            at += 1
        ends[pane] = made
    for i in range(of_each.shape[0]):
        if slots[i] >= 0:
            slots[i] = top + table[slots[i]]


@kernel
def pack(of_each: Any, places: Any, keys: Any, bits: Any, slots: Any, packed: Any) -> int:
    """Pane, key and row of each event as one number; how many events go anywhere."""
    count = 0
    for i in range(of_each.shape[0]):
        slots[i] = -1
        if of_each[i] >= 0:
            packed[count] = (((places[of_each[i]] << bits[0]) | keys[i]) << bits[1]) | i
            count += 1
    return count


@kernel
def number_slots(
    packed: Any, bits: Any, top: int, slots: Any, codes: Any, rows: Any, ends: Any
) -> None:
    """The same as `count_slots` for events as sorted numbers."""
    row, key = (1 << bits[1]) - 1, (1 << bits[0]) - 1
    before = -1
    for number in packed:
        slice_ = number >> bits[1]
        if slice_ != before:
            before = slice_
            codes[top] = slice_ & key
            rows[top] = 0
            top += 1
            ends[slice_ >> bits[0]] = top
        rows[top - 1] += 1
        slots[number & row] = top - 1


@kernel
def merge_codes(
    codes: Any, rows: Any, older: Any, newer: Any, top: int, left: Any, right: Any
) -> int:
    """Merge two lists of keys to `top`; where each slice was in them, -1 where it was not."""
    i, j, count = older[0], newer[0], 0
    while i < older[1] or j < newer[1]:
        first = j == newer[1] or (i < older[1] and codes[i] <= codes[j])
        second = i == older[1] or (j < newer[1] and codes[j] <= codes[i])
        left[count], right[count] = -1, -1
        total = 0
        if first:
            codes[top + count] = codes[i]
            total += rows[i]
            left[count] = i
            i += 1
        if second:
            codes[top + count] = codes[j]
            total += rows[j]
            right[count] = j
            j += 1
        rows[top + count] = total
        count += 1
    return count


@kernel
def merge_states(S: Any, left: Any, right: Any, top: int) -> None:
    for k in range(left.shape[0]):
        if right[k] < 0:
            store(S, top + k, load(S, left[k]))
        elif left[k] < 0:
            store(S, top + k, load(S, right[k]))
        else:
            store(S, top + k, combine(load(S, left[k]), load(S, right[k])))


@kernel
def mark_heads(starts: Any, stops: Any, point: Any, begins: Any, heads: Any) -> None:
    """Which panes stay; the others go to the one before them that does, which reaches further."""
    head = 0
    next_begin = bounds_of(starts[0], begins)[1]
    for p in range(1, starts.shape[0]):
        if starts[p] <= point and starts[p] < next_begin:
            heads[p] = False
            stops[head] = stops[p]
        else:
            head = p
            next_begin = bounds_of(starts[p], begins)[1]
