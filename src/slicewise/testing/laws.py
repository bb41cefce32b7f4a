"""The laws of an aggregate, checked on examples."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.aggregates.base import Aggregate, bound_columns, read
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, store
from slicewise.columns import Column
from slicewise.errors import AggregateError, LawError

MOST_EVENTS = 12  # that are tried one by one; longer runs take in the rest
MOST_CASES = 2000  # of each law


def check_aggregate(aggregate: Aggregate | type[Aggregate], examples: Iterable[Any]) -> None:
    """Raise `LawError` if `aggregate` breaks a law on some of the examples.

    The examples are events: values, or tuples of values when there are several columns. A handful
    is enough; take such as differ much, and some twice. The laws are: `identity` is neutral,
    `combine` is associative and leaves its arguments as they are, `invert` undoes it, `combine`
    commutes if `commutative` says so and returns one of its arguments if `selective` does, and
    compiled code gives the answers that Python gives.

    Results, not states, are compared, floats to nine digits: prefer whole numbers as examples.

    >>> import slicewise as sw
    >>> class Average(sw.Aggregate):
    ...     def identity(self):
    ...         return 0.0
    ...     def lift(self, x):
    ...         return x
    ...     def combine(self, older, newer):
    ...         return (older + newer) / 2
    ...     def lower(self, state):
    ...         return state
    >>> sw.testing.check_aggregate(Average, [1.0, 2.0, 6.0])
    Traceback (most recent call last):
    ...
    slicewise.errors.LawError: `identity` of `average` is not neutral: ...
    """
    if isinstance(aggregate, type):
        aggregate = aggregate()
    events = [event for event in examples if not _skipped(aggregate, event)]
    if len(events) < 2:
        raise AggregateError(
            f"The laws of `{aggregate.name}` are checked on at least 2 examples that are not null; "
            f"given: {len(events)}."
        )
    laws = _Laws(aggregate, events)
    laws.combine_leaves_its_arguments()
    laws.identity_is_neutral()
    laws.combine_is_associative()
    if aggregate.commutative:
        laws.combine_commutes()
    if aggregate.selective:
        laws.combine_selects()
    if aggregate.invertible:
        laws.invert_undoes_combine()
    laws.compiled_code_agrees()


@dataclass(frozen=True, slots=True)
class Run:
    """Events and their state."""

    events: tuple[Any, ...]
    state: Any

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.events))}]"


class _Laws:
    def __init__(self, aggregate: Aggregate, events: Sequence[Any]) -> None:
        self.aggregate = aggregate
        self.events = events
        apart = range(0, len(events), max(1, len(events) // MOST_EVENTS))
        singles = [(events[k],) for k in apart][:MOST_EVENTS]
        pairs = [(*a, *b) for a, b in itertools.pairwise(singles)]
        longer = [tuple(events), tuple(reversed(events))]
        self.runs = [Run(run, self._state(run)) for run in [*singles, *pairs, *longer]]
        self.nothing = Run((), aggregate.identity())
        self.random = random.Random(0)

    def _state(self, events: Sequence[Any]) -> Any:
        # Starting at `identity` would hide a wrong one.
        states = [_lift(self.aggregate, event) for event in events]
        state = states[0]
        for newer in states[1:]:
            state = self.aggregate.combine(state, newer)
        return state

    def _cases(self, size: int) -> Iterable[tuple[Run, ...]]:
        if len(self.runs) ** size <= MOST_CASES:
            return itertools.product(self.runs, repeat=size)
        return (tuple(self.random.choices(self.runs, k=size)) for _ in range(MOST_CASES))

    def _difference(self, one: Any, other: Any) -> tuple[Any, Any] | None:
        """Results in which two states differ, now or after another run; `None` if in none."""
        combine, lower = self.aggregate.combine, self.aggregate.lower
        if same(one, other):
            return None
        before, after = self.runs[0].state, self.runs[-1].state
        views: list[Callable[[Any], Any]] = [
            lower,
            lambda state: lower(combine(before, state)),
            lambda state: lower(combine(state, after)),
        ]
        for view in views:
            results = view(one), view(other)
            if not same(*results):
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

    def compiled_code_agrees(self) -> None:
        columns = _columns(self.aggregate, self.events)
        bound = self.aggregate.bind([column.type for column in columns.values()])
        if not bound.compiled:
            return
        try:
            states = []
            for component in bound.components:
                X, valid = read(component, columns, len(self.events))
                out = component.algebra.new(1)
                fold_all.specialise(component.algebra)(X, valid, len(self.events), out)
                states.append(out)
            result = bound.lower(states).tolist()[0]
        except OverflowError:
            return  # Python has integers of any size, and compiled code said that it has not
        results = (result, self.aggregate.fold(self.events))
        if not same(*results):
            self._fail(
                f"compiled code of `{self.aggregate.name}` differs from Python",
                "the compiled and the interpreted result",
                results,
                f" for the events {Run(tuple(self.events), None)}",
                "Compiled integers have 64 bits; `compile = False` keeps it interpreted.",
            )


@kernel
def fold_all(X: Any, valid: Any, size: int, out: Any) -> None:
    """Store the state of all events."""
    state = identity()
    for i in range(size):
        if valid is None or valid[i]:
            state = combine(state, lift(X, i))
    store(out, 0, state)


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal; floats to nine digits, NaN to itself."""
    if isinstance(one, float | np.floating) or isinstance(other, float | np.floating):
        try:
            a, b = float(one), float(other)
        except (TypeError, ValueError, OverflowError):
            return False
        return (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return same(one.tolist(), other.tolist())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _skipped(aggregate: Aggregate, event: Any) -> bool:
    return aggregate.skips(event if aggregate.arity > 1 else (event,))


def _lift(aggregate: Aggregate, event: Any) -> Any:
    return aggregate.lift(*(event if aggregate.arity > 1 else (event,)))


def _columns(aggregate: Aggregate, events: Sequence[Any]) -> dict[str, Column]:
    import pyarrow as pa

    names = bound_columns(aggregate)
    values = zip(*events, strict=True) if aggregate.arity > 1 else [events]
    arrays = [pa.array(list(column)) for column in values]
    return {name: Column.from_arrow(a) for name, a in zip(names, arrays, strict=True)}
