"""Two stacks: a queue from two stacks, each with the aggregates of what it holds.

The older stack holds every event with the aggregate from it to the stack's end, the newer one
every event with the aggregate from the stack's beginning to it. A query combines the two tops.
When the older stack is used up, the newer one is turned over onto it (the flip).

Needs:   associative `combine`; event order is kept.
Cost:    amortised at most 3 combines per slide with a query; n at a flip.
Memory:  2n states.
Source:  doi:10.1145/3093742.3095107 (Hirzel, Schneider, Tangwongsan: Sliding-window aggregation
         algorithms)
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# p[3] is the number of the first event of the newer stack. Both stacks share one circle of slots,
# as they lie end to end; the aggregates are in a second circle behind the values.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Push onto the newer stack."""
    mask, sums = p[2], p[2] + 1
    store(S, p[1] & mask, state)
    if p[1] == p[3]:
        store(S, sums + (p[1] & mask), state)
    else:
        top = load(S, sums + ((p[1] - 1) & mask))
        store(S, sums + (p[1] & mask), combine(top, state))
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Pop from the older stack, after a flip when it is empty."""
    if p[0] == p[3]:
        flip(p, S)
    p[0] += 1


@kernel
def flip(p: Any, S: Any) -> None:
    """Turn the newer stack over: its aggregates are made again from the other side."""
    mask, sums = p[2], p[2] + 1
    top = load(S, (p[1] - 1) & mask)
    store(S, sums + ((p[1] - 1) & mask), top)
    for i in range(p[1] - 2, p[0] - 1, -1):
        top = combine(load(S, i & mask), top)
        store(S, sums + (i & mask), top)
    p[3] = p[1]


@kernel
def query(p: Any, S: Any) -> Any:
    """Combine the tops of the two stacks."""
    mask, sums = p[2], p[2] + 1
    if p[0] == p[1]:
        return identity()
    if p[0] == p[3]:
        return load(S, sums + ((p[1] - 1) & mask))
    if p[3] == p[1]:
        return load(S, sums + (p[0] & mask))
    return combine(load(S, sums + (p[0] & mask)), load(S, sums + ((p[1] - 1) & mask)))


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
        store(T, q[2] + 1 + (i & q[2]), load(S, p[2] + 1 + (i & p[2])))
    q[0], q[1], q[3] = p[0], p[1], p[3]


class TwoStacks(FlatMerger):
    """Two stacks: amortised constant time, n combines at a flip.

    >>> import slicewise as sw
    >>> merger = sw.mergers.TwoStacks(sw.agg.max())
    >>> merger.insert_many([4, 1, 3])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (3, 2)
    """

    name = "two_stacks"
    kernels = (insert, evict, query, move)
    cursors = 4
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="n",
        memory="2n",
        source="doi:10.1145/3093742.3095107",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return 2 * capacity
