"""The slice group of context-free windows over time, whose edges are the same for all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.edges.cutty import cut_by, kept_by
from slicewise.slicing.emit.emission import Blocks
from slicewise.slicing.families.acceptance import Late, Verdict
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.families.grid import collect_free
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.ingest.batch import Batch, Grouped
from slicewise.slicing.locate.by_time import slice_free, slice_sorted
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.store.choosing import StoreChoice
from slicewise.slicing.store.saving import Layout
from slicewise.slicing.store.time_major import TimeMajorStore
from slicewise.windows import Window


class GridGroup(SliceGroup):
    """Context-free windows over time.

    Slices are kept in the store by key or in the store by time; `choice` decides that before each
    batch. Whoever needs places in runs calls `keep_by_key` first.
    """

    kind = "FreeTrack"

    def __init__(
        self,
        bounds: Sequence[Bound],
        dtype: str = "i8",
        *,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
        append_only: bool = False,
    ) -> None:
        super().__init__(bounds, dtype, merger=merger, eager=eager)
        self.choice = StoreChoice(append_only=append_only)

    def keep_by_key(self) -> None:
        if isinstance(self.slices, TimeMajorStore):
            self.use(self.choice.left(self.slices))

    def title(self, *, combined: bool) -> str:
        return "time"

    def kept_from(self, window: Window, horizon: int) -> Any:
        return self.cut_from(window, horizon)

    @property
    def layout(self) -> Layout:
        return Layout(times=False)

    def takes(self, late: Late, verdicts: Mapping[int, Verdict]) -> np.ndarray:
        # Slices are complete from there on, as a window that is added may rely on.
        if late.horizon >= INFINITY:
            return np.zeros(len(late.times), np.bool_)
        found: np.ndarray = late.times >= self.free.needed_from(late.horizon)
        return found

    @property
    def parts(self) -> bool:
        return False

    def rows_from(self, point: int) -> np.ndarray | None:
        return np.array([INFINITY if point >= INFINITY else self.free.needed_from(point)])

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        self.keep_by_key()
        defined = [entry.window for entry in windows]
        self.edges = cut_by(defined, self.technique, self.dtype)
        self.begins = kept_by(defined, self.technique, self.edges)
        self.fused_to = BEGINNING

    def add(self, batch: Batch) -> None:
        rest = self._add_by_time(batch)
        if rest is None:
            return
        batch = rest
        if self._alone(batch):
            self.add_in_order(Grouped.alone(batch))
            return
        keys = batch.keys if self.runs.keys > 1 else None
        given = (batch.times, (batch.low, batch.high), None, keys, batch.wanted)
        sliced = slice_free(self.runs, self.edges, *given, limited=True)
        self.store.touch(batch.times, keys)
        rest = self.take_found(sliced, batch)
        if rest is not None:
            self.add_in_order(Grouped.of(rest))

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        rest = self._add_by_time(batch)
        if rest is None:
            return
        if rest is not batch:
            rows = np.arange(len(batch)) if rest.wanted is None else np.flatnonzero(rest.wanted)
            grouped = Grouped.of(batch.take(rows))
            batch, groups = grouped.batch, (grouped.present, grouped.starts)
        reach = (batch.low, batch.high)
        sliced = slice_sorted(self.runs, self.edges, batch.times, reach, None, groups)
        self.take(sliced, batch)
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)

    def _add_by_time(self, batch: Batch) -> Batch | None:
        """Add a batch if slices are kept by time; what is left for slices that are kept by key."""
        before = self.slices
        slices = self.choice.before(before, len(batch))
        if slices is not before:
            self.use(slices)
        if not isinstance(slices, TimeMajorStore):
            return batch
        reach, given = (batch.low, batch.high), (batch.keys, batch.wanted, batch.columns)
        done = slices.add(self.edges, batch.times, reach, *given)
        self.refused += [(batch, row, error) for row, error in slices.refused.items()]
        slices.refused = {}
        if done == len(batch):
            return None
        self.use(self.choice.regretted(slices))
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted.copy()
        wanted[:done] = False
        return replace(batch, wanted=wanted)

    def closed(self, low: int, high: int) -> Blocks | None:
        slices = self.slices
        if not isinstance(slices, TimeMajorStore):
            return None
        points = (np.array([low], slices.dtype), np.array([high], slices.dtype))
        found = collect_free(slices.as_run(), self.free, np.zeros(1, np.int64), *points)
        if not len(found):
            return Blocks(found.window, found.start, found.end, found.key, found.key, ())
        closed = slices.closed(found)
        if closed is None:
            self.use(self.choice.regretted(slices))
            return None
        found, sizes, codes, columns = closed
        return Blocks(found.window, found.start, found.end, sizes, codes, columns)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.runs.start[places]
        return found

    def evict(self, point: int) -> None:
        slices = self.slices
        if isinstance(slices, TimeMajorStore):
            slices.evict(INFINITY if point >= INFINITY else self.free.needed_from(point))
            if self.begins is not None:
                slices.fuse(self.begins, point)
            return
        self.fuse(point, np.array([point]), self.fused_to)
        super().evict(point)

    def dump(
        self, out: BlobWriter, live: np.ndarray, codes: np.ndarray, point: int
    ) -> dict[str, Any]:
        node = super().dump(out, live, codes, point)
        return {**node, "choice": self.choice.dump()} if self.choice.append_only else node

    def _load_slices(self, node: Any, source: BlobReader, keys: int, since: int | None) -> None:
        if "choice" in node:
            self.choice.load(node["choice"])
        if "bands" not in node:
            super()._load_slices(node, source, keys, since)
            return
        empty = self.store
        slices = TimeMajorStore(empty.bounds, empty.dtype)
        slices.load(node, keys, source, self.layout, since)
        slices.waits = empty.waits
        self.use(slices)
        if empty.merges_otherwise or not self.choice.suits_time(slices):
            self.keep_by_key()
            self.store.merger = empty.merger
            self.store.set_eager(eager=empty.tree is not None)
