"""Windows that depend on the events, over slices of events in order: where to cut, what closes.

Events come by key and in the order of (time, arrival). The functions `cut_...` mark the events
before which a window begins or ends, and those that begin an instance; the others list instances
and say what to keep, as in `triggers`. `start` of a place is the position of its first row among
those of its key, and its slot knows the times of its first and last event.
"""

from __future__ import annotations

from typing import Any

from slicewise.arrays.searches import first_at_least, first_lasting
from slicewise.codegen.kernel import kernel
from slicewise.slicing.families.triggers import note


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
def cut_changes(marks: Any, groups: Any, runs: Any, flags: Any, cuts: Any) -> None:
    """Threshold windows: cut where the condition begins or ceases to hold."""
    present, starts = groups
    offset, size, slot = runs.offset, runs.size, runs.slot
    for g in range(present.shape[0]):
        k = present[g]
        before = marks[starts[g]]
        if size[k] > 0:
            before = flags[slot[offset[k] + size[k] - 1]]
        for i in range(starts[g], starts[g + 1]):
            if marks[i] != before:
                cuts[i] = True
            before = marks[i]


@kernel
def cut_sessions(window: Any, times: Any, groups: Any, runs: Any, flags: Any, heads: Any) -> None:
    """Sessions of a greatest length: mark the events that begin one."""
    gap, longest = window
    present, starts = groups
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    for g in range(present.shape[0]):
        k = present[g]
        tail = offset[k] + size[k] - 1
        begun, begin, final = False, times[0], times[0]
        # If its beginning is gone the session before was complete, and the next event begins one.
        for place in range(tail, offset[k] - 1, -1):
            if flags[slot[place]]:
                begun, begin, final = True, first[slot[place]], last[slot[tail]]
                break
        for i in range(starts[g], starts[g + 1]):
            t = times[i]
            if not begun or t - final > gap or t - begin >= longest:
                heads[i] = True
                begun, begin = True, t
            final = t


@kernel
def cut_opened(
    window: Any,
    times: Any,
    positions: Any,
    groups: Any,
    runs: Any,
    flags: Any,
    cuts: Any,
    heads: Any,
) -> None:
    """Time windows that open at every n-th row: mark the first event of the opener's time, and cut
    before the first event at or past the end. All events of one time come together.
    """
    length, every = window
    present, starts = groups
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    for g in range(present.shape[0]):
        k, end = present[g], starts[g + 1]
        head = starts[g]
        for i in range(head, end):
            if times[i] != times[head]:
                head = i
            if positions[i] % every == 0:
                heads[head] = True
        p, z = offset[k], offset[k] + size[k]
        reached = last[slot[z - 1]] if size[k] > 0 else times[starts[g]]
        while p < z and not (flags[slot[p]] and first[slot[p]] + length > reached):
            p += 1
        opened = starts[g]
        for i in range(starts[g], end):
            # Those that opened before this batch end first.
            while p < z and (not flags[slot[p]] or first[slot[p]] + length <= times[i]):
                cuts[i] = cuts[i] or flags[slot[p]]
                p += 1
            while opened < i and (not heads[opened] or times[opened] + length <= times[i]):
                cuts[i] = cuts[i] or heads[opened]
                opened += 1


@kernel
def list_counted(
    windows: Any,
    seen: Any,
    keys: Any,
    low: int,
    high: int,
    runs: Any,
    out: Any,
) -> int:
    """Rows `[k * every, k * every + length)` of a key; an instance needs all its rows."""
    numbers, lengths, everys, since = windows
    offset, size = runs.offset, runs.size
    start, slot = runs.start, runs.slot
    first, last = runs.first, runs.last
    count = 0
    for code in keys:
        a, z = offset[code], offset[code] + size[code]
        # The first slice that can be the last of an instance which closes after `low`.
        begins = first_lasting(slot, last, a, z, low)
        if begins == z:
            continue
        for w in range(numbers.shape[0]):
            length, every = lengths[w], everys[w]
            k = max((start[begins] - length) // every + 1, -(-start[a] // every), 0)
            l, r = a, begins
            while k * every + length <= seen[code]:
                begin, end = k * every, k * every + length
                if l < z and begin > start[l]:
                    l = first_at_least(start, l, z, begin)
                while r < z and start[r] < end:
                    r += 1
                close = last[slot[r - 1]] + 1
                # An end that parts no slices any more was passed before.
                edge = start[r] if r < z else seen[code]
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
def settled_rows(point: int, keys: int, runs: Any, highs: Any) -> None:
    """How many rows of each key are in slices with no event at or after `point`."""
    offset, size, start, slot, last = runs.offset, runs.size, runs.start, runs.slot, runs.last
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        settled = first_lasting(slot, last, a, z, point)
        if settled < z:
            highs[code] = start[settled]


@kernel
def keep_counted(windows: Any, seen: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    numbers, lengths, everys, since = windows
    offset, size, start, slot, last = runs.offset, runs.size, runs.start, runs.slot, runs.last
    for code in range(keys):
        a, z = offset[code], offset[code] + size[code]
        settled = first_lasting(slot, last, a, z, point)
        final = start[settled] if settled < z else seen[code]
        for w in range(numbers.shape[0]):
            k = max((final - lengths[w]) // everys[w] + 1, 0)
            keep[code] = min(keep[code], first_at_least(start, a, z, k * everys[w]))


@kernel
def list_opened(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Time windows that open at every n-th row; equal intervals are one."""
    w, flags, length, since = window
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        r = offset[code]
        for l in range(offset[code], z):
            begin = first[slot[l]]
            if begin + length > high:
                break
            if flags[slot[l]] and begin + length > low and begin >= since:
                while r < z and first[slot[r]] < begin + length:
                    r += 1
                note(out, count, w, code, (begin, begin + length), (l, r), begin + length)
                count += 1
    return count


@kernel
def keep_opened(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    flags, length = window
    offset, size, slot, first = runs.offset, runs.size, runs.slot, runs.first
    for code in range(keys):
        l, z = offset[code], offset[code] + size[code]
        while l < z and not (flags[slot[l]] and first[slot[l]] + length > point):
            l += 1
        keep[code] = min(keep[code], l)


@kernel
def next_flag(flags: Any, slot: Any, l: int, z: int) -> int:
    """The first place in `[l, z)` that begins an instance; `z` if there is none."""
    while l < z and not flags[slot[l]]:
        l += 1
    return l


@kernel
def list_cut_sessions(window: Any, keys: Any, low: int, high: int, runs: Any, out: Any) -> int:
    """Sessions that are cut at a greatest length."""
    w, flags, gap, longest, since = window
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    count = 0
    for code in keys:
        z = offset[code] + size[code]
        l = next_flag(flags, slot, offset[code], z)
        while l < z:
            r = next_flag(flags, slot, l + 1, z)
            begin, final = first[slot[l]], last[slot[r - 1]]
            close = min(final + gap + 1, begin + longest)
            if low < close <= high and begin >= since:
                note(out, count, w, code, (begin, min(final + gap, begin + longest)), (l, r), close)
                count += 1
            l = r
    return count


@kernel
def keep_cut_sessions(window: Any, point: int, keys: int, runs: Any, keep: Any) -> None:
    flags, gap, longest = window
    offset, size, slot, first, last = runs.offset, runs.size, runs.slot, runs.first, runs.last
    for code in range(keys):
        z = offset[code] + size[code]
        l = next_flag(flags, slot, offset[code], z)
        while l < z:
            r = next_flag(flags, slot, l + 1, z)
            if min(last[slot[r - 1]] + gap + 1, first[slot[l]] + longest) > point:
                break
            l = r
        keep[code] = min(keep[code], l)


@kernel
def places_of(codes: Any, positions: Any, runs: Any, places: Any) -> None:
    """The places that begin with these rows of these keys; the run's end if there is none."""
    offset, size, start = runs.offset, runs.size, runs.start
    for i in range(codes.shape[0]):
        a = offset[codes[i]]
        places[i] = first_at_least(start, a, a + size[codes[i]], positions[i])
