"""The session family: events without a long pause between them, perhaps of a greatest length.

Sessions of any gaps are made of slices of the smallest one (Scotty, Section 6). Where a session of
a greatest length is cut depends on where the one before it began, so each key has an anchor.

Late events of a batch come together: those that are near enough to each other, or to an open
session, are one session, which takes all of them or none. A session that has closed is gone: no
event joins it, and one between it and an open session belongs to the open one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.ordering import order_of
from slicewise.arrays.searches import first_at_least, last_at_most
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.acceptance import Late, Verdict, too_late
from slicewise.slicing.families.anchored import AnchoredFamily
from slicewise.slicing.families.family import WindowEntry, padded
from slicewise.slicing.families.instances import Instances, collect, note, place_from, position_at
from slicewise.slicing.state.checks import exactly
from slicewise.windows import Session

if TYPE_CHECKING:
    from slicewise.slicing.ingest.batch import Grouped
    from slicewise.slicing.state.blob import BlobReader


class SessionFamily(AnchoredFamily):
    """Sessions of any gaps, and sessions of a greatest length, which are the anchored ones."""

    kinds = (Session,)

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        plain = [entry for entry in windows if entry.window.max_length is None]
        self.anchored = [entry for entry in windows if entry.window.max_length is not None]
        gaps = [entry.window.gap for entry in plain]
        self.widest = max(gaps, default=0)
        self.plain = (
            np.array([entry.number for entry in plain], np.int64),
            np.array(gaps, np.int64),
            np.array([entry.since for entry in plain], np.int64),
        )

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        heads = np.zeros(len(positions), np.bool_) if self.anchored else None
        for entry in self.anchored:
            rows = (events.batch.times, positions)
            groups, newest = (events.present, events.starts), self.newest(entry.number)
            run(cut_sessions)(_limits(entry), rows, groups, newest, self.group.runs.arrays, heads)
        return heads

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        runs, single = self.group.runs, self.group.keeps_rows
        if len(self.plain[0]):
            yield collect(list_sessions, runs, self.plain, keys, low, high)
        for entry in self.anchored:
            window = (entry.number, entry.since, *_limits(entry))
            rows = (single, self.anchors(entry.number))
            yield collect(list_bounded_sessions, runs, window, rows, keys, low, high)

    def keep(self, point: int, keep: np.ndarray) -> None:
        group, keys = self.group, self.group.runs.keys
        if len(self.plain[0]):
            run(keep_sessions)(self.widest, point, keys, group.runs.arrays, keep)
        for entry in self.anchored:
            rows = (group.keeps_rows, self.anchors(entry.number), group.rows_ever())
            limits = (*_limits(entry), point)
            run(keep_bounded_sessions)(limits, rows, keys, group.runs.arrays, keep)

    def verdict(self, entry: WindowEntry, late: Late) -> Verdict:
        if entry.window.max_length is not None:
            return too_late(late, entry.since)
        runs = self.group.runs
        order = order_of(-late.times, late.keys)  # the newest of a key first
        took = np.zeros(len(order), np.bool_)
        events = (order, late.keys, late.times)
        run(join_open)(entry.window.gap, late.horizon, events, runs.arrays, took)
        return Verdict(took, ~took & (late.times >= entry.since))

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        if self.anchored:
            return
        runs = self.group.runs
        keep = (runs.offset + runs.size)[keys]
        run(keep_sessions)(self.widest, point, len(keys), runs.arrays_of(keys), keep)
        self.group.drop(keys, keep)

    def find_newest(self, entry: WindowEntry, keys: int) -> None:
        anchors, newest = self.anchors(entry.number), self.newest(entry.number)
        run(find_newest)(_limits(entry), anchors, keys, self.group.runs.arrays, newest)

    def load_anchors(
        self, entry: WindowEntry, node: dict[str, Any], source: BlobReader, keys: int
    ) -> np.ndarray | None:
        anchors = super().load_anchors(entry, node, source, keys)
        number, runs = str(entry.number), self.group.runs
        if anchors is None and number in node.get("marks", ()):
            # Earlier releases marked the slices that begin a session.
            marks = exactly(source.get(node["marks"][number]), runs.live, "marks", np.bool_)
            anchors = self.group.rows_ever()[:keys].copy()
            run(first_marked)(padded(marks, runs.slots), keys, runs.arrays, anchors)
        return anchors


def _limits(entry: WindowEntry) -> tuple[int, int]:
    return entry.window.gap, entry.window.max_length


@kernel
def list_sessions(windows: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Sessions of every gap, made of the slices of the smallest one."""
    numbers, gaps, since = windows
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    count = 0
    for w in range(numbers.shape[0]):
        gap = gaps[w]
        for code in keys:
            z = offset[code] + size[code]
            l = offset[code]
            while l < z:
                r = l + 1
                while r < z and first[slot[r]] - last[slot[r - 1]] <= gap:
                    r += 1
                begin, end = first[slot[l]], last[slot[r - 1]] + gap
                if low < end + 1 <= high and begin >= since[w]:
                    note(out, count, numbers[w], code, (begin, end), (l, r), end + 1)
                    count += 1
                l = r
    return count


@kernel
def keep_sessions(gap: int, point: int, keys: int, runs: Any, keep: Any) -> None:
    """The first place of each run that a session not complete at `point` can need."""
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    for code in range(keys):
        z = offset[code] + size[code]
        l = offset[code]
        while l < z:
            r = l + 1
            while r < z and first[slot[r]] - last[slot[r - 1]] <= gap:
                r += 1
            if last[slot[r - 1]] + gap + 1 > point:
                break
            l = r
        keep[code] = min(keep[code], l)


@kernel
def session_end(limits: Any, runs: Any, l: int, z: int) -> int:
    """The place after the last slice of the session of a greatest length that begins at `l`."""
    gap, longest = limits
    slot, first, last = runs.slot, runs.first, runs.last
    begin = first[slot[l]]
    r = l + 1
    while r < z and first[slot[r]] - last[slot[r - 1]] <= gap and first[slot[r]] - begin < longest:
        r += 1
    return r


@kernel
def list_bounded_sessions(
    window: Any, rows: Any, keys: Any, low: int, high: int, runs: Any, out: Any
) -> int:
    """Sessions that are cut at a greatest length, from the anchor of each key on."""
    w, since, gap, longest = window
    single, anchors = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first, last = runs.first, runs.last
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        l = place_from(single, start, base[code], a, a, z, anchors[code])
        while l < z:
            r = session_end((gap, longest), runs, l, z)
            begin, final = first[slot[l]], last[slot[r - 1]]
            close = min(final + gap + 1, begin + longest)
            if low < close <= high and begin >= since:
                end = min(final + gap, begin + longest)
                note(out, count, w, code, (begin, end), (l, r), close)
                count += 1
            l = r
    return count


@kernel
def keep_bounded_sessions(limits: Any, rows: Any, keys: int, runs: Any, keep: Any) -> None:
    """The first place of each run with a session that is not complete, which becomes the anchor."""
    gap, longest, point = limits
    single, anchors, seen = rows
    offset, size, base, start, slot = runs.offset, runs.size, runs.base, runs.start, runs.slot
    first, last = runs.first, runs.last
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        l = place_from(single, start, base[code], a, a, z, anchors[code])
        while l < z:
            r = session_end((gap, longest), runs, l, z)
            if min(last[slot[r - 1]] + gap + 1, first[slot[l]] + longest) > point:
                break
            l = r
        anchors[code] = position_at(single, start, base[code], a, l) if l < z else seen[code]
        keep[code] = min(keep[code], l)


@kernel
def cut_sessions(limits: Any, rows: Any, groups: Any, newest: Any, runs: Any, heads: Any) -> None:
    """Mark the events that begin a session of a greatest length, which become the newest."""
    gap, longest = limits
    times, positions = rows
    present, starts = groups
    offset, size, start, slot, first = runs.offset, runs.size, runs.start, runs.slot, runs.first
    last = runs.last
    for g in range(present.shape[0]):
        k = present[g]
        a, z = offset[k], offset[k] + size[k]
        begun, begin, final = False, times[0], times[0]
        place = first_at_least(start, a, z, newest[k])
        # If its beginning is gone the session before was complete, and the next event begins one.
        if place < z and start[place] == newest[k]:
            begun, begin, final = True, first[slot[place]], last[slot[z - 1]]
        for i in range(starts[g], starts[g + 1]):
            t = times[i]
            if not begun or t - final > gap or t - begin >= longest:
                heads[i] = True
                begun, begin = True, t
                newest[k] = positions[i]
            final = t


@kernel
def find_newest(limits: Any, anchors: Any, keys: int, runs: Any, newest: Any) -> None:
    """The position of the first row of the newest session of each key, of those that are kept."""
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        l = first_at_least(start, offset[code], z, anchors[code])
        while l < z:
            newest[code] = start[l]
            l = session_end(limits, runs, l, z)


@kernel
def first_marked(marks: Any, keys: int, runs: Any, anchors: Any) -> None:
    """The position of the first row of each key's first slice that is marked, if one is."""
    offset, size, start, slot = runs.offset, runs.size, runs.start, runs.slot
    for code in range(keys):
        for place in range(offset[code], offset[code] + size[code]):
            if marks[slot[place]]:
                anchors[code] = start[place]
                break


@kernel
def join_open(gap: int, horizon: int, events: Any, runs: Any, took: Any) -> None:
    """Mark the events that make a session that is open, or are near to one."""
    order, keys, times = events
    key, newer, reached = -1, False, 0
    for i in order:
        t, k = times[i], keys[i]
        if k != key:
            key, newer = k, False
        taken = t + gap >= horizon or (newer and reached - t <= gap)
        if not taken:
            taken = near_open(gap, horizon, t, k, runs)
        took[i] = taken
        if taken:
            newer, reached = True, t


@kernel
def near_open(gap: int, horizon: int, t: int, k: int, runs: Any) -> Any:
    """Return whether an open session of `k` is near to `t`, which lies before its last event."""
    offset, size, start, slot, first = runs.offset, runs.size, runs.start, runs.slot, runs.first
    last = runs.last
    begin, end = offset[k], offset[k] + size[k]
    place = last_at_most(start, begin, end, t)
    for at in range(max(place, begin), min(place + 2, end)):
        if t - last[slot[at]] > gap or first[slot[at]] - t > gap:
            continue
        r = at
        while (
            r + 1 < end
            and last[slot[r]] + gap < horizon
            and first[slot[r + 1]] - last[slot[r]] <= gap
        ):
            r += 1
        if last[slot[r]] + gap >= horizon:
            return True
    return False
