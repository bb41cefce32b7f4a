"""The flagged family: windows that depend on which events meet a condition.

A slice is flagged if its events meet the condition, or if an event that does begins it. Where
events come in order slices are cut there; where rows are kept each one has a flag of its own. The
same kernels read both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.searches import first_lasting
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.family import Family, Kept, WindowEntry, padded
from slicewise.slicing.families.instances import Instances, collect, note
from slicewise.slicing.state.checks import exactly
from slicewise.windows import Punctuated, Threshold

if TYPE_CHECKING:
    from slicewise.slicing.buffer import Batch, Grouped
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.locate.by_time import Sliced
    from slicewise.slicing.state.blob import BlobReader, BlobWriter


class FlaggedFamily(Family):
    """Punctuated and threshold windows; `flags` has those of slices by slot, for each window."""

    kinds = (Punctuated, Threshold)
    ties = True

    def __init__(self, group: SliceGroup) -> None:
        super().__init__(group)
        self.flags: dict[int, np.ndarray] = {}

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        none = np.zeros(0, np.bool_)
        self.flags = {entry.number: self.flags.get(entry.number, none) for entry in windows}

    def _flags(self, number: int) -> np.ndarray:
        """The flags of a window, with room for all slots."""
        flags, slots = self.flags[number], self.group.runs.slots
        if len(flags) < slots:
            flags = self.flags[number] = padded(flags, slots)
        return flags

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        cuts = np.zeros(len(positions), np.bool_)
        for entry in self.windows:
            marks = events.batch.marks[entry.number]
            if isinstance(entry.window, Punctuated):
                cuts |= marks
            else:
                groups = (events.present, events.starts)
                flags = self._flags(entry.number)
                run(cut_changes)(marks, groups, self.group.runs.arrays, flags, cuts)
        return cuts

    def sliced(self, sliced: Sliced, batch: Batch) -> None:
        slots = sliced.slot_of_each()
        for number in self.flags:
            flags = self._flags(number)
            flags[sliced.born] = False
            flags[slots[batch.marks[number] & (slots >= 0)]] = True

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        runs = self.group.runs
        for entry in self.windows:
            flags = self._flags(entry.number)
            if isinstance(entry.window, Punctuated):
                window: tuple[int, ...] = (entry.number, entry.since)
                yield collect(list_punctuated, runs, window, flags, keys, low, high)
            else:
                window = (entry.number, entry.since, entry.window.min_rows)
                yield collect(list_threshold, runs, window, (flags, runs.rows), keys, low, high)

    def keep(self, point: int, keep: np.ndarray) -> None:
        for entry in self.windows:
            # Runs shorter than `min_rows` are kept as long as others: they may still grow.
            punctuated = isinstance(entry.window, Punctuated)
            item = keep_punctuated if punctuated else keep_threshold
            where = (self.group.runs.keys, self.group.runs.arrays, keep)
            run(item)(self._flags(entry.number), point, *where)

    def dump(self, node: dict[str, Any], out: BlobWriter, kept: Kept) -> None:
        node["marks"] = {n: out.put(self._flags(n)[kept.slots]) for n in self.flags}

    def load(self, node: dict[str, Any], source: BlobReader, keys: int) -> None:
        runs = self.group.runs
        for number in self.flags:
            place = node.get("marks", {}).get(str(number))
            if place is not None:
                flags = exactly(source.get(place), runs.live, "marks", np.bool_)
                self.flags[number] = padded(flags, runs.slots)


@kernel
def cut_changes(marks: Any, groups: Any, runs: Any, flags: Any, cuts: Any) -> None:
    """Threshold windows: cut where the condition begins or ceases to hold."""
    present, starts = groups
    offset, size, slot = runs.offset, runs.size, runs.slot
    for g in range(present.shape[0]):
        k = present[g]
        before = marks[starts[g]]
        if size[k] > 0:
            before = flags[slot[offset[k] + size[k] - 1]]
        for i in range(starts[g], starts[g + 1]):
            if marks[i] != before:
                cuts[i] = True
            before = marks[i]


@kernel
def list_punctuated(
    window: Any, flags: Any, keys: Any, low: int, high: int, runs: Any, out: Any
) -> int:
    """Runs of slices, each opened by a flagged one; the first of a key is always an opener."""
    w, since = window
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l = offset[code]
        for r in range(l + 1, z):
            end = first[slot[r]]
            if end >= high:
                break
            if flags[slot[r]]:
                begin = first[slot[l]]
                if end + 1 > low and begin >= since:
                    note(out, count, w, code, (begin, end), (l, r), end + 1)
                    count += 1
                l = r
    return count


@kernel
def keep_punctuated(flags: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    for code in range(keys):
        z = offset[code] + size[code]
        l = offset[code]
        for r in range(l + 1, z):
            if first[slot[r]] >= point:
                break
            if flags[slot[r]]:
                l = r
        keep[code] = min(keep[code], l)


@kernel
def list_threshold(
    window: Any, slices: Any, keys: Any, low: int, high: int, runs: Any, out: Any
) -> int:
    """Longest runs of flagged slices, up to the first one that is not, of `least` rows or more."""
    w, since, least = window
    flags, rows = slices
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l, many = -1, 0
        for r in range(offset[code], z):
            end = first[slot[r]]
            if end >= high and l < 0:
                break
            if flags[slot[r]]:
                if l < 0:
                    l, many = r, 0
                many += rows[slot[r]]
            elif l >= 0:
                begin = first[slot[l]]
                if low < end + 1 <= high and many >= least and begin >= since:
                    note(out, count, w, code, (begin, end), (l, r), end + 1)
                    count += 1
                l = -1
    return count


@kernel
def keep_threshold(flags: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    offset, size, slot, last = runs.offset, runs.size, runs.slot, runs.last
    for code in range(keys):
        l = first_lasting(slot, last, offset[code], offset[code] + size[code], point)
        # A run that reaches the first unsettled slice may go on.
        while l > offset[code] and flags[slot[l - 1]]:
            l -= 1
        keep[code] = min(keep[code], l)
