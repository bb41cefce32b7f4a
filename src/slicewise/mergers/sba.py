"""Sequential boundary aggregator (SBA): chunks with suffix and prefix aggregates.

The stream is cut at boundaries. Behind the newest boundary every event has the aggregate from
itself to the boundary (`lcs`, left cumulative slice aggregations), before it there is one running
aggregate (`csa`). A window that begins behind the boundary is one of each. The suffixes of a chunk
are made in one go at its boundary; the parallel form, `PBA`, leaves that to another thread.

The array form knows the whole input, so chunk and window have the same length and every window
touches two chunks at most.

Needs:   associative `combine`; event order is kept.
Cost:    amortised under 3 combines per slide with a query; n at a boundary.
Memory:  n + 1 states.
Source:  doi:10.1145/3447548.3467407 (Zhang, Akbarinia, Toumani: Efficient incremental computation
         of aggregations over sliding windows), Section 4
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, load, prepend, store
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
        source="doi:10.1145/3447548.3467407",
    )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 1


# Prefixes that meet their suffixes while they are in the processor's nearest cache.
TILE = 1 << 10

# The array form. Items are the events of the columns `X`, or the states `S` when those are given;
# the other one is `None`, and Numba drops the branches that have nothing to work on.


@kernel
def item(X: Any, valid: Any, S: Any, i: int) -> Any:
    """The state of item `i`: a state of `S`, or that of an event; a null one leaves no trace."""
    if S is not None:
        return load(S, i)
    if X is None:
        return identity()
    if valid is None:
        return lift(X, i)
    if valid[i]:
        return lift(X, i)
    return identity()


@kernel
def slide_chunks(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, lcs: Any, out: Any
) -> None:
    """States of the windows that end at items `first` to `stop - 1`, in `out` from 0 on.

    `length` is at least 2, `first` a multiple of it, and `lcs` has room for as many states.
    """
    for start in range(first, stop, length):
        end = min(start + length, stop)
        if start == 0:
            grow(X, valid, S, end, out)
            continue
        suffix = item(X, valid, S, start - 1)
        store(lcs, length - 1, suffix)
        for j in range(length - 2, 0, -1):
            suffix = prepend(item(X, valid, S, start - length + j), suffix)
            store(lcs, j, suffix)
        place = start - first
        csa = item(X, valid, S, start)
        store(out, place, combine(load(lcs, 1), csa))
        for i in range(1, min(end - start, length - 1)):
            csa = combine(csa, item(X, valid, S, start + i))
            store(out, place + i, combine(load(lcs, i + 1), csa))
        if end == start + length:  # the window of the last item is the chunk itself
            store(out, end - 1 - first, combine(csa, item(X, valid, S, end - 1)))


@kernel
def slide_together(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, lcs: Any, out: Any
) -> None:
    """The same for states of one number; `first` is where the last call stopped.

    `lcs` has room for twice as many states: the suffixes of the chunk before, and those of the
    chunk at hand, which are made in one loop with its prefixes, so that steps of neither wait for
    those of the other. More than one number would not fit the processor's registers.
    """
    for start in range(first, stop, length):
        size, place = min(length, stop - start), start - first
        here = start // length % 2 * length
        csa, suffix = item(X, valid, S, start), item(X, valid, S, start + size - 1)
        store(out, place, csa)
        store(lcs, here + size - 1, suffix)
        for begin in range(0, size, TILE):
            end = min(begin + TILE, size)
            i = max(begin, 1)
            if size == length:  # or else it is the last one, and nobody needs its suffixes
                while i < min(end, size - 1):
                    csa = combine(csa, item(X, valid, S, start + i))
                    store(out, place + i, csa)
                    suffix = prepend(item(X, valid, S, start + size - 1 - i), suffix)
                    store(lcs, here + size - 1 - i, suffix)
                    i += 1
            while i < end:
                csa = combine(csa, item(X, valid, S, start + i))
                store(out, place + i, csa)
                i += 1
            if start > 0:
                # The window of a chunk's last item is the chunk itself.
                meet(
                    lcs, length - here + 1 + begin, out, place + begin, min(end, length - 1) - begin
                )


@kernel
def meet(lcs: Any, first: int, out: Any, place: int, count: int) -> None:
    """Put suffixes before prefixes, several at once where the compiler can."""
    for i in range(count):
        store(out, place + i, combine(load(lcs, first + i), load(out, place + i)))


@kernel
def grow(X: Any, valid: Any, S: Any, end: int, out: Any) -> None:
    """The first chunk: nothing lies before it."""
    csa = item(X, valid, S, 0)
    store(out, 0, csa)
    for i in range(1, end):
        csa = combine(csa, item(X, valid, S, i))
        store(out, i, csa)
