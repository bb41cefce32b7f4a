"""What every merger has in common.

A merger keeps a first-in-first-out window of states and answers with the aggregate of all of
them. The algorithm itself is a few kernels over flat arrays, so that one source serves the object
that is fed by hand (interpreted, with lists) and the compiled loops of `sw.slide`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import OPEN, Kernel, kernel
from slicewise.codegen.prelude import identity, lift, store
from slicewise.errors import CapabilityError, EmptyWindowError, SpanError

if TYPE_CHECKING:
    from slicewise.aggregates.base import Aggregate


@dataclass(frozen=True, slots=True)
class Properties:
    """What a planner may know about a merger.

    `needs` is what is asked of the aggregate: `"associative"` (all have it), `"invertible"`, or
    `"selective"` (a combine returns one of its arguments). Costs are numbers of combines in terms
    of the window's length n: `amortised` and `worst` for one slide with one query.
    """

    needs: str
    amortised: str
    worst: str
    memory: str
    source: str
    suffixes: bool = False  # can answer for the newest k alone: `query(last=k)`
    bulk: bool = False  # inserts or evicts many at less than the sum of the single costs
    unordered: bool = False  # takes events out of order


class Merger:
    """A window of states with the aggregate of all of them.

    Built from an aggregate; refuses one that does not meet the algorithm's needs. Values are
    inserted at the new end and evicted at the old one. Several input columns come as a tuple.
    """

    name: ClassVar[str]
    properties: ClassVar[Properties]

    aggregate: Aggregate

    def __init__(self, aggregate: Aggregate) -> None:
        self.check(aggregate)
        self.aggregate = aggregate

    @classmethod
    def check(cls, aggregate: Aggregate) -> None:
        """Raise `CapabilityError` when `aggregate` does not meet the needs of the algorithm."""
        if cls.properties.needs == "invertible" and not aggregate.invertible:
            raise CapabilityError(
                f"`{cls.__name__}` needs an aggregate with `invert`; {aggregate.name!r} has none. "
                "Use `TwoStacks`, which needs only `combine`."
            )

    def insert(self, value: Any) -> None:
        """Add one event at the new end; a null event counts but leaves no trace."""
        values = value if self.aggregate.arity > 1 else (value,)
        if self.aggregate.skips(values):
            self.insert_state(self.aggregate.identity())
        else:
            self.insert_state(self.aggregate.lift(*values))

    def insert_many(self, values: Iterable[Any]) -> None:
        """Add events in order."""
        for value in values:
            self.insert(value)

    def insert_state(self, state: Any) -> None:
        """Add the state of a slice at the new end."""
        raise NotImplementedError

    def evict(self) -> None:
        """Take the oldest event away."""
        if not len(self):
            raise EmptyWindowError(
                "`evict` takes the oldest event of a window, and this one holds none. "
                "Ask `len()` first."
            )
        self._evict()

    def _evict(self) -> None:
        raise NotImplementedError

    def evict_many(self, count: int) -> None:
        """Take the `count` oldest events away."""
        if count < 0 or count > len(self):
            raise EmptyWindowError(
                f"`evict_many` takes between 0 and all {len(self)} events of the window; "
                f"given: {count}."
            )
        for _ in range(count):
            self._evict()

    def query(self, *, last: int | None = None) -> Any:
        """The aggregate of the window, or of its newest `last` events."""
        if last is None:
            return self.aggregate.lower(self.query_state())
        if not self.properties.suffixes:
            raise CapabilityError(
                f"`{type(self).__name__}` answers for its whole window only; given: last={last}. "
                "Use `FlatFAT`, `BInt`, `FlatFIT` or `FiBA`, which answer for any newest part."
            )
        if not 0 <= last <= len(self):
            raise SpanError(
                f"`last` counts events of the window, from 0 to {len(self)} now; given: {last}."
            )
        return self.aggregate.lower(self.suffix_state(last))

    def query_state(self) -> Any:
        """The state of the whole window."""
        raise NotImplementedError

    def suffix_state(self, last: int) -> Any:
        """The state of the newest `last` events."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class FlatMerger(Merger):
    """A merger whose algorithm is kernels over cursors `p` and state arrays `S`.

    A subclass names its kernels: `insert(p, S, state)` into a window that has room,
    `evict(p, S)` from one that is not empty, `query(p, S)`, and `move(p, S, q, T)`, which carries
    the window over into larger arrays. `p[0]` is the oldest event's number, `p[1]` one more than
    the newest's, `p[2]` is `capacity - 1`, and the capacity is a power of two.
    """

    kernels: ClassVar[tuple[Kernel, ...]]
    cursors: ClassVar[int] = 3

    def __init__(self, aggregate: Aggregate) -> None:
        from slicewise.aggregates.base import interpreted

        super().__init__(aggregate)
        algebra = interpreted(aggregate, None, "fed by hand").components[0].algebra
        self._run = {k.__name__: k.specialise(algebra) for k in self.kernels}
        self._p, self._S = self._room(8)

    @classmethod
    def slots(cls, capacity: int) -> int:
        """How many states the arrays hold for a window of `capacity` events."""
        return capacity

    def _room(self, capacity: int) -> tuple[list[int], tuple[list[Any], ...]]:
        cursors = [0] * self.cursors
        cursors[2] = capacity - 1
        return cursors, ([self.aggregate.identity()] * self.slots(capacity),)

    def insert_state(self, state: Any) -> None:
        capacity = self._p[2] + 1
        if len(self) == capacity:
            p, S = self._room(2 * capacity)
            self._run["move"](self._p, self._S, p, S)
            self._p, self._S = p, S
        self._run["insert"](self._p, self._S, state)

    def _evict(self) -> None:
        self._run["evict"](self._p, self._S)

    def query_state(self) -> Any:
        return self._run["query"](self._p, self._S)

    def __len__(self) -> int:
        return self._p[1] - self._p[0]


insert: Any = OPEN
evict: Any = OPEN
query: Any = OPEN


@kernel
def slide_with(X: Any, valid: Any, length: int, every: int, p: Any, S: Any, out: Any) -> None:
    """Drive a merger over a whole array; `p` and `S` are its room for `length` states."""
    for i in range(X[0].shape[0]):
        if p[1] - p[0] == length:
            evict(p, S)
        if valid is None or valid[i]:
            insert(p, S, lift(X, i))
        else:
            insert(p, S, identity())
        if (i + 1) % every == 0:
            store(out, (i + 1) // every - 1, query(p, S))


def drive(
    merger: type[FlatMerger], algebra: Algebra, X: Any, valid: Any, length: int, every: int
) -> Any:
    """The states of `slide_with` by `merger`, one per result."""
    import numpy as np

    capacity = 1 << max(0, length - 1).bit_length()
    p = np.zeros(merger.cursors, np.int64)
    p[2] = capacity - 1
    S = algebra.new(merger.slots(capacity))
    fill = identity_states.specialise(algebra)
    fill(S, merger.slots(capacity))
    out = algebra.new(len(X[0]) // every)
    run = slide_with.specialise(algebra, using=merger.kernels)
    run(X, valid, length, every, p, S, out)
    return out


@kernel
def identity_states(S: Any, size: int) -> None:
    """Fill arrays with the neutral state."""
    neutral = identity()
    for i in range(size):
        store(S, i, neutral)
