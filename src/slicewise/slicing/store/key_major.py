"""The store by key: the slices of each key in order, merged when a window closes or in trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound, Component, States, read, share, taken
from slicewise.columns import Column
from slicewise.limits import INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.mergers.boundary import sweep
from slicewise.slicing.locate.by_time import Sliced
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import check_slices, check_times, exactly, require, sizes
from slicewise.slicing.store.base import Refused, SliceStore, own_of
from slicewise.slicing.store.kept import KeptMergers
from slicewise.slicing.store.runs import Runs, of_keys
from slicewise.slicing.store.saving import ROWS, Layout, get_states
from slicewise.slicing.store.states import (
    add_apart,
    add_events,
    add_ranges,
    extend,
    fill_identity,
    fuse,
    undo_of,
)
from slicewise.slicing.store.tree import Tree


class KeyMajorStore(SliceStore):
    """Slices by key and then by start: runs of places, and the states of their slots.

    Counts of columns that have never had a null are the rows of the slice and take no room of
    their own until the first null comes.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        runs: Runs,
        merger: type[FlatMerger] | None = None,
        *,
        eager: bool = False,
    ) -> None:
        super().__init__(bounds)
        self.runs = runs
        self.merger = merger
        self.chunks: dict[int, int] = {}  # slices per chunk, for a merger that has chunks
        self.set_eager(eager=eager)
        self.states: list[States | None] = [None] * len(self.components)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.runs.start.dtype

    @property
    def keys(self) -> int:
        return self.runs.keys

    @property
    def live(self) -> int:
        return self.runs.live

    @property
    def first_start(self) -> Any:
        runs = self.runs
        begun = runs.offset[: runs.keys][runs.size[: runs.keys] > 0]
        return runs.start[begun].min(initial=INFINITY)

    @property
    def merges_otherwise(self) -> bool:
        """True where slices are merged in trees or by a merger of the catalogue."""
        return self.tree is not None or self.merger is not None

    def admit(self, keys: int) -> None:
        self.runs.admit(keys)

    def held(self, keep: np.ndarray | None = None) -> np.ndarray:
        runs = self.runs
        begin = runs.offset if keep is None else keep
        held: np.ndarray = (runs.offset + runs.size > begin)[: runs.keys]
        return held

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        self.runs.renumber(live)
        self.set_eager(eager=self.tree is not None)

    def cut_at(self, point: Any) -> None:
        np.minimum(self.runs.stop, point, out=self.runs.stop)

    def dump(
        self,
        out: BlobWriter,
        live: np.ndarray,
        codes: np.ndarray,
        layout: Layout,
        keep: np.ndarray | None = None,
    ) -> dict[str, Any]:
        runs = self.runs
        gone = 0 if keep is None else keep - runs.offset
        places = runs.places(live[live < runs.keys], keep)
        slots = runs.slot[places]
        start, first, last = runs.start[places], runs.first[slots], runs.last[slots]
        return {
            "size": out.put(of_keys(runs.size - gone, live)),
            "base": out.put(of_keys(runs.base + gone, live)),
            "start": out.put(start),
            # Near to each other, and so short as distances.
            "stop": None if layout.single_rows else out.put(_apart(runs.stop[places], start)),
            "first": out.put(_apart(first, start)) if layout.times else None,
            "last": out.put(last - first) if layout.times else None,
            "rows": out.put(runs.rows[slots]),
            "arrival": out.put(runs.arrival[slots]) if layout.single_rows else None,
            "store": self._dump_states(self.states, slots, out),
        }

    def load(
        self, node: Any, keys: int, source: BlobReader, layout: Layout, since: int | None = None
    ) -> None:
        count = source.count(node["start"][1])
        self._load_runs(node, keys, count, source, layout)
        found = self._find_states(node["store"], since)
        self.states = [None] * len(self.components)
        for number, (component, place) in enumerate(
            zip(self.components, found.sources, strict=True)
        ):
            if place is None:
                self._begin(number, component)
                continue
            slots = self.runs.slots
            self.states[number] = get_states(component.algebra, place, count, slots, source)
        self.set_eager(eager=self.tree is not None)

    def _load_runs(
        self, node: Any, keys: int, count: int, source: BlobReader, layout: Layout
    ) -> None:
        runs = self.runs
        runs.lay_out(sizes(source.get(node["size"]), keys, count))
        runs.base[:keys] = exactly(source.get(node["base"]), keys, "keys")
        kind = runs.start.dtype
        start = exactly(source.get(node["start"]), count, "slices", kind)
        runs.start[:count] = runs.stop[:count] = start
        if node["stop"] is not None:
            stop = exactly(source.get(node["stop"]), count, "slices", kind)
            runs.stop[:count] = _together(stop, start)
        if node["first"] is not None:
            first = _together(exactly(source.get(node["first"]), count, "slices"), start)
            last = first + exactly(source.get(node["last"]), count, "slices")
            runs.first[:count], runs.last[:count] = first, last
        runs.rows[:count] = exactly(source.get(node["rows"]), count, "slices")
        if node["arrival"] is not None:
            runs.arrival[:count] = exactly(source.get(node["arrival"]), count, "slices")
        require(
            (node["stop"] is None) == layout.single_rows, "rows and slices are taken for each other"
        )
        check_slices(runs, count, keys, layout)
        if layout.times:
            require(node["first"] is not None, "slices have events at no time")
            check_times(runs, count, keys, layout)

    def add(self, sliced: Sliced, columns: Mapping[str, Column]) -> Refused:
        """Add the events of a batch to their slices, then fuse the slices that became one.

        Events that an aggregate of the user's own raises an error for are left out of its states;
        returns their rows.
        """
        older, newer = sliced.merged
        events = sliced.events
        refused: Refused = {}
        for number, component in enumerate(self.components):
            algebra = component.algebra if self.waits else component.algebra.raising
            if algebra == ROWS.algebra and self.states[number] is None:
                valid = taken(component, columns)
                if valid is not None:
                    self.states[number] = (self._parted(sliced, valid),)
                continue
            X, valid = read(component, columns, events)
            S = self._room(number, component)
            if len(sliced.born):
                fill_identity.specialise(algebra)(S, sliced.born)
            if component in self.own:
                refused |= _add_own(algebra, X, valid, sliced, S)
            elif sliced.begins is None:
                add_events.specialise(algebra)(X, valid, sliced.slots, S)
            else:
                add_ranges.specialise(algebra)(X, valid, sliced.slots, sliced.begins, S)
            if len(older):
                fuse.specialise(algebra)(S, older, newer)
        self.combines += events - len(sliced.born) + len(older)
        return refused

    def _parted(self, sliced: Sliced, valid: np.ndarray) -> np.ndarray:
        """The rows of slices less the nulls of this batch, the first that has any."""
        nulls = np.zeros(self.runs.slots, np.int64)
        slots = sliced.slot_of_each()[~valid]
        np.add.at(nulls, slots[slots >= 0], 1)
        for older, newer in zip(*sliced.merged, strict=True):
            nulls[older] += nulls[newer]
        return self.runs.rows - nulls

    def rebind(self, bounds: Sequence[Bound]) -> None:
        """Take over other components; those that are new have seen no event that leaves a trace."""
        known = dict(zip(self.components, self.states, strict=True))
        before = {
            new: old
            for one, other in zip(self.bounds, bounds, strict=True)
            for old, new in zip(one.components, other.components, strict=False)
        }
        self.set_eager(eager=self.tree is not None)
        self.bounds, self.components, self.own = list(bounds), share(bounds), own_of(bounds)
        self.states = [None] * len(self.components)
        for number, component in enumerate(self.components):
            older = known.get(before.get(component, component))
            if component in known:
                self.states[number] = known[component]
            elif component.take_over is not None and older is not None:
                self.states[number] = component.take_over(older)
            else:
                self._begin(number, component)

    def _begin(self, number: int, component: Component) -> None:
        """Give all slices the state of no event."""
        S = self._room(number, component)
        fill_identity.specialise(component.algebra)(S, np.arange(self.runs.slots, dtype=np.int64))

    def fuse(self, older: np.ndarray, newer: np.ndarray) -> None:
        """Merge slots pair by pair, in order; none, if an aggregate of the user's own cannot."""
        if not len(older):
            return
        known = [S for S in self.states if S is not None]
        undoing = [undo_of(S, older) for S in known] if self.own else []
        try:
            for component, S in zip(self.components, self.states, strict=True):
                if S is not None:
                    fuse.specialise(component.algebra.raising)(S, older, newer)
        except Exception:
            for undo in undoing:
                undo()
            raise
        self.combines += len(older)

    def touched(self) -> np.ndarray | None:
        """The least measure of each key that trees or mergers do not know yet, if there are any."""
        if self.tree is not None:
            return self.tree.least()
        return None if self.kept is None else self.kept.least()

    def touch(self, at: np.ndarray, keys: np.ndarray | None) -> None:
        """Take note of the measures of events that were added; no `keys` stand for one key."""
        if self.tree is not None:
            self.tree.touch(at, keys)
        elif self.kept is not None:
            self.kept.touch(at, keys)

    def set_eager(self, *, eager: bool) -> None:
        """Keep trees over the slices, or do not; what was kept, also mergers, is made anew."""
        self.tree = Tree(self.runs) if eager else None
        self.kept: KeptMergers | None = None

    def copied(self, runs: Runs) -> KeyMajorStore:
        """A copy of this store for `runs`, a copy of its runs; it has combined nothing yet."""
        other = copy(self)
        other.runs, other.combines, other.since = runs, 0, dict(self.since)
        other.states = [
            None if S is None else tuple(array.copy() for array in S) for S in self.states
        ]
        other.set_eager(eager=self.tree is not None)
        return other

    def _room(self, number: int, component: Component) -> States:
        states = self.states[number]
        size = self.runs.slots
        if states is None:
            states = component.algebra.new(size)
        elif len(states[0]) < size:
            fresh = component.algebra.new(size)
            for new, old in zip(fresh, states, strict=True):
                new[: len(old)] = old
            states = fresh
        self.states[number] = states
        return states

    def merge(
        self,
        left: np.ndarray,
        right: np.ndarray,
        keys: np.ndarray | None = None,
        windows: np.ndarray | None = None,
    ) -> list[States]:
        """The states of each component over ranges of places `[left, right)` of the runs.

        Ranges that follow each other with bounds that never fall share their work. With an eager
        store the `keys` that they belong to are needed, with mergers the numbers of their `windows`
        too; ranges of neither are merged by themselves.
        """
        if self.tree is not None and keys is not None:
            try:
                return self._ask(self.tree, keys, left, right)
            except BaseException:
                self.set_eager(eager=True)  # what is renewed in part is made anew
                raise
        if self.merger is not None and keys is not None and windows is not None:
            try:
                return self._ask_mergers(self.merger, windows, keys, left, right)
            except BaseException:
                self.kept = None
                raise
        longest = int((right - left).max()) if len(left) else 0
        rows: States | None = None
        merged = []
        for component, states in zip(self.components, self.states, strict=True):
            if states is not None:
                merged.append(self._merge(component.algebra, states, left, right, longest))
                continue
            # Every count without a null is that of the rows.
            if rows is None:
                rows = self._merge(ROWS.algebra, (self.runs.rows,), left, right, longest)
            merged.append(rows)
        return merged

    def _ask(
        self, tree: Tree, keys: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> list[States]:
        first = tree.fit()
        rows: States | None = None
        merged: list[States] = []
        for number, (component, states) in enumerate(
            zip(self.components, self.states, strict=True)
        ):
            if states is None and rows is not None:
                merged.append(rows)
                continue
            place = -1 if states is None else number
            S = (self.runs.rows,) if states is None else states
            self.combines += tree.renew(place, component.algebra, S, first)
            found, combines = tree.ask(place, component.algebra, keys, left, right)
            self.combines += combines
            merged.append(found)
            rows = found if states is None else rows
        return merged

    def _ask_mergers(
        self,
        merger: type[FlatMerger],
        windows: np.ndarray,
        keys: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
    ) -> list[States]:
        kept = self.kept
        if kept is None or kept.runs is not self.runs:
            kept = self.kept = KeptMergers(merger, self.runs, self.chunks)
        asked = kept.asked(windows, keys, left, right)
        rows: States | None = None
        merged: list[States] = []
        for number, (component, states) in enumerate(
            zip(self.components, self.states, strict=True)
        ):
            if states is None and rows is not None:
                merged.append(rows)
                continue
            place = -1 if states is None else number
            S = (self.runs.rows,) if states is None else states
            found, combines = kept.ask(place, component.algebra, asked, S, self.runs.slot)
            self.combines += combines
            merged.append(found)
            rows = found if states is None else rows
        return merged

    def _merge(
        self, algebra: Any, S: States, left: np.ndarray, right: np.ndarray, longest: int
    ) -> States:
        out: States = algebra.new(len(left))
        spare = algebra.new(longest + 1)
        ranges = sweep.specialise(algebra)
        self.combines += int(ranges(S, self.runs.slot, left, right, spare, out))
        return out

    def extend(
        self, states: Sequence[States], rows: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> None:
        """Combine the states of further ranges into those of `rows`, one after the other."""
        for component, S, more in zip(
            self.components, states, self.merge(left, right), strict=True
        ):
            extend.specialise(component.algebra)(S, rows, more)
        self.combines += len(rows)

    def rows(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """How many rows there are in ranges of places."""
        longest = int((right - left).max()) if len(left) else 0
        return self._merge(ROWS.algebra, (self.runs.rows,), left, right, longest)[0]

    def forget(self, slots: np.ndarray) -> None:
        """Let go of objects in slots that are no longer used."""
        for component, states in zip(self.components, self.states, strict=True):
            if states is not None and not component.algebra.compiled:
                states[0][slots] = None


def _add_own(
    algebra: Any, X: States, valid: np.ndarray | None, sliced: Sliced, S: States
) -> Refused:
    """Add the events of a batch, but for those that raise an error: they are returned."""
    if sliced.begins is not None:
        undo = undo_of(S, sliced.slots)
        try:
            add_ranges.specialise(algebra)(X, valid, sliced.slots, sliced.begins, S)
            return {}
        except Exception:
            undo()
    return add_apart(algebra, X, valid, sliced.slot_of_each(), S)


def _apart(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Distances from `start`, where they are exact."""
    return values - start if start.dtype.kind == "i" else values


def _together(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    return values + start if start.dtype.kind == "i" else values
