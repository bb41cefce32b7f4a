"""Every merger equals `Recalc`, for every aggregate that it accepts."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.components import FloatSum, IntSum, Largest, Smallest
from slicewise.codegen.flat import FlatAlgebra
from slicewise.errors import CapabilityError
from slicewise.mergers import CATALOGUE, FiBA, FlatFAT, Merger, ReactiveAggregator, Recalc
from slicewise.mergers.base import FlatMerger, drive
from slicewise.mergers.shared import answer_together
from tests.support import texts

MERGERS: list[type[Merger]] = [*(entry.cls for entry in CATALOGUE.values()), ReactiveAggregator]
FLAT = [entry.cls for entry in CATALOGUE.values() if issubclass(entry.cls, FlatMerger)]
SUFFIXES = [cls for cls in FLAT if cls.properties.suffixes]


class Text(texts.Text):
    """Concatenation from which the oldest part can be taken away again."""

    def invert(self, total: str, oldest: str) -> str:
        return total.removeprefix(oldest)


# Small whole numbers add and multiply exactly, so results are equal and not only close. Powers of
# two have exact logarithms.
NUMBERS = st.integers(-8, 8)
VALUES = {
    "concat": st.sampled_from("abc"),
    "text": st.sampled_from("abc"),
    "geomean": st.sampled_from([1.0, 2.0, 4.0]),
}
AGGREGATES = [Text(), *sw.agg.REGISTRY]
# Quotients of deviations. Subtracting leaves rounding where a deviation should be 0, and then the
# quotient is anything; only the states are close.
QUOTIENTS = frozenset({"skew", "corr"})
SUBTRACTING = frozenset({"subtract_on_evict", "slick_deque"})

# Counts of operations rather than single ones, so that windows empty, grow and shrink again.
runs = st.lists(
    st.tuples(st.sampled_from(["insert", "evict", "slide", "bulk", "empty"]), st.integers(1, 12)),
    max_size=12,
)


def events(aggregate: sw.Aggregate) -> st.SearchStrategy[Any]:
    one = st.none() | VALUES.get(aggregate.name, NUMBERS)
    return one if aggregate.arity == 1 else st.tuples(*[one] * aggregate.arity)


def accepted(aggregate: sw.Aggregate) -> list[Merger]:
    made = []
    for cls in MERGERS:
        try:
            made.append(cls(aggregate))
        except CapabilityError:
            assert not aggregate.invertible
            assert cls.properties.needs != "associative"
    return made


def agree(one: Any, other: Any) -> bool:
    """Equal, and for floats close: mergers associate differently, and rounding shows it."""
    if isinstance(one, float) and isinstance(other, float):
        both_nan = one != one and other != other
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(agree, one, other))
    return bool(one == other)


def operate(merger: Merger, operation: str, values: Sequence[Any]) -> None:
    """One step of a run; `values` are the events that come, and say how many go."""
    if operation == "insert":
        for value in values:
            merger.insert(value)
    elif operation == "bulk":
        merger.insert_many(values)
        merger.evict_many(len(merger) // 2)
    elif operation == "evict":
        for _ in range(min(len(values), len(merger))):
            merger.evict()
    elif operation == "slide":
        for value in values:
            if len(merger):
                merger.evict()
            merger.insert(value)
            merger.query()
    else:
        merger.evict_many(len(merger))


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@settings(max_examples=25)
@given(data=st.data(), run=runs)
def test_every_merger_that_accepts_an_aggregate_equals_recalc(
    aggregate: sw.Aggregate, data: st.DataObject, run: list[tuple[str, int]]
) -> None:
    twin, mergers = Recalc(aggregate), accepted(aggregate)
    for operation, count in run:
        values = data.draw(st.lists(events(aggregate), min_size=count, max_size=count))
        last = data.draw(st.integers(0, count))
        operate(twin, operation, values)
        expected = twin.query()
        newest = [*range(len(twin))][len(twin) - min(last, len(twin)) :]
        for merger in mergers:
            operate(merger, operation, values)
            assert len(merger) == len(twin), merger
            if merger.name in SUBTRACTING and aggregate.name in QUOTIENTS:
                assert agree(merger.query_state(), twin.query_state()), merger
            else:
                assert agree(merger.query(), expected), merger
            if merger.properties.suffixes:
                suffix = merger.query(last=len(newest))
                assert agree(suffix, suffix_of(twin, len(newest))), merger


def suffix_of(twin: Recalc, last: int) -> Any:
    """The aggregate of the newest events of a `Recalc`, from its states."""
    p, states = twin._p, twin._S[0]
    state = twin.aggregate.identity()
    for number in range(p[1] - last, p[1]):
        state = twin.aggregate.combine(state, states[number & p[2]])
    return twin.aggregate.lower(state)


# Maxima have no inverse, so that mergers which need one refuse them.
SELECTIVE = [cls for cls in MERGERS if cls.properties.needs != "invertible"]


@pytest.mark.parametrize("cls", SELECTIVE, ids=lambda cls: cls.name)
@pytest.mark.parametrize("aggregate", [sw.agg.max(), sw.agg.min()], ids=repr)
@given(run=st.lists(st.floats(width=16) | st.none() | st.just("evict"), max_size=40))
def test_nan_is_the_greatest_in_every_merger(
    cls: type[Merger], aggregate: sw.Aggregate, run: list[Any]
) -> None:
    merger, window = cls(aggregate), list[Any]()
    for step in run:
        if step != "evict":
            merger.insert(step)
            window.append(step)
        elif window:
            merger.evict()
            window.pop(0)
        expected, found = aggregate.fold(window), merger.query()
        assert expected == found or (expected != expected and found != found)


@pytest.mark.parametrize("aggregate", [a for a in AGGREGATES if a.selective], ids=repr)
@given(data=st.data())
def test_a_selective_combine_returns_one_of_its_arguments(
    aggregate: sw.Aggregate, data: st.DataObject
) -> None:
    folded = []
    for _ in range(2):
        state = aggregate.identity()
        for event in data.draw(st.lists(events(aggregate), max_size=3)):
            values = event if aggregate.arity > 1 else (event,)
            if not aggregate.skips(values):
                state = aggregate.combine(state, aggregate.lift(*values))
        folded.append(state)
    assert aggregate.combine(*folded) in folded


# Compiled.


class Affine(FlatAlgebra):
    """Composition of affine maps modulo a prime: order matters in every bit."""

    dtypes = ("i8", "i8")

    def identity(self) -> tuple[int, int]:
        return (1, 0)

    def lift(self, x: int) -> tuple[int, int]:
        return (x % 1009 + 1, x % 7)

    def combine(self, older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
        return (
            older[0] * newer[0] % 1000003,
            (older[1] * newer[0] + newer[1]) % 1000003,
        )


FLOATS = [0.5, -1.0, 2.0, 3.0, math.nan, math.inf]
ALGEBRAS = [
    (Largest("<f8", -math.inf), FLOATS),
    (Smallest("<f8", math.nan), FLOATS),
    (FloatSum(), [1.0, 2.0, -3.0]),
    (IntSum(), [1, -(2**62), 2**62]),
    (Affine(), [*range(10)]),
]


@pytest.mark.parametrize("flat", [Largest("<f8", -math.inf), Smallest("<f8", math.nan)])
def test_what_goes_back_in_time_combines_to_the_same(flat: Largest) -> None:
    for older, newer in itertools.product([*FLOATS, -math.inf, flat.identity()], repeat=2):
        np.testing.assert_equal(flat.prepend(older, newer), flat.combine(older, newer))


def merges(cls: type[FlatMerger], flat: FlatAlgebra) -> bool:
    try:
        cls.kernels_for(flat.algebra)
    except CapabilityError:
        return False
    return True


MERGED = [
    pytest.param(cls, flat, values, id=f"{cls.name}-{type(flat).__name__}")
    for cls in FLAT
    for flat, values in ALGEBRAS
    if merges(cls, flat)
]


def test_most_mergers_merge_most_algebras() -> None:
    assert len(MERGED) > 0.8 * len(FLAT) * len(ALGEBRAS)


@pytest.mark.parametrize(("cls", "flat", "values"), MERGED)
@settings(max_examples=20)
@given(data=st.data(), length=st.integers(1, 20), every=st.integers(1, 5))
def test_compiled_mergers_equal_compiled_recalc(
    cls: type[FlatMerger],
    flat: FlatAlgebra,
    values: list[Any],
    data: st.DataObject,
    length: int,
    every: int,
) -> None:
    algebra = flat.algebra
    size = data.draw(st.integers(0, 60))
    X = (np.array(data.draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))),)
    X = (X[0].astype(algebra.dtypes[0]),)
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    # Whether there is a mask matters to the driver, which is the same for every algebra.
    for mask in (None, valid) if isinstance(flat, Affine) else (valid,):
        expected = drive(Recalc, algebra, X, mask, length, every)
        for one, other in zip(expected, drive(cls, algebra, X, mask, length, every)):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("cls", SUFFIXES, ids=lambda cls: cls.name)
@settings(max_examples=20)
@given(
    x=st.lists(st.integers(0, 9), max_size=60),
    queries=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=4),
)
def test_several_queries_in_one_pass_equal_one_pass_each(
    cls: type[FlatMerger], x: list[int], queries: list[tuple[int, int]]
) -> None:
    algebra, X = Affine().algebra, (np.array(x, np.int64),)
    together = answer_together(cls, algebra, X, None, queries)
    for states, (length, every) in zip(together, queries, strict=True):
        alone = drive(Recalc, algebra, X, None, length, every)
        for one, other in zip(alone, states, strict=True):
            np.testing.assert_array_equal(one, other)


# Out of order.

moments = st.integers(0, 30)
arrivals = st.lists(st.tuples(moments, st.sampled_from("abcdef")), max_size=25)
disorder = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), arrivals),
        st.tuples(st.just("bulk"), arrivals),
        st.tuples(st.just("evict"), st.integers(0, 10)),
        st.tuples(st.just("before"), moments),
    ),
    max_size=10,
)


def well_formed(merger: FiBA) -> None:
    """The invariants of the B-tree: arities, heights, flags, parents, time order."""
    fewest = merger._fewest
    times = []

    def visit(node: Any, left: bool, right: bool) -> None:
        assert (node.left, node.right) == (left, right)
        assert node.arity <= 2 * fewest
        assert node.arity >= (fewest if node.parent is not None else 2 if node.children else 1)
        assert len(node.states) == len(node.times)
        assert len(node.children) in (0, node.arity)
        for i in range(node.arity):
            if node.children:
                child = node.children[i]
                assert child.parent is node
                assert child.height == node.height - 1
                visit(child, left and i == 0, right and i == len(node.times))
            else:
                assert node.height == 0
            times.extend(node.times[i : i + 1])
        if not node.children:
            assert not left or node is merger._oldest
            assert not right or node is merger._newest

    visit(merger._root, True, True)
    assert times == sorted(times)
    assert len(times) == len(merger)


@pytest.mark.parametrize("min_arity", [2, 3, 4])
@settings(max_examples=150)
@given(steps=disorder, bounds=st.tuples(moments, moments), last=st.integers(0, 40))
def test_fiba_equals_a_sorted_list(
    min_arity: int, steps: list[tuple[str, Any]], bounds: tuple[int, int], last: int
) -> None:
    merger = FiBA(Text(), min_arity=min_arity)
    window: list[tuple[int, str]] = []
    for operation, given_ in steps:
        if operation == "evict":
            count = min(given_, len(window))
            merger.evict_many(count)
            del window[:count]
        elif operation == "before":
            merger.evict_before(given_)
            window = [event for event in window if event[0] >= given_]
        else:
            if operation == "insert":
                for time, value in given_:
                    merger.insert(value, time=time)
            else:
                merger.insert_many([value for _, value in given_], [time for time, _ in given_])
            # Sorting is stable, so ties stay in the order of arrival.
            window = sorted([*window, *given_], key=lambda event: event[0])
        well_formed(merger)
        text = "".join(value for _, value in window)
        assert merger.query() == text
        k = min(last, len(window))
        assert merger.query(last=k) == text[len(text) - k :]
        low, high = (bisect_left(window, bound, key=lambda event: event[0]) for bound in bounds)
        assert merger.query_between(*bounds) == text[low:high]


@settings(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["insert", "evict", "at", "update"]),
            st.lists(st.integers(0, 40), min_size=1, max_size=14),
        ),
        max_size=14,
    ),
    reactive=st.booleans(),
    asked=st.integers(0, 3),
)
def test_flatfat_equals_a_list_when_events_leave_and_change_anywhere(
    steps: list[tuple[str, list[int]]], reactive: bool, asked: int
) -> None:
    around = ReactiveAggregator(Text())
    merger = around.tree if reactive else FlatFAT(Text())
    window: list[str] = []
    for number, (operation, numbers) in enumerate(steps):
        letters = [chr(ord("A") + k) for k in numbers]
        places = list(dict.fromkeys(k % len(window) for k in numbers)) if window else []
        if operation == "insert":
            merger.insert_many(letters)
            window += letters
        elif operation == "evict":
            count = min(len(numbers), len(window))
            merger.evict_many(count)
            del window[:count]
        elif operation == "at":
            (around if reactive else merger).evict_at(*places)
            window = [value for k, value in enumerate(window) if k not in places]
        else:
            merger.update(zip(places, letters))
            for place, letter in zip(places, letters):
                window[place] = letter
        assert len(merger) == len(window)
        assert merger.capacity == 8 or 4 * len(merger) >= merger.capacity
        if number % (asked + 1) == 0:  # changes of several steps are renewed together
            assert merger.query() == "".join(window)
            cut = len(window) // 3
            assert merger.prefix(cut) == "".join(window[:cut])
            assert merger.suffix(cut) == "".join(window[cut:])
    assert merger.query() == "".join(window)
