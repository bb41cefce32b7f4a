"""Aggregates as they stand: their methods on Python objects, and columns of what these return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.bound import Bound, Component, Input, Part, States, bound_columns
from slicewise.codegen.algebra import Algebra
from slicewise.columns import Column
from slicewise.errors import AggregateError
from slicewise.names import written

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.aggregates.base import Aggregate

# What Arrow raises, beside errors of its own, for values of which it makes no column.
UNFIT = (ValueError, TypeError, OverflowError)


def type_of_nulls(column: str, aggs: Sequence[Aggregate]) -> pa.DataType:
    """A type for a column of nothing but nulls that these aggregates take: numbers if they can."""
    import pyarrow as pa

    takers = {
        a.takes[min(k, len(a.takes) - 1)]
        for a in aggs
        for k, c in enumerate(bound_columns(a))
        if c == column
    }
    return pa.string() if "strings" in takers else pa.float64()


def typed_nulls(columns: Mapping[str, Column], aggs: Sequence[Aggregate]) -> dict[str, Column]:
    """The columns; those of nothing but nulls have a type that the aggregates take."""
    import pyarrow as pa

    return {
        name: Column.from_arrow(pa.nulls(len(column), type_of_nulls(name, aggs)))
        if pa.types.is_null(column.type)
        else column
        for name, column in columns.items()
    }


def interpreted(
    aggregate: Aggregate, kind: pa.DataType | None, reason: str, *, part: Part = "plain"
) -> Bound:
    """Run the methods of `aggregate` as they stand, on Python values.

    `kind` is the type of the results; `None` lets Arrow infer it.
    """
    columns = bound_columns(aggregate)
    methods = ["identity", "lift", "combine", "lower"]
    if aggregate.invertible:
        methods.append("invert")
    options = {k: v for k, v in vars(aggregate).items() if k not in ("columns", "_alias")}
    algebra = Algebra(
        # Snapshots tell states apart by it, so it stays what it was in earlier releases.
        name=written(aggregate.name, aggregate.columns, options, vars(aggregate).get("_alias")),
        inputs=len(columns),
        functions=tuple((method, Method(aggregate, method)) for method in methods),
        selective=aggregate.selective,
    )
    inputs = tuple(Input(column, part) for column in columns)
    component = Component(algebra, inputs, tuple(aggregate.needed(columns)))
    finish = Method(aggregate, "lower")

    def lower(states: Sequence[States]) -> Column:
        return objects_column([finish(s) for s in states[0][0]], kind, aggregate)

    return Bound(aggregate, (component,), lower, reason)


@dataclass(frozen=True)
class Method:
    """A method of an aggregate; an error that it raises is told which aggregate it is about."""

    aggregate: Aggregate
    method: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", getattr(self.aggregate, self.method))

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.run(*arguments)  # type: ignore[attr-defined]  # set when it is made
        except Exception as error:
            error.add_note(f"raised by `{self.method}` of the aggregate {self.aggregate!r}")
            raise


def objects_column(values: list[Any], kind: pa.DataType | None, aggregate: Aggregate) -> Column:
    """The column of what `lower` of an aggregate returned; `None` lets Arrow infer its type.

    Values of which Arrow makes no column are an error.
    """
    import pyarrow as pa

    try:
        return _cast(pa.array(values, type=None if kind is None else _single(kind)), kind)
    except (pa.ArrowException, *UNFIT) as error:
        raise no_common_type(aggregate, error) from error


def fitting_column(values: list[Any], kind: pa.DataType | None) -> tuple[Column, int]:
    """The column of values of which Arrow makes none together, and how many of them were lost.

    Those that do not go with the first one are null.
    """
    import pyarrow as pa

    wanted, kind = kind, None if kind is None else _single(kind)
    fitting: list[Any] = []
    lost = 0
    for value in values:
        try:
            item = pa.scalar(value, type=kind)
        except (pa.ArrowException, *UNFIT):
            item = pa.scalar(None)
            lost += 1
        if kind is None and item.is_valid:
            kind = item.type
        fitting.append(item.as_py())
    return _cast(pa.array(fitting, type=kind), wanted), lost


def no_common_type(aggregate: Aggregate, error: Exception) -> AggregateError:
    """The error for results of an aggregate of which Arrow makes no column."""
    return AggregateError(
        f"`lower` of the aggregate {aggregate!r} must return values of one type, or `None`; what "
        f"it returned makes no column: {error}. Convert the values there; `returns` of its class "
        "may name their Arrow type."
    )


def _cast(array: pa.Array, wanted: pa.DataType | None) -> Column:
    return Column.from_arrow(array if wanted in (None, array.type) else array.cast(wanted))


def _single(kind: pa.DataType) -> pa.DataType:
    """The type with floats of single precision for those of half precision.

    Not every release of Arrow makes half precision of Python's floats.
    """
    import pyarrow as pa

    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list(kind):
        return pa.list_(_single(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_single(field.type)) for field in kind])
    return kind
