"""Windows and aggregates in a form that can be sent to workers.

Aggregates are bound on the driver once, which finds their errors and the types of their results.
User-defined ones are compiled from their source, which a worker cannot read when it was typed into
a notebook, so what was made of it is sent along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, bound_columns
from slicewise.aggregates.own import Definition, definition, is_own, teach
from slicewise.errors import AggregateError, ColumnTypeError
from slicewise.slicing.settings import CHOSEN, Merging
from slicewise.spark.frames import unused
from slicewise.times import Measure
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Query:
    """Windows and aggregates over a table with columns of known types.

    `order` has the columns that decide between events of one key and time, where that matters.
    `definitions` has, for each user-defined aggregate, what was made of its source. `merging` is
    for the operators that answer it.
    """

    windows: tuple[Window, ...]
    aggs: tuple[Aggregate, ...]
    time: str
    by: tuple[str, ...]
    types: dict[str, pa.DataType]
    definitions: tuple[Definition | None, ...]
    order: tuple[str, ...] = ()
    unit: str | None = None
    merging: Merging = CHOSEN

    @staticmethod
    def of(
        windows: Sequence[Window],
        aggs: Sequence[Aggregate],
        time: str,
        by: Sequence[str],
        types: dict[str, pa.DataType],
        order: Sequence[str] = (),
        unit: str | None = None,
    ) -> Query:
        """The query, with its aggregates tried on the types of their columns."""
        definitions = tuple(
            definition(agg, input_types(agg, types)) if is_own(agg) else None for agg in aggs
        )
        return Query(
            tuple(windows), tuple(aggs), time, tuple(by), types, definitions, tuple(order), unit
        )

    @property
    def measure(self) -> Measure:
        """The meaning of lengths of time beside the time column."""
        return Measure.of(self.time, self.types[self.time], self.unit)

    def bounds(self) -> list[Bound]:
        """The aggregates bound to the types of their columns."""
        for agg, made in zip(self.aggs, self.definitions, strict=True):
            if made is not None:
                teach(agg, input_types(agg, self.types), made)
        return [agg.bind(input_types(agg, self.types)) for agg in self.aggs]

    def only(self, agg: Aggregate) -> Query:
        """The query with one of its aggregates."""
        made = self.definitions[self.aggs.index(agg)]
        return replace(self, aggs=(agg,), definitions=(made,))

    def named(self, table: pa.Table) -> pa.Table:
        """The table with the names of its columns, which travel by position as in `types`.

        What comes behind them is ours.
        """
        own = [unused(name, self.types) for name in table.column_names[len(self.types) :]]
        return table.rename_columns([*self.types, *own])

    def read(self, table: pa.Table) -> pa.Table:
        """The table with the types that the aggregates were bound to: time zones may differ.

        Any column may have nulls, as far as the schema says: tables then fit together.
        """
        import pyarrow as pa

        table = retyped(table, self.types)
        return pa.Table.from_arrays(table.columns, names=table.column_names)


def retyped(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """The table with columns of these types; others stay as they are."""
    for place, field in enumerate(table.schema):
        kind = types.get(field.name, field.type)
        if kind != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table


def input_types(agg: Aggregate, types: dict[str, pa.DataType]) -> list[pa.DataType]:
    """The types of an aggregate's columns."""
    import pyarrow as pa

    return [types[c] for c in agg.columns] or [pa.int64()] * len(bound_columns(agg))


def result_types(bounds: Sequence[Bound], types: dict[str, pa.DataType]) -> list[pa.DataType]:
    """The types of results, without a single one of them."""
    import pyarrow as pa

    found = []
    for bound in bounds:
        kind = bound.lower([c.algebra.new(0) for c in bound.components]).type
        if pa.types.is_null(kind):
            kind = _tried(bound.aggregate, input_types(bound.aggregate, types))
        found.append(kind)
    return found


def _tried(agg: Aggregate, types: Sequence[pa.DataType]) -> pa.DataType:
    """The type of the result over made-up events: what Python makes of it is not known else."""
    import pyarrow as pa

    if agg.returns is not None:
        return agg.returns
    try:
        values = [tuple(_sample(kind, k) for kind in types) for k in (1, 2, 3)]
        events = values if agg.arity > 1 else [value[0] for value in values]
        kind = pa.array([agg.fold(events)]).type
    except Exception as error:
        raise _unknown(agg, f"{type(error).__name__}: {error}") from error
    if pa.types.is_null(kind):
        raise _unknown(agg, "its result is null")
    return kind


def _unknown(agg: Aggregate, why: str) -> AggregateError:
    return AggregateError(
        f"Spark must know the type of every result before it runs, and that of {agg.output!r} "
        f"cannot be told: tried on made-up events, {why}. Correct that, or say the type in the "
        "class of the aggregate, such as `returns = pa.float64()`."
    )


def _sample(kind: pa.DataType, number: int) -> Any:
    """A value of an Arrow type."""
    import pyarrow as pa

    candidates: tuple[Any, ...] = (number, str(number), [], {})
    for candidate in candidates:
        try:
            return pa.scalar(candidate, kind).as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError):
            continue
    raise ColumnTypeError(f"There is no made-up value of {kind}.")
