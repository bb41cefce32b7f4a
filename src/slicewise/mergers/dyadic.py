"""Dyadic intervals in flat arrays, shared by FlatFAT and B-Int.

A window of up to `capacity` events has a level for every power of two: intervals of 1, 2, 4, ...
events, each beginning at a multiple of its length. The level of `size` intervals lies in the
states from `size` to `2 * size`, so an interval's halves are at twice its index: the layout of a
heap. Levels are circles, as the slots are, so any run of events in the window is a few intervals
that lie inside it, wherever it began.
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load


@kernel
def span(p: Any, S: Any, start: int, end: int) -> Any:
    """The state of the events from `start` to before `end`: at most 2 log n - 1 combines."""
    older, newer = identity(), identity()
    has_older, has_newer = False, False
    size = p[2] + 1
    while start < end:
        if start & 1:
            part = load(S, size + (start & (size - 1)))
            if has_older:
                part = combine(older, part)
            older, has_older = part, True
            start += 1
        if end & 1:
            end -= 1
            part = load(S, size + (end & (size - 1)))
            if has_newer:
                part = combine(part, newer)
            newer, has_newer = part, True
        start >>= 1
        end >>= 1
        size >>= 1
    if has_older and has_newer:
        return combine(older, newer)
    return older if has_older else newer
