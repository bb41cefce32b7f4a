"""FlatFIT, the flat and fast index traverser: jumps over what was aggregated before.

Every event has a partial aggregate and a pointer: the partial covers the events from it up to the
one that the pointer names. A query hops from its first event along the pointers to the end of the
window, then goes back over the visited positions, combines their partials from new to old, and
lets each of them reach to the end. Later queries hop over all of that at once.

Two positions are at hand at a time, as in Section 3.3. Where a query visits more, which is the
window reset, the way back is kept in the pointers themselves: each visited one is turned around
until it is set to the end. So there is no stack, however many ranges are asked for.

Needs:   associative `combine`; event order is kept.
Cost:    amortised at most 3 combines per slide with a query, n - 1 at a reset; n - 1 per slide
         when all n ranges `query(last=k)` are asked.
Memory:  2n: n states and n pointers, whatever n is.
Source:  doi:10.1145/3085504.3085509 (Shein, Chrysanthis, Labrinidis: FlatFIT), Section 3
"""

from typing import TYPE_CHECKING, Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties

if TYPE_CHECKING:
    from slicewise.aggregates.base import Aggregate

# p[3] is the slot of the next event, `currInd` in the paper; the pointers, which are slots too,
# follow the cursors. There are as many slots as the window is long.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Store the event as a partial that covers itself alone."""
    slot = p[3]
    store(S, slot, state)
    after = slot + 1 if slot < p[2] else 0
    p[4 + slot] = after
    p[3] = after
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
    end = p[3]
    position = end - last
    if position < 0:
        position += p[2] + 1
    older, after = -1, p[4 + position]
    while after != end:
        p[4 + position] = older  # the way back
        older, position = position, after
        after = p[4 + position]
    answer = load(S, position)
    while older >= 0:
        position = older
        older = p[4 + position]
        answer = combine(load(S, position), answer)
        store(S, position, answer)
        p[4 + position] = end
    return answer


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over, to the first slots."""
    size, count = p[2] + 1, p[1] - p[0]
    first = (p[3] - count) % size
    for i in range(count):
        slot = (first + i) % size
        store(T, i, load(S, slot))
        reach = (p[4 + slot] - first - 1) % size + 1
        q[4 + i] = reach % (q[2] + 1)
    q[0], q[1], q[3] = p[0], p[1], count % (q[2] + 1)


class FlatFIT(FlatMerger):
    """Jumps over aggregated parts: amortised constant time, many ranges at once.

    Give the `length` of the window when it is fixed: there is room for as many events then, and no
    more. Otherwise room grows with the window, by an eighth at a time.

    >>> import slicewise as sw
    >>> merger = sw.mergers.FlatFIT(sw.agg.max())
    >>> merger.insert_many([4, 1, 3, 2])
    >>> merger.evict()
    >>> merger.query(), merger.query(last=1), len(merger)
    (3, 2, 3)
    """

    name = "flatfit"
    kernels = (insert, evict, query, suffix, move)
    cursors = 4
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="n",
        memory="2n",
        source="doi:10.1145/3085504.3085509",
        suffixes=True,
    )

    def __init__(self, aggregate: "Aggregate", *, length: int | None = None) -> None:
        from slicewise.spans import Rows

        super().__init__(aggregate)
        if length is not None:
            self._p, self._S = self._room(Rows(length).count)

    @classmethod
    def capacity_for(cls, length: int) -> int:
        return max(1, length)

    @classmethod
    def numbers(cls, capacity: int) -> int:
        return capacity
