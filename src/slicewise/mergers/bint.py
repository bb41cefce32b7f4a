"""B-Int, base intervals: dyadic intervals of all lengths over a circle of events.

An insertion completes the intervals that end with the new event and touches no other; an eviction
touches none. A query takes the fewest intervals that make up the window, or its newest part.

Needs:   associative `combine`; event order is kept.
Cost:    insertion amortised 1 combine, at most log n; query at most 2 log n - 1, also
         `query(last=k)`. A slide with a query: amortised log n, at most 2 log n.
Memory:  2n states, n rounded up to a power of two.
Source:  VLDB 2004, 336-347 (Arasu, Widom: Resource sharing in continuous sliding-window
         aggregates); FlatFIT paper, Section 2.2
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties
from slicewise.mergers.dyadic import span


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Store the event and complete the intervals that end with it."""
    size = p[2] + 1
    store(S, size + (p[1] & p[2]), state)
    number, level = p[1], 0
    p[1] += 1
    # An interval with evicted events will never be asked for, nor one that holds it.
    while number & 1 and size > 1 and (number - 1) << level >= p[0]:
        older = load(S, size + ((number - 1) & (size - 1)))
        state = combine(older, state)
        number >>= 1
        size >>= 1
        level += 1
        store(S, size + (number & (size - 1)), state)


@kernel
def evict(p: Any, S: Any) -> None:
    """Forget the oldest event; intervals that hold it are no longer used."""
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The fewest intervals that make up the window."""
    return suffix(p, S, p[1] - p[0])


@kernel
def suffix(p: Any, S: Any, last: int) -> Any:
    """The fewest intervals that make up the newest `last` events."""
    if last == 0:
        return identity()
    return span(p, S, 0, p[2] + 1, p[1] - last, p[1])


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over: intervals keep their levels, and longer ones are completed."""
    capacity = p[2] + 1
    size, width = capacity, 1
    while size >= 1:
        base = size * ((q[2] + 1) // capacity)
        for i in range((p[0] + width - 1) // width, p[1] // width):
            store(T, base + (i & (base - 1)), load(S, size + (i & (size - 1))))
        size >>= 1
        width <<= 1
    while width <= q[2] + 1:
        base = (q[2] + 1) // width
        for i in range((p[0] + width - 1) // width, p[1] // width):
            older = load(T, 2 * base + ((2 * i) & (2 * base - 1)))
            newer = load(T, 2 * base + ((2 * i + 1) & (2 * base - 1)))
            store(T, base + (i & (base - 1)), combine(older, newer))
        width <<= 1
    q[0], q[1] = p[0], p[1]


class BInt(FlatMerger):
    """Dyadic intervals: cheap insertions, logarithmic queries over any newest part.

    >>> import slicewise as sw
    >>> merger = sw.mergers.BInt(sw.agg.max())
    >>> merger.insert_many([4, 1, 3, 2])
    >>> merger.evict()
    >>> merger.query(), merger.query(last=1), len(merger)
    (3, 2, 3)
    """

    name = "bint"
    kernels = (insert, evict, query, suffix, move)
    properties = Properties(
        needs="associative",
        amortised="log n",
        worst="2 log n",
        memory="2n",
        source="VLDB 2004, 336-347",
        suffixes=True,
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return 2 * capacity
