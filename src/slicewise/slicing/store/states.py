"""The aggregate store: states of slices by slot, and the merging of slices into windows.

States live in flat arrays, one per field of each component. Counts of columns that have never had
a null are the rows of the slice and take no room of their own until the first null comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Bound, Component, States, read, share, states_of, taken
from slicewise.aggregates.own import is_own
from slicewise.codegen.kernel import OPEN, kernel
from slicewise.codegen.prelude import combine, identity, lift, load, prepend, store
from slicewise.codegen.tally import tallied
from slicewise.columns import Column
from slicewise.mergers.base import FlatMerger, arrays_for
from slicewise.slicing.locate.by_time import Sliced
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.tree import Tree

ROWS = parts.rows()
Refused = dict[int, Exception]  # rows of events that raised an error, with the error
LONG = 64  # events in a range that is worth to be halved


class Store:
    """The states of the slices of one set of runs."""

    def __init__(
        self,
        bounds: Sequence[Bound],
        runs: Runs,
        merger: type[FlatMerger] | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self.bounds = list(bounds)
        self.runs = runs
        self.merger = merger
        self.tree = Tree(runs) if eager else None
        self.components = share(bounds)
        self.own = own_of(bounds)  # components of the user's own, which may raise errors
        self.states: list[States | None] = [None] * len(self.components)
        self.combines = 0
        # Whether its events come when results are made: an error is then treated like one of those.
        self.waits = False
        # Aggregates, by number, that know events from a time on, and not those before it.
        self.since: dict[int, int] = {}

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
                S = self._room(number, component)
                every = np.arange(self.runs.slots, dtype=np.int64)
                fill_identity.specialise(component.algebra)(S, every)

    def fuse(self, older: np.ndarray, newer: np.ndarray) -> None:
        """Merge slots pair by pair, in order; none, if an aggregate of the user's own cannot."""
        if not len(older):
            return
        known = [S for S in self.states if S is not None]
        undoing = [_undoing(S, older) for S in known] if self.own else []
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
        """The least measure of each key that the tree does not know yet, if there is a tree."""
        return None if self.tree is None else self.tree.least()

    def touch(self, at: np.ndarray, keys: np.ndarray | None) -> None:
        """Take note of the measures of events that were added; no `keys` stand for one key."""
        if self.tree is not None:
            self.tree.touch(at, keys)

    def set_eager(self, *, eager: bool) -> None:
        """Keep trees over the slices, or do not; those that were kept are made anew."""
        self.tree = Tree(self.runs) if eager else None

    def copied(self, runs: Runs) -> Store:
        """The same states for runs that are a copy of this store's; it has combined nothing yet."""
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
        self, left: np.ndarray, right: np.ndarray, keys: np.ndarray | None = None
    ) -> list[States]:
        """The states of each component over ranges of places `[left, right)` of the runs.

        Ranges that follow each other with bounds that never fall share their work. With an eager
        store the `keys` that they belong to are needed.
        """
        if self.tree is not None and keys is not None:
            try:
                return self._ask(self.tree, keys, left, right)
            except BaseException:
                self.set_eager(eager=True)  # what is renewed in part is made anew
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
        first = tree.settle()
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

    def _merge(
        self, algebra: Any, S: States, left: np.ndarray, right: np.ndarray, longest: int
    ) -> States:
        out: States = algebra.new(len(left))
        if self.merger is not None and longest:
            p, M = arrays_for(self.merger, algebra, longest)
            counting = tuple(map(tallied, self.merger.kernels_for(algebra)))
            ranges = merge_ranges_with.specialise(algebra, counting)
            ranges(S, self.runs.slot, left, right, p, M, out)
            self.combines += int(p[-1])
            return out
        spare = algebra.new(longest + 1)
        ranges = merge_ranges.specialise(algebra)
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

    def lower(self, states: Sequence[States]) -> list[Column]:
        """The results of every aggregate, given the merged states of every component."""
        return [
            bound.lower([states_of(c, self.components, states) for c in bound.components])
            for bound in self.bounds
        ]

    def counted(self, component: Component) -> bool:
        """Whether results need the numbers of a count, and not only whether they are positive."""
        return any(
            component in bound.components[1 if bound.if_any else 0 :] for bound in self.bounds
        )

    def forget(self, slots: np.ndarray) -> None:
        """Let go of objects in slots that are no longer used."""
        for component, states in zip(self.components, self.states, strict=True):
            if states is not None and not component.algebra.compiled:
                states[0][slots] = None


def own_of(bounds: Sequence[Bound]) -> set[Component]:
    """The components whose events are taken one by one if need be, as they may raise errors."""
    return {
        component
        for bound in bounds
        for component in bound.components
        if is_own(bound.aggregate) or component.algebra.strict is not None
    }


def _add_own(
    algebra: Any, X: States, valid: np.ndarray | None, sliced: Sliced, S: States
) -> Refused:
    """Add the events of a batch, but for those that raise an error: they are returned."""
    if sliced.begins is not None:
        undo = _undoing(S, sliced.slots)
        try:
            add_ranges.specialise(algebra)(X, valid, sliced.slots, sliced.begins, S)
            return {}
        except Exception:
            undo()
    return add_apart(algebra, X, valid, sliced.slot_of_each(), S)


def _undoing(S: States, slots: np.ndarray) -> Callable[[], None]:
    """Gives the states of these slots, as they are now, back to them."""
    chosen: Any = slots if len(slots) < len(S[0]) else slice(None)  # whichever is less to keep
    before = [array[chosen].copy() for array in S]

    def undo() -> None:
        for array, old in zip(S, before, strict=True):
            array[chosen] = old

    return undo


def add_apart(
    algebra: Any, X: States, valid: np.ndarray | None, slots: np.ndarray, S: States, first: int = 0
) -> Refused:
    """Add events as `add_events` does, but for those that raise an error: they are returned.

    Where one does the events are halved, and each half begins from the states before it.
    """
    undo = _undoing(S, slots)
    try:
        add_events.specialise(algebra)(X, valid, slots, S)
        return {}
    except Exception as error:
        undo()
        if len(slots) == 1:
            return {first: error}
    refused: Refused = {}
    half = len(slots) // 2
    for part, begin in ((slice(half), 0), (slice(half, None), half)):
        given = (tuple(x[part] for x in X), None if valid is None else valid[part])
        refused |= add_apart(algebra, *given, slots[part], S, first + begin)
    return refused


@kernel
def fill_identity(S: Any, slots: Any) -> None:
    """Make slots neutral."""
    for slot in slots:
        store(S, slot, identity())


@kernel
def add_events(X: Any, valid: Any, slots: Any, S: Any) -> None:
    """Add each event to the state of its slot; neighbours of one slot stay in registers."""
    here = -1
    state = identity()
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < 0 or (valid is not None and not valid[i]):
            continue
        if slot != here:
            if i + 1 < slots.shape[0] and slots[i + 1] == here:
                # A late event between others: theirs stays at hand.
                store(S, slot, combine(load(S, slot), lift(X, i)))
                continue
            if here >= 0:
                store(S, here, state)
            here = slot
            state = load(S, slot)
        state = combine(state, lift(X, i))
    if here >= 0:
        store(S, here, state)


@kernel
def add_ranges(X: Any, valid: Any, slots: Any, begins: Any, S: Any) -> None:
    """Add each range of events to the state of its slot.

    The two halves of a long one are added up side by side, as neither has to wait for the other.
    """
    for j in range(slots.shape[0]):
        state, later = load(S, slots[j]), identity()
        begin, end = begins[j], begins[j + 1]
        half = (end - begin) >> 1 if end - begin >= LONG else 0
        for i in range(begin, begin + half):
            if valid is None or valid[i]:
                state = combine(state, lift(X, i))
            if valid is None or valid[i + half]:
                later = combine(later, lift(X, i + half))
        if half > 0:
            state = combine(state, later)
        for i in range(begin + 2 * half, end):
            if valid is None or valid[i]:
                state = combine(state, lift(X, i))
        store(S, slots[j], state)


@kernel
def fuse(S: Any, older: Any, newer: Any) -> None:
    """Merge states pair by pair."""
    for i in range(older.shape[0]):
        store(S, older[i], combine(load(S, older[i]), load(S, newer[i])))


@kernel
def extend(S: Any, rows: Any, more: Any) -> None:
    """Add states to others, each to the row it belongs to."""
    for i in range(rows.shape[0]):
        store(S, rows[i], combine(load(S, rows[i]), load(more, i)))


@kernel
def merge_ranges(S: Any, slot: Any, left: Any, right: Any, spare: Any, out: Any) -> int:
    """Boundary aggregation over ranges of places.

    A boundary lies somewhere in the range: `spare` has the aggregates from each place up to it,
    `ahead` the aggregate from it to the range's end. When a range begins past the boundary, or
    before the range ahead of it, the boundary moves to the end of that range.
    """
    combines = 0
    origin, boundary, end = 0, 0, 0
    ahead = identity()
    for q in range(left.shape[0]):
        l, r = left[q], right[q]
        if l >= boundary or l < origin or r < end:
            origin, boundary, end = l, r, r
            state = load(S, slot[r - 1])
            store(spare, r - 1 - l, state)
            for i in range(r - 2, l - 1, -1):
                state = prepend(load(S, slot[i]), state)
                store(spare, i - l, state)
            combines += r - 1 - l
            store(out, q, state)
            continue
        if r > end:
            combines += r - end
            if end == boundary:
                ahead = load(S, slot[end])
                end += 1
                combines -= 1
            while end < r:
                ahead = combine(ahead, load(S, slot[end]))
                end += 1
        if end == boundary:
            store(out, q, load(spare, l - origin))
        else:
            store(out, q, combine(load(spare, l - origin), ahead))
            combines += 1
    return combines


insert: Any = OPEN
evict: Any = OPEN
query: Any = OPEN


@kernel
def merge_ranges_with(S: Any, slot: Any, left: Any, right: Any, p: Any, M: Any, out: Any) -> None:
    """Merge ranges of places by a merger of the catalogue, which has room for the longest."""
    begin, end = 0, 0
    for q in range(left.shape[0]):
        l, r = left[q], right[q]
        if l < begin or r < end or l >= end:
            # Another key or window: begin anew.
            while p[0] < p[1]:
                evict(p, M)
            begin, end = l, l
        while begin < l:
            evict(p, M)
            begin += 1
        while end < r:
            insert(p, M, load(S, slot[end]))
            end += 1
        store(out, q, query(p, M))
