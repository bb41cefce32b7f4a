"""FlatFIT, the flat and fast index traverser: jumps over what was aggregated before.

Every event has a partial aggregate and a pointer: the partial covers the events from it up to the
one that the pointer names. A query hops from its first event along the pointers to the end of the
window, then goes back over the visited positions, combines their partials from new to old, and
lets each of them reach to the end. Later queries hop over all of that at once.

Needs:   associative `combine`; event order is kept.
Cost:    amortised at most 3 combines per slide with a query, n - 1 at a reset; n - 1 per slide
         when all n ranges `query(last=k)` are asked.
Memory:  n states and 2n numbers: the pointers, and the stack of visited positions.
Source:  doi:10.1145/3085504.3085509 (Shein, Chrysanthis, Labrinidis: FlatFIT), Section 3
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

# The pointers follow the three cursors, the stack of positions follows the pointers.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Store the event as a partial that covers itself alone."""
    store(S, p[1] & p[2], state)
    p[3 + (p[1] & p[2])] = p[1] + 1
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Forget the oldest event; no pointer leads back to it."""
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """Traverse the whole window."""
    return suffix(p, S, p[1] - p[0])


@kernel
def suffix(p: Any, S: Any, last: int) -> Any:
    """Traverse the newest `last` events and let every visited partial reach to the end."""
    if last == 0:
        return identity()
    mask, end = p[2], p[1]
    stack = 4 + mask
    visited = 0
    position = end - last
    while p[3 + (position & mask)] != end:
        p[stack + visited] = position
        visited += 1
        position = p[3 + (position & mask)]
    answer = load(S, position & mask)
    while visited > 0:
        visited -= 1
        position = p[stack + visited]
        answer = combine(load(S, position & mask), answer)
        store(S, position & mask, answer)
        p[3 + (position & mask)] = end
    return answer


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
        q[3 + (i & q[2])] = p[3 + (i & p[2])]
    q[0], q[1] = p[0], p[1]


class FlatFIT(FlatMerger):
    """Jumps over aggregated parts: amortised constant time, many ranges at once.

    >>> import slicewise as sw
    >>> merger = sw.mergers.FlatFIT(sw.agg.max())
    >>> merger.insert_many([4, 1, 3, 2])
    >>> merger.evict()
    >>> merger.query(), merger.query(last=1), len(merger)
    (3, 2, 3)
    """

    name = "flatfit"
    kernels = (insert, evict, query, suffix, move)
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="n",
        memory="2n",
        source="doi:10.1145/3085504.3085509",
        suffixes=True,
    )

    @classmethod
    def numbers(cls, capacity: int) -> int:
        return 2 * capacity
