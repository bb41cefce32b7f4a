"""Tracks: one way of slicing with the windows that share its slices.

A track slices events, keeps their states, lists the window instances its slices make up, and
evicts slices that no instance can need any more. Context-free windows of one measure share a
track, sessions share another one, and windows that need rows share a third; `order` has a fourth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicewise.aggregates.base import Bound
from slicewise.codegen.kernel import kernel
from slicewise.mergers.base import FlatMerger
from slicewise.slicing import row_triggers as rows
from slicewise.slicing.batches import Batch, Grouped
from slicewise.slicing.cutting import MANY_KEYS, cut_by, fuse_ends, kept_by
from slicewise.slicing.emission import Blocks
from slicewise.slicing.pane_closing import close
from slicewise.slicing.panes import Panes
from slicewise.slicing.partials import Technique
from slicewise.slicing.row_slicer import slice_rows
from slicewise.slicing.runs import Runs, run
from slicewise.slicing.session_slicer import slice_sessions, slice_sorted_sessions
from slicewise.slicing.slicer import Edges, Sliced, slice_free, slice_sorted
from slicewise.slicing.store import Store
from slicewise.slicing.triggers import (
    BEGINNING,
    INFINITY,
    FreeWindows,
    Instances,
    collect,
    keep_from,
    keep_sessions,
    list_free,
    list_sessions,
    needed_from,
)
from slicewise.windows import (
    Cumulate,
    Fixed,
    Periodic,
    Punctuated,
    RowPeriodic,
    RowsEveryTime,
    Session,
    Threshold,
    TimeEveryRows,
    UserWindow,
    Window,
)

EVICT_AT_LEAST = 256
# Slices are kept by time with at least so many keys, and so many events in a batch; the more keys
# there are, the fewer events it takes (measured).
KEYS_BY_TIME, EVENTS_BY_TIME, KEYS_PER_EVENT = 256, 4096, 8
MOVED_PER_EVENT = 1  # slices that are moved from keys to times for each new event
FREE = (Periodic, Cumulate, Fixed)
# Ties in time may give several instances of these the same bounds.
DATA_DRIVEN = (Punctuated, Threshold, UserWindow)


@dataclass(frozen=True, slots=True)
class Placed:
    """A window with its number in the operator and the least start of an instance it reports."""

    number: int
    window: Any
    since: Any = BEGINNING


class Track(ABC):
    """What all tracks share."""

    edges: Edges

    def __init__(
        self,
        bounds: Sequence[Bound],
        dtype: str = "i8",
        *,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        self.runs = Runs(dtype)
        self.store = Store(bounds, self.runs, merger, eager=eager)
        self.windows: list[Placed] = []
        self.technique: Technique = "cutty"
        self.begins: Edges | None = None  # where slices stay apart, if not at every edge
        self.fused_to = BEGINNING
        self.evict_at = EVICT_AT_LEAST

    @property
    def live(self) -> int:
        """How many slices are kept."""
        return self.runs.live

    @property
    def combines(self) -> int:
        """How many states were combined so far."""
        return self.store.combines

    def know(self, keys: int) -> None:
        """Take note that there are key codes below `keys`."""
        self.runs.admit(keys)

    def closed(self, low: int, high: int) -> Blocks | None:
        """The instances of all keys that close in `(low, high]`, if they are merged together."""
        return None

    def set_windows(self, windows: Sequence[Placed]) -> None:
        """Take over a new set of windows; slices that exist stay as they are."""
        self.windows = list(windows)
        self.ties = any(isinstance(p.window, DATA_DRIVEN) for p in windows)

    @abstractmethod
    def add(self, batch: Batch) -> None:
        """Slice a batch and add its events to the states."""

    def add_in_order(self, grouped: Grouped) -> None:
        """The same for events by key and in the order of time."""
        self.add(grouped.batch)

    def _alone(self, batch: Batch) -> bool:
        """Whether the events have one key and are in order."""
        return self.runs.keys == 1 and batch.ordered and batch.wanted is None

    @abstractmethod
    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        """The instances of these keys whose close point is in `(low, high]`."""

    def floors(self, keys: np.ndarray, point: int) -> np.ndarray:
        """For each key, the close point up to which instances are beyond change at `point`."""
        return np.full(len(keys), point, np.int64)

    @abstractmethod
    def needed(self, point: int) -> np.ndarray:
        """For each key, its first place that an instance not complete at `point` can need."""

    def earliest(self, places: np.ndarray) -> np.ndarray:
        """Times before which the slices at these places have no event."""
        found: np.ndarray = self.runs.first[self.runs.slot[places]]
        return found

    def evict(self, point: int) -> None:
        """Drop the slices of which every instance is complete at `point`."""
        # Looking at every key pays only when there is enough to be found.
        if point < INFINITY and self.runs.live < self.evict_at:
            return
        keep = self._keep() if point >= INFINITY else self.needed(point)
        freed = self.runs.evict(keep)
        if len(freed):
            self.store.forget(freed)
        self.evict_at = 2 * self.runs.live + EVICT_AT_LEAST

    def fuse(self, point: int, highs: np.ndarray, low: int) -> None:
        """Make one of slices that only ends of windows part, all of them complete at `point`."""
        if self.begins is None or point >= INFINITY:
            return
        if self.runs.keys > MANY_KEYS and self.runs.live < self.evict_at:
            return
        touched = self.store.touched()
        older, newer = fuse_ends(self.runs, self.edges, self.begins, low, highs, touched)
        self.fused_to = point
        if len(older):
            self.store.fuse(older, newer)
            self.runs.release(newer)
            self.store.forget(newer)

    def _keep(self) -> np.ndarray:
        return self.runs.offset + self.runs.size

    def _index(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        runs = self.runs
        return (
            (runs.offset, runs.size, runs.base),
            (runs.start, runs.slot, runs.first, runs.last),
        )


class FreeTrack(Track):
    """Context-free windows over time.

    Slices are kept by key, in runs, or by time, in panes; whoever asks for `runs` or `store` gets
    all of them by key. Panes are for many keys and for results that are never revised.
    """

    panes: Panes | None = None

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
    def store(self) -> Store:
        """The states of the slices by key."""
        self._by_key()
        return self._store

    @store.setter
    def store(self, store: Store) -> None:
        self._store = store

    def _by_key(self, *, worse: bool = False) -> None:
        """Keep slices in runs; `worse` says that panes were no good."""
        panes, self.panes = self.panes, None
        if panes is not None:
            self._store.combines += panes.combines
            panes.fill_runs(self._runs, self._store)
            self.fed = 0
            self.reluctance *= 4 if worse else 1

    def _by_time(self, events: int) -> Panes | None:
        """The panes, if this is the case for them: here it is decided."""
        if self.panes is not None:
            if self.panes.sparse:
                self._by_key(worse=True)
            return self.panes
        runs, store = self._runs, self._store
        self.fed += events
        if (
            not self.settled_only
            or runs.keys < KEYS_BY_TIME
            or events + runs.keys // KEYS_PER_EVENT < EVENTS_BY_TIME
            # What there is has to be moved, which new events must make up for.
            or MOVED_PER_EVENT * self.fed < self.reluctance * runs.live
            or store.tree is not None
            or store.merger is not None
            or store.since
            or not all(component.algebra.compiled for component in store.components)
        ):
            return None
        self.panes = Panes.of_runs(runs, store)
        self._runs = store.runs = Runs(runs.start.dtype.str)
        store.states = [None] * len(store.components)
        return self.panes

    @property
    def live(self) -> int:
        return self._runs.live if self.panes is None else self.panes.live

    @property
    def combines(self) -> int:
        return self._store.combines + (0 if self.panes is None else self.panes.combines)

    def know(self, keys: int) -> None:
        if self.panes is None:
            self._runs.admit(keys)
        else:
            self.panes.keys = keys

    def set_windows(self, windows: Sequence[Placed]) -> None:
        super().set_windows(windows)
        dtype = self.runs.start.dtype.str
        defined = [placed.window for placed in windows]
        self.edges = cut_by(defined, self.technique, dtype)
        self.begins = kept_by(defined, self.technique, self.edges)
        self.fused_to = BEGINNING
        self.free = FreeWindows.of([(p.number, p.window, p.since) for p in windows], dtype)

    def add(self, batch: Batch) -> None:
        panes = self._by_time(len(batch))
        if panes is not None:
            batch = self._add_by_time(panes, batch)
            if panes is self.panes:
                return
        if self._alone(batch):
            self.add_in_order(Grouped.alone(batch))
            return
        keys = batch.keys if self.runs.keys > 1 else None
        reach = (batch.low, batch.high)
        sliced = slice_free(self.runs, self.edges, batch.times, reach, None, keys, batch.wanted)
        self.store.add(sliced, batch.columns)
        self.store.touch(batch.times, keys)

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        panes = self._by_time(len(batch))
        if panes is not None:
            rest = self._add_by_time(panes, batch)
            if panes is self.panes:
                return
            rows = np.arange(len(batch)) if rest.wanted is None else np.flatnonzero(rest.wanted)
            grouped = Grouped.of(batch.take(rows))
            batch, groups = grouped.batch, (grouped.present, grouped.starts)
        reach = (batch.low, batch.high)
        sliced = slice_sorted(self.runs, self.edges, batch.times, reach, None, groups)
        self.store.add(sliced, batch.columns)
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)

    def _add_by_time(self, panes: Panes, batch: Batch) -> Batch:
        """Add a batch to panes; what did not go into them, when slices are kept by key again."""
        reach, given = (batch.low, batch.high), (batch.keys, batch.wanted, batch.columns)
        done = panes.add(self.edges, batch.times, reach, *given)
        if done == len(batch):
            return batch
        self._by_key(worse=True)
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted.copy()
        wanted[:done] = False
        return replace(batch, wanted=wanted)

    def closed(self, low: int, high: int) -> Blocks | None:
        if self.panes is None:
            return None
        blocks = close(self.panes, self.free, self._store, low, high)
        if blocks is None:
            self._by_key(worse=True)
        return blocks

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        points = (np.array([low]), np.array([high]))
        return collect(list_free, self.runs, self.free.arrays(), keys, *points)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.runs.start[places]
        return found

    def evict(self, point: int) -> None:
        if self.panes is not None:
            self.panes.evict(INFINITY if point >= INFINITY else self.free.needed_from(point))
            if self.begins is not None:
                self.panes.fuse(self.begins, point)
            return
        self.fuse(point, np.array([point]), self.fused_to)
        super().evict(point)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        least = np.array([self.free.needed_from(point)])
        run(keep_from)(least, self.runs.keys, *self._index(), keep)
        return keep


class MeasureTrack(FreeTrack):
    """Context-free windows over an advancing column.

    An instance closes when an event at or past its end is below the watermark. `settled` is what
    each key has reached for good: an event that falls behind it does not advance.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        axis: str,
        dtype: str,
        *,
        rows: bool,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        super().__init__(bounds, dtype, merger=merger, eager=eager)
        self.axis = axis
        self.rows = rows
        self.settled = np.empty(0, dtype)
        self.behind = 0

    def add(self, batch: Batch) -> None:
        column = batch.columns[self.axis]
        at = column.values.astype(self.runs.start.dtype, copy=False)
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted
        if column.valid is not None:
            wanted = wanted & column.valid
        if at.dtype.kind == "f":
            wanted = wanted & np.isfinite(at)
        self._admit()
        behind = wanted & (at < self.settled[batch.keys])
        if behind.any():
            self.behind += int(behind.sum())
            wanted = wanted & ~behind
        if self.rows:
            sliced = slice_rows(self.runs, at, batch.times, batch.keys, wanted, batch.arrival)
        else:
            chosen = at[wanted]
            reach = (chosen.min(), chosen.max()) if len(chosen) else (at[0], at[0])
            sliced = slice_free(self.runs, self.edges, at, reach, batch.times, batch.keys, wanted)
        self.store.add(sliced, batch.columns)
        self.store.touch(at, batch.keys)

    def _admit(self) -> None:
        more = len(self.runs.offset) - len(self.settled)
        if more > 0:
            self.settled = np.append(self.settled, np.full(more, BEGINNING, self.settled.dtype))

    def beyond(self) -> Any:
        """A value that no event has reached yet."""
        runs = self.runs
        places = runs.places(np.arange(runs.keys))
        seen = [BEGINNING, *self.settled[: runs.keys].tolist()]
        if len(places) and self.rows:
            last = runs.start[places].max()
            seen.append((last + 1 if last.dtype.kind == "i" else np.nextafter(last, np.inf)).item())
        elif len(places):
            seen.append(runs.stop[places].max().item())
        return max(seen)

    def reached(self, point: int) -> np.ndarray:
        """For each key, the greatest start of a slice with an event below `point`."""
        self._admit()
        if point >= INFINITY:
            return np.full(len(self.settled), INFINITY, self.settled.dtype)
        reached = self.settled.copy()
        run(reach)(point, self.runs.keys, *self._index(), reached)
        return reached

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        points = (self.reached(low)[keys], self.reached(high)[keys])
        return collect(list_free, self.runs, self.free.arrays(), keys, *points)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        return Track.earliest(self, places)

    def floors(self, keys: np.ndarray, point: int) -> np.ndarray:
        floors: np.ndarray = self.reached(point)[keys]
        return floors

    def evict(self, point: int) -> None:
        # What is settled decides which events count, so it may not wait for an eviction.
        if point < INFINITY:
            self.settled = self.reached(point)
        Track.evict(self, point)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        least = run(needed_of_all)(self.free.arrays(), self.settled, self.runs.keys)
        run(keep_from)(least, self.runs.keys, *self._index(), keep)
        return keep


@kernel
def reach(point: int, keys: int, index: Any, pool: Any, reached: Any) -> None:
    offset, size, base = index
    start, slot, first, last = pool
    for code in range(keys):
        for place in range(offset[code] + size[code] - 1, offset[code] - 1, -1):
            if first[slot[place]] < point:
                reached[code] = max(reached[code], start[place])
                break


@kernel
def needed_of_all(windows: Any, settled: Any, keys: int) -> Any:
    """What `needed_from` says for each key."""
    least = settled.copy()
    for code in range(keys):
        if settled[code] > BEGINNING:
            least[code] = needed_from(windows, settled[code])
    return least


class SessionTrack(Track):
    """Sessions of any gaps, cut by the smallest."""

    def set_windows(self, windows: Sequence[Placed]) -> None:
        super().set_windows(windows)
        gaps = [placed.window.gap for placed in windows]
        self.gap = min(gaps, default=1)
        self.widest = max(gaps, default=1)
        self.arrays = (
            np.array([placed.number for placed in windows], np.int64),
            np.array(gaps, np.int64),
            np.array([placed.since for placed in windows], np.int64),
        )

    def add(self, batch: Batch) -> None:
        if self._alone(batch):
            self.add_in_order(Grouped.alone(batch))
            return
        keys = batch.keys if self.runs.keys > 1 else None
        self._store(slice_sessions(self.runs, self.gap, batch.times, keys, batch.wanted), batch)

    def add_in_order(self, grouped: Grouped) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        self._store(slice_sorted_sessions(self.runs, self.gap, batch.times, groups), batch)

    def _store(self, sliced: Sliced, batch: Batch) -> None:
        self.store.add(sliced, batch.columns)
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)
        gone = sliced.merged[1]
        if len(gone):
            self.runs.release(gone)
            self.store.forget(gone)

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        return collect(list_sessions, self.runs, *self.arrays, keys, low, high)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        run(keep_sessions)(self.widest, point, self.runs.keys, *self._index(), keep)
        return keep


class RowTrack(Track):
    """Windows that need the rows themselves, in the order of (time, arrival)."""

    def set_windows(self, windows: Sequence[Placed]) -> None:
        super().set_windows(windows)
        free = [placed for placed in windows if isinstance(placed.window, FREE)]
        self.free = FreeWindows.of([(p.number, p.window, p.since) for p in free], "i8")
        known: dict[int, np.ndarray] = getattr(self, "marks", {})
        self.marks = {
            placed.number: known.get(placed.number, np.zeros(self.runs.slots, np.bool_))
            for placed in windows
            if isinstance(placed.window, Punctuated | Threshold)
        }
        # Where sessions of a greatest length begin in each key, by window.
        self.anchors: dict[int, np.ndarray] = getattr(self, "anchors", {})

    def add(self, batch: Batch) -> None:
        sliced = slice_rows(
            self.runs, batch.times, batch.times, batch.keys, batch.wanted, batch.arrival
        )
        self.store.add(sliced, batch.columns)
        self.store.touch(batch.times, batch.keys)
        rows = sliced.slots >= 0
        for number, marks in self.marks.items():
            if len(marks) < self.runs.slots:
                more = np.zeros(self.runs.slots - len(marks), np.bool_)
                marks = self.marks[number] = np.concatenate([marks, more])
            marks[sliced.slots[rows]] = batch.marks[number][rows]

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        found = []
        if len(self.free.numbers):
            points = (np.array([low]), np.array([high]))
            found.append(collect(list_free, self.runs, self.free.arrays(), keys, *points))
        for placed in self.windows:
            listing = self._calls(placed)
            if listing is not None:
                item, arguments = listing[0], listing[1]
                found.append(
                    collect(
                        item, self.runs, placed.number, *arguments, placed.since, keys, low, high
                    )
                )
        return Instances.concatenate(found)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        index = self._index()
        if len(self.free.numbers):
            least = np.array([min(self.free.needed_from(point), point)])
            run(keep_from)(least, self.runs.keys, *index, keep)
        for placed in self.windows:
            listing = self._calls(placed)
            if listing is not None:
                _, arguments, item = listing
                limits = self._without_limits(placed, arguments)
                run(item)(*limits, point, self.runs.keys, *index, keep)
        return keep

    def _without_limits(self, placed: Placed, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        # Runs shorter than `min_rows` are kept as long as others: they may still grow.
        return arguments[:1] if isinstance(placed.window, Threshold) else arguments

    def _anchors(self, number: int) -> np.ndarray:
        anchors = self.anchors.get(number, np.empty(0, np.int64))
        more = len(self.runs.offset) - len(anchors)
        if more:
            # A window that is new to a key begins with the first row that is known.
            anchors = np.append(anchors, self.runs.base[len(anchors) :])
            self.anchors[number] = anchors
        return anchors

    def _calls(self, placed: Placed) -> tuple[Any, tuple[Any, ...], Any] | None:
        """The listing kernel of a window, its arguments, and the kernel that says what to keep."""
        window: Window = placed.window
        if isinstance(window, Session):
            longest = INFINITY if window.max_length is None else window.max_length
            limits = (window.gap, longest, self._anchors(placed.number))
            return rows.list_bounded_sessions, limits, rows.keep_bounded_sessions
        if isinstance(window, RowPeriodic):
            return rows.list_row_windows, (window.length, window.every), rows.keep_row_windows
        if isinstance(window, TimeEveryRows):
            arguments = (window.length, window.every)
            return rows.list_opened_by_rows, arguments, rows.keep_opened_by_rows
        if isinstance(window, RowsEveryTime):
            steps = (window.length, window.every, window.origin)
            return rows.list_last_rows, steps, rows.keep_last_rows
        if isinstance(window, Punctuated):
            return rows.list_punctuated, (self.marks[placed.number],), rows.keep_punctuated
        if isinstance(window, Threshold):
            marked = (self.marks[placed.number], window.min_rows, self.runs.rows)
            return rows.list_threshold, marked, rows.keep_threshold
        return None
