"""The slice group of windows that need the rows themselves: each row is a slice of its own."""

from __future__ import annotations

from typing import Any

from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.ingest.batch import Batch
from slicewise.slicing.locate.by_row import slice_rows
from slicewise.windows import Window


class RowGroup(SliceGroup):
    """Rows in the order of (time, ties, arrival), among which late events take their places."""

    kind = "RowTrack"

    keeps_rows = True

    def title(self, *, combined: bool) -> str:
        return "rows"

    def kept_from(self, window: Window, horizon: int) -> Any:
        return horizon  # all rows from there on are kept, whatever the windows

    def add(self, batch: Batch) -> None:
        times, keys, runs = batch.times, batch.keys, self.runs
        sliced = slice_rows(runs, times, times, keys, batch.wanted, batch.arrival)
        self.take(sliced, batch)
        self.tie_order.sort(runs, times, times, keys, sliced.slots, batch.columns)
        self.store.touch(times, keys)
        for family in self.families:
            family.sliced(sliced, batch)
