"""The laws of an aggregate, checked on examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import bound_columns, read
from slicewise.aggregates.laws import Laws, Run, same
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, store
from slicewise.columns import Column
from slicewise.errors import AggregateError


def check_aggregate(aggregate: Aggregate | type[Aggregate], examples: Iterable[Any]) -> None:
    """Raise `LawError` if `aggregate` breaks a law on some of the examples.

    The examples are events: values, or tuples of values when there are several columns. A handful
    is enough; take such as differ much, and some twice. The laws are: `identity` is neutral,
    `combine` is associative and leaves its arguments as they are, `invert` undoes it, `combine`
    commutes if `commutative` says so and returns one of its arguments if `selective` does, and
    compiled code gives the answers that Python gives.

    Results, not states, are compared, floats to nine digits: prefer whole numbers as examples.

    Args:
        aggregate: An aggregate, or its class.
        examples: Some events: values, or tuples of values where there are several columns.

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
    events = [
        event
        for event in examples
        if not aggregate.skips(event if aggregate.arity > 1 else (event,))
    ]
    if len(events) < 2:
        raise AggregateError(
            f"The laws of `{aggregate.name}` are checked on at least 2 examples that are not null; "
            f"given: {len(events)}."
        )
    laws = CompiledLaws(aggregate, events)
    laws.check()
    laws.compiled_code_agrees()


class CompiledLaws(Laws):
    """The laws, and that compiled code keeps to what Python does."""

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


def _columns(aggregate: Aggregate, events: Sequence[Any]) -> dict[str, Column]:
    import pyarrow as pa

    names = bound_columns(aggregate)
    values = zip(*events, strict=True) if aggregate.arity > 1 else [events]
    arrays = [pa.array(list(column)) for column in values]
    return {name: Column.from_arrow(a) for name, a in zip(names, arrays, strict=True)}
