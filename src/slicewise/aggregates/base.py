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
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from slicewise.errors import AggregateError
from slicewise.names import column_name, snake_case, written
from slicewise.suggestions import check_names

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.aggregates.bound import Bound

Kind = Literal["distributive", "algebraic", "holistic"]


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
        """Return whether an event with these values is skipped, which is SQL's rule for nulls."""
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
        return written(made, self.columns, options, self._alias)

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
