"""SlickDeque: a running aggregate where there is an inverse, a deque of candidates where not.

With `invert` the oldest event is subtracted from a running aggregate. A combine that selects one
of its arguments, such as a maximum, lets a new event strike out all older ones that lose against
it: they can never be the answer again. What remains is a deque whose head is the answer. An
aggregate that could do both takes the deque, which leaves no rounding behind.

Needs:   `invert`, or a selective `combine`; event order is kept.
Cost:    selective: amortised under 2 combines per slide with a query, n at worst; invertible:
         1 combine and 1 invert, always.
Memory:  n states and n numbers at most.
Source:  EDBT 2018 (Shein, Chrysanthis, Labrinidis: SlickDeque: high throughput and low latency
         incremental sliding-window aggregation)
"""

from typing import Any

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import Kernel, kernel
from slicewise.codegen.prelude import combine, identity, load, same_state, store
from slicewise.errors import CapabilityError
from slicewise.mergers import subtract_on_evict
from slicewise.mergers.base import FlatMerger, Properties

# The deque's head and tail are p[3] and p[4]; the numbers of the events in it follow from p[5].


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Strike out the candidates that lose against the new event, then append it."""
    mask = p[2]
    while p[4] > p[3]:
        winner = combine(load(S, (p[4] - 1) & mask), state)
        if not same_state(winner, state):
            break
        p[4] -= 1
    store(S, p[4] & mask, state)
    p[5 + (p[4] & mask)] = p[1]
    p[4] += 1
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Drop the head when it is the oldest event."""
    if p[5 + (p[3] & p[2])] == p[0]:
        p[3] += 1
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The head."""
    if p[0] == p[1]:
        return identity()
    return load(S, p[3] & p[2])


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the deque over."""
    for i in range(p[3], p[4]):
        store(T, i & q[2], load(S, i & p[2]))
        q[5 + (i & q[2])] = p[5 + (i & p[2])]
    q[0], q[1], q[3], q[4] = p[0], p[1], p[3], p[4]


class SlickDeque(FlatMerger):
    """A deque of candidates for selective aggregates, a running aggregate for invertible ones.

    >>> import slicewise as sw
    >>> merger = sw.mergers.SlickDeque(sw.agg.max())
    >>> merger.insert_many([4, 1, 3, 2])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (3, 3)
    """

    name = "slick_deque"
    kernels = (insert, evict, query, move)
    cursors = 5
    properties = Properties(
        needs="invertible or selective",
        amortised="2",
        worst="n",
        memory="2n",
        source="EDBT 2018",
    )

    @classmethod
    def kernels_for(cls, algebra: Algebra) -> tuple[Kernel, ...]:
        if algebra.selective:
            return cls.kernels
        if algebra.invertible:
            return subtract_on_evict.SubtractOnEvict.kernels
        raise CapabilityError(
            f"`SlickDeque` needs an `invert` or a selective combine; {algebra.name!r} has "
            "neither. Use `TwoStacks`, which needs only `combine`."
        )

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 1

    @classmethod
    def numbers(cls, capacity: int) -> int:
        return capacity
