"""Binary searches in sorted arrays, as kernels."""

from __future__ import annotations

from typing import Any

from slicewise.codegen.kernel import kernel


@kernel
def last_at_most(values: Any, low: int, high: int, x: Any) -> int:
    """The last place in `[low, high)` whose value is at most `x`; `low - 1` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def near_at_most(values: Any, low: int, high: int, x: Any) -> Any:
    """Search as `last_at_most` does, among many values spread about evenly: guess, then look."""
    if high - low < 64 or x < values[low] or x >= values[high - 1]:
        return last_at_most(values, low, high, x)
    share = (x - values[low]) / (values[high - 1] - values[low])
    guess = min(low + int(share * (high - 1 - low)), high - 2)  # a share may be rounded to 1
    if values[guess] <= x < values[guess + 1]:
        return guess
    step = 1
    if values[guess] <= x:
        while guess + step < high and values[guess + step] <= x:
            guess += step
            step *= 2
        return last_at_most(values, guess, min(guess + step, high), x)
    while guess - step > low and values[guess - step] > x:
        guess -= step
        step *= 2
    return last_at_most(values, max(guess - step, low), guess, x)


@kernel
def first_at_least(values: Any, low: int, high: int, x: Any) -> int:
    """The first place in `[low, high)` whose value is at least `x`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def first_lasting(slot: Any, last: Any, low: int, high: int, time: int) -> int:
    """The first place in `[low, high)` with an event at or after `time`; `high` if there is none.

    For runs in the order of time.
    """
    while low < high:
        middle = (low + high) >> 1
        if last[slot[middle]] < time:
            low = middle + 1
        else:
            high = middle
    return low
