"""Slices of events in order, for windows that depend on the events themselves.

Where events come in the order of (time, arrival), by promise or because they waited for the
watermark, counts of rows, conditions, one's own windows and sessions of a greatest length need no
rows: slices are cut where they begin and end (Scotty, Figure 4; Cutty, Section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.aggregates.base import Bound
from slicewise.codegen.kernel import run
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.buffer import Batch, Grouped
from slicewise.slicing.edges.cutting import cut_by, kept_by
from slicewise.slicing.families import order_triggers as triggers
from slicewise.slicing.families.row_triggers import (
    keep_punctuated,
    keep_threshold,
    list_punctuated,
    list_threshold,
)
from slicewise.slicing.families.triggers import Instances, collect
from slicewise.slicing.families.user_rows import UserRows
from slicewise.slicing.groups.group import SliceGroup, WindowEntry
from slicewise.slicing.locate.by_time import slice_sorted
from slicewise.slicing.store.runs import of_keys
from slicewise.slicing.store.saving import Layout
from slicewise.windows import (
    Punctuated,
    RowPeriodic,
    Session,
    Threshold,
    TimeEveryRows,
    UserWindow,
)

FLAGGED = (Punctuated, Threshold, Session, TimeEveryRows)


class OrderedGroup(SliceGroup):
    """Windows that depend on the events, cut as events come in order.

    The measure of slices is the position of a row among those of its key. `flags` has for each
    window with a condition, a greatest length or an opening row the slices that begin an instance
    or meet the condition, by slot. Events that came before number `after` are not its own.
    """

    kind = "OrderTrack"

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
        self.flags: dict[int, np.ndarray] = {}
        self.users: dict[int, UserRows] = {}

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        counted = [p for p in windows if isinstance(p.window, RowPeriodic)]
        self.counted = (
            np.array([p.number for p in counted], np.int64),
            np.array([p.window.length for p in counted], np.int64),
            np.array([p.window.every for p in counted], np.int64),
            np.array([p.since for p in counted], np.int64),
        )
        defined = [p.window for p in counted]
        self.edges = cut_by(defined, self.technique)
        if not counted:
            self.edges.singles = np.array([0, INFINITY])  # one slice, until it is cut
        alone = len(counted) == len(windows)  # other windows cut at events
        self.begins = kept_by(defined, self.technique, self.edges) if alone else None
        flagged = [p for p in windows if isinstance(p.window, FLAGGED)]
        none = np.zeros(0, np.bool_)
        self.flags = {p.number: self.flags.get(p.number, none) for p in flagged}
        self.users = {
            p.number: self.users.get(p.number, UserRows(p.window))
            for p in windows
            if isinstance(p.window, UserWindow)
        }

    @property
    def layout(self) -> Layout:
        return Layout(ordered=True)

    def held(self, point: int | None = None) -> np.ndarray:
        held = super().held(point)
        for user in self.users.values():
            held[list(user.progress)] = True
        return held

    def _rows_ever(self) -> np.ndarray:
        return self.seen

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        super().renumber(live, codes)
        self.seen = of_keys(self.seen, live)
        for user in self.users.values():
            user.renumber(codes)

    def add(self, batch: Batch) -> None:
        if batch.wanted is not None:
            batch = batch.take(np.flatnonzero(batch.wanted))
        if len(batch):
            self.add_in_order(Grouped.of(batch))

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        self.admit()
        if self._bare(batch):
            low = int(self.seen[0])
            self.seen[0] = low + len(batch)
            reach = (low, low + len(batch) - 1)
            sliced = slice_sorted(self.runs, self.edges, None, reach, batch.times, groups)
            self.take(sliced, batch)
            return
        positions = np.empty(len(batch), np.int64)
        run(triggers.number_rows)(*groups, self.seen, positions)
        heads = {number: self._heads(number, grouped, positions) for number in self.flags}
        cuts = self._cuts(grouped, positions, heads)
        reach = (int(positions.min()), int(positions.max()))
        sliced = slice_sorted(self.runs, self.edges, positions, reach, batch.times, groups, cuts)
        self.take(sliced, batch)
        self.store.touch(positions, batch.keys if self.runs.keys > 1 else None)
        slots = sliced.slot_of_each() if heads else sliced.slots
        for number, (marked, _) in heads.items():
            self._grow(number)
            self.flags[number][sliced.born] = False
            self.flags[number][slots[marked]] = True

    def _bare(self, batch: Batch) -> bool:
        """Whether nobody has to know the position of each row: one key, and counts alone."""
        return batch.single and not self.flags and not self.users and self.store.tree is None

    def admit(self) -> None:
        """Make room for the keys that there are."""
        more = len(self.runs.offset) - len(self.seen)
        if more > 0:
            self.seen = np.append(self.seen, np.zeros(more, np.int64))

    def _grow(self, number: int) -> None:
        flags = self.flags[number]
        if len(flags) < self.runs.slots:
            more = np.zeros(self.runs.slots - len(flags), np.bool_)
            self.flags[number] = np.concatenate([flags, more])

    def _heads(
        self, number: int, grouped: Grouped, positions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The events whose slices get a window's flag, and those before which it cuts."""
        window = next(p.window for p in self.windows if p.number == number)
        batch = grouped.batch
        if isinstance(window, Punctuated):
            return batch.marks[number], batch.marks[number]
        self._grow(number)
        flags = self.flags[number]
        index = ((grouped.present, grouped.starts), self.runs.arrays)
        heads, cuts = np.zeros(len(batch), np.bool_), np.zeros(len(batch), np.bool_)
        if isinstance(window, Threshold):
            run(triggers.cut_changes)(batch.marks[number], *index, flags, cuts)
            return batch.marks[number], cuts
        if isinstance(window, Session):
            limits = (window.gap, window.max_length)
            run(triggers.cut_sessions)(limits, batch.times, *index, flags, heads)
            return heads, heads
        steps = (window.length, window.every)
        run(triggers.cut_opened)(steps, batch.times, positions, *index, flags, cuts, heads)
        return heads, heads | cuts

    def _cuts(self, grouped: Grouped, positions: np.ndarray, heads: Any) -> np.ndarray | None:
        """The events before which anything begins or ends beside row counts."""
        batch = grouped.batch
        if not heads and not self.users:
            return None
        cuts = np.zeros(len(batch), np.bool_)
        for _, cut in heads.values():
            cuts |= cut
        for user in self.users.values():
            cuts |= user.see(batch.keys, batch.times, positions, batch.events())
        return cuts

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        self.admit()
        found = []
        if len(self.counted[0]):
            found.append(
                collect(triggers.list_counted, self.runs, self.counted, self.seen, keys, low, high)
            )
        for entry in self.windows:
            if entry.number in self.flags:
                item, arguments, _, _ = self._calls(entry)
                window = (entry.number, *arguments, entry.since)
                found.append(collect(item, self.runs, window, keys, low, high))
            elif entry.number in self.users:
                found.append(self._ended(entry, high))
        return Instances.concatenate(found)

    def _ended(self, entry: WindowEntry, high: int) -> Instances:
        code, start, end, first, stop = self.users[entry.number].closed(high)
        known = start >= entry.since
        code, start, end = code[known], start[known], end[known]
        left, right = (self._places(code, at[known]) for at in (first, stop))
        window = np.full(len(code), entry.number, np.int64)
        return Instances(window, code, start, end, left, right, end + 1)

    def _places(self, codes: np.ndarray, positions: np.ndarray) -> np.ndarray:
        places = np.empty(len(codes), np.int64)
        run(triggers.places_of)(codes, positions, self.runs.arrays, places)
        return places

    def handed_out(self, high: int) -> None:
        """Take note that what closes up to `high` was handed out."""
        for user in self.users.values():
            user.forget(high)

    def evict(self, point: int) -> None:
        if self.begins is not None and point < INFINITY:
            self.admit()
            highs = self.seen.copy()
            run(triggers.settled_rows)(point, self.runs.keys, self.runs.arrays, highs)
            self.fuse(point, highs, BEGINNING)
        super().evict(point)

    def needed(self, point: int) -> np.ndarray:
        self.admit()
        keep = self._keep()
        where = (self.runs.keys, self.runs.arrays, keep)
        if len(self.counted[0]):
            run(triggers.keep_counted)(self.counted, self.seen, point, *where)
        for entry in self.windows:
            if entry.number in self.flags:
                _, _, item, arguments = self._calls(entry)
                run(item)(arguments, point, *where)
        for user in self.users.values():
            codes, positions = user.needed()
            np.minimum.at(keep, codes, self._places(codes, positions))
        return keep

    def _calls(self, entry: WindowEntry) -> tuple[Any, tuple[Any, ...], Any, tuple[Any, ...]]:
        """The listing kernel of a window and its arguments, and the same for what to keep."""
        window = entry.window
        self._grow(entry.number)
        flags = self.flags[entry.number]
        if isinstance(window, Punctuated):
            return list_punctuated, (flags,), keep_punctuated, (flags,)
        if isinstance(window, Threshold):
            limits = (flags, window.min_rows)
            return list_threshold, limits, keep_threshold, (flags,)
        if isinstance(window, Session):
            bounds = (flags, window.gap, window.max_length)
            return triggers.list_cut_sessions, bounds, triggers.keep_cut_sessions, bounds
        opened = (flags, window.length)
        return triggers.list_opened, opened, triggers.keep_opened, opened
