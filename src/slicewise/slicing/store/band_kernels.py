"""The loops behind `bands`: events to slices of bands, and lists of slices into one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load, store
from slicewise.slicing.locate.by_time import bounds_of


class SlotArrays(NamedTuple):
    """The arrays that get the slices which a batch makes: their argument `out`.

    `slots` has the slot of each event, -1 if it goes nowhere; `codes` and `rows` are by slot, and
    `ends` has where the slots of each band end.
    """

    slots: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    ends: np.ndarray


@kernel
def into_bands(
    times: Any,
    wanted: Any,
    bounds: Any,
    count: int,
    starts: Any,
    stops: Any,
    ids: Any,
    of_each: Any,
) -> int:
    """The band of each event, by its number in `ids`; how many there are, -1 if there is no room.

    An event that goes nowhere has -1.
    """
    here = -1
    low, high = times[0], times[0]
    made = count
    for i in range(times.shape[0]):
        if wanted is not None and not wanted[i]:
            of_each[i] = -1
            continue
        t = times[i]
        if low <= t < high:
            of_each[i] = here
            continue
        p = last_at_most(starts, 0, count, t)
        if p < 0 or t >= stops[p]:
            edge, next_edge = bounds_of(t, bounds)
            p = last_at_most(starts, 0, count, edge)
            if p < 0 or starts[p] != edge:
                if count == starts.shape[0]:
                    return -1
                p += 1
                for k in range(count, p, -1):
                    starts[k], stops[k], ids[k] = starts[k - 1], stops[k - 1], ids[k - 1]
                starts[p] = edge
                ids[p] = made
                made += 1
                count += 1
            stops[p] = next_edge
        of_each[i] = ids[p]
        # A late event is an exception: the band of those in order stays at hand.
        if t >= high or here < 0:
            here, low, high = ids[p], starts[p], stops[p]
    return count


@kernel
def pack(of_each: Any, places: Any, keys: Any, bits: Any, slots: Any, packed: Any) -> int:
    """Band, key and row of each event as one number; how many events go anywhere."""
    count = 0
    for i in range(of_each.shape[0]):
        slots[i] = -1
        if of_each[i] >= 0:
            packed[count] = (((places[of_each[i]] << bits[0]) | keys[i]) << bits[1]) | i
            count += 1
    return count


@kernel
def number_slots(packed: Any, bits: Any, top: int, out: Any) -> None:
    """Make a slot for each slice that packed and sorted events touch, from `top` on."""
    slots, codes, rows, ends = out.slots, out.codes, out.rows, out.ends
    row, key = (1 << bits[1]) - 1, (1 << bits[0]) - 1
    before = -1
    for number in packed:
        slice_ = number >> bits[1]
        if slice_ != before:
            before = slice_
            codes[top] = slice_ & key
            rows[top] = 0
            top += 1
            ends[slice_ >> bits[0]] = top
        rows[top - 1] += 1
        slots[number & row] = top - 1


@kernel
def merge_codes(
    codes: Any, rows: Any, older: Any, newer: Any, top: int, left: Any, right: Any
) -> int:
    """Merge two lists of keys to `top`; where each slice was in them, -1 where it was not."""
    i, j, count = older[0], newer[0], 0
    while i < older[1] or j < newer[1]:
        first = j == newer[1] or (i < older[1] and codes[i] <= codes[j])
        second = i == older[1] or (j < newer[1] and codes[j] <= codes[i])
        left[count], right[count] = -1, -1
        total = 0
        if first:
            codes[top + count] = codes[i]
            total += rows[i]
            left[count] = i
            i += 1
        if second:
            codes[top + count] = codes[j]
            total += rows[j]
            right[count] = j
            j += 1
        rows[top + count] = total
        count += 1
    return count


@kernel
def merge_states(S: Any, left: Any, right: Any, top: int) -> None:
    """Write the states of merged slices from `top` on; `left` is the older one of a pair."""
    for k in range(left.shape[0]):
        if right[k] < 0:
            store(S, top + k, load(S, left[k]))
        elif left[k] < 0:
            store(S, top + k, load(S, right[k]))
        else:
            store(S, top + k, combine(load(S, left[k]), load(S, right[k])))


@kernel
def mark_heads(starts: Any, stops: Any, point: Any, begins: Any, heads: Any) -> None:
    """Which bands stay; the others go to the one before them that does, which reaches further."""
    head = 0
    next_begin = bounds_of(starts[0], begins)[1]
    for p in range(1, starts.shape[0]):
        if starts[p] <= point and starts[p] < next_begin:
            heads[p] = False
            stops[head] = stops[p]
        else:
            head = p
            next_begin = bounds_of(starts[p], begins)[1]
