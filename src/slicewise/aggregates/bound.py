"""Aggregates bound to the types of their columns: components that are stored, merged and shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.product import Finish, Place
from slicewise.columns import Column

if TYPE_CHECKING:
    from slicewise.aggregates.base import Aggregate

Part = Literal["values", "valid", "plain", "objects", "rows"]
States = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """What a component reads of a column.

    `"values"` is the array of a `Column`, `"valid"` whether each value is there, `"plain"` the
    values as Python numbers (of dates and times as integers), `"objects"` as Python objects.
    `"rows"` reads no column: only how many rows there are matters.
    """

    column: str
    part: Part = "values"


@dataclass(frozen=True, slots=True)
class Component:
    """An algebra on columns: the unit that is stored, merged and shared among aggregates.

    Events in which one of the columns `required` is null are skipped. `provides` names smaller
    components whose fields are among this one's: who needs one of those reads it here. `take_over`
    makes its states of those of the component that stood in its place while some column had nothing
    but nulls; without one, events with such nulls leave no trace. `spark`, where there is one,
    makes Spark's own aggregates for the fields of the state, of `pyspark.sql.functions` and the
    columns; a field is null where no event has a value.
    """

    algebra: Algebra
    inputs: tuple[Input, ...]
    required: tuple[str, ...]
    provides: tuple[tuple[Component, tuple[int, ...]], ...] = field(default=(), compare=False)
    take_over: Callable[[States], States] | None = field(default=None, compare=False)
    spark: Callable[..., list[Any]] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """An aggregate on columns of known types: components, and the way from states to results.

    `lower` takes the state arrays of each component and returns a column of results. `reason`
    says why it is interpreted, and is empty when it is compiled. `finish`, where there is one, is
    `lower` for one state, compiled. `if_any` says that the first component is a count of which
    `lower` only asks whether it is positive.
    """

    aggregate: Aggregate
    components: tuple[Component, ...]
    lower: Callable[[Sequence[States]], Column]
    reason: str = ""
    finish: Finish | None = None
    if_any: bool = False

    @property
    def compiled(self) -> bool:
        return not self.reason


def bound_columns(aggregate: Aggregate) -> tuple[str, ...]:
    """The names of the input columns; made-up ones while none were given."""
    return aggregate.columns or tuple(f"x{k}" for k in range(aggregate.arity))


def read(
    component: Component, columns: Mapping[str, Column], rows: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """The input arrays of a component, and which of the `rows` events it takes (`None`: all)."""
    arrays = tuple(_read(item, columns, rows) for item in component.inputs)
    return arrays, taken(component, columns)


def taken(component: Component, columns: Mapping[str, Column]) -> np.ndarray | None:
    """Which events a component takes (`None`: all)."""
    valid: np.ndarray | None = None
    for name in component.required:
        mask = columns[name].valid
        if mask is not None:
            valid = mask if valid is None else valid & mask
    return valid


def _read(item: Input, columns: Mapping[str, Column], rows: int) -> np.ndarray:
    if item.part == "rows":
        return np.zeros(rows, np.bool_)
    column = columns[item.column]
    if item.part == "valid":
        return np.ones(rows, np.bool_) if column.valid is None else column.valid
    if item.part == "plain":
        plain = column.values.astype(object)
        if column.valid is not None:
            plain[~column.valid] = None
        return plain
    if item.part == "objects":
        values = np.empty(rows, dtype=object)
        values[:] = column.tolist()
        return values
    return column.values


def reads(component: Component) -> list[str]:
    """The columns that a component reads."""
    inputs = [item.column for item in component.inputs if item.part != "rows"]
    return [*inputs, *component.required]


def share(bounds: Sequence[Bound]) -> list[Component]:
    """The components that must be kept so that every bound aggregate finds its own."""
    wanted = dict.fromkeys(c for bound in bounds for c in bound.components)
    provided = {small for c in wanted for small, _ in c.provides}
    return [c for c in wanted if c not in provided]


def states_of(component: Component, kept: Sequence[Component], states: Sequence[States]) -> States:
    """The state arrays of `component` among those of the kept components."""
    k, fields = place_of(component, kept)
    return states[k] if fields is None else tuple(states[k][n] for n in fields)


def place_of(component: Component, kept: Sequence[Component]) -> Place:
    """Which of the kept components has the states of `component`, and in which fields if not all.

    No fields are named when it is the component itself.
    """
    for k, candidate in enumerate(kept):
        if candidate == component:
            return k, None
    for k, candidate in enumerate(kept):
        for small, fields in candidate.provides:
            if small == component:
                return k, fields
    raise AssertionError(f"no kept component provides {component.algebra.name}")
