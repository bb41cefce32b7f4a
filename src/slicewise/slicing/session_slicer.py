"""The stream slicer for sessions (Scotty, Section 6 and Algorithms 3 to 6).

They are cut by the smallest gap: an event updates a session, extends it at either end, begins one,
or fuses two; nothing is ever recomputed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.codegen.kernel import kernel
from slicewise.slicing.runs import Runs, close_place, last_at_most, open_place
from slicewise.slicing.slicer import Sliced, resumed


def slice_sessions(
    runs: Runs, gap: int, times: np.ndarray, keys: np.ndarray | None, wanted: Any
) -> Sliced:
    """Put events into sessions by the smallest gap."""
    return resumed(runs, len(times), into_sessions, (times, keys, wanted, gap))


def slice_sorted_sessions(
    runs: Runs, gap: int, times: np.ndarray, groups: tuple[np.ndarray, np.ndarray]
) -> Sliced:
    """The same for events by key: each session takes ranges of them, long ones in order."""
    begins, tally = np.empty(len(times), np.int64), np.zeros(1, np.int64)
    given = (times, *groups, gap, begins, tally)
    found = resumed(runs, len(times), into_session_ranges, given)
    count = int(tally[0])
    return Sliced(
        found.slots[:count], found.born, found.merged, np.append(begins[:count], len(times))
    )


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
        place = place_in_sessions(t, k, gap, cursors, index, pool, free, cells, born, older, newer)
        if place < 0:
            return i
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
        while i < end:
            place = place_in_sessions(
                times[i], k, gap, cursors, index, pool, free, cells, born, older, newer
            )
            if place < 0:
                return i
            since, until = start[place], stop[place]
            # Only the last session may grow without a look at the one after it.
            reach = gap if place == offset[k] + size[k] - 1 else 0
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
    return times.shape[0]


@kernel
def place_in_sessions(
    t: int,
    k: int,
    gap: int,
    cursors: Any,
    index: Any,
    pool: Any,
    free: Any,
    cells: Any,
    born: Any,
    older: Any,
    newer: Any,
) -> Any:
    """The place of the session that an event belongs to, which reaches to it; -1 without room."""
    offset, size, room = index
    start, stop, slot = pool
    first, last, rows = cells
    low, high = offset[k], offset[k] + size[k]
    place = high - 1
    if high > low and t < start[place]:
        place = last_at_most(start, low, high, t)
    # `place` is the last session that begins at or before t, or low - 1.
    follows = place >= low and t - stop[place] <= gap
    leads = place + 1 < high and start[place + 1] - t <= gap
    if follows and leads:
        # The event fuses two sessions.
        here, gone = slot[place], slot[place + 1]
        older[cursors[3]] = here
        newer[cursors[3]] = gone
        cursors[3] += 1
        stop[place] = stop[place + 1]
        rows[here] += rows[gone]
        last[here] = last[gone]
        close_place(k, place + 1, index, pool)
    elif leads:
        place += 1
        start[place] = t
        first[slot[place]] = t
    elif not follows:
        place = open_place(k, place + 1 - low, cursors, index, pool, free)
        if place < 0:
            return -1
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
    return place
