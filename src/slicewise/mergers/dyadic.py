"""Dyadic intervals in flat arrays, shared by FlatFAT, B-Int and the trees of an eager store.

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
def span(p: Any, S: Any, root: int, size: int, start: int, end: int) -> Any:
    """The state of the events from `start` to before `end`: at most 2 log n - 1 combines.

    The intervals lie in `S` from `root` on, those of one event are `size`; `p` are cursors, for the
    count of combines.
    """
    older, newer = identity(), identity()
    has_older, has_newer = False, False
    while start < end:
        if start & 1:
            part = load(S, root + size + (start & (size - 1)))
            if has_older:
                part = combine(older, part)
            older, has_older = part, True
            start += 1
        if end & 1:
            end -= 1
            part = load(S, root + size + (end & (size - 1)))
            if has_newer:
                part = combine(part, newer)
            newer, has_newer = part, True
        start >>= 1
        end >>= 1
        size >>= 1
    if has_older and has_newer:
        return combine(older, newer)
    return older if has_older else newer
