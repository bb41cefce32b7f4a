"""The laws of an aggregate, and their check on the first rows of a first run.

A `combine` that changes its arguments gives wrong results without a word, since windows share
states. So before an aggregate of a user's own runs for the first time in a process, its laws are
tried on a few of its first events.
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import bound_columns
from slicewise.columns import Column
from slicewise.errors import LawError

MOST_EVENTS = 12  # that are tried one by one; longer runs take in the rest
MOST_CASES = 2000  # of each law
FIRST_ROWS = 32  # among which the events of a first run are chosen
FIRST_EVENTS = 3
FIRST_CASES = 12
COARSE = 1e-6  # how far apart floats may be that rounding alone has put apart

# Classes of aggregates that have kept the laws, or of which nothing can be said.
_tried: WeakSet[type[Aggregate]] = WeakSet()


def check_first_run(aggs: Sequence[Aggregate], columns: Mapping[str, Column]) -> None:
    """Raise `LawError` if an aggregate of a user's own breaks a law on some of the first rows.

    Each class is tried once in a process, on a copy that may be changed. Events for which it raises
    errors are left out, since it may do so on purpose. Floats are compared as coarsely as rounding
    may make them, and what gives another answer each time has no laws.
    """
    for aggregate in aggs:
        kind = type(aggregate)
        if kind.bind is not Aggregate.bind or not kind.laws or kind in _tried:
            continue
        try:
            events = _first_events(copy.deepcopy(aggregate), columns)
            if len(events) < 2:
                continue  # perhaps there are more in the next batch
            laws, again = (FirstLaws(copy.deepcopy(aggregate), events) for _ in range(2))
            if laws.same([run.state for run in laws.runs], [run.state for run in again.runs]):
                laws.check()
        except LawError as error:
            error.add_note(
                f"`laws = False` in the class `{kind.__name__}` leaves out this check of the first "
                "rows, where an answer that is only about right is wanted."
            )
            raise
        except Exception:
            pass
        _tried.add(kind)


def _first_events(aggregate: Aggregate, columns: Mapping[str, Column]) -> list[Any]:
    """A few of the first events that an aggregate takes, different ones if there are."""
    names = bound_columns(aggregate)
    values = [columns[name].take(slice(0, FIRST_ROWS)).tolist() for name in names]
    taken = []
    for row in zip(*values, strict=True):
        if aggregate.skips(row) or not all(map(math.isfinite, numbers_in(row))):
            continue
        try:
            aggregate.lift(*row)
        except Exception:
            continue
        taken.append(row if aggregate.arity > 1 else row[0])
    others = [event for k, event in enumerate(taken) if event not in taken[:k]]
    return (others + taken)[: min(FIRST_EVENTS, len(taken))]


def numbers_in(value: Any) -> Iterator[float]:
    """The floats and whole numbers of a value, at any depth."""
    if isinstance(value, float | int | np.number):
        size: Any = abs(value)
        yield float(size) if size < 1e300 else math.inf
    elif isinstance(value, np.ndarray):
        yield from numbers_in(value.tolist())
    elif isinstance(value, Mapping):
        yield from numbers_in(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from numbers_in(part)
    elif hasattr(value, "__dict__"):
        yield from numbers_in(vars(value))


@dataclass(frozen=True, slots=True)
class Run:
    """Events and their state."""

    events: tuple[Any, ...]
    state: Any

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.events))}]"


class Laws:
    """The laws of an aggregate on runs of some events; a method for each raises `LawError`."""

    def __init__(
        self, aggregate: Aggregate, events: Sequence[Any], most_cases: int = MOST_CASES
    ) -> None:
        self.most_cases = most_cases
        self.aggregate = aggregate
        self.events = events
        apart = range(0, len(events), max(1, len(events) // MOST_EVENTS))
        singles = [(events[k],) for k in apart][:MOST_EVENTS]
        pairs = [(*a, *b) for a, b in itertools.pairwise(singles)]
        longer = [tuple(events), tuple(reversed(events))]
        self.runs = [Run(run, self._state(run)) for run in [*singles, *pairs, *longer]]
        self.nothing = Run((), aggregate.identity())
        self.random = random.Random(0)

    def check(self) -> None:
        """All laws, in an order in which the first message says the most."""
        self.combine_leaves_its_arguments()
        self.identity_is_neutral()
        self.combine_is_associative()
        if self.aggregate.commutative:
            self.combine_commutes()
        if self.aggregate.selective:
            self.combine_selects()
        if self.aggregate.invertible:
            self.invert_undoes_combine()

    def same(self, one: Any, other: Any) -> bool:
        """Return whether two states or results are equal."""
        return same(one, other)

    def _state(self, events: Sequence[Any]) -> Any:
        # Starting at `identity` would hide a wrong one.
        states = [lifted(self.aggregate, event) for event in events]
        state = states[0]
        for newer in states[1:]:
            state = self.aggregate.combine(state, newer)
        return state

    def _cases(self, size: int) -> Iterable[tuple[Run, ...]]:
        if len(self.runs) ** size <= self.most_cases:
            return itertools.product(self.runs, repeat=size)
        return (tuple(self.random.choices(self.runs, k=size)) for _ in range(self.most_cases))

    def _difference(self, one: Any, other: Any) -> tuple[Any, Any] | None:
        """Results in which two states differ, now or after another run; `None` if in none."""
        combine, lower = self.aggregate.combine, self.aggregate.lower
        if self.same(one, other):
            return None
        before, after = self.runs[0].state, self.runs[-1].state
        views: list[Callable[[Any], Any]] = [
            lower,
            lambda state: lower(combine(before, state)),
            lambda state: lower(combine(state, after)),
        ]
        for view in views:
            results = view(one), view(other)
            if not self.same(*results):
                return results
        return None

    def _fail(self, broken: str, law: str, results: tuple[Any, Any], where: str, why: str) -> None:
        raise LawError(
            f"{broken}: {law}, which should be the same, lead to {results[0]!r} and "
            f"{results[1]!r}{where}. {why}"
        )

    def identity_is_neutral(self) -> None:
        for run in self.runs:
            for law, state in (
                ("combine(identity(), a)", self.aggregate.combine(self.nothing.state, run.state)),
                ("combine(a, identity())", self.aggregate.combine(run.state, self.nothing.state)),
            ):
                if results := self._difference(state, run.state):
                    self._fail(
                        f"`identity` of `{self.aggregate.name}` is not neutral",
                        f"{law} and a",
                        results,
                        f" for the state a of the events {run}",
                        "Slices without events must not change a result.",
                    )

    def combine_leaves_its_arguments(self) -> None:
        for a, b in self._cases(2):
            before = copy.deepcopy((a.state, b.state))
            self.aggregate.combine(a.state, b.state)
            for name, run, kept in zip("ab", (a, b), before, strict=True):
                if results := self._difference(run.state, kept):
                    self._fail(
                        f"`combine` of `{self.aggregate.name}` changes its arguments",
                        f"{name} after and before combine(a, b)",
                        results,
                        f" for the states of the events a = {a} and b = {b}",
                        "Windows share states: return a new one.",
                    )

    def combine_is_associative(self) -> None:
        combine = self.aggregate.combine
        for a, b, c in self._cases(3):
            left = combine(combine(a.state, b.state), c.state)
            right = combine(a.state, combine(b.state, c.state))
            if results := self._difference(left, right):
                self._fail(
                    f"`combine` of `{self.aggregate.name}` is not associative",
                    "combine(combine(a, b), c) and combine(a, combine(b, c))",
                    results,
                    f" for the states of the events a = {a}, b = {b} and c = {c}",
                    "Results would depend on where slices begin and end.",
                )

    def combine_commutes(self) -> None:
        for a, b in self._cases(2):
            one = self.aggregate.combine(a.state, b.state)
            if results := self._difference(one, self.aggregate.combine(b.state, a.state)):
                self._fail(
                    f"`{self.aggregate.name}` says `commutative = True` and does not commute",
                    "combine(a, b) and combine(b, a)",
                    results,
                    f" for the states of the events a = {a} and b = {b}",
                    "Leave the flag out: then events are kept in order.",
                )

    def combine_selects(self) -> None:
        for a, b in self._cases(2):
            state = self.aggregate.combine(a.state, b.state)
            results = self._difference(state, a.state)
            if results and self._difference(state, b.state):
                self._fail(
                    f"`{self.aggregate.name}` says `selective = True` and does not select",
                    "combine(a, b) and a (or b)",
                    results,
                    f" for the states of the events a = {a} and b = {b}",
                    "Leave the flag out: it is for aggregates such as a maximum.",
                )

    def invert_undoes_combine(self) -> None:
        for a, b in [*self._cases(2), *((run, self.nothing) for run in self.runs)]:
            total = self.aggregate.combine(a.state, b.state)
            if results := self._difference(self.aggregate.invert(total, a.state), b.state):
                self._fail(
                    f"`invert` of `{self.aggregate.name}` does not undo `combine`",
                    "invert(combine(a, b), a) and b",
                    results,
                    f" for the states of the events a = {a} and b = {b}",
                    "What leaves a window would leave a trace.",
                )


class FirstLaws(Laws):
    """The laws on whatever comes first: what may be rounding is no breach of them."""

    def __init__(self, aggregate: Aggregate, events: Sequence[Any]) -> None:
        super().__init__(aggregate, events, FIRST_CASES)
        self.scale = max(
            map(abs, numbers_in([events, [run.state for run in self.runs]])), default=1.0
        )

    def same(self, one: Any, other: Any) -> bool:
        if type(one) is type(other) and hasattr(one, "__dict__"):
            return self.same(vars(one), vars(other))
        if not all(map(math.isfinite, numbers_in([one, other]))):
            return True  # too large to tell
        return same(one, other, COARSE, COARSE * self.scale)


def same(one: Any, other: Any, rel: float = 1e-9, apart: float = 1e-9) -> bool:
    """Return whether results are equal: floats to nine digits unless told otherwise, NaN to NaN."""
    if isinstance(one, float | np.floating) or isinstance(other, float | np.floating):
        try:
            a, b = float(one), float(other)
        except (TypeError, ValueError, OverflowError):
            return False
        return (a != a and b != b) or math.isclose(a, b, rel_tol=rel, abs_tol=apart)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return same(one.tolist(), other.tolist(), rel, apart)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same(a, b, rel, apart) for a, b in pairs)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        equal = one.keys() == other.keys()
        return equal and all(same(one[key], other[key], rel, apart) for key in one)
    return bool(one == other)


def lifted(aggregate: Aggregate, event: Any) -> Any:
    """The state of an event: a value, or a tuple of values when there are several columns."""
    return aggregate.lift(*(event if aggregate.arity > 1 else (event,)))
