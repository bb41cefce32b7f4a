"""The eager aggregate store: a tree over the slices of each key.

Each key has a complete binary tree in the layout of a heap (FlatFAT, VLDB 2015, Section 4) whose
leaves are a circular buffer of its slices, so that slices leave at the old end without a change. A
batch tells the least measure it has touched of each key; the next query renews the leaves from
there on and the nodes above them, level by level and each node once. A window is then the combine
of at most 2 log n nodes, however many slices it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.aggregates.base import States
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import identity_states
from slicewise.slicing.store.runs import Runs

SMALLEST = 8  # leaves of a tree


class Tree:
    """Where the trees of all keys are: `root` and `leaves` of each, in arrays of `nodes` states.

    `touched` is the least measure of each key that has changed since the trees were renewed.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.nodes = 0
        self.root = self.leaves = np.zeros(0, np.int64)
        self.touched = np.zeros(0, runs.start.dtype)
        self.states: dict[int, States] = {}

    def touch(self, at: np.ndarray, keys: np.ndarray | None) -> None:
        """Take note that events of these measures come."""
        self._admit()
        if keys is None:
            self.touched[0] = min(self.touched[0], at.min(initial=INFINITY))
        else:
            run(least_of_each)(at, keys, self.touched)

    def least(self) -> np.ndarray:
        """`touched`, with room for every key."""
        self._admit()
        return self.touched

    def spoil(self) -> None:
        """Take note that anything may have changed."""
        self.touched[:] = BEGINNING

    def _admit(self) -> None:
        more = len(self.runs.offset) - len(self.root)
        if more > 0:
            none = np.zeros(more, np.int64)
            self.root, self.leaves = np.append(self.root, none), np.append(self.leaves, none)
            fresh = np.full(more, INFINITY, self.touched.dtype)
            self.touched = np.append(self.touched, fresh)

    def settle(self) -> np.ndarray:
        """Give each run a tree that is large enough; for each key the first leaf to renew."""
        self._admit()
        runs, keys = self.runs, self.runs.keys
        if (runs.size[:keys] > self.leaves[:keys]).any():
            wanted = np.maximum(2 * runs.size[:keys], SMALLEST)
            self.leaves[:keys] = 1 << np.ceil(np.log2(wanted)).astype(np.int64)
            self.root[:keys] = np.cumsum(2 * self.leaves[:keys]) - 2 * self.leaves[:keys]
            self.nodes = int(2 * self.leaves[:keys].sum())
            self.states = {}
            self.spoil()
        first = runs.offset + runs.size
        run(first_touched)(self.touched, keys, (runs.offset, runs.size), runs.start, first)
        self.touched[:] = INFINITY
        return first

    def renew(self, number: int, algebra: Any, S: States, first: np.ndarray) -> int:
        """Renew the tree of one component from places `first` on; returns the combines."""
        if number not in self.states:
            fresh = self.states[number] = algebra.new(self.nodes)
            identity_states.specialise(algebra)(fresh, self.nodes)
            first = self.runs.offset
        index = (self.runs.offset, self.runs.size, self.runs.base)
        T = self.states[number]
        where = (self.root, self.leaves, self.runs.keys)
        return int(renew_trees.specialise(algebra)(S, self.runs.slot, first, index, *where, T))

    def ask(
        self, number: int, algebra: Any, keys: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> tuple[States, int]:
        """The states over ranges of places of these keys, and the combines that took."""
        out: States = algebra.new(len(left))
        index = (self.runs.offset, self.runs.base)
        asked = (keys, left, right, self.root, self.leaves)
        combines = ask_trees.specialise(algebra)(*asked, index, self.states[number], out)
        return out, int(combines)


@kernel
def least_of_each(at: Any, keys: Any, touched: Any) -> None:
    for i in range(at.shape[0]):
        if at[i] < touched[keys[i]]:
            touched[keys[i]] = at[i]


@kernel
def first_touched(touched: Any, keys: int, index: Any, start: Any, first: Any) -> None:
    """The first place of each run that may have changed: sessions may grow and fuse backwards."""
    offset, size = index
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        if touched[code] < INFINITY:
            first[code] = max(a, first_at_least(start, a, z, touched[code]) - 1)


@kernel
def renew_trees(
    S: Any, slot: Any, first: Any, index: Any, root: Any, leaves: Any, keys: int, T: Any
) -> int:
    offset, size, base = index
    combines = 0
    for code in range(keys):
        a, n = offset[code], size[code]
        if first[code] >= a + n:
            continue
        origin, width = root[code], leaves[code]
        # Leaves as numbers that grow for ever; the tree holds each at its remainder.
        low, high = first[code] - a + base[code], n + base[code]
        for leaf in range(low, high):
            store(T, origin + width + leaf % width, load(S, slot[a + leaf - base[code]]))
        while width > 1:
            width //= 2
            low, high = low // 2, (high - 1) // 2 + 1
            for number in range(low, min(high, low + width)):
                node = width + number % width
                store(
                    T,
                    origin + node,
                    combine(load(T, origin + 2 * node), load(T, origin + 2 * node + 1)),
                )
                combines += 1
    return combines


@kernel
def ask_trees(
    keys: Any, left: Any, right: Any, root: Any, leaves: Any, index: Any, T: Any, out: Any
) -> int:
    offset, base = index
    combines = 0
    for q in range(left.shape[0]):
        code = keys[q]
        origin, width = root[code], leaves[code]
        shift = base[code] - offset[code]
        begin, end = left[q] + shift, right[q] + shift
        state = identity()
        while begin < end:
            # The part before the buffer's end, and then the part after it.
            low = begin % width
            part = min(end - begin, width - low)
            begin += part
            low, high = low + width, low + part + width
            behind = identity()
            while low < high:
                if low & 1:
                    state = combine(state, load(T, origin + low))
                    combines += 1
                    low += 1
                if high & 1:
                    high -= 1
                    behind = combine(load(T, origin + high), behind)
                    combines += 1
                low >>= 1
                high >>= 1
            state = combine(state, behind)
        store(out, q, state)
    return combines
