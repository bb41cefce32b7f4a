"""Slices of events in order, for windows that depend on the events themselves.

Where events come in the order of (time, arrival), by promise or because they waited for the
watermark, counts of rows, conditions, one's own windows and sessions of a greatest length need no
rows: slices are cut where they begin and end (Scotty, Figure 4; Cutty, Section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound
from slicewise.codegen.kernel import run
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.edges.cutty import cut_by, kept_by
from slicewise.slicing.families.counted import lasting_rows, number_rows
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.ingest.batch import Batch, Grouped
from slicewise.slicing.locate.by_time import slice_sorted
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import check_seen, exactly
from slicewise.slicing.store.runs import of_keys
from slicewise.slicing.store.saving import Layout


class OrderedGroup(SliceGroup):
    """Windows that depend on the events, cut as events come in order.

    The measure of slices is the position of a row among those of its key, and `seen` counts the
    rows of each key. Events that came before number `after` are not its own.
    """

    kind = "OrderTrack"
    ordered = True

    def __init__(
        self,
        bounds: Sequence[Bound],
        *,
        after: int = 0,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        super().__init__(bounds, merger=merger, eager=eager)
        self.after = after
        self.seen = np.zeros(0, np.int64)

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        counted = [p.window for p in windows if p.window.traits.measure == "rows"]
        self.edges = cut_by(counted, self.technique)
        if not counted:
            self.edges.singles = np.array([0, INFINITY])  # one slice, until it is cut
        self.bare = len(counted) == len(windows)  # other windows cut at events
        self.begins = kept_by(counted, self.technique, self.edges) if self.bare else None

    def title(self, *, combined: bool) -> str:
        return "events in order"

    @property
    def layout(self) -> Layout:
        return Layout(ordered=True)

    def rows_ever(self) -> np.ndarray:
        more = len(self.runs.offset) - len(self.seen)
        if more > 0:
            self.seen = np.append(self.seen, np.zeros(more, np.int64))
        return self.seen

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        super().renumber(live, codes)
        self.seen = of_keys(self.seen, live)

    def add(self, batch: Batch) -> None:
        if batch.wanted is not None:
            batch = batch.take(np.flatnonzero(batch.wanted))
        if len(batch):
            self.add_in_order(Grouped.of(batch))

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        seen = self.rows_ever()
        if self.bare and batch.single and self.store.touched() is None:
            # Nobody has to know the position of each row.
            low = int(seen[0])
            seen[0] = low + len(batch)
            reach = (low, low + len(batch) - 1)
            sliced = slice_sorted(self.runs, self.edges, None, reach, batch.times, groups)
            self.take(sliced, batch)
            return
        positions = np.empty(len(batch), np.int64)
        run(number_rows)(*groups, seen, positions)
        found = [family.cuts(grouped, positions) for family in self.families]
        marked = [cuts for cuts in found if cuts is not None]
        cuts: np.ndarray | None = np.logical_or.reduce(marked) if marked else None
        reach = (int(positions.min()), int(positions.max()))
        sliced = slice_sorted(self.runs, self.edges, positions, reach, batch.times, groups, cuts)
        self.take(sliced, batch)
        self.store.touch(positions, batch.keys if self.runs.keys > 1 else None)
        for family in self.families:
            family.sliced(sliced, batch)

    def evict(self, point: int) -> None:
        if self.begins is not None and point < INFINITY:
            highs = self.rows_ever().copy()
            run(lasting_rows)(point, self.runs.keys, self.runs.arrays, highs)
            self.fuse(point, highs, BEGINNING)
        super().evict(point)

    def dump(
        self, out: BlobWriter, live: np.ndarray, codes: np.ndarray, point: int
    ) -> dict[str, Any]:
        node = super().dump(out, live, codes, point)
        return {**node, "seen": out.put(of_keys(self.seen, live)), "after": self.after}

    def load(self, node: Any, source: BlobReader, keys: int, since: int | None = None) -> None:
        self.after = node["after"]
        self.seen = exactly(source.get(node["seen"]), keys, "keys").copy()
        super().load(node, source, keys, since)
        check_seen(self, self.seen, self.live, keys)
