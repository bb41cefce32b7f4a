"""Window instances as arrays, and the kernels that list them.

A listing kernel lists instances as (window, key, start, end, left, right, close), where
`[left, right)` are places in the runs, and only those whose close point lies in `(low, high]`.
The close point of an instance is the least watermark at which it is complete. Instances without
an event are never looked at: the loops go from slice to slice.

Rows of a key are numbered in the order of (time, arrival). Where each slice is a `single` row its
position follows from its place; otherwise `start` of a place is the position of its first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.store.runs import Runs


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Window instances, one array per property."""

    window: np.ndarray
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    left: np.ndarray
    right: np.ndarray
    close: np.ndarray

    def __len__(self) -> int:
        return len(self.window)

    @staticmethod
    def concatenate(parts: Sequence[Instances]) -> Instances:
        if len(parts) == 1:
            return parts[0]
        names = Instances.__slots__
        return Instances(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def take(self, rows: np.ndarray) -> Instances:
        return Instances(*(getattr(self, name)[rows] for name in self.__slots__))


def collect(item: Any, runs: Runs, *arguments: Any, work: float = 0) -> Instances:
    """Run a listing kernel with room enough for what it finds: some more than the last time.

    `work` is about how many instances it looks at, where these may be more than slices.
    """
    room = runs.listed + runs.listed // 4 + 256
    kind = runs.start.dtype
    while True:
        whole = [np.empty(room, np.int64) for _ in range(4)]
        bounds = [np.empty(room, kind) for _ in range(3)]
        out = (whole[0], whole[1], bounds[0], bounds[1], whole[2], whole[3], bounds[2])
        found = run(item, work=work)(*arguments, runs.arrays, out)
        runs.listed = found
        if found <= room:
            return Instances(*(array[:found] for array in out))
        room = found


@kernel
def note(out: Any, count: int, w: int, code: int, bounds: Any, places: Any, close: Any) -> None:
    """Write one instance, with its bounds and the places of its slices, if there is room."""
    window, key, begins, ends, left, right, closes = out
    if count < window.shape[0]:
        window[count] = w
        key[count] = code
        begins[count], ends[count] = bounds
        left[count], right[count] = places
        closes[count] = close


@kernel
def position_at(single: bool, start: Any, base: int, a: int, place: int) -> Any:
    """The position of the first row of a place in a run that begins at `a`."""
    return base + place - a if single else start[place]


@kernel
def place_from(single: bool, start: Any, base: int, a: int, l: int, z: int, position: int) -> Any:
    """The first place in `[l, z)` whose rows are all at `position` or later; `z` if none is."""
    if single:
        return min(max(a + position - base, l), z)
    return first_at_least(start, l, z, position)


@kernel
def place_of(single: bool, start: Any, base: int, a: int, l: int, z: int, position: int) -> Any:
    """The place in `[l, z)` that holds the row at `position`, which is not before `l`."""
    if single:
        return a + position - base
    while l + 1 < z and start[l + 1] <= position:
        l += 1
    return l
