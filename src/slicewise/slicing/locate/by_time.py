"""The stream slicer: which slice each event of a micro-batch belongs to.

Context-free edges (Scotty, Algorithms 1 and 2) are the same for all keys, so an event in order is
compared with the edges of its current slice and nothing else; a late one searches its key's run.
Sessions are cut in `by_session`, and rows that must be kept one by one in `by_row`.

Slicing only says where events go: `slots` has a slot per event. States follow in `store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import first_at_least, last_at_most, near_at_most
from slicewise.codegen.kernel import Kernel, inlined, kernel, run
from slicewise.limits import UNLIMITED
from slicewise.slicing.store.runs import BORN, MERGED, MOVES, Runs, mend, open_place, seek
from slicewise.windows import Window
from slicewise.windows.base import EdgeRule


@dataclass(frozen=True, slots=True, eq=False)
class Sliced:
    """Where the events of a batch went.

    `slots[i]` is the slot of event i, or -1 when it goes nowhere; `born` are slots that are new
    and hold nothing yet; `merged` are pairs (older, newer) of slots that became one, in order.
    With `begins`, `slots[j]` is that of the events from `begins[j]` to before `begins[j + 1]`.
    There may be fewer `events` than there were in the batch: the others have to be put in order.
    """

    slots: np.ndarray
    born: np.ndarray
    merged: tuple[np.ndarray, np.ndarray]
    begins: np.ndarray | None = None

    @property
    def events(self) -> int:
        """How many events found their slices."""
        return len(self.slots) if self.begins is None else int(self.begins[-1])

    def slot_of_each(self) -> np.ndarray:
        """The slot of each event."""
        return self.slots if self.begins is None else np.repeat(self.slots, np.diff(self.begins))


class Edges:
    """The edges of context-free windows: progressions of edges, and single ones.

    A window whose edges are all edges of another is not kept (query fusion).

    >>> from slicewise.windows import tumbling, sliding
    >>> edges = Edges([tumbling(4), tumbling(8), sliding(6, every=4)])
    >>> edges.steps.tolist(), edges.phases.tolist()
    ([4, 4], [0, 2])
    >>> edges.between(0, 9).tolist()
    [0, 2, 4, 6, 8, 10]
    """

    def __init__(self, windows: Sequence[Window], dtype: str = "i8") -> None:
        self.use([window.all_edges() for window in windows], dtype)

    @staticmethod
    def of_begins(windows: Sequence[Window], dtype: str = "i8") -> Edges:
        """The edges at which Cutty keeps slices apart: the begins of periodic windows."""
        edges = Edges([], dtype)
        edges.use([window.begin_edges() for window in windows], dtype)
        return edges

    def use(self, rules: Sequence[EdgeRule], dtype: str) -> None:
        """Take over the edges of these rules, each once."""
        progressions = {one for rule in rules for one in rule.progressions}
        singles = {one for rule in rules for one in rule.singles}
        kept = _fused(sorted(progressions))
        self.steps = np.array([step for step, _ in kept], dtype)
        self.phases = np.array([phase for _, phase in kept], dtype)
        self.singles = np.array(sorted(singles), dtype)
        self.none = np.empty(0, dtype)
        self._listed = self.none

    def between(self, low: Any, high: Any) -> np.ndarray:
        """All edges from the last one at or before `low` to the first one after `high`."""
        # One more on each side: quotients of fractions are rounded.
        first = np.floor_divide(low - self.phases, self.steps) - 1
        counts = (np.floor_divide(high - self.phases, self.steps) - first + 3).astype(np.int64)
        ends = np.cumsum(counts)
        index = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        begins = np.repeat(first * self.steps + self.phases, counts)
        listed = begins + index * np.repeat(self.steps, counts)
        edges: np.ndarray = np.concatenate([listed, self.singles]).astype(self.steps.dtype)
        edges.sort()  # quicker than the hash table of `numpy.unique`
        edges = edges[np.append(True, edges[1:] > edges[:-1])[: len(edges)]]
        # Every progression has its first edge after `high`, but only the first of all is complete.
        first = max(edges.searchsorted(low, "right") - 1, 0)
        return edges[first : edges.searchsorted(high, "right") + 1]

    def listed(self, low: Any, high: Any, most: int) -> np.ndarray:
        """A list of edges that reaches over `low` and `high`; an empty one if there are too many.

        The list is kept and goes on further than asked, since the next batch comes soon after.
        """
        known = self._listed
        if len(known) and known[0] <= low and high < known[-1]:
            return known
        if self.count(low, high) > most:
            return self.none
        further = high + 4 * (high - low)
        self._listed = self.between(low, further if self.count(low, further) <= most else high)
        return self._listed

    def count(self, low: Any, high: Any) -> float:
        """About how many edges there are between two values."""
        return float(((float(high) - float(low)) / self.steps + 2).sum()) + len(self.singles)


def _fused(progressions: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Leave out progressions whose edges are all edges of one with a smaller step."""
    steps, phases = np.array(progressions).reshape(-1, 2).T
    known = np.unique(steps)
    # Few steps are multiples of another; only their progressions have to be looked at.
    large, small = known[known >= 2 * known[:1]], known[2 * known <= known[-1:]]
    multiple = large[((large[:, None] % small == 0) & (large[:, None] > small)).any(axis=1)]
    kept = []
    for progression, suspect in zip(progressions, np.isin(steps, multiple), strict=True):
        step, phase = progression
        if suspect:
            smaller = (steps < step) & (step % steps == 0)
            if bool(((phase - phases[smaller]) % steps[smaller] == 0).any()):
                continue
        kept.append(progression)
    return kept


def slice_free(
    runs: Runs,
    edges: Edges,
    at: np.ndarray,
    reach: tuple[Any, Any],
    times: np.ndarray | None,
    keys: np.ndarray | None,
    wanted: Any,
    *,
    limited: bool = False,
) -> Sliced:
    """Put events into slices between the edges of context-free windows, by the measure `at`.

    `reach` is the least and the greatest measure of the events that are wanted. Slices know their
    first and last event times only when `times` are given; no `keys` stand for one key. If it
    is `limited` slicing may stop, as `run_slicer` says.
    """
    given = (at, times, keys, wanted, bounds_for(edges, reach, len(at)))
    return run_slicer(runs, len(at), into_slices, given, limited=limited)


def slice_sorted(
    runs: Runs,
    edges: Edges,
    at: np.ndarray | None,
    reach: tuple[Any, Any],
    times: np.ndarray | None,
    groups: tuple[np.ndarray, np.ndarray],
    cuts: np.ndarray | None = None,
) -> Sliced:
    """Slice events whose measure never falls: each slice takes a range of them.

    `groups` are the keys that occur and where the events of each begin; marked events of `cuts`
    begin a slice too. Without `at`, the measures are all numbers within `reach`.
    """
    size = int(groups[1][-1])
    cut = None if cuts is None else np.append(np.flatnonzero(cuts), size)
    given = (at, times, (*groups, reach[0]), cut, bounds_for(edges, reach, size))
    found = run_slicer(runs, size, into_ranges, given)
    slots, begins = found.merged
    return Sliced(slots, found.born, (slots[:0], slots[:0]), np.append(begins, size))


def bounds_for(edges: Edges, reach: tuple[Any, Any], events: int) -> tuple[np.ndarray, ...]:
    """The arguments of `bounds_of`, with a list of edges where that pays."""
    listed = edges.none
    if len(edges.steps) > tuning.active().listed_progressions:
        listed = edges.listed(*reach, tuning.active().edges_per_event * events + 1000)
    return listed, edges.steps, edges.phases, edges.singles


def run_slicer(
    runs: Runs, n: int, item: Kernel, given: tuple[Any, ...], *, limited: bool = False
) -> Sliced:
    """Run a slicing kernel for `n` events; it stops when there is no room, and then goes on.

    A `limited` one stops for good when it has moved too many slices for so many events.
    """
    slots, born, older, newer = found = runs.scratch(n)
    runs.cursors[BORN] = runs.cursors[MERGED] = 0
    runs.cursors[MOVES] = tuning.active().moves_per_event * n if limited else UNLIMITED
    done = 0
    while True:
        done = run(item)(*given, done, runs.arrays, found)
        if done == n or runs.cursors[MOVES] < 0:
            break
        runs.grow(min(n - done, max(1024, runs.live // 2)))
    made, merged = int(runs.cursors[BORN]), int(runs.cursors[MERGED])
    return Sliced(slots[:done], born[:made], (older[:merged], newer[:merged]))


@kernel
def bounds_of(t: Any, bounds: Any) -> Any:
    """The edges around `t`: from the list, or worked out from every progression."""
    listed, steps, phases, singles = bounds
    if listed.shape[0] > 1:
        i = last_at_most(listed, 0, listed.shape[0], t)
        if 0 <= i < listed.shape[0] - 1:
            return listed[i], listed[i + 1]
    low, high = t, t
    for p in range(steps.shape[0]):
        # A multiple of the step, as exact as that is: with fractions a remainder is rounded.
        n = (t - phases[p]) // steps[p]
        begin = phases[p] + n * steps[p]
        if begin > t:
            begin = phases[p] + (n - 1) * steps[p]
        elif begin + steps[p] <= t:
            begin = phases[p] + (n + 1) * steps[p]
        if p == 0 or begin > low:
            low = begin
        if p == 0 or begin + steps[p] < high:
            high = begin + steps[p]
    known = steps.shape[0] > 0
    for single in singles:
        if single <= t and (not known or single > low):
            low = single
        if single > t and (high == t or single < high):
            high = single
    if high == t:
        high = t + 1  # past the last edge of all; nothing there is in a window
    return low, high


@inlined
def place_in_slices(
    t: Any,
    k: int,
    edge: Any,
    next_edge: Any,
    bounds: Any,
    runs: Any,
    born: Any,
) -> Any:
    """The place of the slice that an event belongs to, -1 without room; and the edges looked at."""
    offset, size, start, stop, slot = runs.offset, runs.size, runs.start, runs.stop, runs.slot
    end = offset[k] + size[k]
    if size[k] > 0:
        tail = end - 1
        if t >= start[tail]:
            if t < stop[tail]:
                return tail, edge, next_edge
        else:
            found = near_at_most(start, offset[k], tail, t)
            if found >= offset[k] and t < stop[found]:
                return found, edge, next_edge
            end = found + 1
    if not edge <= t < next_edge:
        edge, next_edge = bounds_of(t, bounds)
    place, _ = open_place(k, end, 0, 0, runs)
    if place >= 0:
        start[place] = edge
        stop[place] = next_edge
        runs.rows[slot[place]] = 0
        born[runs.cursors[BORN]] = slot[place]
        runs.cursors[BORN] += 1
    return place, edge, next_edge


@kernel
def into_slices(
    at: Any,
    times: Any,
    keys: Any,
    wanted: Any,
    bounds: Any,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Slices between context-free edges; returns the first event for which there was no room.

    Without `times` the first and last event times of slices are not kept, and without `keys` all
    events have key 0: the common case is a bare loop.
    """
    slots, born, older, newer = found
    cursors = runs.cursors
    start, stop, slot = runs.start, runs.stop, runs.slot
    first, last, rows = runs.first, runs.last, runs.rows
    k, key, here, count = 0, -1, -1, 0
    low, high = at[0], at[0]  # nothing is in between: the first event looks for its slice
    edge, next_edge = low, high
    early, late = 0, 0  # the first and last time of the slice at hand
    for i in range(begin, at.shape[0]):
        if wanted is not None and not wanted[i]:
            slots[i] = -1
            continue
        t = at[i]
        if keys is not None:
            k = keys[i]
        if k == key and low <= t < high:
            count += 1
            slots[i] = here
            if times is not None:
                early = min(early, times[i])
                late = max(late, times[i])
            continue
        made = cursors[BORN]
        place, edge, next_edge = place_in_slices(t, k, edge, next_edge, bounds, runs, born)
        if place < 0:
            if count > 0:
                rows[here] += count
                if times is not None:
                    first[here], last[here] = early, late
            return i
        there = slot[place]
        slots[i] = there
        rows[there] += 1
        if times is not None:
            if made < cursors[BORN]:
                first[there], last[there] = times[i], times[i]
            first[there] = min(first[there], times[i])
            last[there] = max(last[there], times[i])
        # A late event is an exception: the slice of those in order stays at hand.
        if k != key or t >= high:
            if count > 0:
                rows[here] += count
                count = 0
                if times is not None:
                    first[here], last[here] = early, late
            key, here, low, high = k, there, start[place], stop[place]
            if times is not None:
                early, late = first[here], last[here]
    if count > 0:
        rows[here] += count
        if times is not None:
            first[here], last[here] = early, late
    return at.shape[0]


@kernel
def measure_of(i: int, at: Any, lowest: Any) -> Any:
    """The measure of event `i`, which without `at` is the next one after that of the one before."""
    if at is None:
        return lowest + i
    return at[i]


@kernel
def into_ranges(
    at: Any,
    times: Any,
    groups: Any,
    cuts: Any,
    bounds: Any,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Slices of events in order: ranges of them go to slots `older`, and begin at `newer`.

    `groups` are the keys that occur, where the events of each begin, and the least measure. `cuts`
    are the rows that begin a slice whatever their measure, and the number of rows.
    """
    present, starts, lowest = groups
    slots, born, older, newer = found
    cursors = runs.cursors
    offset, size = runs.offset, runs.size
    start, stop, slot = runs.start, runs.stop, runs.slot
    first, last, rows = runs.first, runs.last, runs.rows
    edge, next_edge = lowest, lowest
    c = 0
    for g in range(present.shape[0]):
        k, end = present[g], starts[g + 1]
        i = max(starts[g], begin)
        behind, hole = offset[k], 0
        while i < end:
            t = measure_of(i, at, lowest)
            cut = False
            if cuts is not None:
                while cuts[c] < i:
                    c += 1
                cut = cuts[c] == i
            behind, hole = seek(t, k, behind, hole, runs)
            place = behind - 1
            if place < offset[k] or t >= stop[place] or (cut and behind == offset[k] + size[k]):
                if not edge <= t < next_edge:
                    edge, next_edge = bounds_of(t, bounds)
                more = end - 1 - i
                place, hole = open_place(k, behind, hole, more, runs)
                if place < 0:
                    mend(k, behind, hole, runs)
                    return i
                behind = place + 1
                start[place] = edge if cuts is None else t
                stop[place] = next_edge
                rows[slot[place]] = 0
                if times is not None:
                    first[slot[place]] = times[i]
                born[cursors[BORN]] = slot[place]
                cursors[BORN] += 1
            past = end
            if measure_of(end - 1, at, lowest) >= stop[place]:
                if at is None:
                    past = int(stop[place] - lowest)
                else:
                    past = first_at_least(at, i, end, stop[place])
            if cuts is not None:
                past = min(past, cuts[c + 1] if cut else cuts[c])
            there = slot[place]
            rows[there] += past - i
            if times is not None:
                last[there] = times[past - 1]
            older[cursors[MERGED]] = there
            newer[cursors[MERGED]] = i
            cursors[MERGED] += 1
            i = past
        mend(k, behind, hole, runs)
    return starts[present.shape[0]]
