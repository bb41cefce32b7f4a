"""The ways of sliding one component over a whole array.

A way is a function `part(first, stop, out)` that gives the states of the results `first` to
`stop - 1`, in the room `out` or elsewhere; it is asked for them in order.

With `every` above 1 the events between two results are folded first, about one combine each. The
edges of windows are those of Pairs (doi:10.1145/1142473.1142543): a window begins with the last
`length % every` events of a period, its tail, and goes on in whole periods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates import components as parts
from slicewise.aggregates.bound import Component, States, read
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, invert, load, store
from slicewise.columns import Column
from slicewise.mergers.base import FlatMerger, Merger, drive
from slicewise.mergers.boundary import item, sweep_chunks
from slicewise.mergers.pba import fall, rise

if TYPE_CHECKING:
    from concurrent.futures import Executor

Part = Callable[[int, int, States], States]


def prepare(
    component: Component,
    columns: Mapping[str, Column],
    rows: int,
    length: int,
    every: int,
    merger: type[Merger] | None,
    other: Executor | None,
) -> Part:
    """The way of `component`; `merger` is `None` for the best, `other` a thread to share with."""
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
        return _items(algebra, X, valid, None, length, merger, other)
    return _periods(algebra, X, valid, rows, length, every, merger, other)


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
    other: Executor | None,
) -> Part:
    """Windows of `length` events, or states when `S` is given, with a result after each."""
    if length == 1:
        way, room = alone, algebra.new(0)
    elif algebra.exact and merger is None:
        way, room = subtract, algebra.new(1)
    elif other is not None and two_threads(algebra, length, merger):
        tuning.took("two threads")
        return _with_two(algebra, X, valid, S, length, other)
    else:
        way, room = sweep_chunks, algebra.new(2 * length)
    run = way.specialise(algebra)

    def part(first: int, stop: int, out: States) -> States:
        run(X, valid, S, length, first, stop, room, out)
        return out

    return part


def two_threads(algebra: Algebra, length: int, merger: type[Merger] | None) -> bool:
    """Return `True` where a second thread pays, or was asked for and does not hurt."""
    if length < tuning.active().threads_length or (merger is not None and merger.name != "pba"):
        return False
    if merger is not None:
        return True
    return (
        algebra.compiled and len(algebra.dtypes) >= tuning.active().threads_fields and cores() > 1
    )


def cores() -> int:
    """How many processors this process may use."""
    if tuning.active().processors:
        return tuning.active().processors
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _with_two(algebra: Algebra, X: Any, valid: Any, S: Any, length: int, other: Executor) -> Part:
    """PBA: prefixes in this thread, suffixes in another one."""
    up, down = rise.specialise(algebra), fall.specialise(algebra)

    def part(first: int, stop: int, out: States) -> States:
        chunks = -(-(stop - first) // length)
        tops, bottoms = algebra.new(chunks), algebra.new(chunks)
        for step in (1, 2):
            task = other.submit(down, X, valid, S, length, (first, stop), step, tops, out)
            up(X, valid, S, length, (first, stop), step, bottoms, out)
            task.result()
        return out

    return part


def _fold(run: Callable[..., None], results: int, other: Executor | None, *rooms: States) -> None:
    """Fold periods into states: `run(first, stop, *rooms)`, in both threads when there are two."""
    if other is None:
        run(0, results, *rooms)
        return
    middle = results // 2
    low, high = ([tuple(a[half] for a in room) for room in rooms] for half in halves(results))
    task = other.submit(run, middle, results, *high)
    run(0, middle, *low)
    task.result()


def halves(size: int) -> tuple[slice, slice]:
    """The two halves of an array, one for each thread."""
    return slice(0, size // 2), slice(size // 2, size)


def _periods(
    algebra: Algebra,
    X: Any,
    valid: Any,
    rows: int,
    length: int,
    every: int,
    merger: type[Merger] | None,
    other: Executor | None,
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
        whole_periods = partial(fold_ends.specialise(algebra), X, valid, every, every)
        _fold(whole_periods, results, other, S)
        return _items(algebra, None, None, S, whole, merger, other)
    tails = algebra.new(results)
    pairs = partial(fold_pairs.specialise(algebra), X, valid, rest, every)
    _fold(pairs, results, other, S, tails)
    inner = _items(algebra, None, None, S, whole, merger, other)
    prepend = prepend_tails.specialise(algebra)

    def part(first: int, stop: int, out: States) -> States:
        states = inner(first, stop, out)
        prepend(tails, whole, first, stop, states)
        return states

    return part


@kernel
def alone(
    X: Any, valid: Any, S: Any, length: int, first: int, stop: int, room: Any, out: Any
) -> None:
    """Windows of one item."""
    for i in range(first, stop):
        store(out, i - first, item(X, valid, S, i))


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
        state = item(X, valid, None, end - length)
        for i in range(end - length + 1, end):
            state = combine(state, item(X, valid, None, i))
        store(out, k - first, state)


@kernel
def fold_pairs(
    X: Any, valid: Any, rest: int, every: int, first: int, stop: int, out: Any, tails: Any
) -> None:
    """Whole periods, and the last `rest` events of each."""
    for k in range(first, stop):
        start, end = k * every, (k + 1) * every
        state = item(X, valid, None, start)
        for i in range(start + 1, end - rest):
            state = combine(state, item(X, valid, None, i))
        tail = item(X, valid, None, end - rest)
        for i in range(end - rest + 1, end):
            tail = combine(tail, item(X, valid, None, i))
        store(out, k - first, combine(state, tail))
        store(tails, k - first, tail)


@kernel
def prepend_tails(tails: Any, whole: int, first: int, stop: int, out: Any) -> None:
    """Put the tail of the period before its whole ones in front of each window that has it."""
    for k in range(max(first, whole), stop):
        store(out, k - first, combine(load(tails, k - whole), load(out, k - first)))
