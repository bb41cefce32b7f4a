"""The laws of the algebra, for every aggregate of the registry."""

import math
import pickle
from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.laws import same
from slicewise.errors import ColumnTypeError, OverflowedError
from tests.support import broken
from tests.support.bound import run_bound

# Sums of third powers of such numbers are exact in float64, so that laws do not meet rounding;
# rounding has tests of its own.
WHOLE = st.integers(-30, 30)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "numbers": WHOLE | WHOLE.map(float),
    "ordered": WHOLE.map(float),
    "any": st.sampled_from("abc"),
    "strings": st.text("abc", max_size=2),
}
every_aggregate = pytest.mark.parametrize("agg", sw.agg.REGISTRY, ids=repr)


def events_of(agg: sw.Aggregate) -> st.SearchStrategy[Any]:
    columns = [VALUES[kind] for kind in agg.takes]
    if agg.name == "geomean":
        columns = [st.integers(1, 30)]  # a 0 has no logarithm that could be taken away again
    return st.tuples(*columns) if agg.arity > 1 else columns[0]


def fold(agg: sw.Aggregate, events: list[Any]) -> Any:
    """Build a reachable state. Starting at `identity` would hide a wrong identity."""
    states = [agg.lift(*(e if agg.arity > 1 else (e,))) for e in events]
    return reduce(agg.combine, states) if states else agg.identity()


def agree(agg: sw.Aggregate, one: Any, other: Any) -> bool:
    return same(one, other) or same(agg.lower(one), agg.lower(other))


# Each law, for an aggregate and events that are drawn: it holds or raises an `AssertionError`.
Law = Callable[[sw.Aggregate, st.DataObject], None]


def draw_state(agg: sw.Aggregate, data: st.DataObject, most: int) -> Any:
    return fold(agg, data.draw(st.lists(events_of(agg), max_size=most)))


def is_associative(agg: sw.Aggregate, data: st.DataObject) -> None:
    a, b, c = (draw_state(agg, data, 6) for _ in range(3))
    assert agree(agg, agg.combine(agg.combine(a, b), c), agg.combine(a, agg.combine(b, c)))


def has_a_neutral_identity(agg: sw.Aggregate, data: st.DataObject) -> None:
    state = draw_state(agg, data, 6)
    assert agree(agg, agg.combine(agg.identity(), state), state)
    assert agree(agg, agg.combine(state, agg.identity()), state)


def does_not_see_splits(agg: sw.Aggregate, data: st.DataObject) -> None:
    runs = st.lists(events_of(agg), max_size=20)
    xs, ys = data.draw(runs), data.draw(runs)
    assert agree(agg, agg.combine(fold(agg, xs), fold(agg, ys)), fold(agg, xs + ys))


def is_undone_by_invert(agg: sw.Aggregate, data: st.DataObject) -> None:
    a, b = draw_state(agg, data, 10), draw_state(agg, data, 10)
    assert agree(agg, agg.invert(agg.combine(a, b), a), b)


def commutes(agg: sw.Aggregate, data: st.DataObject) -> None:
    a, b = draw_state(agg, data, 10), draw_state(agg, data, 10)
    assert agree(agg, agg.combine(a, b), agg.combine(b, a))


def does_not_commute(agg: sw.Aggregate, _data: st.DataObject) -> None:
    pools: dict[str, list[Any]] = {
        "numbers": [1, 2],
        "ordered": [1, 2],
        "any": [1, 2],
        "strings": ["a", "b"],
    }
    columns = [pools[kind] for kind in agg.takes]
    events = list(product(*columns)) if agg.arity > 1 else columns[0]
    states = [fold(agg, [event]) for event in events]
    assert any(
        not same(agg.lower(agg.combine(a, b)), agg.lower(agg.combine(b, a)))
        for a, b in product(states, states)
    )


def selects(agg: sw.Aggregate, data: st.DataObject) -> None:
    a, b = draw_state(agg, data, 5), draw_state(agg, data, 5)
    combined = agg.combine(a, b)
    assert same(combined, a) or same(combined, b)


def changes_no_argument(agg: sw.Aggregate, data: st.DataObject) -> None:
    a, b = draw_state(agg, data, 10), draw_state(agg, data, 10)
    before = agg.lower(a), agg.lower(b)
    agg.combine(a, b)
    assert same((agg.lower(a), agg.lower(b)), before)


@every_aggregate
@given(data=st.data())
def test_combine_is_associative(agg: sw.Aggregate, data: st.DataObject) -> None:
    is_associative(agg, data)


@every_aggregate
@given(data=st.data())
def test_identity_is_neutral_on_both_sides(agg: sw.Aggregate, data: st.DataObject) -> None:
    has_a_neutral_identity(agg, data)


@every_aggregate
@given(data=st.data())
def test_splitting_the_input_changes_nothing(agg: sw.Aggregate, data: st.DataObject) -> None:
    does_not_see_splits(agg, data)


@pytest.mark.parametrize("agg", [a for a in sw.agg.REGISTRY if a.invertible], ids=repr)
@given(data=st.data())
def test_invert_undoes_combine(agg: sw.Aggregate, data: st.DataObject) -> None:
    is_undone_by_invert(agg, data)


@pytest.mark.parametrize("agg", [a for a in sw.agg.REGISTRY if a.commutative], ids=repr)
@given(data=st.data())
def test_what_is_said_to_commute_commutes(agg: sw.Aggregate, data: st.DataObject) -> None:
    commutes(agg, data)


@pytest.mark.parametrize("agg", [a for a in sw.agg.REGISTRY if not a.commutative], ids=repr)
@settings(max_examples=1)  # it draws nothing
@given(data=st.data())
def test_what_is_not_said_to_commute_does_not(agg: sw.Aggregate, data: st.DataObject) -> None:
    does_not_commute(agg, data)


@pytest.mark.parametrize("agg", [a for a in sw.agg.REGISTRY if a.selective], ids=repr)
@given(data=st.data())
def test_what_is_said_to_select_selects(agg: sw.Aggregate, data: st.DataObject) -> None:
    selects(agg, data)


@every_aggregate
@given(data=st.data())
def test_combine_changes_neither_argument(agg: sw.Aggregate, data: st.DataObject) -> None:
    changes_no_argument(agg, data)


BROKEN: list[tuple[Law, type[sw.Aggregate]]] = [
    (is_associative, broken.Halves),
    (has_a_neutral_identity, broken.StartsAtOne),
    (does_not_see_splits, broken.Subtracts),
    (is_undone_by_invert, broken.ForgetsToSubtract),
    (commutes, broken.KeepsTheOlder),
    (does_not_commute, broken.SaysTooLittle),
    (selects, broken.SelectsNothing),
    (changes_no_argument, broken.ChangesItsArguments),
]


@pytest.mark.parametrize(("law", "kind"), BROKEN, ids=lambda one: one.__name__)
def test_each_law_finds_an_aggregate_that_breaks_it(law: Law, kind: type[sw.Aggregate]) -> None:
    @settings(phases=[Phase.generate], database=None, derandomize=True)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        law(kind("x"), data)

    with pytest.raises(AssertionError):
        check()


@every_aggregate
@given(data=st.data())
def test_aggregates_and_states_survive_pickling(agg: sw.Aggregate, data: st.DataObject) -> None:
    state = fold(agg, data.draw(st.lists(events_of(agg), max_size=10)))
    again = pickle.loads(pickle.dumps(agg))
    assert again == agg
    assert hash(again) == hash(agg)
    assert same(again.lower(pickle.loads(pickle.dumps(state))), agg.lower(state))


@every_aggregate
def test_the_published_check_accepts(agg: sw.Aggregate) -> None:
    pools: dict[str, list[Any]] = {"strings": list("abcdba")}
    columns = [pools.get(kind, [1, 2, 3, 2, 7, 30]) for kind in agg.takes]
    sw.testing.check_aggregate(
        agg, list(zip(columns[0], reversed(columns[-1]))) if agg.arity > 1 else columns[0]
    )


# Compiled code against Python.

EXTREMES = st.sampled_from([-(2**63), 2**63 - 1, 2**62, -1, 0, 1])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "float64": (
        pa.float64(),
        st.none()
        | WHOLE.map(float)
        | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e16, 1e300, -1e-300]),
    ),
    "int64": (pa.int64(), st.none() | WHOLE | EXTREMES),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.none() | st.integers(-(10**15), 10**15),
    ),
    "string": (pa.string(), st.none() | st.text("abc", max_size=2)),
}


def binds(agg: sw.Aggregate, dtype: pa.DataType) -> bool:
    try:
        agg.bind([dtype] * agg.arity)
    except ColumnTypeError:
        return False
    return True


BOUND = [
    pytest.param(agg, kind, id=f"{agg!r}-{kind}")
    for agg in sw.agg.REGISTRY
    for kind, (dtype, _) in COLUMNS.items()
    if binds(agg, dtype)
]


@pytest.mark.parametrize(("agg", "kind"), BOUND)
@given(data=st.data())
def test_components_give_the_answers_of_the_algebra(
    agg: sw.Aggregate, kind: str, data: st.DataObject
) -> None:
    dtype, values = COLUMNS[kind]
    size = data.draw(st.integers(0, 12))
    lists = [data.draw(st.lists(values, min_size=size, max_size=size)) for _ in range(agg.arity)]
    arrays = [pa.array(values, dtype) for values in lists]
    python = [array.to_pylist() for array in arrays]
    expected = agg.fold(list(zip(*python, strict=True)) if agg.arity > 1 else python[0])
    if isinstance(expected, int) and not -(2**63) <= expected < 2**63:
        with pytest.raises(OverflowedError, match="does not fit 64 bits"):
            run_bound(agg, arrays)
    else:
        assert same(run_bound(agg, arrays), expected)
