"""DABA, the de-amortised banker's aggregator: two stacks whose flip is spread over the slides.

The window is one run of events with six pointers F <= L <= R <= A <= B <= E. From F to B is the
front, turned over bit by bit, from B to E the back:

    F ---------- L -------- R -------- A -------- B -------- E
      to B         to R       from R     to B       from B

Each event's aggregate goes to or comes from where the line says: before L and from A to B it
reaches to B, from L to R to R, from R to A it comes from R, and in the back from B. Every insertion
and eviction moves L one step to the right and A one step to the left, so that the front is ready
when the back has grown as long as it.

Needs:   associative `combine`; event order is kept.
Cost:    at most 8 combines per slide with a query; amortised 5.
Memory:  2n states.
Source:  doi:10.1145/3093742.3093925 (Tangwongsan, Hirzel, Schneider: Low-latency sliding-window
         aggregation in worst-case constant time), Section 4
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# F, E, L, R, A, B are p[0], p[1], p[3], p[4], p[5], p[6]; aggregates lie behind the values.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Append to the back."""
    mask, sums = p[2], p[2] + 1
    store(S, p[1] & mask, state)
    if p[6] == p[1]:
        store(S, sums + (p[1] & mask), state)
    else:
        back = load(S, sums + ((p[1] - 1) & mask))
        store(S, sums + (p[1] & mask), combine(back, state))
    p[1] += 1
    step(p, S)


@kernel
def evict(p: Any, S: Any) -> None:
    """Drop the oldest event, whose aggregate is of no further use."""
    p[0] += 1
    step(p, S)


@kernel
def step(p: Any, S: Any) -> None:
    """Restore the lengths of the parts: a bounded piece of the work of a flip."""
    if p[0] == p[6]:
        # Nothing in front, so the back holds one event at most: it is its own aggregate.
        p[3] = p[4] = p[5] = p[6] = p[1]
        return
    if p[3] == p[6]:
        # The front is all done: the back joins it, turned the wrong way round.
        p[3], p[4] = p[0], p[6]
        p[5] = p[6] = p[1]
    if p[3] == p[4]:
        p[3] += 1
        p[4] += 1
        p[5] += 1
    else:
        shrink(p, S)


@kernel
def shrink(p: Any, S: Any) -> None:
    """Move L to the right and A to the left, each over one event that now reaches to B."""
    mask, sums = p[2], p[2] + 1
    middle = load(S, sums + ((p[5] - 1) & mask))
    if p[5] == p[6]:
        last = load(S, (p[5] - 1) & mask)
    else:
        done = load(S, sums + (p[5] & mask))
        middle = combine(middle, done)
        last = combine(load(S, (p[5] - 1) & mask), done)
    L = sums + (p[3] & mask)
    store(S, L, combine(load(S, L), middle))
    store(S, sums + ((p[5] - 1) & mask), last)
    p[3] += 1
    p[5] -= 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The front's aggregate combined with the back's."""
    mask, sums = p[2], p[2] + 1
    if p[0] == p[1]:
        return identity()
    front = load(S, sums + (p[0] & mask))
    if p[6] == p[1]:
        return front
    return combine(front, load(S, sums + ((p[1] - 1) & mask)))


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
        store(T, q[2] + 1 + (i & q[2]), load(S, p[2] + 1 + (i & p[2])))
    for k in range(7):
        if k != 2:
            q[k] = p[k]


class DABA(FlatMerger):
    """Worst-case constant time: no slide costs more than 8 combines.

    >>> import slicewise as sw
    >>> merger = sw.mergers.DABA(sw.agg.max())
    >>> merger.insert_many([4, 1, 3])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (3, 2)
    """

    name = "daba"
    kernels = (insert, evict, query, move)
    cursors = 7
    properties = Properties(
        needs="associative",
        amortised="5",
        worst="8",
        memory="2n",
        source="doi:10.1145/3093742.3093925",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return 2 * capacity
