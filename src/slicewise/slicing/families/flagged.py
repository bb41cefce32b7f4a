"""The flagged family: windows that depend on which events meet a condition, or on a value.

A slice is flagged if its events meet the condition, or if an event that does begins it. Where
events come in order slices are cut there; where rows are kept each one has a flag of its own. The
same kernels read both. Windows that follow a value know the first one of each slice instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.searches import first_at_least, first_lasting
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.anchored import AnchoredFamily
from slicewise.slicing.families.family import Family, Kept, WindowEntry, padded
from slicewise.slicing.families.instances import Instances, collect, note, place_from, position_at
from slicewise.slicing.state.checks import exactly
from slicewise.windows import Punctuated, Threshold
from slicewise.windows.delta import Delta

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.ingest.batch import Batch, Grouped
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


class DeltaFamily(AnchoredFamily):
    """Delta windows; `values` has the first value of each slice by slot, NaN where it has none."""

    kinds = (Delta,)
    ties = True

    def __init__(self, group: SliceGroup) -> None:
        super().__init__(group)
        self.values: dict[int, np.ndarray] = {}

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        self.anchored = self.windows
        none = np.zeros(0)
        self.values = {entry.number: self.values.get(entry.number, none) for entry in windows}

    def _values(self, number: int) -> np.ndarray:
        """The values of a window, with room for all slots."""
        values, slots = self.values[number], self.group.runs.slots
        if len(values) < slots:
            values = self.values[number] = padded(values, slots)
        return values

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        cuts = np.zeros(len(positions), np.bool_)
        for entry in self.windows:
            rows = (events.batch.marks[entry.number], positions)
            groups = (events.present, events.starts)
            known = (self.newest(entry.number), self._values(entry.number))
            run(cut_moves)(entry.window.by, rows, groups, known, self.group.runs.arrays, cuts)
        return cuts

    def sliced(self, sliced: Sliced, batch: Batch) -> None:
        slots = sliced.slot_of_each()
        for number in self.values:
            values = self._values(number)
            values[sliced.born] = np.nan
            run(note_values)(slots, batch.marks[number], values)

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        for entry in self.windows:
            window = (entry.number, entry.since, entry.window.by)
            yield collect(
                list_moves, self.group.runs, window, self._rows(entry.number), keys, low, high
            )

    def keep(self, point: int, keep: np.ndarray) -> None:
        keys, runs = self.group.runs.keys, self.group.runs.arrays
        for entry in self.windows:
            rows = self._rows(entry.number)
            run(keep_moves)(entry.window.by, rows, point, keys, runs, keep)

    def _rows(self, number: int) -> tuple[bool, np.ndarray, np.ndarray]:
        return self.group.keeps_rows, self.anchors(number), self._values(number)

    def find_newest(self, entry: WindowEntry, keys: int) -> None:
        known, newest = self._rows(entry.number), self.newest(entry.number)
        run(find_newest)(entry.window.by, known, keys, self.group.runs.arrays, newest)

    def dump(self, node: dict[str, Any], out: BlobWriter, kept: Kept) -> None:
        super().dump(node, out, kept)
        node["values"] = {n: out.put(self._values(n)[kept.slots]) for n in self.values}

    def load(self, node: dict[str, Any], source: BlobReader, keys: int) -> None:
        runs = self.group.runs
        for number in self.values:
            place = node.get("values", {}).get(str(number))
            if place is not None:
                values = exactly(source.get(place), runs.live, "values", np.float64)
                self.values[number] = padded(values, runs.slots)
        super().load(node, source, keys)


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
        # A run that reaches the first slice that may change may go on.
        while l > offset[code] and flags[slot[l - 1]]:
            l -= 1
        keep[code] = min(keep[code], l)


@kernel
def note_values(slots: Any, marks: Any, values: Any) -> None:
    """Give each slice its first value that is not NaN."""
    for i in range(slots.shape[0]):
        if slots[i] >= 0 and np.isnan(values[slots[i]]):
            values[slots[i]] = marks[i]


@kernel
def next_move(by: float, values: Any, slot: Any, l: int, z: int) -> int:
    """The place after the last slice of the delta instance that begins at `l`."""
    first = values[slot[l]]
    r = l + 1
    while r < z and not abs(values[slot[r]] - first) >= by:
        if np.isnan(first):
            first = values[slot[r]]
        r += 1
    return r


@kernel
def cut_moves(by: float, rows: Any, groups: Any, known: Any, runs: Any, cuts: Any) -> None:
    """Delta windows: cut where the value has moved, which begins the newest instance."""
    marks, positions = rows
    present, starts = groups
    newest, values = known
    offset, size, start, slot = runs.offset, runs.size, runs.start, runs.slot
    for g in range(present.shape[0]):
        k = present[g]
        a, z = offset[k], offset[k] + size[k]
        begun, first = a < z, np.nan
        for place in range(first_at_least(start, a, z, newest[k]), z):
            first = values[slot[place]]
            if not np.isnan(first):
                break
        for i in range(starts[g], starts[g + 1]):
            if not begun or abs(marks[i] - first) >= by:
                cuts[i] = begun = True
                first, newest[k] = marks[i], positions[i]
            elif np.isnan(first):
                first = marks[i]


@kernel
def list_moves(window: Any, rows: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Delta windows, from the anchor of each key on; the newest instance waits for its end."""
    w, since, by = window
    single, anchors, values = rows
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    slot, first = runs.slot, runs.first
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        l = place_from(single, start, base[code], a, a, z, anchors[code])
        while l < z:
            r = next_move(by, values, slot, l, z)
            if r == z or first[slot[r]] >= high:
                break
            begin, end = first[slot[l]], first[slot[r]]
            if end + 1 > low and begin >= since:
                note(out, count, w, code, (begin, end), (l, r), end + 1)
                count += 1
            l = r
    return count


@kernel
def keep_moves(by: float, rows: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    """The first place of each run with an instance that is not complete, which is the anchor."""
    single, anchors, values = rows
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    slot, first = runs.slot, runs.first
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        l = place_from(single, start, base[code], a, a, z, anchors[code])
        while l < z:
            r = next_move(by, values, slot, l, z)
            if r == z or first[slot[r]] >= point:
                anchors[code] = position_at(single, start, base[code], a, l)
                break
            l = r
        keep[code] = min(keep[code], l)


@kernel
def find_newest(by: float, rows: Any, keys: int, runs: Any, newest: Any) -> None:
    """The position of the first row of the newest instance of each key."""
    single, anchors, values = rows
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        l = first_at_least(start, offset[code], z, anchors[code])
        while l < z:
            newest[code] = start[l]
            l = next_move(by, values, runs.slot, l, z)
