"""Two-stacks lite: two stacks in one buffer.

The older part of the window is a run of suffix aggregates, each from its event to the part's
end, so evicting the oldest event reveals the next one. The newer part is raw states and one
running aggregate of them all. When the older part is used up, the newer one is turned into
suffix aggregates in place (the flip).

Needs:   associative `combine`; event order is kept.
Cost:    amortised at most 3 combines per slide with a query; n at a flip.
Memory:  n + 1 states.
Source:  doi:10.1007/s00778-021-00668-3 (Tangwongsan, Hirzel, Schneider: In-order sliding-window
         aggregation in worst-case constant time), Section 4
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# p[3] is the number of the first event of the newer part; its aggregate follows the buffer.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Append to the newer part."""
    newer = p[2] + 1
    store(S, p[1] & p[2], state)
    if p[1] == p[3]:
        store(S, newer, state)
    else:
        store(S, newer, combine(load(S, newer), state))
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Drop the oldest event, after a flip when the older part is used up."""
    if p[0] == p[3]:
        flip(p, S)
    p[0] += 1


@kernel
def flip(p: Any, S: Any) -> None:
    """Turn the newer part into suffix aggregates: it becomes the older one."""
    mask = p[2]
    suffix = load(S, (p[1] - 1) & mask)
    for i in range(p[1] - 2, p[0] - 1, -1):
        suffix = combine(load(S, i & mask), suffix)
        store(S, i & mask, suffix)
    p[3] = p[1]


@kernel
def query(p: Any, S: Any) -> Any:
    """The older part's aggregate combined with the newer's."""
    if p[0] == p[1]:
        return identity()
    if p[0] == p[3]:
        return load(S, p[2] + 1)
    if p[3] == p[1]:
        return load(S, p[0] & p[2])
    return combine(load(S, p[0] & p[2]), load(S, p[2] + 1))


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
    store(T, q[2] + 1, load(S, p[2] + 1))
    q[0], q[1], q[3] = p[0], p[1], p[3]


class TwoStacksLite(FlatMerger):
    """Two stacks in one buffer: amortised constant time, n combines at a flip.

    >>> import slicewise as sw
    >>> merger = sw.mergers.TwoStacksLite(sw.agg.sum())
    >>> merger.insert_many([3, 1, 4])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (5, 2)
    """

    name = "two_stacks_lite"
    kernels = (insert, evict, query, move)
    cursors = 4
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="n",
        memory="n + 1",
        source="doi:10.1007/s00778-021-00668-3",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 1
