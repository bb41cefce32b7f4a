"""`sw.slide` equals its slow twin: the fold of every window on its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.mergers import CATALOGUE
from slicewise.mergers.pba import fall, rise
from slicewise.tuning import tuned

MODULUS = 1_000_003


class Affine(sw.Aggregate):
    """Composition of the maps `x -> (v + 1) * x + v` modulo a prime: the order matters."""

    def identity(self) -> tuple[int, int]:
        return (1, 0)

    def lift(self, value: int) -> tuple[int, int]:
        return ((value + 1) % MODULUS, value % MODULUS)

    def combine(self, older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
        return (older[0] * newer[0] % MODULUS, (older[1] * newer[0] + newer[1]) % MODULUS)

    def lower(self, state: tuple[int, int]) -> int:
        return state[0] * 7 + state[1]


class Ledger(sw.Aggregate):
    """Six fields: a state so wide that two threads are worth it."""

    def identity(self) -> tuple[int, int, int, int, int, int]:
        return (0, 0, 0, 0, 0, 0)

    def lift(self, value: int) -> tuple[int, int, int, int, int, int]:
        return (1, value, value, value, value, value)

    def combine(
        self, older: tuple[int, int, int, int, int, int], newer: tuple[int, int, int, int, int, int]
    ) -> tuple[int, int, int, int, int, int]:
        if older[0] == 0 or newer[0] == 0:
            return newer if older[0] == 0 else older
        return (
            older[0] + newer[0],
            older[1] + newer[1],
            max(older[2], newer[2]),
            min(older[3], newer[3]),
            older[4],
            newer[5],
        )

    def lower(self, state: tuple[int, int, int, int, int, int]) -> int:
        return state[1] * 3 + state[2] - state[3] + state[4] * 5 + state[5] * 11


def twin(events: list[Any], aggregate: sw.Aggregate, length: int, every: int) -> list[Any]:
    """The definition: result k covers the last `length` of the first `(k + 1) * every` values."""
    ends = range(every, len(events) + 1, every)
    return [aggregate.fold(events[max(0, end - length) : end]) for end in ends]


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals NaN and floats may differ in the last digits."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        near = math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-5)
        return near or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


small = st.integers(-1000, 1000)
lengths = st.integers(1, 40)
steps = st.integers(1, 15)
numbers = st.lists(st.none() | small, max_size=90)
# With a null in any case, since without nulls other code runs, which floats go through below.
nullable = st.builds(lambda some, more: [*some, None, *more], numbers, st.lists(small, max_size=9))


def inputs(aggregate: sw.Aggregate, events: list[Any], kind: pa.DataType) -> tuple[Any, list[Any]]:
    """Columns for an aggregate of any number of columns, and the same as events."""
    if aggregate.name == "product":  # 40 factors of at most 2 fit 64 bits, larger ones do not
        events = [None if v is None else v % 5 - 2 for v in events]
    if aggregate.arity == 1:
        return pa.array(events, kind), events
    second = [None if v is None else abs(v) % 7 + 1 for v in reversed(events)]
    return (pa.array(events, kind), pa.array(second, kind)), list(zip(events, second, strict=True))


NUMERIC = [a for a in sw.agg.REGISTRY if a.name != "concat"]


@pytest.mark.parametrize("aggregate", NUMERIC, ids=repr)
@settings(max_examples=20)
@given(events=nullable, length=lengths, every=steps)
def test_every_aggregate_over_nullable_integers_equals_its_fold(
    aggregate: sw.Aggregate, events: list[Any], length: int, every: int
) -> None:
    columns, rows = inputs(aggregate, events, pa.int64())
    found = sw.slide(columns, aggregate, length, every).to_pylist()
    assert same(found, twin(rows, aggregate, length, every))


@pytest.mark.parametrize("aggregate", NUMERIC, ids=repr)
@settings(max_examples=10)
@given(events=st.lists(small.map(float), max_size=90), length=st.integers(5, 40))
def test_every_aggregate_over_floats_equals_its_fold(
    aggregate: sw.Aggregate, events: list[float], length: int
) -> None:
    columns, rows = inputs(aggregate, events, pa.float64())
    found = sw.slide(columns, aggregate, length).to_pylist()
    assert same(found, twin(rows, aggregate, length, 1))


awkward = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.5])


@pytest.mark.parametrize("aggregate", [sw.agg.max(), sw.agg.min(), sw.agg.sum()], ids=repr)
@given(events=st.lists(awkward, max_size=60), length=lengths, every=steps)
def test_nan_is_the_greatest_wherever_the_window_is(
    aggregate: sw.Aggregate, events: list[float], length: int, every: int
) -> None:
    found = sw.slide(np.array(events), aggregate, length, every).tolist()
    assert same(found, twin(events, aggregate, length, every))


@pytest.mark.parametrize("algorithm", [None, *CATALOGUE])
@settings(max_examples=15)
@given(events=numbers, length=lengths, every=steps)
def test_every_algorithm_keeps_the_order_of_events(
    algorithm: str | None, events: list[Any], length: int, every: int
) -> None:
    aggregate = Affine()
    if algorithm in ("subtract_on_evict", "slick_deque"):
        with pytest.raises(sw.errors.CapabilityError):
            sw.slide(pa.array(events, pa.int64()), aggregate, length, every, algorithm)
        return
    found = sw.slide(pa.array(events, pa.int64()), aggregate, length, every, algorithm)
    assert found.to_pylist() == twin(events, aggregate, length, every)


@pytest.mark.parametrize("algorithm", [None, *CATALOGUE])
@settings(max_examples=15)
@given(events=st.lists(st.none() | small, max_size=60), length=lengths, every=steps)
def test_every_algorithm_sums_exactly(
    algorithm: str | None, events: list[Any], length: int, every: int
) -> None:
    found = sw.slide(pa.array(events, pa.int64()), sw.agg.sum(), length, every, algorithm)
    assert found.to_pylist() == twin(events, sw.agg.sum(), length, every)


@pytest.mark.parametrize("algorithm", [None, *CATALOGUE])
@settings(max_examples=15)
@given(
    events=st.lists(st.none() | small, max_size=60),
    queries=st.dictionaries(lengths, steps, min_size=1, max_size=4),
    piece=st.integers(1, 200),
)
def test_several_lengths_equal_each_by_itself(
    algorithm: str | None, events: list[Any], queries: dict[int, int], piece: int
) -> None:
    aggregate = sw.agg.sum() if algorithm in ("subtract_on_evict", "slick_deque") else Affine()
    values = pa.array(events, pa.int64())
    with tuned(combines_done=piece):
        found = sw.slide(values, aggregate, [*queries], [*queries.values()], algorithm)
    assert list(found) == list(queries)
    for length, every in queries.items():
        assert found[length].to_pylist() == twin(events, aggregate, length, every)


@settings(max_examples=30)
@given(events=st.lists(small.map(float), max_size=60), ranges=st.sets(lengths, min_size=1))
def test_means_over_several_lengths_equal_each_by_itself(
    events: list[float], ranges: set[int]
) -> None:
    found = sw.slide(np.array(events), sw.agg.mean(), sorted(ranges), algorithm="flatfit")
    for length in ranges:
        assert same(found[length].tolist(), _numpy(events, sw.agg.mean(), length, 1))


@pytest.mark.parametrize("algorithm", [None, "two_stacks", "sba", "pba", "fiba"])
@settings(max_examples=15)
@given(events=st.lists(st.none() | st.text("abc", max_size=3)), length=lengths, every=steps)
def test_strings_are_concatenated_in_order(
    algorithm: str | None, events: list[Any], length: int, every: int
) -> None:
    concat = sw.agg.concat(sep="-")
    found = sw.slide(pa.array(events, pa.string()), concat, length, every, algorithm).to_pylist()
    assert found == twin(events, concat, length, every)


@pytest.mark.parametrize("aggregate", [Affine(), Ledger(), sw.agg.sum(), sw.agg.std()], ids=repr)
@settings(max_examples=15)
@given(
    block=st.integers(1, 8),
    events=st.lists(small, min_size=1, max_size=90),
    length=st.integers(1, 12),
    every=st.integers(1, 4),
    algorithm=st.sampled_from([None, "sba", "pba"]),
)
def test_the_size_of_blocks_and_the_number_of_threads_change_nothing(
    aggregate: sw.Aggregate,
    block: int,
    events: list[int],
    length: int,
    every: int,
    algorithm: str | None,
) -> None:
    with tuned(slide_block=block, slide_through=2, threads_length=2):
        found = sw.slide(np.array(events), aggregate, length, every, algorithm).tolist()
    assert same(found, _numpy(events, aggregate, length, every))


def _numpy(events: list[Any], aggregate: sw.Aggregate, length: int, every: int) -> list[Any]:
    """The twin as numpy says it: null is NaN."""
    return [math.nan if v is None else v for v in twin(events, aggregate, length, every)]


@given(
    events=st.lists(small, min_size=1, max_size=60),
    length=st.integers(2, 20),
    chunks=st.integers(0, 3),
)
def test_the_two_halves_of_pba_meet_from_any_chunk_on(
    events: list[int], length: int, chunks: int
) -> None:
    first = min(chunks * length, (len(events) - 1) // length * length)
    algebra = Affine().bind([pa.int64()]).components[0].algebra
    values, size = (np.array(events),), len(events)
    out = algebra.new(size - first)
    ends = [algebra.new(size), algebra.new(size)]
    for part in (1, 2):
        for way, room in zip((fall, rise), ends, strict=True):
            way.specialise(algebra)(values, None, None, length, (first, size), part, room, out)
    states = list(zip(*(a.tolist() for a in out), strict=True))
    found = [Affine().lower(s) for s in states]
    assert found == twin(events, Affine(), length, 1)[first:]
