"""The choice between the store by key and the store by time, and the change from one to the other.

The store by time is for many keys with the same edges and for results that are never revised. What
there is has to be moved, so it is chosen once enough events have come to make up for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.ordering import order_of
from slicewise.limits import INFINITY
from slicewise.slicing.state.checks import is_whole, require
from slicewise.slicing.store.base import SliceStore
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.time_major import TimeMajorStore

MOST_RELUCTANT = 1 << 20


class StoreChoice:
    """Decides which store the slices of context-free windows are kept in.

    `append_only` says that results are never revised. `fed` counts the events since the store was
    last changed; `reluctance` is how much more of them it takes, and grows when the store by time
    was left again because it was no good.
    """

    def __init__(self, *, append_only: bool) -> None:
        self.append_only = append_only
        self.fed = 0
        self.reluctance = 1

    def suits_time(self, store: SliceStore) -> bool:
        """Return whether the store by time can keep what this one keeps."""
        return (
            self.append_only
            and not store.since
            and not (isinstance(store, KeyMajorStore) and store.merges_otherwise)
            and all(component.algebra.compiled for component in store.components)
        )

    def before(self, store: SliceStore, events: int) -> SliceStore:
        """Return the store that a batch of so many events should go to: this one, or a new one."""
        if isinstance(store, TimeMajorStore):
            return self.regretted(store) if store.sparse else store
        self.fed += events
        limits = tuning.active()
        keys = store.keys
        if (
            keys >= limits.keys_by_time
            and events + keys // limits.keys_per_event >= limits.events_by_time
            and limits.moved_per_event * self.fed >= self.reluctance * store.live
            and self.suits_time(store)
        ):
            assert isinstance(store, KeyMajorStore)
            return by_time(store)
        return store

    def regretted(self, store: TimeMajorStore) -> KeyMajorStore:
        """Return the slices by key, after the store by time has turned out to be no good."""
        self.reluctance = min(4 * self.reluctance, MOST_RELUCTANT)
        return self.left(store)

    def left(self, store: TimeMajorStore) -> KeyMajorStore:
        """Return the slices by key, because somebody needs them so."""
        self.fed = 0
        return by_key(store)

    def dump(self) -> list[int]:
        """The part of a snapshot that says how far the choice is."""
        return [self.fed, self.reluctance]

    def load(self, node: Any) -> None:
        """Take over what `dump` has written."""
        self.fed, self.reluctance = node
        good = is_whole(self.fed, 0, INFINITY) and is_whole(self.reluctance, 1, MOST_RELUCTANT)
        require(good, f"it has chosen a store by {node!r}")


def by_time(store: KeyMajorStore) -> TimeMajorStore:
    """Return a store by time with the slices of a store by key, which is not used any more."""
    runs = store.runs
    made = TimeMajorStore(store.bounds, store.dtype)
    made.take_over(store)
    made.admit(runs.keys)
    every = np.arange(runs.keys)
    places = runs.places(every)
    if not len(places):
        return made
    codes = np.repeat(every, runs.size[: runs.keys])
    made.starts, number = np.unique(runs.start[places], return_inverse=True)
    order = order_of(codes, number)
    places, codes, number = places[order], codes[order], number[order]
    slots, starts = runs.slot[places], runs.start[places]
    pool = made.pool
    pool.codes, pool.rows, pool.top = codes.astype(np.int32), runs.rows[slots], len(codes)
    pool.states = [None if S is None else tuple(a[slots] for a in S) for S in store.states]
    # A key may have slices of one start, parted when a window was added: the later ones go to
    # another list.
    made.stops = np.full(len(made.starts), INFINITY, made.dtype)
    np.minimum.at(made.stops, number, runs.stop[places])
    cuts = np.append(True, (starts[1:] != starts[:-1]) | (codes[1:] == codes[:-1]))
    begins = np.flatnonzero(cuts).tolist()
    made.lists = [[] for _ in made.starts]
    for begin, end in zip(begins, [*begins[1:], len(starts)], strict=True):
        made.lists[number[begin]].append((begin, end))
    return made


def by_key(store: TimeMajorStore) -> KeyMajorStore:
    """Return a store by key with the slices of a store by time, which is not used any more."""
    store.compact()
    pool = store.pool
    size = np.zeros(store.keys, np.int64)
    for begin, end in store.ranges():
        size[pool.codes[begin:end]] += 1
    runs = Runs(store.dtype.str)
    runs.lay_out(size)
    made = KeyMajorStore(store.bounds, runs)
    made.take_over(store)
    made.states = [
        None if S is None else c.algebra.new(runs.slots)
        for c, S in zip(store.components, pool.states, strict=True)
    ]
    next_place = runs.offset.copy()
    for band, ranges in enumerate(store.lists):
        for begin, end in ranges:
            codes = pool.codes[begin:end]
            places = next_place[codes]
            next_place[codes] += 1
            runs.start[places], runs.stop[places] = store.starts[band], store.stops[band]
            runs.rows[places] = pool.rows[begin:end]
            for S, T in zip(pool.states, made.states, strict=True):
                for source, target in zip(S or (), T or (), strict=True):
                    target[places] = source[begin:end]
    return made
