"""The one sort of rows by (key, time, arrival).

Keys are small codes. Where code, time and row fit into one number, numbers are sorted, several
times as fast as anything else; where they do not, rows are placed by their codes and those of each
are sorted (`grouping`). Times of one key that hardly ever fall are merged instead of sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.arrays.grouping import group
from slicewise.codegen.kernel import kernel, run
from slicewise.limits import INFINITY

BITS = 62  # of a number that rows are packed into


def order_of(times: np.ndarray, codes: np.ndarray | None = None) -> np.ndarray:
    """The order of rows by (code, time), equal rows as they are.

    Codes are whole numbers from zero on, and `None` stands for one code. Instead of times there may
    be any numbers; fractions take longer.

    >>> order_of(np.array([5, 3, 3, 1]), np.array([0, 1, 0, 1])).tolist()
    [2, 0, 3, 1]
    """
    if times.dtype.kind == "f":
        return np.lexsort([times] if codes is None else [times, codes])
    return _by_time(times) if codes is None else _sorted(times, codes)


def _sorted(times: np.ndarray, codes: np.ndarray | None = None) -> np.ndarray:
    order = _packed([times] if codes is None else [codes, times])
    if order is not None:
        return order
    found = group(codes, 1 if codes is None else int(codes.max()) + 1, times).order
    return np.arange(len(times)) if found is None else found


def _packed(numbers: Sequence[np.ndarray]) -> np.ndarray | None:
    """The order of rows by whole numbers, the first ones first; `None` if they do not fit."""
    size = len(numbers[0])
    packed, bits = np.zeros(size, np.int64), size.bit_length()
    for values in numbers:
        low = int(values.min(initial=INFINITY))
        width = max(0, int(values.max(initial=-INFINITY)) - low).bit_length()
        bits += width
        if bits > BITS:
            return None
        packed = (packed << width) + (values - low)
    width = size.bit_length()
    packed = (packed << width) + np.arange(size)
    packed.sort()
    return packed & ((1 << width) - 1)


def _by_time(times: np.ndarray) -> np.ndarray:
    """The order of rows by times most of which never fall: only the late ones are sorted."""
    if not len(times):
        return np.empty(0, np.int64)
    regular, late = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    count = int(run(pick_late)(times, regular, late))
    if 2 * count > len(times):
        return _sorted(times)
    late = late[:count]
    late = late[_sorted(times[late])]
    order = np.empty(len(times), np.int64)
    run(merge_late)(times, regular, late, order)
    return order


@kernel
def pick_late(times: Any, regular: Any, late: Any) -> int:
    """Part rows that are not before the newest from those that are; how many those are."""
    count = 0
    newest = times[0]
    for i in range(times.shape[0]):
        if times[i] < newest:
            late[count] = i
            count += 1
        else:
            newest = times[i]
            regular[i - count] = i
    return count


@kernel
def merge_late(times: Any, regular: Any, late: Any, order: Any) -> None:
    """Merge two lists of rows by time; equal ones as they came."""
    many = order.shape[0] - late.shape[0]
    j = 0
    for i in range(many):
        row = regular[i]
        while j < late.shape[0] and (
            times[late[j]] < times[row] or (times[late[j]] == times[row] and late[j] < row)
        ):
            order[i + j] = late[j]
            j += 1
        order[i + j] = row
    while j < late.shape[0]:
        order[many + j] = late[j]
        j += 1
