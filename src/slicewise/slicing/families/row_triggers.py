"""Instances of windows that depend on the events themselves, over runs of single rows.

As in `triggers`, each function lists the instances whose close point lies in `(low, high]`; the
functions `keep_...` tell the first row of each run that an instance not complete at `point` can
need. `start` of a place is the time of its row, `base` the position of the first row of a run.
Those of punctuated and threshold windows read slices of any number of rows.
"""

from __future__ import annotations

from typing import Any

from slicewise.arrays.searches import first_at_least, first_lasting
from slicewise.codegen.kernel import kernel
from slicewise.slicing.families.triggers import note


@kernel
def session_end(gap: int, longest: int, start: Any, l: int, z: int) -> int:
    """The place after the last row of the session that begins at `l`."""
    r = l + 1
    while r < z and start[r] - start[r - 1] <= gap and start[r] - start[l] < longest:
        r += 1
    return r


@kernel
def list_bounded_sessions(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Sessions that are cut at a greatest length.

    Where one is cut depends on where the one before began, so each key has an anchor: the position
    of a row that begins a session. Rows before it are kept for other windows.
    """
    w, gap, longest, anchors, since = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l = offset[code] + max(anchors[code] - base[code], 0)
        while l < z:
            r = session_end(gap, longest, start, l, z)
            begin, final = start[l], start[r - 1]
            close = min(final + gap + 1, begin + longest)
            if low < close <= high and begin >= since:
                note(out, count, w, code, (begin, min(final + gap, begin + longest)), (l, r), close)
                count += 1
            l = r
    return count


@kernel
def keep_bounded_sessions(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    gap, longest, anchors = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        l = offset[code] + max(anchors[code] - base[code], 0)
        while l < z:
            r = session_end(gap, longest, start, l, z)
            if min(start[r - 1] + gap + 1, start[l] + longest) > point:
                break
            l = r
        anchors[code] = l - offset[code] + base[code]
        keep[code] = min(keep[code], l)


@kernel
def list_row_windows(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Rows `[k * every, k * every + length)` of a key; an instance needs all its rows."""
    w, length, every, since = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        if size[code] == 0:
            continue
        # The first row that can be the last of an instance which closes after `low`.
        r = first_at_least(start, offset[code], z, low) + 1
        position = r - offset[code] + base[code]
        k = max(-((length - position) // every), -(-base[code] // every), 0)
        r = k * every + length - base[code] + offset[code]
        while r <= z and start[r - 1] < high:
            l = r - length
            if start[r - 1] + 1 > low and start[l] >= since:
                note(out, count, w, code, (k * every, k * every + length), (l, r), start[r - 1] + 1)
                count += 1
            k += 1
            r += every
    return count


@kernel
def keep_row_windows(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    length, every = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        # Rows before `settled` keep their positions for ever.
        settled = first_at_least(start, offset[code], z, point)
        final = settled - offset[code] + base[code]
        # The first instance that has a row at or after position `final`.
        k = max((final - length) // every + 1, 0)
        l = k * every - base[code] + offset[code]
        keep[code] = min(keep[code], min(max(l, offset[code]), settled))


@kernel
def list_opened_by_rows(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Time windows that open at every n-th row; equal intervals are one."""
    w, length, every, since = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    count = 0
    for code in keys:
        a = offset[code]
        z = a + size[code]
        p = a + (-base[code]) % every
        l, r = a, a
        before = start[p] - 1 if p < z else 0
        while p < z and start[p] + length <= high:
            begin = start[p]
            if begin + length > low and begin != before and begin >= since:
                while start[l] < begin:
                    l += 1
                while r < z and start[r] < begin + length:
                    r += 1
                note(out, count, w, code, (begin, begin + length), (l, r), begin + length)
                count += 1
            before = begin
            p += every
    return count


@kernel
def keep_opened_by_rows(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    length, every = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    for code in range(keys):
        a = offset[code]
        z = a + size[code]
        settled = first_at_least(start, a, z, point)
        p = a + (-base[code]) % every
        while p < z and start[p] + length <= point:
            p += every
        # Rows of the opener's own time may stand before it.
        needed = settled if p >= z else first_at_least(start, a, z, start[p])
        keep[code] = min(keep[code], min(needed, settled))


@kernel
def list_last_rows(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """The last rows before each multiple of a time step that saw one since the multiple before."""
    w, length, every, origin, since = window
    offset, size, base, start = runs.offset, runs.size, runs.base, runs.start
    count = 0
    for code in keys:
        a = offset[code]
        z = a + size[code]
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
def keep_last_rows(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    length, every, origin = window
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        z = offset[code] + size[code]
        p = first_at_least(start, offset[code], z, point - (point - origin) % every)
        keep[code] = min(keep[code], max(p - length, offset[code]))


@kernel
def list_punctuated(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Runs of slices, each opened by a marked one; the first slice of a run is always an opener."""
    w, marks, since = window
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l = offset[code]
        for r in range(l + 1, z):
            end = first[slot[r]]
            if end >= high:
                break
            if marks[slot[r]]:
                begin = first[slot[l]]
                if end + 1 > low and begin >= since:
                    note(out, count, w, code, (begin, end), (l, r), end + 1)
                    count += 1
                l = r
    return count


@kernel
def keep_punctuated(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    (marks,) = window
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    for code in range(keys):
        z = offset[code] + size[code]
        l = offset[code]
        for r in range(l + 1, z):
            if first[slot[r]] >= point:
                break
            if marks[slot[r]]:
                l = r
        keep[code] = min(keep[code], l)


@kernel
def list_threshold(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Longest runs of marked slices, up to the first one that is not, of `least` rows or more."""
    w, marks, least, since = window
    offset, size, slot, first, rows = runs.offset, runs.size, runs.slot, runs.first, runs.rows
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l, many = -1, 0
        for r in range(offset[code], z):
            end = first[slot[r]]
            if end >= high and l < 0:
                break
            if marks[slot[r]]:
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
def keep_threshold(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    (marks,) = window
    offset, size, slot, last = runs.offset, runs.size, runs.slot, runs.last
    for code in range(keys):
        l = first_lasting(slot, last, offset[code], offset[code] + size[code], point)
        # A run that reaches the first unsettled slice may go on.
        while l > offset[code] and marks[slot[l - 1]]:
            l -= 1
        keep[code] = min(keep[code], l)
