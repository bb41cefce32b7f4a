"""Sequential boundary aggregator (SBA): chunks with suffix and prefix aggregates.

The stream is cut at boundaries. Behind the newest boundary every event has the aggregate from
itself to the boundary (`lcs`, left cumulative slice aggregations), before it there is one running
aggregate (`csa`). A window that begins behind the boundary is one of each. The suffixes of a chunk
are made in one go at its boundary; the parallel form, `PBA`, leaves that to another thread.

Over a whole array it is one of the sweeps of `boundary`.

Needs:   associative `combine`; event order is kept.
Cost:    amortised under 3 combines per slide with a query; n at a boundary.
Memory:  n + 1 states.
Source:  doi:10.1145/3447548.3467360 (Zhang, Akbarinia, Toumani: Efficient incremental computation
         of aggregations over sliding windows), Section 4
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# p[3] is the number of the first event after the boundary; the running aggregate of the events
# from there on follows the buffer.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Extend the running aggregate."""
    running = p[2] + 1
    store(S, p[1] & p[2], state)
    if p[1] == p[3]:
        store(S, running, state)
    else:
        store(S, running, combine(load(S, running), state))
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Reveal the next suffix; at the boundary, make those of the events after it."""
    if p[0] == p[3]:
        mask = p[2]
        # The event that leaves needs no suffix any more.
        for i in range(p[1] - 2, p[0], -1):
            store(S, i & mask, combine(load(S, i & mask), load(S, (i + 1) & mask)))
        p[3] = p[1]
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The oldest suffix and the running aggregate."""
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


class SBA(FlatMerger):
    """Suffix aggregates behind a boundary and a running aggregate after it.

    >>> import slicewise as sw
    >>> merger = sw.mergers.SBA(sw.agg.max())
    >>> merger.insert_many([5, 4, 6, 3])
    >>> merger.evict_many(3)
    >>> merger.query(), len(merger)
    (3, 1)
    """

    name = "sba"
    kernels = (insert, evict, query, move)
    cursors = 4
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="n",
        memory="n + 1",
        source="doi:10.1145/3447548.3467360",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 1
