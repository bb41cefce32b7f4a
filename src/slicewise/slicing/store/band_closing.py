"""Window instances of all keys at once, from slices that are kept by time.

Instances that end together share their work: bands are added to the states of keys from the newest
to the oldest, and each instance takes what is there when its first band is in. That is done for
some thousand keys after the other, whose states stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import States
from slicewise.arrays.grouping import room
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.columns import Column
from slicewise.limits import INSTANCES_OF_A_CALL

if TYPE_CHECKING:
    from slicewise.slicing.families.instances import Instances
    from slicewise.slicing.store.time_major import TimeMajorStore


class Closed(NamedTuple):
    """Instances with the number of keys of each, and for each key its code and its results."""

    instances: Instances
    sizes: np.ndarray
    codes: np.ndarray
    columns: Sequence[Column]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What is added and taken, in turns.

    `lists` are ranges of the pool, of each end from the newest to the oldest. Instances come by
    their ends, the shortest first: `upto` says how many lists belong to those so far. The lists and
    instances of end `g` begin at `first_list[g]` and `first_instance[g]`.
    """

    lists: np.ndarray
    upto: np.ndarray
    first_list: np.ndarray
    first_instance: np.ndarray

    @staticmethod
    def of(bands: TimeMajorStore, found: Instances) -> Work:
        lists: list[tuple[int, int]] = []
        upto, first_list, first_instance = [], [0], [0]
        at = end = -1
        for number, (left, right) in enumerate(
            zip(found.left.tolist(), found.right.tolist(), strict=True)
        ):
            if right != end:
                if number:
                    first_list.append(len(lists))
                    first_instance.append(number)
                at = end = right
            while at > left:
                at -= 1
                lists += reversed(bands.lists[at])
            upto.append(len(lists))
        first_list.append(len(lists))
        first_instance.append(len(upto))
        return Work(
            np.array(lists, np.int64).reshape(-1, 2),
            np.array(upto, np.int64),
            np.array(first_list, np.int64),
            np.array(first_instance, np.int64),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.lists, self.upto, self.first_list, self.first_instance


def close(bands: TimeMajorStore, found: Instances) -> Closed | None:
    """Merge the slices of all keys in these instances, of which there is one at the least.

    `None` if they are better merged key by key.
    """
    # Those of one end together, the shortest first.
    found = found.take(np.lexsort((-found.left, found.right)))
    before = np.append(0, np.cumsum(bands.sizes))
    inside = (before[found.right] - before[found.left]).astype(np.int64)
    most = np.minimum(inside, bands.keys)
    longest = np.append(found.right[1:] != found.right[:-1], True)[: len(found)]
    if most.sum() > INSTANCES_OF_A_CALL:
        return None  # key by key they are counted
    if (
        longest.sum() > 1
        and inside[longest].sum() > tuning.active().combines_per_result * most.sum()
    ):
        return None
    tuning.took("bands closed")
    work = Work.of(bands, found)
    counts = [
        S is None and bands.counted(component)
        for component, S in zip(bands.components, bands.pool.states, strict=True)
    ]
    codes, rows, sizes = _rows(bands, work, most, counted=any(counts))
    columns = bands.lower(_states(bands, work, codes, rows, sizes))
    if any(np.may_share_memory(column.values, rows) for column in columns):
        bands.scratch.pop("rows", None)  # it is a result now
    bands.combines += int((inside - sizes)[longest].sum())
    return Closed(found, sizes, codes, columns)


def _rows(
    bands: TimeMajorStore, work: Work, most: np.ndarray, *, counted: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys of all instances and how many rows they have there, and how many keys each has.

    Rows that are not `counted` are ones.
    """
    # One place more for each: a key is written before it is known whether it has a row.
    begins = np.cumsum(most + 1) - (most + 1)
    room = int((most + 1).sum())
    codes = bands.borrow("codes", room, np.int32)
    rows = bands.borrow("rows", room, np.int64) if counted else None
    sizes = np.zeros(len(most), np.int64)
    pool = bands.pool
    total = np.zeros(tuning.active().keys_closed, np.int64 if counted else np.uint8)
    given = (pool.codes, pool.rows if counted else None, work.arrays(), begins)
    run(merge_rows)(*given, total, codes, rows, sizes)
    ends = np.cumsum(sizes)
    for begin, end, size in zip(begins.tolist(), ends.tolist(), sizes.tolist(), strict=True):
        for array in (codes, rows):
            if array is not None and begin > end - size:
                array[end - size : end] = array[begin : begin + size]
    every = int(sizes.sum())
    ones = np.broadcast_to(np.int64(1), every) if rows is None else rows[:every]
    return codes[:every], ones, sizes


def _states(
    bands: TimeMajorStore, work: Work, codes: np.ndarray, rows: np.ndarray, sizes: np.ndarray
) -> list[States]:
    """The states of all instances, for each component."""
    found: list[States] = []
    block = tuning.active().keys_closed
    for component, S in zip(bands.components, bands.pool.states, strict=True):
        if S is None:
            found.append((rows,))
            continue
        out = tuple(room(len(codes), dtype) for dtype in component.algebra.dtypes)
        spare = component.algebra.new(block)
        merge_blocks.specialise(component.algebra)(
            S, bands.pool.codes, work.arrays(), block, spare, codes, sizes, out
        )
        found.append(out)
    return found


@kernel
def next_key(codes: Any, lists: Any, cursors: Any, first: int, end: int) -> Any:
    """The least key in lists that is not added yet; -1 if there is none."""
    least = -1
    for n in range(first, end):
        if cursors[n] < lists[n, 1]:
            code = codes[cursors[n]]
            if least < 0 or code < least:
                least = code
    return least


@kernel
def merge_rows(
    codes: Any,
    rows: Any,
    work: Any,
    begins: Any,
    total: Any,
    out_codes: Any,
    out_rows: Any,
    sizes: Any,
) -> None:
    """The keys of each instance, from `begins` on, and their rows; `sizes` counts them.

    Without `rows`, only whether there are any is kept in `total`.
    """
    lists, upto, first_list, first_instance = work
    block = total.shape[0]
    cursors = lists[:, 0].copy()
    for g in range(first_list.shape[0] - 1):
        first, end = first_list[g], first_list[g + 1]
        low = next_key(codes, lists, cursors, first, end)
        while low >= 0:
            n, most = first, 0
            for j in range(first_instance[g], first_instance[g + 1]):
                while n < upto[j]:
                    begin, past = cursors[n], lists[n, 1]
                    if past > begin and codes[past - 1] >= low + block:
                        past = first_at_least(codes, begin, past, low + block)
                    if past > begin:
                        most = max(most, codes[past - 1] - low + 1)
                        cursors[n] = past
                    for i in range(np.uint64(begin), np.uint64(past)):
                        k = np.uint64(codes[i] - low)
                        if rows is None:
                            total[k] = 1
                        else:
                            total[k] += rows[i]
                    n += 1
                at = np.uint64(begins[j] + sizes[j])
                for c in range(np.uint64(most)):
                    out_codes[at] = low + c
                    if rows is None:
                        at += np.uint64(total[c])
                    else:
                        out_rows[at] = total[c]
                        at += np.uint64(total[c] > 0)
                sizes[j] = at - np.uint64(begins[j])
            total[:most] = 0
            low = next_key(codes, lists, cursors, first, end)


@kernel
def merge_blocks(
    S: Any, codes: Any, work: Any, block: int, spare: Any, out_codes: Any, sizes: Any, out: Any
) -> None:
    """The states of each instance for its keys, which are one instance after the other."""
    lists, upto, first_list, first_instance = work
    cursors = lists[:, 0].copy()
    ends = np.cumsum(sizes)
    at = ends - sizes
    for g in range(first_list.shape[0] - 1):
        first, end = first_list[g], first_list[g + 1]
        low = next_key(codes, lists, cursors, first, end)
        while low >= 0:
            for k in range(block):
                store(spare, k, identity())
            n = first
            for j in range(first_instance[g], first_instance[g + 1]):
                while n < upto[j]:
                    begin, past = cursors[n], lists[n, 1]
                    if past > begin and codes[past - 1] >= low + block:
                        past = first_at_least(codes, begin, past, low + block)
                    for i in range(begin, past):
                        k = codes[np.uint64(i)] - low
                        store(spare, k, combine(load(S, i), load(spare, k)))
                    cursors[n] = past
                    n += 1
                begin, past = at[j], ends[j]
                if past > begin and out_codes[past - 1] >= low + block:
                    past = first_at_least(out_codes, begin, past, low + block)
                for q in range(begin, past):
                    store(out, q, load(spare, out_codes[np.uint64(q)] - low))
                at[j] = past
            low = next_key(codes, lists, cursors, first, end)
