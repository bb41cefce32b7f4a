"""The window manager's arithmetic: which window instances the slices of a key make up.

Every function lists instances as (window, key, start, end, left, right, close), where
`[left, right)` are places in the runs, and only those whose close point lies in `(low, high]`.
The close point of an instance is the least watermark at which it is complete. Instances without
an event are never looked at: the loops go from slice to slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.errors import WindowError
from slicewise.limits import INSTANCES_OF_A_CALL
from slicewise.slicing.store.runs import Runs
from slicewise.windows import Cumulate, Fixed, Periodic

PERIODIC, CUMULATE, FIXED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Window instances, one array per property."""

    window: np.ndarray
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    left: np.ndarray
    right: np.ndarray
    close: np.ndarray

    def __len__(self) -> int:
        return len(self.window)

    @staticmethod
    def concatenate(parts: Sequence[Instances]) -> Instances:
        if len(parts) == 1:
            return parts[0]
        names = Instances.__slots__
        return Instances(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def take(self, rows: np.ndarray) -> Instances:
        return Instances(*(getattr(self, name)[rows] for name in self.__slots__))


def collect(item: Any, runs: Runs, *arguments: Any) -> Instances:
    """Run a listing kernel with room enough for what it finds: some more than the last time."""
    room = runs.listed + runs.listed // 4 + 256
    kind = runs.start.dtype
    while True:
        whole = [np.empty(room, np.int64) for _ in range(4)]
        bounds = [np.empty(room, kind) for _ in range(3)]
        out = (whole[0], whole[1], bounds[0], bounds[1], whole[2], whole[3], bounds[2])
        found = run(item)(*arguments, runs.arrays, out)
        runs.listed = found
        if found <= room:
            return Instances(*(array[:found] for array in out))
        room = found


@dataclass(frozen=True, slots=True, eq=False)
class FreeWindows:
    """Context-free windows as arrays; `numbers` are their numbers in the operator."""

    numbers: np.ndarray
    kinds: np.ndarray
    origins: np.ndarray
    everys: np.ndarray
    lengths: np.ndarray
    since: np.ndarray

    @staticmethod
    def of(
        windows: Sequence[tuple[int, Periodic | Cumulate | Fixed, Any]], dtype: str
    ) -> FreeWindows:
        kinds = [
            FIXED if isinstance(w, Fixed) else CUMULATE if isinstance(w, Cumulate) else PERIODIC
            for _, w, _ in windows
        ]
        origins = [w.start if isinstance(w, Fixed) else w.origin for _, w, _ in windows]
        everys = [1 if isinstance(w, Fixed) else w.every for _, w, _ in windows]
        return FreeWindows(
            np.array([number for number, _, _ in windows], np.int64),
            np.array(kinds, np.int64),
            np.array(origins, dtype),
            np.array(everys, dtype),
            np.array([w.length for _, w, _ in windows], dtype),
            np.array([since for _, _, since in windows], dtype),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        return (
            self.numbers,
            self.kinds,
            self.origins,
            self.everys,
            self.lengths,
            self.since,
        )

    def needed_from(self, point: Any) -> Any:
        """The least measure that an instance ending after `point` can hold."""
        return run(needed_from)(self.arrays(), point)


@kernel
def note(out: Any, count: int, w: int, code: int, bounds: Any, places: Any, close: Any) -> None:
    """Write one instance, with its bounds and the places of its slices, if there is room."""
    window, key, begins, ends, left, right, closes = out
    if count < window.shape[0]:
        window[count] = w
        key[count] = code
        begins[count], ends[count] = bounds
        left[count], right[count] = places
        closes[count] = close


@kernel
def first_after(kind: int, origin: Any, every: Any, length: Any, t: Any) -> int:
    """The number of the first instance that ends after `t`."""
    if kind == FIXED:
        return 0 if origin + length > t else 1
    if kind == CUMULATE:
        steps: int = steps_of(length, every)
        turn = int((t - origin) // length)
        k = turn * steps + int((t - origin - turn * length) // every)
    else:
        k = int((t - origin - length) // every) + 1
    # Exact for whole numbers; quotients of fractions round, and the bounds themselves decide.
    while bounds_at(kind, origin, every, length, k)[1] <= t:
        k += 1
    while bounds_at(kind, origin, every, length, k - 1)[1] > t:
        k -= 1
    return k


@kernel
def steps_of(length: Any, every: Any) -> Any:
    """How many steps it takes to grow to `length`; a quotient of fractions may be one too much."""
    steps = -int(-length // every)
    return steps - 1 if (steps - 1) * every >= length else steps


@kernel
def bounds_at(kind: int, origin: Any, every: Any, length: Any, k: int) -> Any:
    """Start and end of instance `k`."""
    if kind == CUMULATE:
        steps = steps_of(length, every)
        turn = k // steps
        begin = origin + turn * length
        return begin, begin + min((k - turn * steps + 1) * every, length)
    begin = origin + k * every
    return begin, begin + length


@kernel
def needed_from(windows: Any, point: Any) -> Any:
    numbers, kinds, origins, everys, lengths, since = windows
    least = point
    for w in range(numbers.shape[0]):
        k = first_after(kinds[w], origins[w], everys[w], lengths[w], point)
        if kinds[w] == FIXED and k > 0:
            continue
        least = min(least, bounds_at(kinds[w], origins[w], everys[w], lengths[w], k)[0])
    return least


@kernel
def list_free(windows: Any, keys: Any, low: Any, high: Any, runs: Any, out: Any) -> int:
    """Context-free windows. `low` and `high` have one value for all keys, or one for each."""
    numbers, kinds, origins, everys, lengths, since = windows
    offset, size, start = runs.offset, runs.size, runs.start
    count = 0
    single = low.shape[0] == 1
    # The windows of which anything closes, and where their first instance to do so is.
    closing = np.empty(numbers.shape[0], np.int64)
    begins_at = np.empty(numbers.shape[0], np.int64)
    # Where only one does, its bounds are the same for all keys, and none has to divide.
    alone = np.zeros(numbers.shape[0], np.bool_)
    bounds = np.empty((2, numbers.shape[0]), origins.dtype)
    many = 0
    for w in range(numbers.shape[0]):
        k = 0
        if single:
            kind, origin, every, length = kinds[w], origins[w], everys[w], lengths[w]
            k = first_after(kind, origin, every, length, low[0])
            if (kind == FIXED and k > 0) or bounds_at(kind, origin, every, length, k)[1] > high[0]:
                continue
            bounds[0, many], bounds[1, many] = bounds_at(kind, origin, every, length, k)
            alone[many] = (
                kind == FIXED or bounds_at(kind, origin, every, length, k + 1)[1] > high[0]
            )
        closing[many] = w
        begins_at[many] = k
        many += 1
    if many == 0:
        return 0
    for j in range(keys.shape[0]):
        code = keys[j]
        n = size[code]
        if n == 0:
            continue
        a = offset[code]
        z = a + n
        lowest = low[0] if single else low[j]
        highest = high[0] if single else high[j]
        for c in range(many):
            w = closing[c]
            if alone[c]:
                begin, end = bounds[0, c], bounds[1, c]
                if start[z - 1] < begin or start[a] >= end or begin < since[w]:
                    continue
                l = first_at_least(start, a, z, begin) if start[a] < begin else a
                r = first_at_least(start, l, z, end) if start[z - 1] >= end else z
                if l < r:
                    note(out, count, numbers[w], code, (begin, end), (l, r), end)
                    count += 1
                continue
            kind, origin, every, length = kinds[w], origins[w], everys[w], lengths[w]
            k = begins_at[c]
            if not single or start[a] > lowest:
                k = first_after(kind, origin, every, length, max(lowest, start[a]))
            begin, end = bounds_at(kind, origin, every, length, k)
            if end > highest or start[z - 1] < begin:
                continue
            l = first_at_least(start, a, z, begin) if start[a] < begin else a
            r = l
            while l < z and end <= highest:
                if kind == FIXED and k > 0:
                    break
                if start[l] >= end:
                    k = max(k + 1, first_after(kind, origin, every, length, start[l]))
                else:
                    if r < l:
                        r = l
                    while r < z and start[r] < end:
                        r += 1
                    if begin >= since[w]:
                        note(out, count, numbers[w], code, (begin, end), (l, r), end)
                        count += 1
                    k += 1
                begin, end = bounds_at(kind, origin, every, length, k)
                while l < z and start[l] < begin:
                    l += 1
    return count


def collect_free(
    runs: Runs, free: FreeWindows, keys: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Instances:
    """The instances of context-free windows, if there are no more than can be meant."""
    overlap = float(np.sum(free.lengths / free.everys))
    # Windows that overlap less make no more instances than there is memory for their slices.
    if (
        overlap > tuning.active().counted_overlap
        and overlap * float(runs.size[keys].sum()) > INSTANCES_OF_A_CALL
    ):
        _check_count(runs, free, keys, low, high)
    return collect(list_free, runs, free.arrays(), keys, low, high)


def _check_count(
    runs: Runs, free: FreeWindows, keys: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    """Refuse a listing that would not end in any time that one waits for."""
    counts = np.zeros(len(free.numbers))
    run(count_free)(free.arrays(), keys, low, high, runs.arrays, counts)
    if counts.sum() <= INSTANCES_OF_A_CALL:
        return
    w = int(counts.argmax())
    raise WindowError(
        f"One call may report {INSTANCES_OF_A_CALL:,} window instances at most; this one would "
        f"report about {int(counts.sum()):,}, {int(counts[w]):,} of them of the window with "
        f"length={free.lengths[w]} and every={free.everys[w]}. Make `every` larger, or remove the "
        "window."
    )


@kernel
def count_free(windows: Any, keys: Any, low: Any, high: Any, runs: Any, counts: Any) -> None:
    """How many instances of each window there are, give or take a few: ends that hold a slice."""
    numbers, kinds, origins, everys, lengths, since = windows
    offset, size, start = runs.offset, runs.size, runs.start
    for j in range(keys.shape[0]):
        a = offset[keys[j]]
        lowest = low[0] if low.shape[0] == 1 else low[j]
        highest = high[0] if high.shape[0] == 1 else high[j]
        for w in range(numbers.shape[0]):
            if kinds[w] == FIXED:
                counts[w] += 1
                continue
            counted = lowest  # all ends up to here were looked at
            for i in range(a, a + size[keys[j]]):
                last = start[i] + lengths[w]
                if kinds[w] == CUMULATE:
                    last -= (start[i] - origins[w]) % lengths[w]
                last = min(last, highest)
                begin = max(start[i], counted)
                if last > begin:
                    counts[w] += (last - begin) / everys[w]
                    counted = last


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
                end = last[slot[r - 1]] + gap
                if low < end + 1 <= high and first[slot[l]] >= since[w]:
                    note(out, count, numbers[w], code, (first[slot[l]], end), (l, r), end + 1)
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
def keep_from(least: Any, keys: int, runs: Any, keep: Any) -> None:
    """The first place of each run that starts at or after `least`, one value or one per key."""
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        bound = least[0] if least.shape[0] == 1 else least[code]
        z = offset[code] + size[code]
        keep[code] = min(keep[code], first_at_least(start, offset[code], z, bound))
