"""The algebra of aggregates (Reactive Aggregator, VLDB 2015, Section 2; Scotty, TODS 2020, 4.2).

An aggregate is `identity`, `lift`, `combine` and `lower`: `lift` makes the state of one event,
`combine(older, newer)` merges the states of two neighbouring runs of events, `lower` turns a
state into the result, and `identity` is the state of no event. `combine` must be associative and
need not commute; `invert`, where there is one, takes the oldest part away again.

These methods say what an aggregate means. How it runs is decided when it is bound to the types of
its columns: as components, compiled algebras with flat state arrays that aggregates share, or as
it stands here, on Python objects.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.product import Finish, Place
from slicewise.columns import Column
from slicewise.errors import AggregateError
from slicewise.names import column_name, snake_case
from slicewise.suggestions import check_names

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["distributive", "algebraic", "holistic"]
Part = Literal["values", "valid", "plain", "objects", "rows"]
States = tuple[np.ndarray, ...]

# What Arrow raises, beside errors of its own, for values of which it makes no column.
UNFIT = (ValueError, TypeError, OverflowError)


class Aggregate:
    """Base of every aggregate, built-in or your own.

    A subclass defines `identity`, `lift`, `combine` and `lower`; the parameters of `lift` are the
    input columns. Events with a null in one of them are skipped. Set `commutative = True` when
    the order of events does not matter, and define `invert` when the oldest part of a state can be
    taken away exactly. Set `selective = True` when `combine` always returns one of its arguments,
    as a maximum does. Numbers are compiled where Numba can (integers then have 64 bits);
    `compile = False` keeps an aggregate interpreted.

    >>> class Vwap(Aggregate):
    ...     commutative = True
    ...     def identity(self):
    ...         return (0.0, 0.0)
    ...     def lift(self, price, volume):
    ...         return (price * volume, volume)
    ...     def combine(self, older, newer):
    ...         return (older[0] + newer[0], older[1] + newer[1])
    ...     def lower(self, state):
    ...         return state[0] / state[1] if state[1] else None
    >>> vwap = Vwap("price", "volume")
    >>> vwap.output, vwap.fold([(10.0, 2.0), (20.0, 2.0)])
    ('price_vwap', 15.0)
    """

    name: ClassVar[str] = ""
    commutative: ClassVar[bool] = False
    selective: ClassVar[bool] = False
    kind: ClassVar[Kind] = "algebraic"
    compile: ClassVar[bool] = True

    # Whether the laws of an aggregate of one's own are tried on the first rows of a first run.
    laws: ClassVar[bool] = True
    # The Arrow type of results that are neither numbers nor booleans; `None` lets Arrow infer it.
    returns: ClassVar[Any] = None
    # What each column must hold: "numbers", "ordered", "strings" or "any".
    takes: ClassVar[tuple[str, ...]] = ("any",)
    # Which of its columns each result is a value of, if it is one: results then have its type.
    picks: ClassVar[int | None] = None
    # What it is given beside its columns where one of each aggregate is made: laws, tables.
    example: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    # How many input columns there are: the parameters of `lift`.
    arity: ClassVar[int] = 1

    # What a query has to name; `sw.slide` and mergers need no names of columns.
    __signature__: ClassVar[inspect.Signature] = inspect.Signature(
        [inspect.Parameter("columns", inspect.Parameter.VAR_POSITIONAL, annotation=str)]
    )

    columns: tuple[str, ...]
    _alias: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = snake_case(cls.__name__)
        static = isinstance(inspect.getattr_static(cls, "lift"), staticmethod)
        inputs = list(inspect.signature(cls.lift).parameters.values())[not static :]
        cls.arity = len(inputs)
        if "__signature__" not in cls.__dict__:
            cls.__signature__ = _signature(cls, inputs)

    def __new__(cls, *columns: Any, **options: Any) -> Self:
        """Refuse options that there are not, before an object is made."""
        check_names(cls.name, cls.__signature__.parameters, options)
        return super().__new__(cls)

    def __init__(self, *columns: str, **named: str) -> None:
        arity = self.arity
        if named:
            columns = self.__signature__.bind(*columns, **named).args
        columns = tuple(column_name(self.name, column) for column in columns)
        if not all(isinstance(column, str) for column in columns):
            given = ", ".join(repr(column) for column in columns)
            raise AggregateError(
                f"`{self.name}` takes the names of its columns as strings; given: {given}."
            )
        if columns and len(columns) != arity:
            raise AggregateError(
                f"`{self.name}` takes {arity} column{'s' * (arity != 1)}; given: "
                f"{len(columns)} ({', '.join(columns)}). Name each input column once, in the "
                "order of the parameters of `lift`."
            )
        self.columns = columns

    # What it means.

    def identity(self) -> Any:
        """The state of no event."""
        raise self._missing("identity")

    def lift(self, *values: Any) -> Any:
        """The state of one event, given the values of its columns."""
        raise self._missing("lift")

    def combine(self, older: Any, newer: Any) -> Any:
        """The state of the events of `older` followed by those of `newer`."""
        raise self._missing("combine")

    def lower(self, state: Any) -> Any:
        """The result of a state; `None` stands for null."""
        raise self._missing("lower")

    def invert(self, total: Any, oldest: Any) -> Any:
        """The state `rest` for which `combine(oldest, rest)` is `total`."""
        raise self._missing("invert")

    def _missing(self, method: str) -> AggregateError:
        return AggregateError(
            f"An aggregate defines `identity`, `lift`, `combine` and `lower`; "
            f"`{type(self).__name__}` has no `{method}`."
        )

    # What is known about it.

    @property
    def invertible(self) -> bool:
        """Return whether `invert` is defined."""
        return type(self).invert is not Aggregate.invert

    @property
    def output(self) -> str:
        """The name of the output column: the alias, or `<column>_<function>`."""
        if self._alias is not None:
            return self._alias
        return f"{self.columns[0]}_{self.name}" if self.columns else self.name

    def alias(self, name: str) -> Self:
        """Return a copy of the aggregate under another output name."""
        other = copy.copy(self)
        vars(other)["_alias"] = name
        return other

    def needed(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Those of the inputs, columns or values, that must not be null in an event."""
        return inputs

    def skips(self, values: Sequence[Any]) -> bool:
        """Return whether an event with these values leaves no trace: SQL's rule for nulls."""
        return any(value is None for value in self.needed(values))

    def fold(self, events: Any) -> Any:
        """The result over events in order, one value or one tuple of values each: the slow twin."""
        state = self.identity()
        for event in events:
            values = event if self.arity > 1 else (event,)
            if not self.skips(values):
                state = self.combine(state, self.lift(*values))
        return self.lower(state)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.columns, self._alias))

    def __repr__(self) -> str:
        known = self.__signature__.parameters
        options = {k: v for k, v in vars(self).items() if k in known}
        built_in = type(self).__module__.startswith(f"{__package__}.")
        made = f"sw.agg.{self.name}" if built_in else type(self).__name__
        return _called(made, self.columns, options, self._alias)

    # How it runs.

    def how(self, *types: pa.DataType) -> str:
        """Return how it runs on columns of these types: compiled, or interpreted and why.

        >>> import pyarrow as pa
        >>> import slicewise as sw
        >>> sw.agg.max("x").how(pa.float64())
        'compiled'
        >>> sw.agg.max("x").how(pa.string())
        "interpreted: column 'x' holds string, not numbers"
        """
        reason = self.bind(types).reason
        return f"interpreted: {reason}" if reason else "compiled"

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        """How the aggregate runs on columns of these types.

        A user-defined aggregate is compiled where Numba can; the built-in ones name components.
        Raises `ColumnTypeError` when it has no meaning for such columns.
        """
        from slicewise.aggregates.own import bind_methods

        return bind_methods(self, types)


def _called(
    function: str, columns: Sequence[str], options: Mapping[str, Any], alias: str | None
) -> str:
    """The call that makes an aggregate, as one writes it."""
    values = [*map(repr, columns), *(f"{name}={value!r}" for name, value in options.items())]
    return f"{function}({', '.join(values)})" + (f".alias({alias!r})" if alias is not None else "")


def _signature(cls: type[Aggregate], inputs: list[inspect.Parameter]) -> inspect.Signature:
    """The columns of an aggregate, which are the inputs of `lift`, and its options."""
    own = inspect.signature(cls.__init__)
    if cls.__init__ is not Aggregate.__init__:
        # A name or size that is `None` unless it is given can be left out only in `sw.slide`.
        needed = [p if p.default is not None else _needed(p) for p in own.parameters.values()]
        return own.replace(parameters=needed[1:], return_annotation=own.empty)
    names = [p.name for p in inputs] if len(inputs) > 1 else ["column"]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(n, kind, annotation=str) for n in names])


def _needed(parameter: inspect.Parameter) -> inspect.Parameter:
    kind = str(parameter.annotation).removesuffix(" | None")
    return parameter.replace(default=parameter.empty, annotation=kind)


def given(*columns: str | None) -> list[str]:
    """The columns that were named."""
    return [column for column in columns if column is not None]


def is_integer(value: object) -> bool:
    """Return whether `value` is an integer; `True` and `False` are not meant."""
    return isinstance(value, int) and not isinstance(value, bool)


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
        name=_called(aggregate.name, aggregate.columns, options, vars(aggregate).get("_alias")),
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
