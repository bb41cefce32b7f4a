"""The eager aggregate store: a tree over the slices of each key.

Each key has a tree of FlatFAT (VLDB 2015, Section 4), whose leaves are a circular buffer of its
slices, so that slices leave at the old end without a change. Nodes are made and windows read by the
kernels of `mergers.flatfat`; the trees of all keys lie one after the other in the same arrays. A
batch tells the least measure it has touched of each key; the next query renews the leaves from
there on and the nodes above them, level by level and each node once. A window is then the combine
of at most 2 log n nodes, however many slices it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.aggregates.bound import States
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.codegen.prelude import load, store
from slicewise.codegen.tally import tallied
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import identity_states
from slicewise.mergers.dyadic import span
from slicewise.mergers.flatfat import FlatFAT, renew_above
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

    def fit(self) -> np.ndarray:
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
        run(first_touched)(self.touched, keys, runs.arrays, first)
        self.touched[:] = INFINITY
        return first

    def renew(self, number: int, algebra: Any, S: States, first: np.ndarray) -> int:
        """Renew the tree of one component from places `first` on; returns the combines."""
        if number not in self.states:
            fresh = self.states[number] = algebra.new(self.nodes)
            identity_states.specialise(algebra)(fresh, self.nodes)
            first = self.runs.offset
        p, T = np.zeros(FlatFAT.cursors + 1, np.int64), self.states[number]
        given = (p, S, first, self.runs.keys, self.runs.arrays, (self.root, self.leaves), T)
        tallied(renew_trees).specialise(algebra)(*given)
        return int(p[-1])

    def ask(
        self, number: int, algebra: Any, keys: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> tuple[States, int]:
        """The states over ranges of places of these keys, and the combines that took."""
        out: States = algebra.new(len(left))
        p, T = np.zeros(1, np.int64), self.states[number]
        given = (p, keys, left, right, self.runs.arrays, (self.root, self.leaves), T, out)
        tallied(ask_trees).specialise(algebra)(*given)
        return out, int(p[-1])


@kernel
def least_of_each(at: Any, keys: Any, touched: Any) -> None:
    for i in range(at.shape[0]):
        if at[i] < touched[keys[i]]:
            touched[keys[i]] = at[i]


@kernel
def first_touched(touched: Any, keys: int, runs: Any, first: Any) -> None:
    """The first place of each run that may have changed: sessions may grow and fuse backwards."""
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        if touched[code] < INFINITY:
            first[code] = max(a, first_at_least(start, a, z, touched[code]) - 1)


@kernel
def renew_trees(p: Any, S: Any, first: Any, keys: int, runs: Any, trees: Any, T: Any) -> None:
    """Copy the slices from `first` on to the leaves of their trees, and renew the nodes above."""
    offset, size, base, slot = runs.offset, runs.size, runs.base, runs.slot
    root, leaves = trees
    for code in range(keys):
        a, n = offset[code], size[code]
        if first[code] >= a + n:
            continue
        # Leaves as numbers that grow for ever; the tree holds each at its remainder.
        p[0], p[1], p[2] = base[code], base[code] + n, leaves[code] - 1
        low, behind = first[code] - a + base[code], root[code] + leaves[code]
        for leaf in range(low, p[1]):
            store(T, behind + (leaf & p[2]), load(S, slot[a + leaf - base[code]]))
        renew_above(p, T, root[code], low, p[1])


@kernel
def ask_trees(
    p: Any, keys: Any, left: Any, right: Any, runs: Any, trees: Any, T: Any, out: Any
) -> None:
    """The states over ranges of places, each of a key."""
    root, leaves = trees
    for q in range(left.shape[0]):
        code = keys[q]
        shift = runs.base[code] - runs.offset[code]
        store(out, q, span(p, T, root[code], leaves[code], left[q] + shift, right[q] + shift))
