"""The slice group of windows that need the rows themselves: each row is a slice of its own."""

from __future__ import annotations

from slicewise.slicing.buffer import Batch
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.locate.by_row import slice_rows


class RowGroup(SliceGroup):
    """Rows in the order of (time, ties, arrival), among which late events take their places."""

    kind = "RowTrack"

    @property
    def keeps_rows(self) -> bool:
        return True

    def add(self, batch: Batch) -> None:
        times, keys, runs = batch.times, batch.keys, self.runs
        sliced = slice_rows(runs, times, times, keys, batch.wanted, batch.arrival)
        self.take(sliced, batch)
        self.tie_order.sort(runs, times, times, keys, sliced.slots, batch.columns)
        self.store.touch(times, keys)
        for family in self.families:
            family.sliced(sliced, batch)
