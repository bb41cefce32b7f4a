"""What every merger has in common.

A merger keeps a first-in-first-out window of states and answers with the aggregate of all of
them. The algorithm itself is a few kernels over flat arrays, so that one source serves the object
that is fed by hand (interpreted, with lists) and the compiled loops of `sw.slide`.

Events have numbers: the first one ever inserted is 0, the next 1. A circle of slots holds the
window, so that nothing moves when the window does. Most have a power of two of them, and an event
lives in the slot `number & mask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

from slicewise import tuning
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import OPEN, Kernel, kernel
from slicewise.codegen.prelude import identity, lift, store
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnTypeError,
    EmptyWindowError,
    SpanError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.aggregates.base import Aggregate
    from slicewise.mergers.compiled import CompiledMerger


@dataclass(frozen=True, slots=True)
class Properties:
    """What a planner may know about a merger.

    `needs` is what is asked of the aggregate: `"associative"` (all have it), `"invertible"`, or
    `"invertible or selective"` (selective: a combine returns one of its arguments). Costs are
    numbers of combines in terms of the window's length n: `amortised` and `worst` for one slide
    with one query; `memory` is a number of states.
    """

    needs: str
    amortised: str
    worst: str
    memory: str
    source: str
    suffixes: bool = False  # can answer for the newest k alone: `query(last=k)`
    bulk: bool = False  # inserts or evicts many at less than the sum of the single costs
    unordered: bool = False  # takes events out of order


class Merger(ABC):
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
        self._kinds: set[tuple[type, ...]] = set()
        self._sample: Any = None

    @classmethod
    def check(cls, aggregate: Aggregate) -> None:
        """Raise `CapabilityError` when `aggregate` does not meet the needs of the algorithm."""
        needs = cls.properties.needs
        if needs == "invertible" and not aggregate.invertible:
            raise CapabilityError(
                f"`{cls.__name__}` needs an aggregate with `invert`; {aggregate.name!r} has none. "
                "Use `TwoStacks`, which needs only `combine`."
            )
        if needs == "invertible or selective" and not (aggregate.invertible or aggregate.selective):
            raise CapabilityError(
                f"`{cls.__name__}` needs an aggregate with `invert`, or one that is selective; "
                f"{aggregate.name!r} is neither. Use `TwoStacks`, which needs only `combine`."
            )

    def insert(self, value: Any) -> None:
        """Add one event at the new end; aggregates skip a null one, which counts in `len`."""
        self.insert_state(self.lift(value))

    def lift(self, value: Any) -> Any:
        """The state of an event, once it is known to fit what the window has seen before."""
        arity = self.aggregate.arity
        values = (value,) if arity == 1 else value
        if arity != 1 and not (isinstance(values, tuple | list) and len(values) == arity):
            raise AggregateError(
                f"`{self.aggregate.name}` takes events of {arity} columns, as a tuple; "
                f"given: {value!r}."
            )
        if self.aggregate.skips(values):
            return self.aggregate.identity()
        kinds = tuple(map(type, values))
        if kinds in self._kinds:
            return self.aggregate.lift(*values)
        return self._first_of(kinds, values)

    def _first_of(self, kinds: tuple[type, ...], values: Any) -> Any:
        """Lift the first event of its type: a wrong one is refused before it is in the window."""
        try:
            state = self.aggregate.lift(*values)
            if self._kinds:
                self.aggregate.combine(self._sample, state)
        except TypeError as error:
            given = ", ".join(repr(value) for value in values)
            before = " or ".join(sorted(", ".join(k.__name__ for k in s) for s in self._kinds))
            raise ColumnTypeError(
                f"`{self.aggregate.name}` cannot take {given}"
                f"{f' in a window of {before}' if before else ''}: {error}. "
                "Give all events of a window values of one type."
            ) from error
        if not self._kinds:
            self._sample = state
        self._kinds.add(kinds)
        return state

    def insert_many(self, values: Iterable[Any]) -> None:
        """Add events in order."""
        for value in values:
            self.insert(value)

    @abstractmethod
    def insert_state(self, state: Any) -> None:
        """Add the state of a slice at the new end."""

    def evict(self) -> None:
        """Take the oldest event away."""
        if not len(self):
            raise EmptyWindowError(
                "`evict` takes the oldest event of a window, and this one holds none. "
                "Ask `len()` first."
            )
        self._evict()

    @abstractmethod
    def _evict(self) -> None:
        """Take the oldest event of a window that is not empty."""

    def evict_many(self, count: int) -> None:
        """Take the `count` oldest events away."""
        if not is_count(count, 0, len(self)):
            raise EmptyWindowError(
                f"`evict_many` takes between 0 and all {len(self)} events of the window; "
                f"given: {count!r}."
            )
        self._evict_many(count)

    def _evict_many(self, count: int) -> None:
        for _ in range(count):
            self._evict()

    def query(self, *, last: int | None = None) -> Any:
        """The aggregate of the window, or of its newest `last` events."""
        if last is None:
            return self.aggregate.lower(self.query_state())
        if not self.properties.suffixes:
            raise self._no_suffixes(last)
        if not is_count(last, 0, len(self)):
            raise SpanError(
                f"`last` counts events of the window, from 0 to {len(self)} now; given: {last!r}."
            )
        return self.aggregate.lower(self.suffix_state(last))

    @abstractmethod
    def query_state(self) -> Any:
        """The state of the whole window."""

    def suffix_state(self, last: int) -> Any:
        """The state of the newest `last` events, where the algorithm can tell."""
        raise self._no_suffixes(last)

    def _no_suffixes(self, last: int) -> CapabilityError:
        return CapabilityError(
            f"`{type(self).__name__}` answers for its whole window only; given: last={last}. "
            "Use `FlatFAT`, `BInt`, `FlatFIT` or `FiBA`, which answer for any newest part."
        )

    @abstractmethod
    def __len__(self) -> int: ...


def is_count(value: object, least: int, most: float) -> bool:
    """Return `True` if `value` is a whole number from `least` to `most`."""
    return isinstance(value, Integral) and least <= int(value) <= most


class FlatMerger(Merger):
    """A merger whose algorithm is kernels over cursors `p` and state arrays `S`.

    A subclass names its kernels: `insert(p, S, state)` into a window that has room,
    `evict(p, S)` from one that is not empty, `query(p, S)`, and `move(p, S, q, T)`, which carries
    the window over into other arrays; `suffix(p, S, last)` where there is one. `p[0]` is the
    oldest event's number, `p[1]` one more than the newest's, `p[2]` is `capacity - 1`. `p` begins
    with `cursors` numbers; `numbers` more may follow.
    """

    kernels: ClassVar[tuple[Kernel, ...]]
    cursors: ClassVar[int] = 3
    # Whether the number that follows the cursors is the size of chunks, 0 where it may change, and
    # a kernel `work_ahead(p, S)` does what can be done before the window is asked for.
    chunked: ClassVar[bool] = False

    def __init__(self, aggregate: Aggregate) -> None:
        from slicewise.aggregates.interpreted import interpreted

        super().__init__(aggregate)
        algebra = interpreted(aggregate, None, "fed by hand").components[0].algebra
        kernels = self.kernels_for(algebra)
        self._run = {k.__name__: k.specialise(algebra) for k in kernels}
        self._p, self._S = self._room(8)

    @classmethod
    def kernels_for(cls, algebra: Algebra) -> tuple[Kernel, ...]:
        """The kernels that run for `algebra`; refuses one that does not meet the needs."""
        if cls.properties.needs == "invertible" and not algebra.invertible:
            raise CapabilityError(
                f"`{cls.__name__}` needs an `invert`; {algebra.name!r} has none. "
                "Use `TwoStacks`, which needs only `combine`."
            )
        return cls.kernels

    @classmethod
    def compiled(
        cls, aggregate: Aggregate, *types: pa.DataType, length: int | None = None
    ) -> CompiledMerger:
        """A window over columns of these Arrow types, in compiled code.

        There is room for `length` events at once.
        """
        from slicewise.mergers.compiled import CompiledMerger

        return CompiledMerger(cls, aggregate, types, length=length)

    @classmethod
    def needs_ahead(cls, p: Any, leaving: int) -> bool:
        """Return whether work ahead is needed before `leaving` events go, or for an answer."""
        return False

    @classmethod
    def capacity_for(cls, length: int) -> int:
        """The number of events that there is room for in a window of up to `length`."""
        return 1 << max(0, length - 1).bit_length()

    @classmethod
    def slots(cls, capacity: int) -> int:
        """How many states the arrays hold for a window of `capacity` events."""
        return capacity

    @classmethod
    def numbers(cls, capacity: int) -> int:
        """How many numbers follow the cursors for a window of `capacity` events."""
        return 0

    def _room(self, capacity: int) -> tuple[list[int], tuple[list[Any], ...]]:
        cursors = [0] * (self.cursors + self.numbers(capacity))
        cursors[2] = capacity - 1
        return cursors, ([self.aggregate.identity()] * self.slots(capacity),)

    def _resize(self, capacity: int) -> None:
        p, S = self._room(capacity)
        self._run["move"](self._p, self._S, p, S)
        self._p, self._S = p, S

    def insert_state(self, state: Any) -> None:
        capacity = self._p[2] + 1
        if self._p[1] - self._p[0] == capacity:
            self._resize(self.capacity_for(capacity + capacity // 8 + 1))
        self._run["insert"](self._p, self._S, state)

    def _evict(self) -> None:
        self._run["evict"](self._p, self._S)

    def query_state(self) -> Any:
        return self._run["query"](self._p, self._S)

    def suffix_state(self, last: int) -> Any:
        return self._run["suffix"](self._p, self._S, last)

    def __len__(self) -> int:
        return self._p[1] - self._p[0]


insert: Any = OPEN
evict: Any = OPEN
query: Any = OPEN


@kernel
def slide_with(X: Any, valid: Any, length: int, every: int, p: Any, S: Any, out: Any) -> None:
    """Drive a merger over a whole array; `p` and `S` are its room for `length` states."""
    row, wait = 0, every  # counting down is faster than a division per value
    for i in range(X[0].shape[0]):
        if p[1] - p[0] == length:
            evict(p, S)
        if valid is None or valid[i]:
            insert(p, S, lift(X, i))
        else:
            insert(p, S, identity())
        wait -= 1
        if wait == 0:
            wait = every
            store(out, row, query(p, S))
            row += 1


def drive(
    merger: type[FlatMerger], algebra: Algebra, X: Any, valid: Any, length: int, every: int
) -> Any:
    """The states of `slide_with` by `merger`, one per result."""
    p, S = arrays_for(merger, algebra, length)
    out = algebra.new(len(X[0]) // every)
    # Only `recalc` combines a whole window for each result.
    combines = length if merger.name == "recalc" else every
    results = max(1, tuning.active().combines_done // combines)
    work = len(X[0]) // every * combines
    run = slide_with.specialise(algebra, using=merger.kernels_for(algebra), work=work)
    for first in range(0, -(-len(X[0]) // every), results):  # Ctrl-C is heard between them
        rows = slice(first * every, (first + results) * every)
        some = None if valid is None else valid[rows]
        made = tuple(array[first : first + results] for array in out)
        run(tuple(x[rows] for x in X), some, length, every, p, S, made)
    return out


def arrays_for(merger: type[FlatMerger], algebra: Algebra, length: int) -> tuple[Any, Any]:
    """Cursors and states for a merger of at most `length` events.

    One number more follows the cursors, for the count of kernels that are `tallied`.
    """
    import numpy as np

    capacity = merger.capacity_for(length)
    p = np.zeros(merger.cursors + merger.numbers(capacity) + 1, np.int64)
    p[2] = capacity - 1
    S = algebra.new(merger.slots(capacity))
    identity_states.specialise(algebra)(S, merger.slots(capacity))
    return p, S


@kernel
def identity_states(S: Any, size: int) -> None:
    """Fill arrays with the neutral state."""
    neutral = identity()
    for i in range(size):
        store(S, i, neutral)
