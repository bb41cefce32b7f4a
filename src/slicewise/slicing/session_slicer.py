"""The stream slicer for sessions (Scotty, Section 6 and Algorithms 3 to 6).

They are cut by the smallest gap: an event updates a session, extends it at either end, begins one,
or fuses two; nothing is ever recomputed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.codegen.kernel import kernel
from slicewise.slicing.runs import Runs, mend, open_place, seek
from slicewise.slicing.slicer import Sliced, resumed


def slice_sessions(
    runs: Runs, gap: int, times: np.ndarray, keys: np.ndarray | None, wanted: Any
) -> Sliced:
    """Put events into sessions by the smallest gap."""
    given = (times, keys, wanted, gap)
    return resumed(runs, len(times), into_sessions, given, limited=True)


def slice_sorted_sessions(
    runs: Runs,
    gap: int,
    times: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray],
    *,
    limited: bool = False,
) -> Sliced:
    """The same for events by key: each session takes ranges of them, long ones in order.

    If it is `limited` those of a key need not be in order, and slicing may stop, as `resumed` says.
    """
    begins, tally = np.empty(len(times), np.int64), np.zeros(1, np.int64)
    given = (times, *groups, gap, begins, tally)
    found = resumed(runs, len(times), into_session_ranges, given, limited=limited)
    count = int(tally[0])
    begins = np.append(begins[:count], found.events)
    return Sliced(found.slots[:count], found.born, found.merged, begins)


@kernel
def into_sessions(
    times: Any,
    keys: Any,
    wanted: Any,
    gap: int,
    begin: int,
    cursors: Any,
    index: Any,
    pool: Any,
    free: Any,
    cells: Any,
    slots: Any,
    born: Any,
    older: Any,
    newer: Any,
) -> Any:
    """Sessions by one gap; `start` and `stop` of a place are its first and last event."""
    offset, size, room = index
    start, stop, slot = pool
    first, last, rows = cells
    k, key, place, here, count = 0, -1, -1, -1, 0
    since, until = times[0], times[0] - 1  # the session of the event before; none yet
    newest = False  # whether that is the last session of its key
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
            if newest and t - until <= gap:
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
        at, hole = seek(t, k, offset[k], 0, cursors, index, pool)
        place, at, hole = place_in_sessions(
            t, k, gap, at, hole, 0, cursors, index, pool, free, cells, born, older, newer
        )
        if place < 0:
            return i
        mend(k, at, hole, cursors, index, pool)
        here = slot[place]
        rows[here] += 1
        slots[i] = here
        key, since, until = k, start[place], stop[place]
        newest = place == offset[k] + size[k] - 1
    if count > 0:
        rows[here] += count
        stop[place] = until
        last[here] = until
    return times.shape[0]


@kernel
def into_session_ranges(
    times: Any,
    present: Any,
    starts: Any,
    gap: int,
    begins: Any,
    tally: Any,
    begin: int,
    cursors: Any,
    index: Any,
    pool: Any,
    free: Any,
    cells: Any,
    slots: Any,
    born: Any,
    older: Any,
    newer: Any,
) -> Any:
    """Sessions of events by key: ranges of them begin at `begins` and go to `slots`."""
    offset, size, room = index
    start, stop, slot = pool
    first, last, rows = cells
    for g in range(present.shape[0]):
        k, end = present[g], starts[g + 1]
        i = max(starts[g], begin)
        at, hole = offset[k], 0
        while i < end:
            at, hole = seek(times[i], k, at, hole, cursors, index, pool)
            more = end - 1 - i
            place, at, hole = place_in_sessions(
                times[i], k, gap, at, hole, more,
                cursors, index, pool, free, cells, born, older, newer,
            )  # fmt: skip
            if place < 0:
                mend(k, at, hole, cursors, index, pool)
                return i
            since, until = start[place], stop[place]
            # Only the last session may grow without a look at the one after it.
            reach = gap if at == offset[k] + size[k] else 0
            past = i + 1
            while past < end:
                t = times[past]
                if t < since or t - until > reach:
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
        mend(k, at, hole, cursors, index, pool)
    return times.shape[0]


@kernel
def place_in_sessions(
    t: int,
    k: int,
    gap: int,
    at: int,
    hole: int,
    more: int,
    cursors: Any,
    index: Any,
    pool: Any,
    free: Any,
    cells: Any,
    born: Any,
    older: Any,
    newer: Any,
) -> Any:
    """The place of the session that an event belongs to, which reaches to it; -1 without room.

    `at` is behind the sessions that begin at or before the event, and `hole` places are empty
    there; `more` events may come that want places. Returns also what is behind the place, so.
    """
    offset, size, room = index
    start, stop, slot = pool
    first, last, rows = cells
    place, after = at - 1, at + hole
    follows = place >= offset[k] and t - stop[place] <= gap
    leads = at < offset[k] + size[k] and start[after] - t <= gap
    if follows and leads:
        # The event fuses two sessions.
        here, gone = slot[place], slot[after]
        older[cursors[3]] = here
        newer[cursors[3]] = gone
        cursors[3] += 1
        stop[place] = stop[after]
        rows[here] += rows[gone]
        last[here] = last[gone]
        size[k] -= 1
        hole += 1
    elif leads:
        start[at], stop[at], slot[at] = t, stop[after], slot[after]
        first[slot[at]] = t
        place, at = at, at + 1
    elif not follows:
        place, hole = open_place(k, at, hole, more, cursors, index, pool, free)
        if place < 0:
            return -1, at, hole
        at = place + 1
        start[place] = t
        stop[place] = t
        rows[slot[place]] = 0
        first[slot[place]] = t
        last[slot[place]] = t
        born[cursors[2]] = slot[place]
        cursors[2] += 1
    if t > stop[place]:
        stop[place] = t
        last[slot[place]] = t
    return place, at, hole
