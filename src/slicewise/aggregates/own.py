"""User-defined aggregates: from the methods of a class to a compiled algebra.

The source of `identity`, `lift`, `combine`, `lower` and `invert` becomes an ordinary module, so
Numba keeps its machine code on disk like that of the built-in aggregates. Whatever cannot be said
this way, or not be typed by Numba, runs interpreted, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, Component, Input, States, bound_columns
from slicewise.aggregates.interpreted import interpreted, objects_column
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.cache import module_from
from slicewise.codegen.kernel import header, kernel
from slicewise.codegen.prelude import load, lower
from slicewise.codegen.product import Finish
from slicewise.codegen.writer import IMPORT_CHECKED, NotCompilableError, Writer, casts
from slicewise.columns import Column, storage

if TYPE_CHECKING:
    import pyarrow as pa

# User code divides by zero as Python does: with an error, compiled or not; and it may make objects,
# such as the text of an error, which are counted. Both must be said: the default is to do as the
# calling kernel does. An index may come from the data, so it is checked, as in Python; the loops
# that call such functions need no check.
DECORATOR = """algebra = inner(error_model="python", _nrt=True)
own = inner(error_model="python", _nrt=True, boundscheck=True)"""

Definition = tuple[Algebra, np.dtype[Any] | None] | str

# Definitions that came from another process, by aggregate and types.
_known: dict[tuple[Any, ...], Definition] = {}


def bind_methods(aggregate: Aggregate, types: Sequence[pa.DataType]) -> Bound:
    """`aggregate` compiled for columns of these types, or interpreted with the reason why."""
    import pyarrow as pa

    columns = bound_columns(aggregate)
    made = definition(aggregate, types)
    if isinstance(made, str):
        return interpreted(aggregate, aggregate.returns, made, part="objects")
    algebra, result = made
    component = Component(algebra, tuple(Input(c) for c in columns), required=columns)
    finish = None
    if result is not None:
        kind = pa.from_numpy_dtype(result)
        finish = Finish(algebra.module_source(), "lower", result.str, kind)
    lowering = _lowering(aggregate, algebra, result)
    return Bound(aggregate, (component,), lowering, finish=finish)


def is_own(aggregate: Aggregate) -> bool:
    """Return whether an aggregate is bound by its methods, as those of users are."""
    return type(aggregate).bind is Aggregate.bind


def definition(aggregate: Aggregate, types: Sequence[pa.DataType]) -> Definition:
    """The algebra and the numpy type of its results; the reason why not, if it has none."""
    import pyarrow as pa

    known = _known.get((aggregate, *types))
    if known is not None:
        return known
    try:
        if not aggregate.compile:
            raise NotCompilableError(f"`{type(aggregate).__name__}` says `compile = False`")
        for column, kind in zip(bound_columns(aggregate), types, strict=True):
            if storage(kind) == np.dtype(object) or pa.types.is_temporal(kind):
                raise NotCompilableError(f"column {column!r} holds {kind}, not numbers")
        made: Definition = _algebra(aggregate, types)
    except NotCompilableError as error:
        made = str(error)
    return made


def teach(aggregate: Aggregate, types: Sequence[pa.DataType], made: Definition) -> None:
    """Take over a definition made where the source of the methods can be read.

    Another process may know a class without its source: one of a notebook, for example.
    """
    _known[(aggregate, *types)] = made


def _algebra(
    aggregate: Aggregate, types: Sequence[pa.DataType]
) -> tuple[Algebra, np.dtype[Any] | None]:
    """The compiled algebra, and the numpy type of its results (`None`: lower in Python)."""
    from numba.core.errors import NumbaError
    from numba.np.numpy_support import from_dtype

    methods = ["identity", "lift", "combine", "lower"]
    if aggregate.invertible:
        methods.append("invert")
    source, constructor = Writer(aggregate, checked=True).write(methods)
    source = f"{IMPORT_CHECKED}\n\n{DECORATOR}\n\n{source}"
    inputs = [from_dtype(storage(kind)) for kind in types]
    try:
        dtypes, result = _infer(source, constructor, inputs)
    except NumbaError as error:
        raise NotCompilableError(f"Numba cannot compile it: {_essence(error)}") from error
    algebra = Algebra(
        name=_named(aggregate),
        dtypes=dtypes,
        inputs=len(inputs),
        source=source + casts(dtypes, constructor, methods) + "\n\nlower = own_lower\n",
        selective=aggregate.selective,
        constructor=constructor,
        plain=False,
    )
    return algebra, result


def _named(aggregate: Aggregate) -> str:
    """Its name, with the numbers it was given: with others its states mean something else."""
    given = [f"{k}={v!r}" for k, v in vars(aggregate).items() if type(v) in (bool, int, float)]
    return f"{aggregate.name}({', '.join(given)})" if given else aggregate.name


def _essence(error: Exception) -> str:
    """The line of an error of Numba that says what is wrong, among those that say where."""
    where = ("Failed in", "During:", "File ", "def ", "<source")
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith(where)), lines[0])


def _infer(
    source: str, constructor: str, inputs: Sequence[Any]
) -> tuple[tuple[str, ...], np.dtype[Any] | None]:
    """Let Numba type the methods: the field types of a state, and the type of a result."""
    from numba import types as nb
    from numba.np.numpy_support import as_dtype, from_dtype

    module = module_from(header("algebra") + "\n\n" + source)

    def returned(name: str, arguments: Sequence[Any]) -> Any:
        dispatcher = getattr(module, name)
        dispatcher.compile(tuple(arguments))
        return dispatcher.overloads[tuple(arguments)].signature.return_type

    def fields(state: Any) -> list[np.dtype[Any]]:
        is_tuple: bool = isinstance(state, nb.BaseTuple)
        parts = list(state) if is_tuple else [state]
        for part in parts:
            if not isinstance(part, nb.Number | nb.Boolean) or isinstance(part, nb.Complex):
                raise NotCompilableError(
                    f"a state must be a number or a tuple of numbers; it has a part of type {part}"
                )
        return [as_dtype(nb.unliteral(part)) for part in parts]

    def merge(one: list[np.dtype[Any]], two: list[np.dtype[Any]]) -> list[np.dtype[Any]]:
        if len(one) != len(two):
            raise NotCompilableError("`identity`, `lift` and `combine` differ in their fields")
        merged = [np.promote_types(a, b) for a, b in zip(one, two, strict=True)]
        return [np.dtype({"f": "f8", "i": "i8", "u": "i8"}.get(d.kind, d)) for d in merged]

    identity = returned("own_identity", ())
    lifted = returned("own_lift", inputs)
    if isinstance(identity, nb.BaseTuple) != isinstance(lifted, nb.BaseTuple):
        raise NotCompilableError("`identity` and `lift` differ: one is a tuple and one is not")
    found = merge(fields(identity), fields(lifted))
    for _ in range(3):
        if isinstance(identity, nb.BaseNamedTuple):
            kinds = [from_dtype(d) for d in found]
            state: Any = nb.NamedTuple(kinds, getattr(module, constructor))
        elif isinstance(identity, nb.BaseTuple):
            state = nb.Tuple([from_dtype(d) for d in found])
        else:
            state = from_dtype(found[0])
        wider = merge(found, fields(returned("own_combine", (state, state))))
        if wider == found:
            break
        found = wider
    result = returned("own_lower", (state,))
    result = result.type if isinstance(result, nb.Optional) else result
    plain = isinstance(result, nb.Number | nb.Boolean) and not isinstance(result, nb.Complex)
    return tuple(d.str for d in found), as_dtype(nb.unliteral(result)) if plain else None


def _lowering(
    aggregate: Aggregate, algebra: Algebra, result: np.dtype[Any] | None
) -> Callable[[Sequence[States]], Column]:
    """From state arrays to results: compiled when results are numbers."""

    def in_python(states: Sequence[States]) -> Column:
        fields = [array.tolist() for array in states[0]]
        constructor = type(aggregate.identity()) if algebra.constructor else None
        rows = zip(*fields, strict=True) if len(fields) > 1 or algebra.constructor else fields[0]
        made = (constructor(*row) if constructor else row for row in rows)
        return objects_column([aggregate.lower(s) for s in made], aggregate.returns, aggregate)

    def in_numba(states: Sequence[States]) -> Column:
        import pyarrow as pa

        size = len(states[0][0])
        values, valid = np.zeros(size, result), np.ones(size, np.bool_)
        complete = lower_states.specialise(algebra)(states[0], values, valid)
        kind = pa.from_numpy_dtype(values.dtype)
        return Column(values, None if complete else valid, kind)

    return in_python if result is None else in_numba


@kernel
def lower_states(S: Any, values: Any, valid: Any) -> bool:
    complete = True
    for i in range(values.shape[0]):
        result = lower(load(S, i))
        if result is None:
            valid[i] = False
            complete = False
        else:
            values[i] = result
    return complete
