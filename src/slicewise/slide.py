"""Sliding over a whole array at once: the fast path of final aggregation.

Each component of an aggregate is slid by the way that suits it, and results are lowered block by
block, so that states stay in the processor's cache and only results go to memory:

- the count of a column without nulls is known from the position;
- windows of a few items are recalculated;
- exact integers subtract what leaves (`invert`);
- everything else goes by boundaries (`SBA`), on two cores when a combine is dear and the window
  long (`PBA`).

With `every` above 1 the events between two results are folded first, about one combine each. The
edges of windows are those of Pairs (doi:10.1145/1142473.1142543): a window begins with the last
`length % every` events of a period, its tail, and goes on in whole periods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    Component,
    States,
    bound_columns,
    objects_column,
    read,
    share,
    states_of,
)
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, invert, load, store
from slicewise.columns import Column
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnError,
    ColumnTypeError,
    SpanError,
)
from slicewise.mergers.base import FlatMerger, Merger, drive
from slicewise.mergers.pba import fall, rise
from slicewise.mergers.sba import event, item, slide_chunks

LONGEST = 2**62
# Measured: below 5 items recalculating is as fast as boundaries, and it needs no more combines.
FEW = 4
# Results per block: the states stay in cache, and calling Python costs little.
BLOCK = 2**16
THROUGH = 8  # times as many when there is nothing to keep in cache
# A second thread pays from here on: a chunk takes longer than waking the thread, and a combine
# of that many numbers is not bound by memory.
LONG_WINDOW = 2**13
MANY_FIELDS = 6

Part = Callable[[int, int, States], States]


def slide(
    values: Any,
    aggregate: Aggregate,
    length: int,
    every: int = 1,
    algorithm: str | None = None,
) -> Any:
    """Aggregates of the last `length` values, after every `every` values.

    Result `k` stands after value `(k + 1) * every`; it covers fewer values while there are fewer.
    With `every` above `length` there are gaps: values that no result covers.

    `values` is a numpy array, an Arrow array or a list; several columns come as a tuple of
    those, or as a dict that has the columns the aggregate names. The result is of the same kind;
    null is NaN in a numpy array of numbers. In a numpy array NaN is a value, greater than all
    others; nulls (Arrow's, and `None`) count as values of the window but leave no trace.

    `algorithm` is the name of a merger in `sw.mergers.CATALOGUE`; `None` chooses by aggregate and
    length.

    >>> import numpy as np
    >>> import slicewise as sw
    >>> sw.slide(np.array([1.0, 5.0, 2.0, 0.0, 3.0]), sw.agg.max(), 2)
    array([1., 5., 5., 2., 3.])
    >>> sw.slide([1, 5, 2, 0, 3], sw.agg.sum(), length=3, every=2)
    [6, 7]
    """
    if not isinstance(aggregate, Aggregate):
        raise AggregateError(
            f"`slide` takes an aggregate such as `sw.agg.max()`; given: {aggregate!r}."
        )
    length, every = _events("length", length), _events("every", every)
    merger = _merger(algorithm, aggregate)
    columns, give_back = _columns(values, aggregate)
    return give_back(slide_columns(columns, aggregate, length, every, merger))


def slide_columns(
    columns: Mapping[str, Column],
    aggregate: Aggregate,
    length: int,
    every: int = 1,
    merger: type[Merger] | None = None,
) -> Column:
    """`slide` on columns by name; `merger` is `None` for the best way."""
    names = bound_columns(aggregate)
    bound = aggregate.bind([columns[name].type for name in names])
    rows = len(next(iter(columns.values())))
    length, every = min(length, max(rows, 1)), min(every, rows + 1)
    kept = share([bound])
    if not _drivable(merger, kept):
        assert merger is not None
        return _drive_object(merger, bound, columns, rows, length, every)
    with ExitStack() as stack:
        prepared = [
            _part(component, columns, rows, length, every, merger, stack) for component in kept
        ]

        def lower(first: int, stop: int, outs: Sequence[States]) -> Column:
            states = [part(first, stop, out) for part, out in zip(prepared, outs, strict=True)]
            return bound.lower([states_of(c, kept, states) for c in bound.components])

        periods = max(1, length // every)
        block = periods * max(1, BLOCK // periods)
        if not bound.compiled or merger is not None:
            block = rows
        return _in_blocks([c.algebra for c in kept], rows // every, block, lower)


def _in_blocks(
    algebras: Sequence[Algebra],
    results: int,
    block: int,
    lower: Callable[[int, int, Sequence[States]], Column],
) -> Column:
    """The column of all results; `lower(first, stop, room for states)` makes a block of it."""
    block = max(1, min(block, results))
    rooms = [algebra.new(block) for algebra in algebras]
    column = lower(0, block if results else 0, rooms if results else [a.new(0) for a in algebras])
    if block >= results:
        return column
    kind, values, valid = column.type, np.empty(results, column.values.dtype), None
    # When results are states as they stand, further states are made in the place of results; cache
    # no longer matters, and fewer calls do.
    through = next(
        (k for k, room in enumerate(rooms) if np.may_share_memory(column.values, room[0])), None
    )
    first, stop = 0, block
    if through is not None:
        block *= THROUGH
        rooms = [algebra.new(block) for algebra in algebras]
    while True:
        if not np.may_share_memory(column.values, values):
            values[first:stop] = column.values
        if column.valid is not None:
            valid = np.ones(results, np.bool_) if valid is None else valid
            valid[first:stop] = column.valid
        if stop == results:
            return Column(values, valid, kind)
        first, stop = stop, min(stop + block, results)
        outs = [tuple(a[: stop - first] for a in room) for room in rooms]
        if through is not None:
            outs[through] = (values[first:stop], *outs[through][1:])
        column = lower(first, stop, outs)
        if column.type != kind or column.values.dtype != values.dtype:
            # A type inferred from results needs all of them.
            return _in_blocks(algebras, results, results, lower)


# The ways of one component: functions `part(first, stop, out)` that give the states of the results
# `first` to `stop - 1`, in the room `out` or elsewhere. They are asked for in order.


def _part(
    component: Component,
    columns: Mapping[str, Column],
    rows: int,
    length: int,
    every: int,
    merger: type[Merger] | None,
    stack: ExitStack,
) -> Part:
    algebra = component.algebra
    dense = all(columns[name].valid is None for name in component.required)
    if dense and merger is None and algebra == parts.rows().algebra:
        return _positions(length, every)
    X, valid = read(component, columns, rows)
    X = tuple(np.ascontiguousarray(x) for x in X)
    if merger is not None and merger.name not in ("sba", "pba"):
        assert issubclass(merger, FlatMerger)
        states = drive(merger, algebra, X, valid, length, every)
        return lambda first, stop, out: tuple(a[first:stop] for a in states)
    if every == 1:
        return _items(algebra, X, valid, None, length, merger, stack)
    return _periods(algebra, X, valid, rows, length, every, merger, stack)


def _positions(length: int, every: int) -> Part:
    """Counts of values when every value counts."""
    full = -(-length // every) - 1  # the first result over `length` values

    def part(first: int, stop: int, out: States) -> States:
        if first < full:
            counts = np.arange((first + 1) * every, stop * every + 1, every)
            return (np.minimum(counts, length, out=counts),)
        return (np.broadcast_to(np.int64(length), stop - first),)

    return part


def _items(
    algebra: Algebra,
    X: Any,
    valid: Any,
    S: Any,
    length: int,
    merger: type[Merger] | None,
    stack: ExitStack,
) -> Part:
    """Windows of `length` events, or states when `S` is given, with a result after each."""
    boundaries = merger is not None and length > 1
    if length <= FEW and not boundaries:
        way, room = recalculate, algebra.new(0)
    elif algebra.exact and not boundaries:
        way, room = subtract, algebra.new(1)
    elif _two_threads(algebra, length, merger):
        return _with_two(algebra, X, valid, S, length, stack)
    else:
        way, room = slide_chunks, algebra.new(length)
    run = way.specialise(algebra)

    def part(first: int, stop: int, out: States) -> States:
        run(X, valid, S, length, first, stop, room, out)
        return out

    return part


def _two_threads(algebra: Algebra, length: int, merger: type[Merger] | None) -> bool:
    if length < LONG_WINDOW or (merger is not None and merger.name != "pba"):
        return False
    if merger is not None:
        return True
    return algebra.compiled and len(algebra.dtypes) >= MANY_FIELDS and cores() > 1


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _with_two(algebra: Algebra, X: Any, valid: Any, S: Any, length: int, stack: ExitStack) -> Part:
    """PBA: prefixes in this thread, suffixes in another one."""
    up, down = rise.specialise(algebra), fall.specialise(algebra)
    other = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba"))

    def part(first: int, stop: int, out: States) -> States:
        chunks = -(-(stop - first) // length)
        tops, bottoms = algebra.new(chunks), algebra.new(chunks)
        for step in (1, 2):
            task = other.submit(down, X, valid, S, length, first, stop, step, tops, out)
            up(X, valid, S, length, first, stop, step, bottoms, out)
            task.result()
        return out

    return part


def _periods(
    algebra: Algebra,
    X: Any,
    valid: Any,
    rows: int,
    length: int,
    every: int,
    merger: type[Merger] | None,
    stack: ExitStack,
) -> Part:
    """Windows with a result after each period of `every` events."""
    results = rows // every
    whole, rest = divmod(length, every)
    if whole == 0:
        run = fold_ends.specialise(algebra)

        def ends(first: int, stop: int, out: States) -> States:
            run(X, valid, length, every, first, stop, out)
            return out

        return ends
    S = algebra.new(results)
    if rest == 0:
        fold_ends.specialise(algebra)(X, valid, every, every, 0, results, S)
        return _items(algebra, None, None, S, whole, merger, stack)
    tails = algebra.new(results)
    fold_pairs.specialise(algebra)(X, valid, rest, every, S, tails)
    inner = _items(algebra, None, None, S, whole, merger, stack)
    prepend = prepend_tails.specialise(algebra)

    def part(first: int, stop: int, out: States) -> States:
        states = inner(first, stop, out)
        prepend(tails, whole, first, stop, states)
        return states

    return part


@kernel
def recalculate(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, room: Any, out: Any
) -> None:
    """Every window on its own."""
    for i in range(first, stop):
        start = max(0, i - length + 1)
        state = item(X, valid, S, start)
        for j in range(start + 1, i + 1):
            state = combine(state, item(X, valid, S, j))
        store(out, i - first, state)


@kernel
def subtract(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, room: Any, out: Any
) -> None:
    """A running state from which the oldest item is taken away; `room` keeps it between blocks."""
    state = item(X, valid, S, 0)
    if first == 0:
        store(out, 0, state)
    else:
        state = load(room, 0)
    grown = min(length, stop)
    for i in range(max(first, 1), grown):
        state = combine(state, item(X, valid, S, i))
        store(out, i - first, state)
    for i in range(max(first, grown), stop):
        state = invert(combine(state, item(X, valid, S, i)), item(X, valid, S, i - length))
        store(out, i - first, state)
    store(room, 0, state)


@kernel
def fold_ends(X: Any, valid: Any, length: int, every: int, first: int, stop: int, out: Any) -> None:
    """The last `length` events of periods, at most all `every` of them."""
    for k in range(first, stop):
        end = (k + 1) * every
        state = event(X, valid, end - length)
        for i in range(end - length + 1, end):
            state = combine(state, event(X, valid, i))
        store(out, k - first, state)


@kernel
def fold_pairs(X: Any, valid: Any, rest: int, every: int, out: Any, tails: Any) -> None:
    """Whole periods, and the last `rest` events of each."""
    for k in range(X[0].shape[0] // every):
        start, end = k * every, (k + 1) * every
        state = event(X, valid, start)
        for i in range(start + 1, end - rest):
            state = combine(state, event(X, valid, i))
        tail = event(X, valid, end - rest)
        for i in range(end - rest + 1, end):
            tail = combine(tail, event(X, valid, i))
        store(out, k, combine(state, tail))
        store(tails, k, tail)


@kernel
def prepend_tails(tails: Any, whole: int, first: int, stop: int, out: Any) -> None:
    """Put the tail of the period before its whole ones in front of each window that has it."""
    for k in range(max(first, whole), stop):
        store(out, k - first, combine(load(tails, k - whole), load(out, k - first)))


# Mergers by name.


def _merger(algorithm: str | None, aggregate: Aggregate) -> type[Merger] | None:
    if algorithm is None:
        return None
    from slicewise.mergers import CATALOGUE

    if algorithm not in CATALOGUE:
        raise CapabilityError(
            f"`algorithm` is None or one of {', '.join(CATALOGUE)}; given: {algorithm!r}."
        )
    merger: type[Merger] = CATALOGUE[algorithm].cls
    merger.check(aggregate)
    return merger


def _drivable(merger: type[Merger] | None, components: Sequence[Component]) -> bool:
    """Whether the merger's kernels, if it is asked for, suit the components as they are."""
    if merger is None or merger.name in ("sba", "pba"):
        return True
    if not issubclass(merger, FlatMerger):
        return False
    try:
        for component in components:
            merger.kernels_for(component.algebra)
    except CapabilityError:
        return False
    return True


def _drive_object(
    merger: type[Merger],
    bound: Bound,
    columns: Mapping[str, Column],
    rows: int,
    length: int,
    every: int,
) -> Column:
    """A merger that has no kernels, fed value by value."""
    window = merger(bound.aggregate)
    names = bound_columns(bound.aggregate)
    lists: list[Iterable[Any]] = [columns[name].tolist() for name in names]
    events: Iterable[Any] = zip(*lists, strict=True) if len(lists) > 1 else lists[0]
    results = []
    for i, value in enumerate(events):
        if len(window) == length:
            window.evict()
        window.insert(value)
        if (i + 1) % every == 0:
            results.append(window.query())
    kind = bound.lower([c.algebra.new(0) for c in bound.components]).type
    return objects_column(results, kind)


# What goes in and out.


def _events(name: str, value: Any) -> int:
    """`value` as a number of events from 1 on."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or not 1 <= value < LONGEST:
        raise SpanError(
            f"`{name}` is a number of values, an integer from 1 to {LONGEST - 1}; given: {value!r}."
        )
    return int(value)


def _columns(
    values: Any, aggregate: Aggregate
) -> tuple[dict[str, Column], Callable[[Column], Any]]:
    """The input by the aggregate's names, and how to give results back as the same kind."""
    names = bound_columns(aggregate)
    if isinstance(values, Mapping) and aggregate.columns:
        for name in names:
            if name not in values:
                raise ColumnError(
                    f"There is no column {name!r}, which `{aggregate.name}` reads; the columns "
                    f"are {', '.join(map(repr, values)) or 'none'}."
                )
        arrays = [values[name] for name in names]
    elif isinstance(values, Mapping):
        arrays = list(values.values())
    else:
        arrays = list(values) if isinstance(values, tuple) else [values]
    if len(arrays) != len(names):
        raise AggregateError(
            f"`{aggregate.name}` takes {len(names)} column{'s' * (len(names) != 1)}; given: "
            f"{len(arrays)}. Several columns come as a tuple of arrays."
        )
    found = [_column(array) for array in arrays]
    if len({len(column) for column, _ in found}) > 1:
        sizes = ", ".join(str(len(column)) for column, _ in found)
        raise ColumnTypeError(f"Columns must be of equal length; given: {sizes} values.")
    columns = {name: column for name, (column, _) in zip(names, found, strict=True)}
    return columns, found[0][1]


def _column(array: Any) -> tuple[Column, Callable[[Column], Any]]:
    import pyarrow as pa

    try:
        if isinstance(array, pa.Array | pa.ChunkedArray):
            return Column.from_arrow(array), Column.to_arrow
        if isinstance(array, np.ndarray) and array.ndim == 1:
            return Column.from_numpy(array), Column.to_numpy
        if isinstance(array, list):
            return Column.from_arrow(pa.array(array)), Column.tolist
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(
            f"The values of a column must be of one type that Arrow knows: {error}"
        ) from error
    given = (
        f"{array.ndim}-dimensional array" if isinstance(array, np.ndarray) else repr(type(array))
    )
    raise ColumnTypeError(
        "`slide` takes a one-dimensional numpy array, an Arrow array or a list, a tuple of those "
        f"for several columns, or a dict; given: {given}. Tables go to `sw.rolling`."
    )
