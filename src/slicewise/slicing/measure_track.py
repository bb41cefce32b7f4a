"""The track of context-free windows over an advancing column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.aggregates.base import Bound
from slicewise.codegen.kernel import kernel
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.batches import Batch
from slicewise.slicing.free_track import FreeTrack
from slicewise.slicing.row_slicer import slice_rows
from slicewise.slicing.runs import run
from slicewise.slicing.slicer import slice_free
from slicewise.slicing.tracks import Track
from slicewise.slicing.triggers import (
    BEGINNING,
    INFINITY,
    Instances,
    collect,
    keep_from,
    list_free,
    needed_from,
)


class MeasureTrack(FreeTrack):
    """Context-free windows over an advancing column.

    An instance closes when an event at or past its end is below the watermark. `settled` is what
    each key has reached for good: an event that falls behind it does not advance.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        axis: str,
        dtype: str,
        *,
        rows: bool,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        super().__init__(bounds, dtype, merger=merger, eager=eager)
        self.axis = axis
        self.rows = rows
        self.settled = np.empty(0, dtype)
        self.behind = 0

    def add(self, batch: Batch) -> None:
        column = batch.columns[self.axis]
        at = column.values.astype(self.runs.start.dtype, copy=False)
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted
        if column.valid is not None:
            wanted = wanted & column.valid
        if at.dtype.kind == "f":
            wanted = wanted & np.isfinite(at)
        self._admit()
        behind = wanted & (at < self.settled[batch.keys])
        if behind.any():
            self.behind += int(behind.sum())
            wanted = wanted & ~behind
        if self.rows:
            sliced = slice_rows(self.runs, at, batch.times, batch.keys, wanted, batch.arrival)
        else:
            chosen = at[wanted]
            reach = (chosen.min(), chosen.max()) if len(chosen) else (at[0], at[0])
            sliced = slice_free(self.runs, self.edges, at, reach, batch.times, batch.keys, wanted)
        self.store.add(sliced, batch.columns)
        self.store.touch(at, batch.keys)

    def _admit(self) -> None:
        more = len(self.runs.offset) - len(self.settled)
        if more > 0:
            self.settled = np.append(self.settled, np.full(more, BEGINNING, self.settled.dtype))

    def beyond(self) -> Any:
        """A value that no event has reached yet."""
        runs = self.runs
        places = runs.places(np.arange(runs.keys))
        seen = [BEGINNING, *self.settled[: runs.keys].tolist()]
        if len(places) and self.rows:
            last = runs.start[places].max()
            seen.append((last + 1 if last.dtype.kind == "i" else np.nextafter(last, np.inf)).item())
        elif len(places):
            seen.append(runs.stop[places].max().item())
        return max(seen)

    def reached(self, point: int) -> np.ndarray:
        """For each key, the greatest start of a slice with an event below `point`."""
        self._admit()
        if point >= INFINITY:
            return np.full(len(self.settled), INFINITY, self.settled.dtype)
        reached = self.settled.copy()
        run(reach)(point, self.runs.keys, *self._index(), reached)
        return reached

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        points = (self.reached(low)[keys], self.reached(high)[keys])
        return collect(list_free, self.runs, self.free.arrays(), keys, *points)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        return Track.earliest(self, places)

    def floors(self, keys: np.ndarray, point: int) -> np.ndarray:
        floors: np.ndarray = self.reached(point)[keys]
        return floors

    def evict(self, point: int) -> None:
        # What is settled decides which events count, so it may not wait for an eviction.
        if point < INFINITY:
            self.settled = self.reached(point)
        Track.evict(self, point)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        least = run(needed_of_all)(self.free.arrays(), self.settled, self.runs.keys)
        run(keep_from)(least, self.runs.keys, *self._index(), keep)
        return keep


@kernel
def reach(point: int, keys: int, index: Any, pool: Any, reached: Any) -> None:
    offset, size = index[0], index[1]
    start, slot, first = pool[0], pool[1], pool[2]
    for code in range(keys):
        for place in range(offset[code] + size[code] - 1, offset[code] - 1, -1):
            if first[slot[place]] < point:
                reached[code] = max(reached[code], start[place])
                break


@kernel
def needed_of_all(windows: Any, settled: Any, keys: int) -> Any:
    """What `needed_from` says for each key."""
    least = settled.copy()
    for code in range(keys):
        if settled[code] > BEGINNING:
            least[code] = needed_from(windows, settled[code])
    return least
