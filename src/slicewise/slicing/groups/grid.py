"""The slice group of context-free windows over time, whose edges are the same for all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Bound, Component
from slicewise.codegen.kernel import run
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.buffer import Batch, Grouped
from slicewise.slicing.edges.cutting import cut_by, kept_by
from slicewise.slicing.emit.emission import Blocks
from slicewise.slicing.families.triggers import FreeWindows, Instances, collect_free, keep_from
from slicewise.slicing.groups.group import SliceGroup, WindowEntry
from slicewise.slicing.ingest.late import Late, Verdict
from slicewise.slicing.locate.by_time import slice_free, slice_sorted
from slicewise.slicing.locate.time_cells import slice_alone
from slicewise.slicing.store.band_closing import close
from slicewise.slicing.store.bands import Bands
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.saving import Layout


class GridGroup(SliceGroup):
    """Context-free windows over time.

    Slices are kept by key, in runs, or by time, in bands; whoever asks for `runs` or `store` gets
    all of them by key. Bands are for many keys and for results that are never revised.
    """

    kind = "FreeTrack"

    bands: Bands | None = None

    def __init__(
        self,
        bounds: Sequence[Bound],
        dtype: str = "i8",
        *,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
        settled: bool = False,
    ) -> None:
        super().__init__(bounds, dtype, merger=merger, eager=eager)
        self.settled_only = settled
        self.fed = 0  # events since slices were last kept by time
        self.reluctance = 1  # grows when that was no good

    @property
    def runs(self) -> Runs:
        """The slices by key."""
        self._by_key()
        return self._runs

    @runs.setter
    def runs(self, runs: Runs) -> None:
        self._runs = runs

    @property
    def store(self) -> KeyMajorStore:
        """The states of the slices by key."""
        self._by_key()
        return self._store

    @store.setter
    def store(self, store: KeyMajorStore) -> None:
        self._store = store

    def _by_key(self, *, worse: bool = False) -> None:
        """Keep slices in runs; `worse` says that bands were no good."""
        bands, self.bands = self.bands, None
        if bands is not None:
            self._store.combines += bands.combines
            bands.fill_runs(self._runs, self._store)
            self.fed = 0
            self.reluctance *= 4 if worse else 1

    def _by_time(self, events: int) -> Bands | None:
        """The bands, if this is the case for them: here it is decided."""
        if self.bands is not None:
            if self.bands.sparse:
                self._by_key(worse=True)
            return self.bands
        runs, store = self._runs, self._store
        self.fed += events
        limits = tuning.active()
        if (
            not self.settled_only
            or runs.keys < limits.keys_by_time
            or events + runs.keys // limits.keys_per_event < limits.events_by_time
            # What there is has to be moved, which new events must make up for.
            or limits.moved_per_event * self.fed < self.reluctance * runs.live
            or store.tree is not None
            or store.merger is not None
            or store.since
            or not all(component.algebra.compiled for component in store.components)
        ):
            return None
        self.bands = Bands.of_runs(runs, store)
        self._runs = store.runs = Runs(runs.start.dtype.str)
        store.states = [None] * len(store.components)
        return self.bands

    @property
    def live(self) -> int:
        return self._runs.live if self.bands is None else self.bands.live

    @property
    def keys(self) -> int:
        return self._runs.keys if self.bands is None else self.bands.keys

    @property
    def components(self) -> list[Component]:
        return self._store.components

    @property
    def layout(self) -> Layout:
        return Layout(times=False)

    @property
    def combines(self) -> int:
        return self._store.combines + (0 if self.bands is None else self.bands.combines)

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

    def know(self, keys: int) -> None:
        if self.bands is None:
            self._runs.admit(keys)
        else:
            self.bands.keys = keys

    def held(self) -> np.ndarray:
        return super().held() if self.bands is None else self.bands.held()

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        if self.bands is None:
            super().renumber(live, codes)
        else:
            self.bands.renumber(len(live), codes)

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        dtype = self.runs.start.dtype.str
        defined = [entry.window for entry in windows]
        self.edges = cut_by(defined, self.technique, dtype)
        self.begins = kept_by(defined, self.technique, self.edges)
        self.fused_to = BEGINNING
        self.free = FreeWindows.of([(p.number, p.window, p.since) for p in windows], dtype)

    def add(self, batch: Batch) -> None:
        bands = self._by_time(len(batch))
        if bands is not None:
            batch = self._add_by_time(bands, batch)
            if bands is self.bands:
                return
        if self._alone(batch):
            self.add_in_order(Grouped.alone(batch))
            return
        keys = batch.keys if self.runs.keys > 1 else None
        reach = (batch.low, batch.high)
        if keys is None and batch.wanted is None:
            sliced = slice_alone(self.runs, self.edges, batch.times, reach)
        else:
            given = (batch.times, reach, None, keys, batch.wanted)
            sliced = slice_free(self.runs, self.edges, *given, limited=True)
        self.store.touch(batch.times, keys)
        rest = self.take_found(sliced, batch)
        if rest is not None:
            self.add_in_order(Grouped.of(rest))

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        bands = self._by_time(len(batch))
        if bands is not None:
            rest = self._add_by_time(bands, batch)
            if bands is self.bands:
                return
            rows = np.arange(len(batch)) if rest.wanted is None else np.flatnonzero(rest.wanted)
            grouped = Grouped.of(batch.take(rows))
            batch, groups = grouped.batch, (grouped.present, grouped.starts)
        reach = (batch.low, batch.high)
        sliced = slice_sorted(self.runs, self.edges, batch.times, reach, None, groups)
        self.take(sliced, batch)
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)

    def _add_by_time(self, bands: Bands, batch: Batch) -> Batch:
        """Add a batch to bands; what did not go into them, when slices are kept by key again."""
        reach, given = (batch.low, batch.high), (batch.keys, batch.wanted, batch.columns)
        done = bands.add(self.edges, batch.times, reach, *given)
        self.refused += [(batch, row, error) for row, error in bands.refused.items()]
        bands.refused = {}
        if done == len(batch):
            return batch
        self._by_key(worse=True)
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted.copy()
        wanted[:done] = False
        return replace(batch, wanted=wanted)

    def closed(self, low: int, high: int) -> Blocks | None:
        if self.bands is None:
            return None
        blocks = close(self.bands, self.free, self._store, low, high)
        if blocks is None:
            self.reluctance *= 4  # who asks for instances next brings slices into runs
        return blocks

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        points = (np.array([low]), np.array([high]))
        return collect_free(self.runs, self.free, keys, *points)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.runs.start[places]
        return found

    def evict(self, point: int) -> None:
        if self.bands is not None:
            self.bands.evict(INFINITY if point >= INFINITY else self.free.needed_from(point))
            if self.begins is not None:
                self.bands.fuse(self.begins, point)
            return
        self.fuse(point, np.array([point]), self.fused_to)
        super().evict(point)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        least = np.array([self.free.needed_from(point)])
        run(keep_from)(least, self.runs.keys, *self._index(), keep)
        return keep
