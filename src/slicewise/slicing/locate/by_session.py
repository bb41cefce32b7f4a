"""The stream slicer for sessions, and for windows of time beside them (Scotty, Section 6).

Slices are cut where events are more than the smallest gap apart (Scotty's flexible edges), at the
edges of context-free windows (fixed ones), and where both fall together (combined ones). What kind
an edge is need not be noted: a slice knows its first and last event, so that a gap between two is
seen, and the edges of windows are known. An event updates a slice, extends it at either end,
begins one, or fuses two that no edge of a window parts (Algorithms 3 to 6); nothing is ever cut in
two or recomputed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slicewise.codegen.kernel import inlined, kernel
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.locate.by_time import Edges, Sliced, bounds_for, bounds_of, run_slicer
from slicewise.slicing.store.runs import (
    BORN,
    MERGED,
    Runs,
    join_places,
    mend,
    move_places,
    open_place,
    seek,
)


class Rule(NamedTuple):
    """What parts sessions: a gap, and whether an event between two makes one slice of them.

    Where it does not they stay side by side, and are merged when the session is asked for: an
    aggregate of the user's own may raise an error for them.
    """

    gap: int
    fuses: bool = True


def on_both_sides(edges: Edges) -> Edges:
    """The edges, and one at the beginning and the end of time: each event is between two."""
    edges.singles = np.array([BEGINNING, *edges.singles, INFINITY])
    return edges


def slice_sessions(
    runs: Runs,
    rule: Rule,
    edges: Edges,
    times: np.ndarray,
    reach: tuple[int, int],
    keys: np.ndarray | None,
    wanted: Any,
) -> Sliced:
    """Put events into sessions by a rule, cut at edges `on_both_sides`.

    `reach` is the least and the greatest time of the events that are wanted.
    """
    given = (times, keys, wanted, tuple(rule), bounds_for(edges, reach, len(times)))
    return run_slicer(runs, len(times), into_sessions, given, limited=True)


def slice_sorted_sessions(
    runs: Runs,
    rule: Rule,
    edges: Edges,
    times: np.ndarray,
    reach: tuple[int, int],
    groups: tuple[np.ndarray, np.ndarray],
    *,
    limited: bool = False,
) -> Sliced:
    """Slice events that come by key: each session takes ranges of them, long ones in order.

    If it is `limited` those of a key need not be in order, and slicing may stop, as `run_slicer`
    says.
    """
    begins, tally = np.empty(len(times), np.int64), np.zeros(1, np.int64)
    bounds = bounds_for(edges, reach, len(times))
    given = (times, groups, tuple(rule), bounds, (begins, tally))
    found = run_slicer(runs, len(times), into_session_ranges, given, limited=limited)
    count = int(tally[0])
    begins = np.append(begins[:count], found.events)
    return Sliced(found.slots[:count], found.born, found.merged, begins)


@kernel
def into_sessions(
    times: Any,
    keys: Any,
    wanted: Any,
    rule: Any,
    bounds: Any,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Sessions by a rule and edges; `start` and `stop` of a place are its first and last event."""
    slots = found[0]
    gap = rule[0]
    offset, size = runs.offset, runs.size
    start, stop, slot = runs.start, runs.stop, runs.slot
    last, rows = runs.last, runs.rows
    k, key, place, here, count = 0, -1, -1, -1, 0
    since, until = times[0], times[0] - 1  # the session of the event before; none yet
    newest = False  # whether that is the last session of its key
    edge, next_edge, ahead = since, since, since  # around an event; after the session at hand
    for i in range(begin, times.shape[0]):
        if wanted is not None and not wanted[i]:
            slots[i] = -1
            continue
        t = times[i]
        if keys is not None:
            k = keys[i]
        if k == key and since <= t:
            if t <= until:
                count += 1
                slots[i] = here
                continue
            if newest and t - until <= gap and t < ahead:
                until = t
                count += 1
                slots[i] = here
                continue
        if count > 0:
            # What is at hand goes back before any other session is looked at.
            rows[here] += count
            stop[place] = until
            last[here] = until
            count = 0
        if not edge <= t < next_edge:
            edge, next_edge = bounds_of(t, bounds)
        around = (rule, edge, next_edge)
        at, hole = seek(t, k, offset[k], 0, runs)
        place, at, hole = place_in_sessions(t, k, around, at, hole, 0, runs, found)
        if place < 0:
            return i
        mend(k, at, hole, runs)
        here = slot[place]
        rows[here] += 1
        slots[i] = here
        key, since, until = k, start[place], stop[place]
        newest = place == offset[k] + size[k] - 1
        ahead = next_edge if start[place] >= edge else until
    if count > 0:
        rows[here] += count
        stop[place] = until
        last[here] = until
    return times.shape[0]


@kernel
def into_session_ranges(
    times: Any,
    groups: Any,
    rule: Any,
    bounds: Any,
    ranges: Any,
    begin: int,
    runs: Any,
    found: Any,
) -> Any:
    """Sessions of events by key: ranges of them begin at `begins` and go to `slots`."""
    present, starts = groups
    begins, tally = ranges
    slots = found[0]
    gap = rule[0]
    offset, size = runs.offset, runs.size
    start, stop, slot = runs.start, runs.stop, runs.slot
    last, rows = runs.last, runs.rows
    edge, next_edge = times[0], times[0]
    for g in range(present.shape[0]):
        k, end = present[g], starts[g + 1]
        i = max(starts[g], begin)
        at, hole = offset[k], 0
        while i < end:
            if not edge <= times[i] < next_edge:
                edge, next_edge = bounds_of(times[i], bounds)
            around = (rule, edge, next_edge)
            at, hole = seek(times[i], k, at, hole, runs)
            more = end - 1 - i
            place, at, hole = place_in_sessions(times[i], k, around, at, hole, more, runs, found)
            if place < 0:
                mend(k, at, hole, runs)
                return i
            since, until = start[place], stop[place]
            # Only the last session may grow without a look at the one after it.
            reach = gap if at == offset[k] + size[k] and since >= edge else 0
            past = i + 1
            while past < end:
                t = times[past]
                if t < since or t - until > reach or t >= next_edge:
                    break
                until = max(until, t)
                past += 1
            here = slot[place]
            stop[place] = until
            last[here] = until
            rows[here] += past - i
            slots[tally[0]] = here
            begins[tally[0]] = i
            tally[0] += 1
            i = past
        mend(k, at, hole, runs)
    return times.shape[0]


@inlined
def place_in_sessions(
    t: int,
    k: int,
    around: Any,
    at: int,
    hole: int,
    more: int,
    runs: Any,
    found: Any,
) -> Any:
    """The place of the session that an event belongs to, which reaches to it; -1 without room.

    `around` are the rule and the edges around the event, within which it extends a session. `at` is
    behind the sessions that begin at or before the event, and `hole` places are empty there;
    `more` events may come that want places. Returns also what is behind the place, so.
    """
    _, born, older, newer = found
    cursors = runs.cursors
    offset, size = runs.offset, runs.size
    start, stop, slot = runs.start, runs.stop, runs.slot
    first, last, rows = runs.first, runs.last, runs.rows
    rule, edge, next_edge = around
    gap, fuses = rule
    place, after = at - 1, at + hole
    if place >= offset[k] and t <= stop[place]:
        return place, at, hole  # also where an edge that is new lies within
    follows = place >= offset[k] and start[place] >= edge and t - stop[place] <= gap
    leads = at < offset[k] + size[k] and start[after] < next_edge and start[after] - t <= gap
    if follows and leads and fuses:
        here, gone = slot[place], slot[after]
        older[cursors[MERGED]] = here
        newer[cursors[MERGED]] = gone
        cursors[MERGED] += 1
        stop[place] = stop[after]
        rows[here] += rows[gone]
        last[here] = last[gone]
        size[k] -= 1
        hole += 1
    elif leads and not follows:
        start[at], stop[at], slot[at] = t, stop[after], slot[after]
        first[slot[at]] = t
        place, at = at, at + 1
    elif not follows:
        place, hole = open_place(k, at, hole, more, runs)
        if place < 0:
            return -1, at, hole
        at = place + 1
        start[place] = t
        stop[place] = t
        rows[slot[place]] = 0
        first[slot[place]] = t
        last[slot[place]] = t
        born[cursors[BORN]] = slot[place]
        cursors[BORN] += 1
    if t > stop[place]:
        stop[place] = t
        last[slot[place]] = t
    return place, at, hole


@kernel
def fuse_past(
    least: int,
    gap: int,
    keys: int,
    runs: Any,
    touched: Any,
    pairs: Any,
) -> int:
    """Make one of neighbours of a session that end before `least`: no other window needs them.

    Returns how many pairs of slots became one; `touched` gets the least time of each key that this
    changes.
    """
    offset, size, start, stop, slot = runs.offset, runs.size, runs.start, runs.stop, runs.slot
    count = 0
    for k in range(keys):
        w, end = offset[k], offset[k] + size[k]
        i = w + 1
        while i < end and stop[i] < least:
            if start[i] - stop[w] <= gap:
                count = join_places(k, w, i, runs, touched, pairs, count)
            else:
                w += 1
                start[w], stop[w], slot[w] = start[i], stop[i], slot[i]
            i += 1
        fused = i - w - 1
        if fused > 0:
            move_places(i, end, -fused, runs)
            size[k] -= fused
    return count
