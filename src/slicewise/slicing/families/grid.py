"""The grid family: context-free windows, all of which one kernel lists.

Their edges are known without any event and are the same for all keys, so that a thousand windows
are listed in one pass over the slices of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.errors import WindowError
from slicewise.limits import INSTANCES_OF_A_CALL
from slicewise.slicing.families.acceptance import Late, Verdict, too_late
from slicewise.slicing.families.family import Family, WindowEntry
from slicewise.slicing.families.instances import Instances, collect, note
from slicewise.slicing.store.runs import Runs
from slicewise.windows import Cumulate, Fixed, Periodic, Window

PERIODIC, CUMULATE, FIXED = 0, 1, 2


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
    def of(entries: Sequence[WindowEntry], dtype: str) -> FreeWindows:
        rules = [_rule(entry.window) for entry in entries]
        kinds, origins, everys, lengths = zip(*rules, strict=True) if rules else ((),) * 4
        return FreeWindows(
            np.array([entry.number for entry in entries], np.int64),
            np.array(kinds, np.int64),
            np.array(origins, dtype),
            np.array(everys, dtype),
            np.array(lengths, dtype),
            np.array([entry.since for entry in entries], dtype),
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


def _rule(window: Window) -> tuple[int, Any, Any, Any]:
    """The kind, origin, step and length of a window, as the kernels know them."""
    match window:
        case Fixed():
            return FIXED, window.start, 1, window.length
        case Cumulate():
            return CUMULATE, window.origin, window.every, window.length
        case Periodic():
            return PERIODIC, window.origin, window.every, window.length
    raise AssertionError(f"{window!r} is in no grid")


class GridFamily(Family):
    """Context-free windows over the measure by which slices are cut."""

    kinds = (Periodic, Cumulate, Fixed)

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        self.free = FreeWindows.of(windows, self.group.dtype)

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        yield collect_free(self.group.runs, self.free, keys, np.array([low]), np.array([high]))

    def keep(self, point: int, keep: np.ndarray) -> None:
        least = np.array([self.free.needed_from(point)])
        run(keep_from)(least, self.group.runs.keys, self.group.runs.arrays, keep)

    def verdict(self, entry: WindowEntry, late: Late) -> Verdict:
        # An instance takes events as long as the horizon has not passed its end.
        ends = entry.window.ends_at(late.times, entry.since)
        if ends is None:
            return too_late(late, entry.since)
        least, greatest = ends
        return Verdict(greatest > late.horizon, least <= late.horizon)


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
def closing_windows(windows: Any, low: Any, high: Any, found: Any) -> int:
    """The windows of which anything closes, and the number of their first instance to do so.

    Where only one instance does, it is `alone`: its bounds are the same for all keys, and none has
    to divide. With a `low` and a `high` for each key all windows are taken.
    """
    numbers, kinds, origins, everys, lengths, since = windows
    closing, begins_at, alone, bounds = found
    many = 0
    for w in range(numbers.shape[0]):
        k = 0
        if low.shape[0] == 1:
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
    return many


@kernel
def list_free(windows: Any, keys: Any, low: Any, high: Any, runs: Any, out: Any) -> int:
    """Context-free windows. `low` and `high` have one value for all keys, or one for each."""
    numbers, kinds, origins, everys, lengths, since = windows
    offset, size, start = runs.offset, runs.size, runs.start
    count = 0
    single = low.shape[0] == 1
    closing = np.empty(numbers.shape[0], np.int64)
    begins_at = np.empty(numbers.shape[0], np.int64)
    alone = np.zeros(numbers.shape[0], np.bool_)
    bounds = np.empty((2, numbers.shape[0]), origins.dtype)
    many = closing_windows(windows, low, high, (closing, begins_at, alone, bounds))
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
    most = overlap * float(runs.size[keys].sum())
    # Windows that overlap less make no more instances than there is memory for their slices.
    if overlap > tuning.active().counted_overlap and most > INSTANCES_OF_A_CALL:
        _check_count(runs, free, keys, low, high)
    return collect(list_free, runs, free.arrays(), keys, low, high, work=most)


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
def keep_from(least: Any, keys: int, runs: Any, keep: Any) -> None:
    """The first place of each run that starts at or after `least`, one value or one per key."""
    offset, size, start = runs.offset, runs.size, runs.start
    for code in range(keys):
        bound = least[0] if least.shape[0] == 1 else least[code]
        z = offset[code] + size[code]
        keep[code] = min(keep[code], first_at_least(start, offset[code], z, bound))
