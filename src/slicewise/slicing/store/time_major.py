"""Slices of many keys, kept by time: edges of context-free windows are the same for all keys.

A band holds the slices of all keys between two edges, as lists of (key, rows, state) in the order
of keys. A batch is put in the order of (band, key) and adds a list to each band that it touches; a
list that is not much smaller than the one before it is merged with it, so that a band has few
lists and a small batch costs little. Everything is read from the front to the back: where there
are a million keys, a look at each key's own run would cost several cache misses a slice.

Source:  the lists of a band are a logarithmic method, doi:10.1016/0196-6774(80)90015-2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import Bound, Component, States, read, taken
from slicewise.codegen.kernel import run
from slicewise.columns import Column
from slicewise.limits import INFINITY
from slicewise.slicing.locate.by_time import Edges, bounds_for
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import check_bands, codes, exactly, require, sizes
from slicewise.slicing.store.band_closing import Closed, close
from slicewise.slicing.store.band_kernels import (
    SlotArrays,
    into_bands,
    mark_heads,
    merge_codes,
    merge_states,
    number_slots,
    pack,
)
from slicewise.slicing.store.base import Refused, SliceStore
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.saving import ROWS, Layout, get_states
from slicewise.slicing.store.states import add_apart, add_events, fill_identity

if TYPE_CHECKING:
    from slicewise.slicing.families.instances import Instances

Range = tuple[int, int]


class Pool:
    """Slices in flat arrays: keys, rows and states. Lists of them are ranges of places.

    `states` has the arrays of each component, or `None` where a count is that of the rows.
    """

    def __init__(self, components: Sequence[Component]) -> None:
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
            (*place, k, n) for k, of_band in enumerate(lists) for n, place in enumerate(of_band)
        )
        live = sum(end - begin for begin, end, _, _ in ranges)
        size = len(self.codes)
        if 2 * (live + places) > size:
            size = 3 * (live + places)
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


class TimeMajorStore(SliceStore):
    """Slices by start and then by key.

    `starts` and `stops` are the bounds of bands in order, the first `count` of them, and `lists`
    the ranges of the pool where their slices are, each in the order of keys. A band may reach into
    the next one where windows were added or removed: an instance holds the bands that start in it.
    """

    def __init__(self, bounds: Sequence[Bound], dtype: np.dtype[Any]) -> None:
        super().__init__(bounds)
        self.refused: Refused = {}  # events of the last batch that an aggregate cannot take
        self.pool = Pool(self.components)
        self.line = Runs(dtype.str)  # the bands as the run of one key
        self.starts: np.ndarray = np.zeros(0, dtype)
        self.stops: np.ndarray = np.zeros(0, dtype)
        self.lists: list[list[Range]] = []
        self.many = 0  # keys
        self.scratch: dict[str, np.ndarray] = {}

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.starts.dtype

    @property
    def keys(self) -> int:
        return self.many

    @property
    def count(self) -> int:
        """The number of bands."""
        return len(self.lists)

    @property
    def sizes(self) -> list[int]:
        """The number of slices in each band; of one key there may be one in each list."""
        return [sum(end - begin for begin, end in ranges) for ranges in self.lists]

    @property
    def live(self) -> int:
        return sum(self.sizes)

    @property
    def first_start(self) -> Any:
        return self.starts[0] if self.lists else INFINITY

    @property
    def sparse(self) -> bool:
        """True where there are many bands with few slices each."""
        limits = tuning.active()
        return self.count > limits.few_bands and self.live < limits.full_band * self.count

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
        """Add events to their slices; returns how many before bands became too many."""
        tuning.took("bands")
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
        most = tuning.active().events_banded
        if size <= most:
            return size if self._add(bounds, times, keys, wanted, inputs, 0) else 0
        for begin in range(0, size, most):
            rows = slice(begin, min(begin + most, size))
            some = None if wanted is None else wanted[rows]
            part = [None if g is None else _part_of(g, rows) for g in inputs]
            if not self._add(bounds, times[rows], keys[rows], some, part, begin):
                return begin
        return size

    def _add(
        self,
        bounds: tuple[np.ndarray, ...],
        times: np.ndarray,
        keys: np.ndarray,
        wanted: np.ndarray | None,
        inputs: Sequence[Any],
        first: int,
    ) -> bool:
        """Add the events of a batch from row `first` on, all of these or none."""
        size = len(times)
        of_each = self.borrow("bands", size, np.int64)
        places = self._find(bounds, times, wanted, of_each)
        if places is None:
            return False
        pool, count = self.pool, self.count
        pool.reserve(size, self.lists)
        top = pool.top
        slots = self.borrow("slots", size, np.int64)
        ends = np.zeros(count, np.int64)
        out = SlotArrays(slots, pool.codes, pool.rows, ends)
        # A number holds band, key and row, and is sorted as such.
        packed = self.borrow("packed", size, np.int64)
        bits = (max(self.many - 1, 1).bit_length(), size.bit_length())
        packed = packed[: run(pack)(of_each, places, keys, bits, slots, packed)]
        packed.sort()
        run(number_slots)(packed, bits, top, out)
        pool.top = int(ends.max(initial=top))
        self._fill(inputs, slots, top, first)
        self.combines += int(np.count_nonzero(of_each >= 0)) - (pool.top - top)
        begin = top
        touched = []
        for band, end in enumerate(ends.tolist()):
            if end > begin:
                self.lists[band].append((begin, end))
                touched.append(self.lists[band])
                begin = end
        for ranges in touched:
            self._compact(ranges)
        return True

    def _find(
        self,
        bounds: tuple[np.ndarray, ...],
        times: np.ndarray,
        wanted: np.ndarray | None,
        of_each: np.ndarray,
    ) -> np.ndarray | None:
        """The band of each event, by a number of its own, and where the bands of numbers are.

        `None` when there are too many of them.
        """
        before = self.count
        limits = tuning.active()
        more = max(limits.few_bands, len(times) // limits.full_band)
        room = min(before + more, limits.most_bands)
        if before >= room:
            return None
        starts, stops = np.empty(room, self.starts.dtype), np.empty(room, self.stops.dtype)
        starts[:before], stops[:before] = self.starts[:before], self.stops[:before]
        ids = np.arange(room)
        count = run(into_bands)(times, wanted, bounds, before, starts, stops, ids, of_each)
        if count < 0:
            return None
        self.starts, self.stops = starts, stops
        known = self.lists
        self.lists = [known[k] if k < before else [] for k in ids[:count].tolist()]
        places = np.empty(count, np.int64)
        places[ids[:count]] = np.arange(count)
        return places

    def _fill(self, inputs: Sequence[Any], slots: np.ndarray, top: int, first: int) -> None:
        """Add events from row `first` on to the states of slices that are new."""
        born = np.arange(top, self.pool.top)
        for component, given, S in zip(self.components, inputs, self.pool.states, strict=True):
            if given is None or S is None:
                continue
            algebra = component.algebra
            fill_identity.specialise(algebra)(S, born)
            try:
                add_events.specialise(algebra)(*given, slots, S)
            except Exception:
                if component not in self.own:
                    raise
                X, valid = given
                fill_identity.specialise(algebra)(S, born)
                self.refused |= add_apart(algebra, X, valid, slots, S, first)

    def compact(self) -> None:
        """Merge the lists of each band, as far as aggregates of the user's own allow it."""
        for ranges in self.lists:
            self._compact(ranges, most=self.pool.top + 1)

    def _compact(self, ranges: list[Range], most: int = 2) -> None:
        """Merge the last lists as long as they are not much smaller than those before them."""
        while len(ranges) > 1:
            newer, older = ranges[-1], ranges[-2]
            if most * (newer[1] - newer[0]) < older[1] - older[0]:
                return
            room = newer[1] - newer[0] + older[1] - older[0]
            self.pool.reserve(room, self.lists)
            try:
                merged = self._merged(ranges[-2], ranges[-1], room)
            except Exception:
                if self.own:
                    return  # they are merged when an instance closes, and that says why not
                raise
            ranges[-2:] = [merged]

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
        """Drop the bands that start before `least`."""
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
        for band in range(1, count):
            if heads[band]:
                head = band
                continue
            while self.lists[band]:
                self.lists[head].append(self.lists[band].pop(0))
                self._compact(self.lists[head])
        places = np.flatnonzero(heads)
        self._keep(places, [self.lists[k] for k in places.tolist()])

    def _keep(self, places: np.ndarray, lists: list[list[Range]]) -> None:
        self.starts, self.stops = self.starts[places], self.stops[places]
        self.lists = lists

    def cut_at(self, point: Any) -> None:
        np.minimum(self.stops, point, out=self.stops)

    # Keys.

    def admit(self, keys: int) -> None:
        self.many = max(self.many, keys)

    def held(self, keep: np.ndarray | None = None) -> np.ndarray:
        held = np.zeros(self.many, np.bool_)
        for begin, end in self.ranges():
            held[self.pool.codes[begin:end]] = True
        return held

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        known = self.pool.codes
        for begin, end in self.ranges():
            known[begin:end] = codes[known[begin:end]]
        self.many = len(live)

    def ranges(self) -> Iterator[Range]:
        """The lists of all bands, as ranges of the pool."""
        return (place for ranges in self.lists for place in ranges)

    # Results.

    def as_run(self) -> Runs:
        """The bands as if they were the slices of one key, for who lists instances."""
        self.line.start, self.line.size[0] = self.starts, self.count
        return self.line

    def closed(self, found: Instances) -> Closed | None:
        """Merge the slices of all keys in these instances, whose places are bands.

        `None` if that is better done key by key.
        """
        return close(self, found)

    # Snapshots.

    def dump(
        self,
        out: BlobWriter,
        live: np.ndarray,
        codes: np.ndarray,
        layout: Layout,
        keep: np.ndarray | None = None,
    ) -> dict[str, Any]:
        ranges = np.array([*self.ranges()], np.int64).reshape(-1, 2)
        size = ranges[:, 1] - ranges[:, 0]
        heads = np.cumsum(size) - size
        places = np.arange(size.sum()) + np.repeat(ranges[:, 0] - heads, size)
        found = codes[self.pool.codes[places]]
        # The keys of a list are near to each other, and so short as distances.
        steps = np.diff(found, prepend=0)
        steps[heads] = 0
        starts = self.starts[: self.count]
        return {
            "bands": {
                "start": out.put(starts),
                "stop": out.put(self.stops[: self.count] - starts),
                "lists": out.put(np.array([len(ranges) for ranges in self.lists], np.int64)),
                "size": out.put(size),
                "head": out.put(found[heads]),
                "step": out.put(steps),
                "rows": out.put(self.pool.rows[places]),
            },
            "store": self._dump_states(self.pool.states, places, out),
        }

    def load(
        self, node: Any, keys: int, source: BlobReader, layout: Layout, since: int | None = None
    ) -> None:
        said = node["bands"]
        starts = source.get(said["start"])
        size, steps = source.get(said["size"]), source.get(said["step"])
        bands, lists, count = len(starts), len(size), len(steps)
        self.starts = exactly(starts, bands, "bands", self.dtype)
        self.stops = starts + exactly(source.get(said["stop"]), bands, "bands", self.dtype)
        of_each = sizes(source.get(said["lists"]), bands, lists)
        check_bands(self.starts, self.stops, layout)
        begins = np.cumsum(sizes(size, lists, count)) - size
        require(size.min(initial=1) > 0, "a list has no slices")
        steps[begins] = 1
        require(exactly(steps, count, "slices").min(initial=1) > 0, "keys are not in order")
        found = np.cumsum(steps)
        found += np.repeat(exactly(source.get(said["head"]), lists, "lists") - found[begins], size)
        pool = self.pool
        pool.codes, pool.top = codes(found, keys, "keys of slices").astype(np.int32), count
        pool.rows = exactly(source.get(said["rows"]), count, "slices")
        require(pool.rows.min(initial=0) >= 0, "it counts fewer rows than none")
        self.many = keys
        places = [*zip(begins.tolist(), (begins + size).tolist(), strict=True)]
        ends = np.cumsum(of_each)
        self.lists = [
            places[a:z] for a, z in zip((ends - of_each).tolist(), ends.tolist(), strict=True)
        ]
        self._load_states(node["store"], count, source, since)

    def _load_states(self, node: Any, count: int, source: BlobReader, since: int | None) -> None:
        found = self._find_states(node, since)
        pool = self.pool
        pool.states = []
        for component, place in zip(self.components, found.sources, strict=True):
            algebra = component.algebra
            S = None if place is None else get_states(algebra, place, count, count, source)
            if S is None and (place is None or algebra != ROWS.algebra):
                S = algebra.new(count)
                fill_identity.specialise(algebra)(S, np.arange(count))
            pool.states.append(S)


def _part_of(given: Any, rows: slice) -> Any:
    """The inputs of some events."""
    arrays, valid = given
    return tuple(array[rows] for array in arrays), None if valid is None else valid[rows]
