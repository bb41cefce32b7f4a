"""Sliding over a whole array at once: the fast path of final aggregation.

Each component of an aggregate is slid by the way that suits it, and results are lowered block by
block, so that states stay in the processor's cache and only results go to memory:

- the count of a column without nulls is known from the position;
- windows of one item are that item;
- exact integers subtract what leaves (`invert`);
- everything else goes by boundaries (`SBA`), on two cores when a combine is dear and the window
  long (`PBA`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import (
    Bound,
    Component,
    States,
    bound_columns,
    read,
    share,
    states_of,
)
from slicewise.aggregates.interpreted import objects_column, typed_nulls
from slicewise.aggregates.laws import check_first_run
from slicewise.codegen.algebra import Algebra
from slicewise.columns import Column
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    SpanError,
)
from slicewise.limits import UNLIMITED
from slicewise.mergers.array import halves, prepare, two_threads
from slicewise.mergers.base import FlatMerger, Merger
from slicewise.mergers.given import given_columns
from slicewise.mergers.shared import Query, answer_together
from slicewise.suggestions import meant, taking_names

if TYPE_CHECKING:
    from concurrent.futures import Executor


@taking_names
def slide(
    values: Any,
    aggregate: Aggregate,
    length: int | Iterable[int],
    every: int | Iterable[int] = 1,
    algorithm: str | None = None,
) -> Any:
    """Aggregates of the last `length` values, after every `every` values.

    Result `k` stands after value `(k + 1) * every`; it covers fewer values while there are fewer.
    With `every` above `length` there are gaps: values that no result covers.

    Several lengths, a list of different ones, give a dict from each length to its results. `every`
    is then one number for all, or a list with one for each length. Several `every` for one length
    give a dict from each `every`.

    `values` is a numpy array, a Series of pandas or polars, an Arrow array or a list; several
    columns come as a tuple of those, or as a dict that has the columns the aggregate names. The
    result is of the same kind, a Series of pandas with the index of the values after which its
    results stand; null is NaN in a numpy array of numbers. In a numpy array NaN is a value, greater
    than all others; nulls (Arrow's, `None`, and NaN in a Series of pandas) count towards the length
    of the window, and aggregates skip them.

    `algorithm` is the name of a merger in `sw.mergers.CATALOGUE`; `None` chooses by aggregate and
    length. Several lengths are answered in one pass by a merger that answers for newest parts, such
    as `"flatfit"`, which reuses what one length has combined for the others; others go through the
    values once for each length, and so does `None`, which is faster where a combine is cheap.

    Args:
        values: An array, a Series or a list, a tuple of those for several columns, or a dict.
        aggregate: An aggregate such as `sw.agg.max()`; it needs no name of a column.
        length: How many values a result covers; several of them give a dict of results.
        every: After how many values there is a result; a list has one for each length.
        algorithm: The name of a merger; `None` chooses the quickest.

    >>> import numpy as np
    >>> import slicewise as sw
    >>> sw.slide(np.array([1.0, 5.0, 2.0, 0.0, 3.0]), sw.agg.max(), 2)
    array([1., 5., 5., 2., 3.])
    >>> sw.slide([1, 5, 2, 0, 3], sw.agg.sum(), length=3, every=2)
    [6, 7]
    >>> sw.slide([1, 5, 2, 0, 3], sw.agg.sum(), [2, 4])
    {2: [1, 6, 7, 2, 3], 4: [1, 6, 8, 8, 10]}
    """
    if not isinstance(aggregate, Aggregate):
        raise AggregateError(
            f"`slide` takes an aggregate such as `sw.agg.max()`; given: {aggregate!r}."
        )
    asked = _asked(length, every)
    merger = _merger(algorithm, aggregate)
    columns, give_back = given_columns(values, aggregate)
    queries = list(asked.values())
    results = slide_columns(columns, aggregate, queries, merger)
    found = (give_back(c, every) for c, (_, every) in zip(results, queries, strict=True))
    return dict(zip(asked, found, strict=True)) if None not in asked else next(found)


def slide_columns(
    columns: Mapping[str, Column],
    aggregate: Aggregate,
    queries: Sequence[Query],
    merger: type[Merger] | None,
) -> list[Column]:
    """`slide` on columns by name, for each query; `merger` is `None` for the best way."""
    names = bound_columns(aggregate)
    columns = typed_nulls(columns, [aggregate])
    check_first_run([aggregate], columns)
    bound = aggregate.bind([columns[name].type for name in names])
    rows = len(next(iter(columns.values())))
    queries = [(min(length, max(rows, 1)), min(every, rows + 1)) for length, every in queries]
    kept = share([bound])
    if not _drivable(merger, kept):
        assert merger is not None
        return [_drive_object(merger, bound, columns, rows, *query) for query in queries]
    if merger is not None and merger.properties.suffixes and len(queries) > 1 and rows:
        assert issubclass(merger, FlatMerger)
        return _slide_together(bound, kept, columns, rows, queries, merger)
    return [_slide_alone(bound, kept, columns, rows, *query, merger) for query in queries]


def _slide_together(
    bound: Bound,
    kept: Sequence[Component],
    columns: Mapping[str, Column],
    rows: int,
    queries: Sequence[Query],
    merger: type[FlatMerger],
) -> list[Column]:
    """The results of all queries by a shared plan."""
    states = [
        answer_together(merger, component.algebra, *read(component, columns, rows), queries)
        for component in kept
    ]
    return [
        bound.lower([states_of(c, kept, of_query) for c in bound.components])
        for of_query in zip(*states, strict=True)
    ]


def _slide_alone(
    bound: Bound,
    kept: Sequence[Component],
    columns: Mapping[str, Column],
    rows: int,
    length: int,
    every: int,
    merger: type[Merger] | None,
) -> Column:
    """The results of one query, block by block."""
    periods = max(1, length // every)
    with ExitStack() as stack:
        other: Executor | None = None
        if bound.compiled and any(two_threads(c.algebra, periods, merger) for c in kept):
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba")
            other = stack.enter_context(pool)
        prepared = [
            prepare(component, columns, rows, length, every, merger, other) for component in kept
        ]

        def lower(first: int, stop: int, outs: Sequence[States]) -> Column:
            states = [part(first, stop, out) for part, out in zip(prepared, outs, strict=True)]
            own = [states_of(c, kept, states) for c in bound.components]
            return bound.lower(own) if other is None else _lower_halves(bound, own, other)

        fields = sum(len(c.algebra.dtypes) for c in kept)
        block = periods * max(1, tuning.active().slide_block // fields // periods)
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
        block *= tuning.active().slide_through
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


def _lower_halves(bound: Bound, states: Sequence[States], other: Executor) -> Column:
    """Return the lowered results, a half by each thread: lowering may cost more than merging."""
    size = len(states[0][0])
    low, high = ([tuple(a[half] for a in s) for s in states] for half in halves(size))
    task = other.submit(bound.lower, high)
    one, two = bound.lower(low), task.result()
    if one.type != two.type:  # inferred from the results, so it takes them all
        return bound.lower(states)
    valid = None
    if one.valid is not None or two.valid is not None:
        valid = np.concatenate([_mask(one), _mask(two)])
    return Column(np.concatenate([one.values, two.values]), valid, one.type)


def _mask(column: Column) -> np.ndarray:
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid


# Mergers by name.


def _merger(algorithm: str | None, aggregate: Aggregate) -> type[Merger] | None:
    if algorithm is None:
        return None
    from slicewise.mergers import CATALOGUE

    if algorithm not in CATALOGUE:
        raise CapabilityError(
            f"`algorithm` is None or one of {', '.join(CATALOGUE)}; given: {algorithm!r}."
            f"{meant(algorithm, CATALOGUE)}"
        )
    merger: type[Merger] = CATALOGUE[algorithm].cls
    merger.check(aggregate)
    return merger


def _drivable(merger: type[Merger] | None, components: Sequence[Component]) -> bool:
    """Return `True` if the kernels of a merger that is asked for suit the components."""
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
    return objects_column(results, kind, bound.aggregate)


# What goes in and out.


def _events(name: str, value: Any) -> int:
    """`value` as a number of events from 1 on."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or not 1 <= value < UNLIMITED:
        raise SpanError(
            f"`{name}` is a number of values, an integer from 1 to {UNLIMITED - 1}; given: "
            f"{value!r}."
        )
    return int(value)


def _asked(length: Any, every: Any) -> dict[int | None, Query]:
    """The queries by what tells them apart: their lengths, else their slides; `None` for one."""
    if not _several(length) and not _several(every):
        return {None: (_events("length", length), _events("every", every))}
    lengths = _each("length", length) if _several(length) else [_events("length", length)]
    slides = _each("every", every, distinct=not _several(length)) if _several(every) else None
    if slides is None:
        slides = [_events("every", every)] * len(lengths)
    if not _several(length):
        return {slide: (lengths[0], slide) for slide in slides}
    if len(slides) != len(lengths):
        raise SpanError(
            f"`every` is one number for all lengths, or has one for each; given: {len(slides)} for "
            f"{len(lengths)} lengths."
        )
    return {one: (one, slide) for one, slide in zip(lengths, slides, strict=True)}


def _several(value: Any) -> bool:
    """Return `True` for what has elements, such as a list, and is not text."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _each(name: str, values: Iterable[Any], *, distinct: bool = True) -> list[int]:
    """Several numbers of events, all different where they are to be told apart."""
    found = [_events(name, value) for value in values]
    if not found:
        raise SpanError(f"`{name}` is an empty list. Give at least one number.")
    twice = [value for value in found if found.count(value) > 1]
    if distinct and twice:
        raise SpanError(
            f"`{name}` has {twice[0]} more than once, and results are told apart by it; given: "
            f"{found!r}. Leave it out the second time."
        )
    return found
