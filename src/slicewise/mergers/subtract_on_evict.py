"""Subtract on evict: one running aggregate from which leaving events are taken away.

With floats the subtraction leaves rounding behind, and after an infinity nothing but NaN, so this
merger is never chosen for them unless it is asked for. An emptied window starts afresh.

Needs:   associative `combine` with `invert`; event order is kept.
Cost:    1 combine and 1 invert per slide, always; a query is free.
Memory:  n + 1 states.
Source:  doi:10.1145/3093742.3095107 (Hirzel, Schneider, Tangwongsan: Sliding-window aggregation
         algorithms)
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, invert, load, store
from slicewise.mergers.base import FlatMerger, Properties

# The running aggregate follows the buffer.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Add the state to the running aggregate."""
    total = p[2] + 1
    store(S, p[1] & p[2], state)
    if p[0] == p[1]:
        store(S, total, state)
    else:
        store(S, total, combine(load(S, total), state))
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Take the oldest state from the running aggregate; the last one needs no subtraction."""
    total = p[2] + 1
    if p[1] - p[0] > 1:
        store(S, total, invert(load(S, total), load(S, p[0] & p[2])))
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The running aggregate."""
    if p[0] == p[1]:
        return identity()
    return load(S, p[2] + 1)


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
    store(T, q[2] + 1, load(S, p[2] + 1))
    q[0], q[1] = p[0], p[1]


class SubtractOnEvict(FlatMerger):
    """A running aggregate with `invert`; refuses aggregates that have none.

    >>> import slicewise as sw
    >>> merger = sw.mergers.SubtractOnEvict(sw.agg.sum())
    >>> merger.insert_many([3, 1, 4])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (5, 2)
    """

    name = "subtract_on_evict"
    kernels = (insert, evict, query, move)
    properties = Properties(
        needs="invertible",
        amortised="2",
        worst="2",
        memory="n + 1",
        source="doi:10.1145/3093742.3095107",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 1
