"""Slice groups: one way of slicing with the windows that share its slices.

A slice group slices events, keeps their states, lists the window instances its slices make up, and
evicts slices that no instance can need any more. Context-free windows of one measure share a
slice group, sessions share another one, perhaps with windows of time, and windows that need rows
share a third; `ordered` has a fourth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Bound, Component, reads
from slicewise.codegen.kernel import run
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.buffer import Batch, Grouped
from slicewise.slicing.edges.cutting import cut_by, fuse_ends
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.emit.emission import Blocks
from slicewise.slicing.families import row_triggers as rows
from slicewise.slicing.families.triggers import (
    FreeWindows,
    Instances,
    collect,
    collect_free,
    keep_from,
    keep_sessions,
    list_sessions,
)
from slicewise.slicing.ingest.late import Late, Verdict, by_ends, by_sessions, too_late
from slicewise.slicing.ingest.ties import Ties
from slicewise.slicing.locate.by_row import slice_rows
from slicewise.slicing.locate.by_session import (
    Rule,
    fuse_past,
    on_both_sides,
    slice_sessions,
    slice_sorted_sessions,
)
from slicewise.slicing.locate.by_time import Edges, Sliced
from slicewise.slicing.locate.session_cells import slice_sessions_alone
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.store.base import SliceStore
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import Runs, of_keys
from slicewise.slicing.store.saving import Layout
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

FREE = (Periodic, Cumulate, Fixed)
# Ties in time may give several instances of these the same bounds.
DATA_DRIVEN = (Punctuated, Threshold, UserWindow)
# Instances of these depend on how many rows of a key there have ever been.
COUNTING = (RowPeriodic, RowsEveryTime, TimeEveryRows)


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """A window with its number in the operator and the least start of an instance it reports."""

    number: int
    window: Any
    since: Any = BEGINNING


class SliceGroup(ABC):
    """What all slice groups share."""

    kind: str  # what snapshots call it
    edges: Edges
    # The store by key and its runs. A group that keeps slices by time has neither: who reads them
    # gets an error, and not the slices of an empty store.
    store: KeyMajorStore
    runs: Runs

    def __init__(
        self,
        bounds: Sequence[Bound],
        dtype: str = "i8",
        *,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        self.slices: SliceStore
        self.use(KeyMajorStore(bounds, Runs(dtype), merger, eager=eager))
        self.windows: list[WindowEntry] = []
        self.technique: Technique = "cutty"
        self.begins: Edges | None = None  # where slices stay apart, if not at every edge
        self.fused_to = BEGINNING
        self.evict_at = tuning.active().evict_at_least
        self.tie_order = Ties(())
        # Events that an aggregate raised an error for, until they are handed out.
        self.refused: list[tuple[Batch, int, Exception]] = []

    def use(self, slices: SliceStore) -> None:
        """Keep slices in this store from now on."""
        self.slices = slices
        if isinstance(slices, KeyMajorStore):
            self.store, self.runs = slices, slices.runs
        else:
            del self.store, self.runs

    def keep_by_key(self) -> None:
        """Keep slices in a store by key from now on."""
        return

    @property
    def live(self) -> int:
        """The number of slices that are kept."""
        return self.slices.live

    @property
    def keys(self) -> int:
        """The number of keys that are known."""
        return self.slices.keys

    @property
    def components(self) -> list[Component]:
        """The components that states are made of."""
        return self.slices.components

    @property
    def keeps_rows(self) -> bool:
        """Whether each slice is one row."""
        return False

    @property
    def layout(self) -> Layout:
        """What is known of each slice here."""
        return Layout(rows=self.keeps_rows)

    @property
    def combines(self) -> int:
        """How many states were combined so far."""
        return self.slices.combines

    def verdicts(self, late: Late) -> dict[int, Verdict]:
        """What each window, by its number, makes of events that are below the horizon."""
        return {entry.number: self._verdict(entry, late) for entry in self.windows}

    def _verdict(self, entry: WindowEntry, late: Late) -> Verdict:
        found = by_ends(entry.window, late, entry.since)
        if found is not None:
            return found
        gap = entry.window.traits.gap
        if gap is not None:
            return by_sessions(gap, late, self.runs, entry.since)
        return too_late(late, entry.since)

    def takes(self, late: Late, verdicts: Mapping[int, Verdict]) -> np.ndarray:
        """Which late events go into slices, given what the windows make of them."""
        taken = [verdicts[entry.number].took for entry in self.windows]
        found: np.ndarray = np.logical_or.reduce(taken)
        return found

    @property
    def parts(self) -> bool:
        """Whether windows here need slices of their own before a late event comes."""
        return len(self.windows) > 1

    def rows_from(self, point: int) -> np.ndarray | None:
        """The time from which on open windows need rows that waited, for all keys or for each.

        `None` if they need none.
        """
        return None

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        """Let go of sessions of these keys that are closed at `point`, so that nothing joins them.

        Slices that windows share stay: late events come to sessions that have their own.
        """
        return

    def know(self, keys: int) -> None:
        """Take note that there are key codes below `keys`."""
        self.slices.admit(keys)

    def held(self, point: int | None = None) -> np.ndarray:
        """By code, the keys of which anything is known that an answer may depend on.

        With `point`, without slices of which every instance is complete there.
        """
        held = self.slices.held(self.first_needed(point))
        if any(isinstance(entry.window, COUNTING) for entry in self.windows):
            held |= self.slices.held() | (of_keys(self._rows_ever(), np.arange(len(held))) > 0)
        return held

    def _rows_ever(self) -> np.ndarray:
        """How many slices of each key are gone, for slice groups whose slices are rows."""
        return self.runs.base

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones, which are in order; `codes` has their new codes."""
        self.slices.renumber(live, codes)

    def dump_slices(
        self, out: BlobWriter, live: np.ndarray, codes: np.ndarray, keep: np.ndarray | None
    ) -> dict[str, Any]:
        """Write the slices of the `live` keys, which have these new `codes`, as a snapshot does.

        `keep` is what `first_needed` says.
        """
        return self.slices.dump(out, live, codes, self.layout, keep)

    def load_slices(
        self, node: Any, keys: int, source: BlobReader, since: int | None = None
    ) -> None:
        """Read the slices of a snapshot; see `SliceStore.load`."""
        self.slices.load(node, keys, source, self.layout, since)

    def closed(self, low: int, high: int) -> Blocks | None:
        """The instances of all keys that close in `(low, high]`, if they are merged together."""
        return None

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        """Take over a new set of windows; slices that exist stay as they are."""
        self.windows = list(windows)
        self.ties = any(isinstance(p.window, DATA_DRIVEN) for p in windows)

    def take(self, sliced: Sliced, batch: Batch) -> None:
        """Add events to the states of their slices; those that are refused are noted."""
        refused = self.store.add(sliced, batch.columns)
        self.refused += [(batch, row, error) for row, error in refused.items()]

    def take_found(self, sliced: Sliced, batch: Batch) -> Batch | None:
        """The same for the events that found their slices; those that did not, if there are any."""
        done = sliced.events
        if done == len(batch):
            self.take(sliced, batch)
            return None
        names = dict.fromkeys(name for c in self.store.components for name in reads(c))
        batch = replace(batch.numbered(), columns={name: batch.columns[name] for name in names})
        self.take(sliced, batch.take(slice(0, done)))
        rows = np.arange(done, len(batch))
        return batch.take(rows if batch.wanted is None else rows[batch.wanted[done:]])

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

    def first_needed(self, point: int | None) -> np.ndarray | None:
        """For each key, its first place that may be needed at `point`; `None` if all of them are.

        A store by time has dropped all others already.
        """
        if point is None or not isinstance(self.slices, KeyMajorStore):
            return None
        return self._keep() if point >= INFINITY else self.needed(point)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        """Times before which the slices at these places have no event."""
        found: np.ndarray = self.runs.first[self.runs.slot[places]]
        return found

    def times_at(self, keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """The times of rows by their positions, for slice groups whose slices are rows.

        Rows that are gone have the time of the first one that is left.
        """
        runs = self.runs
        there = np.clip(positions - runs.base[keys], 0, np.maximum(runs.size[keys] - 1, 0))
        places = np.minimum(runs.offset[keys] + there, max(len(runs.start) - 1, 0))
        found: np.ndarray = runs.start[places] if len(runs.start) else positions
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
        self.evict_at = 2 * self.runs.live + tuning.active().evict_at_least

    def _drop(self, keys: np.ndarray, keep: np.ndarray) -> None:
        """Drop the places before `keep` of the runs of these keys."""
        freed = self.runs.evict(keep, keys)
        if len(freed):
            self.store.forget(freed)

    def fuse(self, point: int, highs: np.ndarray, low: int) -> None:
        """Make one of slices that only ends of windows part, all of them complete at `point`."""
        if self.begins is None or point >= INFINITY:
            return
        if self.runs.keys > tuning.active().fuse_keys and self.runs.live < self.evict_at:
            return
        touched = self.store.touched()

        def find() -> tuple[np.ndarray, np.ndarray]:
            assert self.begins is not None
            return fuse_ends(self.runs, self.edges, self.begins, low, highs, touched)

        if self._make_one(find):
            self.fused_to = point

    def _make_one(self, find: Callable[[], tuple[np.ndarray, np.ndarray]]) -> bool:
        """Fuse the pairs of slots that are found, which are no longer apart in the runs.

        If an aggregate of the user's own raises an error all stay as they are, and whoever asks
        for an instance of them is told why.
        """
        undo = self.runs.remember() if self.store.own else None
        older, newer = find()
        try:
            self.store.fuse(older, newer)
        except Exception:
            if undo is None:
                raise
            undo()
            return False
        self._let_go(newer)
        return True

    def _let_go(self, slots: np.ndarray) -> None:
        if len(slots):
            self.runs.release(slots)
            self.store.forget(slots)

    def _keep(self) -> np.ndarray:
        return self.runs.offset + self.runs.size


class SessionGroup(SliceGroup):
    """Sessions of any gaps, cut by the smallest, and windows of time that share their slices."""

    kind = "SessionTrack"

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        sessions = [entry for entry in windows if isinstance(entry.window, Session)]
        free = [entry for entry in windows if not isinstance(entry.window, Session)]
        gaps = [entry.window.gap for entry in sessions]
        self.gap = min(gaps, default=INFINITY)
        self.widest = max(gaps, default=0)
        self.arrays = (
            np.array([entry.number for entry in sessions], np.int64),
            np.array(gaps, np.int64),
            np.array([entry.since for entry in sessions], np.int64),
        )
        self.free = FreeWindows.of([(p.number, p.window, p.since) for p in free], "i8")
        self.edges = on_both_sides(cut_by([entry.window for entry in free], self.technique))

    @property
    def rule(self) -> Rule:
        return Rule(self.gap, fuses=not self.store.own)

    def add(self, batch: Batch) -> None:
        cut, reach = (self.runs, self.rule, self.edges, batch.times), (batch.low, batch.high)
        if self.runs.keys > 1 or batch.wanted is not None:
            keys = batch.keys if self.runs.keys > 1 else None
            self._store(slice_sessions(*cut, reach, keys, batch.wanted), batch)
            return
        if len(self.free.numbers) and not batch.ordered:
            sliced = slice_sessions_alone(*cut, reach)
            if sliced is not None:
                self._store(sliced, batch)
                return
        # Late events mostly stay within the session of those before them.
        self._slice(Grouped.alone(batch), limited=True)

    def add_in_order(self, grouped: Grouped) -> None:
        self._slice(grouped, limited=False)

    def _slice(self, grouped: Grouped, *, limited: bool) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        given = (self.edges, batch.times, (batch.low, batch.high), groups)
        self._store(slice_sorted_sessions(self.runs, self.rule, *given, limited=limited), batch)

    def _store(self, sliced: Sliced, batch: Batch) -> None:
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)
        rest = self.take_found(sliced, batch)
        self._let_go(sliced.merged[1])
        if rest is not None:
            self.add_in_order(Grouped.of(rest))

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        sessions = collect(list_sessions, self.runs, self.arrays, keys, low, high)
        if not len(self.free.numbers):
            return sessions
        points = (np.array([low]), np.array([high]))
        free = collect_free(self.runs, self.free, keys, *points)
        return Instances.concatenate([free, sessions])

    def rows_from(self, point: int) -> np.ndarray | None:
        runs = self.runs
        least = np.full(runs.keys, INFINITY)
        begun = runs.size[: runs.keys] > 0
        least[begun] = runs.start[runs.offset[: runs.keys][begun]]
        return least

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        if len(self.windows) > 1:
            return
        keep = self._keep()[keys]
        run(keep_sessions)(self.widest, point, len(keys), self.runs.arrays_of(keys), keep)
        self._drop(keys, keep)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        run(keep_sessions)(self.widest, point, self.runs.keys, self.runs.arrays, keep)
        if len(self.free.numbers):
            least = np.array([self.free.needed_from(point)])
            run(keep_from)(least, self.runs.keys, self.runs.arrays, keep)
        return keep

    def evict(self, point: int) -> None:
        due = self.runs.keys <= tuning.active().fuse_keys or self.runs.live >= self.evict_at
        if due and point < INFINITY and (len(self.free.numbers) or not self.rule.fuses):
            self._make_one(lambda: self._fuse_past(self.free.needed_from(point)))
        super().evict(point)

    def _fuse_past(self, least: int) -> tuple[np.ndarray, np.ndarray]:
        """Keep one slice of each session for what lies behind the windows of time."""
        runs = self.runs
        older, newer = np.empty(runs.live, np.int64), np.empty(runs.live, np.int64)
        count = run(fuse_past)(
            least,
            self.gap,
            runs.keys,
            runs.arrays,
            self.store.touched(),
            (older, newer),
        )
        return older[:count], newer[:count]


class RowGroup(SliceGroup):
    """Windows that need the rows themselves, in the order of (time, ties, arrival)."""

    kind = "RowTrack"

    @property
    def keeps_rows(self) -> bool:
        return True

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        free = [entry for entry in windows if isinstance(entry.window, FREE)]
        self.free = FreeWindows.of([(p.number, p.window, p.since) for p in free], "i8")
        known: dict[int, np.ndarray] = getattr(self, "marks", {})
        self.marks = {
            entry.number: known.get(entry.number, np.zeros(self.runs.slots, np.bool_))
            for entry in windows
            if isinstance(entry.window, Punctuated | Threshold)
        }
        # Where sessions of a greatest length begin in each key, by window.
        self.anchors: dict[int, np.ndarray] = getattr(self, "anchors", {})

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        super().renumber(live, codes)
        self.anchors = {n: a[live[live < len(a)]] for n, a in self.anchors.items()}

    def add(self, batch: Batch) -> None:
        sliced = slice_rows(
            self.runs, batch.times, batch.times, batch.keys, batch.wanted, batch.arrival
        )
        self.take(sliced, batch)
        self.tie_order.sort(
            self.runs, batch.times, batch.times, batch.keys, sliced.slots, batch.columns
        )
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
            found.append(collect_free(self.runs, self.free, keys, *points))
        for entry in self.windows:
            listing = self._calls(entry)
            if listing is not None:
                item, arguments = listing[0], listing[1]
                window = (entry.number, *arguments, entry.since)
                found.append(collect(item, self.runs, window, keys, low, high))
        return Instances.concatenate(found)

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        (entry, *others) = self.windows
        if others or entry.window.traits.gap is None:
            return
        keep = self._keep()[keys]
        anchors = self._anchors(entry.number)
        known = anchors[keys]
        limits, some = (entry.window.gap, INFINITY, known), self.runs.arrays_of(keys)
        run(rows.keep_bounded_sessions)(limits, point, len(keys), some, keep)
        anchors[keys] = known
        self._drop(keys, keep)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        where = (self.runs.keys, self.runs.arrays, keep)
        if len(self.free.numbers):
            least = np.array([min(self.free.needed_from(point), point)])
            run(keep_from)(least, *where)
        for entry in self.windows:
            listing = self._calls(entry)
            if listing is not None:
                _, arguments, item = listing
                limits = self._without_limits(entry, arguments)
                run(item)(limits, point, *where)
        return keep

    def _without_limits(self, entry: WindowEntry, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        # Runs shorter than `min_rows` are kept as long as others: they may still grow.
        return arguments[:1] if isinstance(entry.window, Threshold) else arguments

    def _anchors(self, number: int) -> np.ndarray:
        anchors = self.anchors.get(number, np.empty(0, np.int64))
        more = len(self.runs.offset) - len(anchors)
        if more:
            # A window that is new to a key begins with the first row that is known.
            anchors = np.append(anchors, self.runs.base[len(anchors) :])
            self.anchors[number] = anchors
        return anchors

    def _calls(self, entry: WindowEntry) -> tuple[Any, tuple[Any, ...], Any] | None:
        """The listing kernel of a window, its arguments, and the kernel that says what to keep."""
        window: Window = entry.window
        if isinstance(window, Session):
            longest = INFINITY if window.max_length is None else window.max_length
            limits = (window.gap, longest, self._anchors(entry.number))
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
            return rows.list_punctuated, (self.marks[entry.number],), rows.keep_punctuated
        if isinstance(window, Threshold):
            marked = (self.marks[entry.number], window.min_rows)
            return rows.list_threshold, marked, rows.keep_threshold
        return None
