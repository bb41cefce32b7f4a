"""Every aggregate of the registry, on every type of column: all its forms agree.

Nobody lists aggregates here. One that is new is found by its public name, and is tried on all the
types below: it takes a column and gives one answer in every form, or refuses it in every form.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.aggregates.bound import read, share, states_of
from slicewise.aggregates.laws import same
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load, store
from slicewise.columns import Column
from slicewise.errors import ColumnTypeError
from slicewise.testing.laws import fold_all
from tests.support.columns import COLUMNS, aggregates_on, columns_of, refused

KINDS = pytest.mark.parametrize("kind", COLUMNS)
# An operator and a snapshot see columns after their kernels are chosen: one type of each kind of
# state is enough, where each further one would compile all of it anew.
COMPILED_ELSEWHERE = {"int8", "int32", "uint64", "float16", "float32", "bool"}


def test_every_public_aggregate_is_in_the_registry() -> None:
    public = {
        name
        for name, item in vars(sw.agg).items()
        if isinstance(item, type) and issubclass(item, sw.Aggregate) and name == item.name
    }
    assert {agg.name for agg in sw.agg.REGISTRY} == public
    assert len(public) > 30


def python_fold(agg: sw.Aggregate, table: pa.Table) -> Any:
    """The answer of the methods as they stand, one event after the other."""
    columns = [table[name].to_pylist() for name in agg.columns]
    if not columns:
        return agg.fold([None] * table.num_rows)
    return agg.fold(list(zip(*columns, strict=True)) if agg.arity > 1 else columns[0])


@kernel
def fuse_neighbours(S: Any, older: Any, newer: Any) -> None:
    """Merge states pair by pair."""
    for i in range(older.shape[0]):
        store(S, older[i], combine(load(S, older[i]), load(S, newer[i])))


def kernel_fold(agg: sw.Aggregate, table: pa.Table, cuts: list[int], draw: random.Random) -> Any:
    """The answer of the kernels: slices are folded, and neighbours merged in any order."""
    bound = agg.bind([table[name].type for name in agg.columns] or [pa.int64()])
    kept = share([bound])
    merged = []
    bounds = [0, *cuts, table.num_rows]
    order = merges(len(bounds) - 1, draw)
    for component in kept:
        S = component.algebra.new(len(bounds) - 1)
        for number, (begin, end) in enumerate(pairwise(bounds)):
            part = table.slice(begin, end - begin)
            columns = {name: Column.from_arrow(part[name]) for name in agg.columns}
            X, valid = read(component, columns, end - begin)
            one = tuple(field[number : number + 1] for field in S)
            fold_all.specialise(component.algebra)(X, valid, end - begin, one)
        fuse_neighbours.specialise(component.algebra)(S, *order)
        merged.append(tuple(field[:1] for field in S))
    return bound.lower([states_of(c, kept, merged) for c in bound.components]).tolist()[0]


def merges(slices: int, draw: random.Random) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of neighbours in an order in which all slices become the first."""
    left, pairs = list(range(slices)), []
    while len(left) > 1:
        at = draw.randrange(len(left) - 1)
        pairs.append((left[at], left.pop(at + 1)))
    made = np.array(pairs, np.int64).reshape(-1, 2)
    return made[:, 0].copy(), made[:, 1].copy()


@KINDS
def test_kernels_and_merged_slices_give_the_answers_of_python(kind: str) -> None:
    draw = random.Random(17)
    table = columns_of(kind)
    for agg in aggregates_on(kind):
        for size in (0, 1, table.num_rows):
            some = table.slice(0, size)
            expected = python_fold(agg, some)
            for pieces in (0, 1, 3):
                cuts = sorted(draw.randrange(size + 1) for _ in range(pieces))
                found = kernel_fold(agg, some, cuts, draw)
                assert same(found, expected), (agg, size, cuts, found, expected)


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind not in COMPILED_ELSEWHERE])
def test_an_operator_and_its_restored_snapshot_give_the_answers_of_python(kind: str) -> None:
    """Slices of five rows, merged into windows of ten, of all aggregates at once."""
    table, aggs = columns_of(kind), aggregates_on(kind)
    made: Any = {"windows": [sw.sliding(10, every=5), sw.session(3)], "aggs": aggs, "time": "t"}
    once, twice = sw.Operator(**made), sw.Operator(**made)
    once.process(table)
    twice.process(table.slice(0, 7))
    first = twice.advance(3)
    twice = sw.Operator.restore(twice.snapshot())
    twice.process(table.slice(7))
    answers = [once.advance(math.inf), [*first, *twice.advance(math.inf)]]
    times = table["t"].to_numpy()
    assert len(answers[0]) == len(answers[1]) >= 4
    for results in answers:
        for result in results:
            begin, end = np.searchsorted(times, [result.start, result.end])
            events = table.slice(begin, end - begin)
            for agg in aggs:
                expected = python_fold(agg, events)
                assert same(result.values[agg.output], expected), (agg, result)


@KINDS
def test_a_type_that_is_refused_is_refused_alike(kind: str) -> None:
    table = columns_of(kind)
    for agg in refused(kind):
        messages = set()
        for attempt in (
            lambda a=agg: a.bind([table[name].type for name in a.columns]),
            lambda a=agg: sw.windowed(table, time="t", windows=[sw.tumbling(10)], aggs=a),
            lambda a=agg: sw.rolling(table, time="t", over=5, aggs=a),
            lambda a=agg: sw.slide({n: table[n] for n in a.columns}, a, 2),
            lambda a=agg: sw.Operator(windows=[sw.tumbling(10)], aggs=[a], time="t").process(table),
        ):
            with pytest.raises(ColumnTypeError, match=f"^`{agg.name}` ") as error:
                attempt()
            # Columns hold half precision in single precision.
            messages.add(str(error.value).replace("halffloat", "float"))
        assert len(messages) == 1
        assert f"holds {table['x'].type}".replace("halffloat", "float") in messages.pop()


def test_each_aggregate_takes_some_type_and_each_type_is_taken() -> None:
    taken = {kind: [agg.name for agg in aggregates_on(kind)] for kind in COLUMNS}
    assert {agg.name for agg in sw.agg.REGISTRY} == {n for names in taken.values() for n in names}
    assert min(map(len, taken.values())) > 5
