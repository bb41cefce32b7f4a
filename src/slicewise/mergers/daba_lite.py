"""DABA Lite: DABA with one state per event.

As in DABA the front of the window is turned over bit by bit, between six pointers
F <= L <= R <= A <= B <= E. What is from R to B and what is from B to E are each needed as a whole
only, so two running aggregates stand for them and the events there keep their plain states:

    F ---------- L -------- R -------- A -------- B -------- E
      to B         to R       plain      to B       plain
                              |---- middle -----|---- back --|

Needs:   associative `combine`; event order is kept.
Cost:    at most 6 combines per slide with a query; amortised 4.
Memory:  n + 2 states.
Source:  doi:10.1007/s00778-021-00668-3 (Tangwongsan, Hirzel, Schneider: In-order sliding-window
         aggregation in worst-case constant time), Section 6
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# F, E, L, R, A, B are p[0], p[1], p[3], p[4], p[5], p[6]. The aggregates of the middle and of the
# back follow the buffer.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Append to the back."""
    back = p[2] + 2
    store(S, p[1] & p[2], state)
    if p[6] == p[1]:
        store(S, back, state)
    else:
        store(S, back, combine(load(S, back), state))
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
        # The front is all done: the back joins it and becomes the middle.
        p[3], p[4] = p[0], p[6]
        p[5] = p[6] = p[1]
        store(S, p[2] + 1, load(S, p[2] + 2))
    if p[3] == p[4]:
        p[3] += 1
        p[4] += 1
        p[5] += 1
    else:
        shrink(p, S)


@kernel
def shrink(p: Any, S: Any) -> None:
    """Move L to the right and A to the left, each over one event that now reaches to B."""
    mask = p[2]
    store(S, p[3] & mask, combine(load(S, p[3] & mask), load(S, mask + 1)))
    p[3] += 1
    p[5] -= 1
    if p[5] + 1 < p[6]:
        last = p[5] & mask
        store(S, last, combine(load(S, last), load(S, (p[5] + 1) & mask)))


@kernel
def query(p: Any, S: Any) -> Any:
    """The front's aggregate combined with the back's."""
    if p[0] == p[1]:
        return identity()
    front = load(S, p[0] & p[2])
    if p[6] == p[1]:
        return front
    return combine(front, load(S, p[2] + 2))


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
    store(T, q[2] + 1, load(S, p[2] + 1))
    store(T, q[2] + 2, load(S, p[2] + 2))
    for k in range(7):
        if k != 2:
            q[k] = p[k]


class DABALite(FlatMerger):
    """Worst-case constant time with one state per event.

    >>> import slicewise as sw
    >>> merger = sw.mergers.DABALite(sw.agg.max())
    >>> merger.insert_many([4, 1, 3])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (3, 2)
    """

    name = "daba_lite"
    kernels = (insert, evict, query, move)
    cursors = 7
    properties = Properties(
        needs="associative",
        amortised="4",
        worst="6",
        memory="n + 2",
        source="doi:10.1007/s00778-021-00668-3",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 2
