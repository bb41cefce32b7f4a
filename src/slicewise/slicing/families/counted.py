"""The counted family: windows that depend on the positions of rows.

Rows of a key are numbered in the order of (time, arrival). Where late events may shift them each
row is a slice of its own; otherwise slices are cut where windows begin and end. The same kernels
serve both: a single row is a slice of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.searches import first_at_least, first_lasting
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.family import Family, WindowEntry
from slicewise.slicing.families.instances import (
    Instances,
    collect,
    note,
    place_from,
    place_of,
    position_at,
)
from slicewise.slicing.store.runs import of_keys
from slicewise.windows import RowPeriodic, RowsEveryTime, TimeEveryRows

if TYPE_CHECKING:
    from slicewise.slicing.ingest.batch import Grouped


class CountedFamily(Family):
    """Counts of rows, windows of time opened by rows, and the last rows at steps of time.

    Instances of the last rows are listed from single rows alone: where they begin is known only
    when they end.
    """

    kinds = (RowPeriodic, TimeEveryRows, RowsEveryTime)

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        counts = [entry for entry in windows if isinstance(entry.window, RowPeriodic)]
        self.opened = [entry for entry in windows if isinstance(entry.window, TimeEveryRows)]
        self.last = [entry for entry in windows if isinstance(entry.window, RowsEveryTime)]
        self.counts = (
            np.array([entry.number for entry in counts], np.int64),
            np.array([entry.window.length for entry in counts], np.int64),
            np.array([entry.window.every for entry in counts], np.int64),
            np.array([entry.since for entry in counts], np.int64),
        )

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        if not self.opened:
            return None
        cuts = np.zeros(len(positions), np.bool_)
        for entry in self.opened:
            rows, groups = (events.batch.times, positions), (events.present, events.starts)
            heads = np.zeros(len(positions), np.bool_)
            steps = (entry.window.length, entry.window.every)
            run(cut_opened)(steps, rows, groups, self.group.runs.arrays, heads, cuts)
            cuts |= heads
        return cuts

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        runs, rows = self.group.runs, (self.group.keeps_rows, self.group.rows_ever())
        if len(self.counts[0]):
            yield collect(list_counts, runs, self.counts, rows, keys, low, high)
        for entry in self.opened:
            window = (entry.number, entry.since, entry.window.length, entry.window.every)
            yield collect(list_opened, runs, window, rows, keys, low, high)
        for entry in self.last:
            steps = (entry.number, entry.since, *_steps(entry))
            yield collect(list_last_rows, runs, steps, keys, low, high)

    def keep(self, point: int, keep: np.ndarray) -> None:
        rows = (self.group.keeps_rows, self.group.rows_ever())
        where = (point, self.group.runs.keys, self.group.runs.arrays, keep)
        if len(self.counts[0]):
            run(keep_counts)(self.counts, rows, *where)
        for entry in self.opened:
            run(keep_opened)((entry.window.length, entry.window.every), rows, *where)
        for entry in self.last:
            run(keep_last_rows)(_steps(entry), *where)

    def held(self, held: np.ndarray) -> None:
        # Instances depend on how many rows of a key there have ever been.
        held |= of_keys(self.group.rows_ever(), np.arange(len(held))) > 0


def _steps(entry: WindowEntry) -> tuple[int, int, int]:
    return entry.window.length, entry.window.every, entry.window.origin


@kernel
def number_rows(present: Any, starts: Any, seen: Any, positions: Any) -> None:
    """The position of each row among those of its key; `seen` counts them."""
    for g in range(present.shape[0]):
        k = present[g]
        first = seen[k] - starts[g]
        for i in range(starts[g], starts[g + 1]):
            positions[i] = first + i
        seen[k] = first + starts[g + 1]


@kernel
def list_counts(
    windows: Any, rows: Any, keys: Any, low: int, high: int, runs: Any, out: Any
) -> int:
    """Rows `[k * every, k * every + length)` of a key; an instance needs all its rows."""
    numbers, lengths, everys, since = windows
    single, seen = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first, last = runs.first, runs.last
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        # The first slice that can be the last of an instance which closes after `low`.
        begins = first_lasting(slot, last, a, z, low)
        if begins == z:
            continue
        b = base[code]
        oldest = position_at(single, start, b, a, a)
        reached = position_at(single, start, b, a, begins)
        for w in range(numbers.shape[0]):
            length, every = lengths[w], everys[w]
            k = max((reached - length) // every + 1, -(-oldest // every), 0)
            l, r = a, begins
            while k * every + length <= seen[code]:
                begin, end = k * every, k * every + length
                if l < z and begin > position_at(single, start, b, a, l):
                    l = place_from(single, start, b, a, l, z, begin)
                if single:
                    r = min(a + end - b, z)
                else:
                    while r < z and start[r] < end:
                        r += 1
                close = last[slot[r - 1]] + 1
                # An end that parts no slices any more was passed before.
                edge = position_at(single, start, b, a, r) if r < z else seen[code]
                if end != edge:
                    k = max(k + 1, -((length - edge) // every))
                    continue
                if close > high:
                    break
                if l < r and close > low and first[slot[l]] >= since[w]:
                    note(out, count, numbers[w], code, (begin, end), (l, r), close)
                    count += 1
                k += 1
    return count


@kernel
def keep_counts(windows: Any, rows: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    numbers, lengths, everys, since = windows
    single, seen = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    last = runs.last
    for code in range(keys):
        a, z, b = offset[code], offset[code] + size[code], base[code]
        # Rows before `lasting` keep their positions for ever.
        lasting = first_lasting(slot, last, a, z, point)
        final = position_at(single, start, b, a, lasting) if lasting < z else seen[code]
        for w in range(numbers.shape[0]):
            # The first instance that has a row at or after position `final`.
            k = max((final - lengths[w]) // everys[w] + 1, 0)
            needed = place_from(single, start, b, a, a, z, k * everys[w])
            keep[code] = min(keep[code], min(needed, lasting))


@kernel
def lasting_rows(point: int, keys: int, runs: Any, highs: Any) -> None:
    """How many rows of each key are in slices with no event at or after `point`."""
    offset, size, start, slot, last = runs.offset, runs.size, runs.start, runs.slot, runs.last
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        lasting = first_lasting(slot, last, a, z, point)
        if lasting < z:
            highs[code] = start[lasting]


@kernel
def first_opener(single: bool, start: Any, base: int, a: int, every: int) -> Any:
    """The position of the first row of a run that opens an instance."""
    oldest = position_at(single, start, base, a, a)
    return oldest + (-oldest) % every


@kernel
def cut_opened(steps: Any, rows: Any, groups: Any, runs: Any, heads: Any, cuts: Any) -> None:
    """Time windows that open at every n-th row: mark the first event of the opener's time, and cut
    before the first event at or past the end. All events of one time come together.
    """
    length, every = steps
    times, positions = rows
    present, starts = groups
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first, last = runs.first, runs.last
    for g in range(present.shape[0]):
        k, end = present[g], starts[g + 1]
        head = starts[g]
        for i in range(head, end):
            if times[i] != times[head]:
                head = i
            if positions[i] % every == 0:
                heads[head] = True
        a, z = offset[k], offset[k] + size[k]
        before, opened = positions[starts[g]], starts[g]
        p, opener, reached = a, before, times[starts[g]]
        if a < z:
            opener, reached = first_opener(False, start, base[k], a, every), last[slot[z - 1]]
        for i in range(starts[g], end):
            # Those that opened before this batch end first.
            while opener < before:
                p = place_of(False, start, base[k], a, p, z, opener)
                if first[slot[p]] + length > times[i]:
                    break
                cuts[i] = cuts[i] or first[slot[p]] + length > reached
                opener += every
            while opened < i and (not heads[opened] or times[opened] + length <= times[i]):
                cuts[i] = cuts[i] or heads[opened]
                opened += 1


@kernel
def list_opened(window: Any, rows: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Time windows that open at every n-th row; equal intervals are one."""
    w, since, length, every = window
    single, seen = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first = runs.first
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        if a == z:
            continue
        opener = first_opener(single, start, base[code], a, every)
        p, l, r = a, a, a
        before = first[slot[a]] - 1
        while opener < seen[code]:
            p = place_of(single, start, base[code], a, p, z, opener)
            begin = first[slot[p]]
            end = begin + length
            if end > high:
                break
            if end > low and begin != before and begin >= since:
                while first[slot[l]] < begin:
                    l += 1
                while r < z and first[slot[r]] < end:
                    r += 1
                note(out, count, w, code, (begin, end), (l, r), end)
                count += 1
            before = begin
            opener += every
    return count


@kernel
def keep_opened(steps: Any, rows: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    length, every = steps
    single, seen = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first, last = runs.first, runs.last
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        if a == z:
            continue
        needed = first_lasting(slot, last, a, z, point)
        opener, p = first_opener(single, start, base[code], a, every), a
        while opener < seen[code]:
            p = place_of(single, start, base[code], a, p, z, opener)
            if first[slot[p]] + length > point:
                # Rows of the opener's own time may stand before it.
                while p > a and first[slot[p - 1]] == first[slot[p]]:
                    p -= 1
                needed = min(needed, p)
                break
            opener += every
        keep[code] = min(keep[code], needed)


@kernel
def list_last_rows(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """The last rows before each multiple of a time step that saw one since the multiple before."""
    w, since, length, every, origin = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        # What closes after `low` saw a row at or after the multiple before it.
        p = first_at_least(start, a, z, low - (low - origin) % every)
        while p < z:
            mark = start[p] - (start[p] - origin) % every + every
            if mark > high:
                break
            while p < z and start[p] < mark:
                p += 1
            l = max(p - min(length, p - a + base[code]), a)
            if mark > low and start[l] >= since:
                note(out, count, w, code, (start[l], mark), (l, p), mark)
                count += 1
    return count


@kernel
def keep_last_rows(steps: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    length, every, origin = steps
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        p = first_at_least(start, offset[code], z, point - (point - origin) % every)
        keep[code] = min(keep[code], max(p - length, offset[code]))
