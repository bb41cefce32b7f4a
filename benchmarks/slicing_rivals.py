"""What a window operator is measured against: buckets, a tuple buffer, a tree over events.

The three alternatives of Scotty, Section 3, on the kernels and algebras of the library itself, and
as fast as they can be made: arrays instead of hash maps where that works, states in place, batches
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import read, share, states_of
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, load, store
from slicewise.columns import Column
from slicewise.mergers.base import identity_states
from slicewise.mergers.dyadic import span
from slicewise.mergers.flatfat import refresh

ROWS = parts.rows().algebra


@dataclass
class Found:
    """Answers: the number of the window, the start of the instance, its key and its value."""

    window: np.ndarray
    start: np.ndarray
    key: np.ndarray
    value: Any


class States:
    """The states of one aggregate by slot; counts of rows are kept once and by the caller."""

    def __init__(self, aggregate: Aggregate, columns: Mapping[str, Column], slots: int) -> None:
        kinds = [columns[name].type for name in aggregate.columns]
        self.bound = aggregate.bind(kinds or [columns["x"].type] * aggregate.arity)
        self.components = share([self.bound])
        self.rows = np.zeros(slots, np.int64)
        self.states = [self._new(c, slots) for c in self.components]

    def _new(self, component: Any, slots: int) -> Any:
        if component.algebra == ROWS:
            return (self.rows,)
        states = component.algebra.new(slots)
        identity_states.specialise(component.algebra)(states, slots)
        return states

    def main(self) -> list[tuple[Any, Any]]:
        """The components to be computed, with their states; a count alone stays one."""
        pairs = list(zip(self.components, self.states, strict=True))
        return [pair for pair in pairs if pair[0].algebra != ROWS] or pairs[:1]

    def lower(self, slots: np.ndarray) -> Any:
        taken = [tuple(field[slots] for field in states) for states in self.states]
        needed = [states_of(c, self.components, taken) for c in self.bound.components]
        return self.bound.lower(needed).to_arrow()

    def clear(self, slots: np.ndarray) -> None:
        for component, states in zip(self.components, self.states, strict=True):
            if component.algebra != ROWS:
                clear_states.specialise(component.algebra)(states, slots)
        self.rows[slots] = 0


@kernel
def clear_states(S: Any, slots: Any) -> None:
    for slot in slots:
        store(S, slot, identity())


class Buckets:
    """One bucket per window instance: every event updates a bucket of each of its windows.

    Buckets of a window are a ring, so finding one is a comparison with the bounds of the last one
    and rarely a division; no hashing. `span` is the longest time between the oldest open instance
    and an event. With a `gap` each event updates a session as well.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        aggregate: Aggregate,
        *,
        keys: int = 1,
        span: int,
        gap: int | None = None,
    ) -> None:
        self.aggregate, self.keys, self.gap = aggregate, keys, gap
        self.sessions = (np.zeros(1, np.int64), np.zeros(4096, np.int64), np.zeros(4096, np.int64))
        self.lengths = np.array(lengths, np.int64)
        self.ring = 1 << int(span // min(lengths) + 3).bit_length()
        self.low, self.high = np.zeros_like(self.lengths), np.zeros_like(self.lengths)
        self.place = np.zeros_like(self.lengths)
        self.next: np.ndarray | None = None
        self.states: States | None = None

    def process(self, columns: Mapping[str, Column], at: np.ndarray, keys: np.ndarray) -> None:
        if self.states is None:
            slots = self.keys * len(self.lengths) * self.ring
            self.states = States(self.aggregate, columns, slots)
            self.next = np.full_like(self.lengths, at.min()) // self.lengths
            self.session_states = States(self.aggregate, columns, 4096).main()[0][1]
        counted = False
        for component, S in self.states.main():
            X, _ = read(component, columns, len(at))
            rows = None if counted or component.algebra == ROWS else self.states.rows
            self._fill(component.algebra, X, at, keys, S, rows)
            counted = True

    def _fill(self, algebra: Any, X: Any, at: Any, keys: Any, S: Any, rows: Any) -> None:
        current = (self.low, self.high, self.place)
        fill_buckets.specialise(algebra)(X, at, keys, self.lengths, self.ring, current, S, rows)
        if self.gap is not None:
            fill_sessions.specialise(algebra)(X, at, self.gap, *self.sessions, self.session_states)

    def advance(self, watermark: int) -> Found:
        assert self.states is not None
        assert self.next is not None
        closed = list_closed.specialise(NOTHING)(
            watermark, self.lengths, self.next, self.keys, self.ring, self.states.rows
        )
        slots = closed[0]
        value = self.states.lower(slots)
        self.states.clear(slots)
        return Found(closed[1], closed[2], closed[3], value)


@kernel
def fill_buckets(
    X: Any, at: Any, keys: Any, lengths: Any, ring: int, current: Any, S: Any, rows: Any
) -> None:
    low, high, place = current
    windows = lengths.shape[0]
    for i in range(at.shape[0]):
        t = at[i]
        first = keys[i] * windows * ring
        for w in range(windows):
            if not low[w] <= t < high[w]:
                k = t // lengths[w]
                low[w] = k * lengths[w]
                high[w] = low[w] + lengths[w]
                place[w] = w * ring + (k & (ring - 1))
            slot = first + place[w]
            store(S, slot, combine(load(S, slot), lift(X, i)))
            if rows is not None:
                rows[slot] += 1


@kernel
def fill_sessions(X: Any, at: Any, gap: int, count: Any, first: Any, last: Any, S: Any) -> None:
    for i in range(at.shape[0]):
        t = at[i]
        j = count[0] - 1
        while j >= 0 and t < first[j] - gap:
            j -= 1
        if j >= 0 and t <= last[j] + gap:
            first[j] = min(first[j], t)
            last[j] = max(last[j], t)
            store(S, j, combine(load(S, j), lift(X, i)))
            if j > 0 and first[j] - last[j - 1] <= gap:
                j -= 1
            if j + 1 < count[0] and first[j + 1] - last[j] <= gap:
                last[j] = last[j + 1]
                store(S, j, combine(load(S, j), load(S, j + 1)))
                for k in range(j + 1, count[0] - 1):
                    first[k], last[k] = first[k + 1], last[k + 1]
                    store(S, k, load(S, k + 1))
                count[0] -= 1
        else:
            for k in range(count[0], j + 1, -1):
                first[k], last[k] = first[k - 1], last[k - 1]
                store(S, k, load(S, k - 1))
            first[j + 1], last[j + 1] = t, t
            store(S, j + 1, lift(X, i))
            count[0] += 1


@kernel
def list_closed(
    watermark: int, lengths: Any, next_one: Any, keys: int, ring: int, rows: Any
) -> Any:
    windows = lengths.shape[0]
    room = 0
    for w in range(windows):
        room += max(0, watermark // lengths[w] - next_one[w])
    room *= keys
    slots, window = np.empty(room, np.int64), np.empty(room, np.int64)
    start, key = np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for w in range(windows):
        while (next_one[w] + 1) * lengths[w] <= watermark:
            k = next_one[w]
            for code in range(keys):
                slot = (code * windows + w) * ring + (k & (ring - 1))
                if rows[slot] > 0:
                    slots[count], window[count] = slot, w
                    start[count], key[count] = k * lengths[w], code
                    count += 1
            next_one[w] += 1
    return slots[:count], window[:count], start[:count], key[:count]


class Ordered:
    """Buckets behind a sorter, for what needs the order of events: they wait for the watermark.

    With `rows` the measure of windows is the position of an event.
    """

    def __init__(self, buckets: Buckets, *, rows: bool) -> None:
        self.buckets, self.rows, self.released = buckets, rows, 0
        self.waiting: list[tuple[Mapping[str, Column], np.ndarray]] = []

    def process(self, columns: Mapping[str, Column], at: np.ndarray, keys: np.ndarray) -> None:
        self.waiting.append((columns, at))

    def advance(self, watermark: int) -> Found:
        names = list(self.waiting[0][0])
        at = np.concatenate([times for _, times in self.waiting])
        parts = {n: [columns[n] for columns, _ in self.waiting] for n in names}
        joined = {
            n: Column(np.concatenate([p.values for p in ps]), None, ps[0].type)
            for n, ps in parts.items()
        }
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")  # merges the sorted runs it finds
            at = at[order]
            joined = {n: Column(c.values[order], None, c.type) for n, c in joined.items()}
        ready = int(np.searchsorted(at, watermark))
        chosen, rest = (
            {n: Column(c.values[part], None, c.type) for n, c in joined.items()}
            for part in (slice(0, ready), slice(ready, None))
        )
        self.waiting = [(rest, at[ready:])]
        measure = np.arange(self.released, self.released + ready) if self.rows else at[:ready]
        self.released += ready
        if ready:
            self.buckets.process(chosen, measure, np.zeros(ready, np.int64))
        if self.buckets.states is None:
            nothing = np.empty(0, np.int64)
            return Found(nothing, nothing, nothing, pa.nulls(0))
        return self.buckets.advance(self.released if self.rows else watermark)


class TupleBuffer:
    """All events in the order of time; a window that ends is computed from its events."""

    def __init__(
        self, lengths: Sequence[int], aggregate: Aggregate, *, keys: int = 1, span: int
    ) -> None:
        assert keys == 1
        self.aggregate = aggregate
        self.lengths = np.array(lengths, np.int64)
        self.size = 1 << int((span + max(lengths)) // 10 + 1).bit_length()
        self.times, self.values = np.zeros(self.size, np.int64), np.zeros(self.size)
        self.begin, self.end = 0, 0
        self.next: np.ndarray | None = None

    def process(self, columns: Mapping[str, Column], at: np.ndarray, keys: np.ndarray) -> None:
        values = columns["x"].values
        if self.next is None:
            self.next = np.full_like(self.lengths, at.min()) // self.lengths
            self.states = States(self.aggregate, columns, 1)
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            at, values = at[order], values[order]
        changed = merge_events.specialise(NOTHING)(
            self.times, self.values, self.begin, self.end, at, values
        )
        self.end += len(at)
        self.changed(changed)

    def changed(self, first: int) -> None:
        """Take note that events from number `first` on are new or have moved."""

    def advance(self, watermark: int) -> Found:
        assert self.next is not None
        (component, _), *_ = self.states.main()
        window, start, left, right, self.begin = ended.specialise(NOTHING)(
            watermark, self.lengths, self.next, self.times, self.begin, self.end
        )
        out = component.algebra.new(len(window))
        self.compute(component.algebra, left, right, out)
        states = [(right - left,) if c.algebra == ROWS else out for c in self.states.components]
        needed = [
            states_of(c, self.states.components, states) for c in self.states.bound.components
        ]
        value = self.states.bound.lower(needed).to_arrow()
        return Found(window, start, window * 0, value)

    def compute(self, algebra: Any, left: np.ndarray, right: np.ndarray, out: Any) -> None:
        fold_events.specialise(algebra)((self.values,), left, right, out)


@kernel
def merge_events(times: Any, values: Any, begin: int, end: int, at: Any, new: Any) -> int:
    """Merge a sorted batch from the back; the number of the first event that changed."""
    mask = times.shape[0] - 1
    i, j, place = end - 1, at.shape[0] - 1, end + at.shape[0] - 1
    while j >= 0:
        if i >= begin and times[i & mask] > at[j]:
            times[place & mask], values[place & mask] = times[i & mask], values[i & mask]
            i -= 1
        else:
            times[place & mask], values[place & mask] = at[j], new[j]
            j -= 1
        place -= 1
    return place + 1


@kernel
def first_from(times: Any, begin: int, end: int, t: int) -> int:
    mask = times.shape[0] - 1
    while begin < end:
        middle = (begin + end) >> 1
        if times[middle & mask] < t:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def ended(watermark: int, lengths: Any, next_one: Any, times: Any, begin: int, end: int) -> Any:
    """The instances that ended, as numbers of events, and the oldest event still needed."""
    room = 0
    for w in range(lengths.shape[0]):
        room += max(0, watermark // lengths[w] - next_one[w])
    window, start = np.empty(room, np.int64), np.empty(room, np.int64)
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    needed = watermark
    for w in range(lengths.shape[0]):
        while (next_one[w] + 1) * lengths[w] <= watermark:
            low = next_one[w] * lengths[w]
            a = first_from(times, begin, end, low)
            b = first_from(times, a, end, low + lengths[w])
            if a < b:
                window[count], start[count], left[count], right[count] = w, low, a, b
                count += 1
            next_one[w] += 1
        needed = min(needed, next_one[w] * lengths[w])
    kept = first_from(times, begin, end, needed)
    return window[:count], start[:count], left[:count], right[:count], kept


@kernel
def fold_events(X: Any, left: Any, right: Any, out: Any) -> None:
    mask = X[0].shape[0] - 1
    for q in range(left.shape[0]):
        state = lift(X, left[q] & mask)
        for i in range(left[q] + 1, right[q]):
            state = combine(state, lift(X, i & mask))
        store(out, q, state)


class EventTree(TupleBuffer):
    """FlatFAT over the events; a batch renews the nodes above it once."""

    tree: Any = None

    def changed(self, first: int) -> None:
        (component, _), *_ = self.states.main()
        algebra = component.algebra
        if self.tree is None:
            self.cursors = np.zeros(6, np.int64)
            self.cursors[2] = self.size - 1
            self.tree = algebra.new(2 * self.size)
            identity_states.specialise(algebra)(self.tree, 2 * self.size)
        plant.specialise(algebra)(
            (self.values,), self.cursors, self.tree, self.begin, first, self.end
        )

    def compute(self, algebra: Any, left: np.ndarray, right: np.ndarray, out: Any) -> None:
        ask.specialise(algebra)(self.cursors, self.tree, left, right, out)


@kernel
def plant(X: Any, p: Any, S: Any, begin: int, first: int, end: int) -> None:
    for i in range(first, end):
        store(S, p[2] + 1 + (i & p[2]), lift(X, i & p[2]))
    p[0], p[1] = begin, end
    p[3] = min(p[3], first)
    p[4] = begin  # leaves that left are never asked for, so nothing above them is renewed
    refresh(p, S)


@kernel
def ask(p: Any, S: Any, left: Any, right: Any, out: Any) -> None:
    for q in range(left.shape[0]):
        store(out, q, span(p, S, left[q], right[q]))
