"""What the aggregates answer: flags, nulls, NaN, types, precision, and what they refuse."""

import datetime as dt
import math
import re
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise import agg
from slicewise.aggregates import components as parts
from slicewise.aggregates.bound import read, share, states_of
from slicewise.aggregates.laws import same
from slicewise.aggregates.lists import Rope
from slicewise.aggregates.multiset import Multiset
from slicewise.columns import Column
from slicewise.errors import (
    AggregateError,
    ColumnTypeError,
    MissingDependencyError,
    OverflowedError,
)
from slicewise.spark.batch.states import packed, unpacked
from slicewise.testing.laws import fold_all
from tests.support.bound import run_bound

ROOT = Path(__file__).parents[2]
NAN, INF = math.nan, math.inf

# Reactive Aggregator (VLDB 2015), Table 2: invertible, commutative. The paper's standard
# deviations are one aggregate here, with `ddof`.
TABLE_2 = {
    "count": (True, True),
    "sum": (True, True),
    "max": (False, True),
    "min": (False, True),
    "mean": (True, True),
    "geomean": (True, True),
    "max_count": (False, True),
    "min_count": (False, True),
    "std": (True, True),
    "argmax": (False, False),
    "argmin": (False, False),
    "collect": (True, False),
}
# Scotty (TODS 2020), Section 4.2.
KINDS = {
    "sum": "distributive",
    "min": "distributive",
    "max": "distributive",
    "mean": "algebraic",
    "median": "holistic",
    "quantile": "holistic",
}
# The names that DESIGN fixes.
NAMES = [
    "sum",
    "count",
    "min",
    "max",
    "mean",
    "geomean",
    "product",
    "range",
    "var",
    "std",
    "skew",
    "first",
    "last",
    "first_n",
    "last_n",
    "argmin",
    "argmax",
    "min_count",
    "max_count",
    "collect",
    "collect_distinct",
    "count_distinct",
    "concat",
    "median",
    "quantile",
    "mode",
    "top_k",
    "m4",
    "weighted_mean",
    "cov",
    "corr",
    "moments",
    "approx_count_distinct",
    "approx_quantile",
    "bloom",
]


def test_the_namespace_holds_the_public_names_and_the_registry_one_of_each() -> None:
    assert {a.name for a in agg.REGISTRY} == set(NAMES)
    for name in NAMES:
        assert getattr(agg, name).name == name


def test_flags_are_those_of_the_papers() -> None:
    known = {a.name: a for a in agg.REGISTRY}
    for name, flags in TABLE_2.items():
        assert (known[name].invertible, known[name].commutative) == flags, name
    for name, kind in KINDS.items():
        assert known[name].kind == kind, name


def test_every_aggregate_has_a_docstring_with_an_example() -> None:
    for a in agg.REGISTRY:
        assert ">>>" in (type(a).__doc__ or ""), a.name


def test_output_names_follow_the_column_and_the_alias() -> None:
    assert agg.std("x").output == "x_std"
    assert agg.count().output == "count"
    assert agg.argmin("price", "shop").output == "price_argmin"
    assert agg.sum("x").alias("total").output == "total"
    assert agg.sum("x").output == "x_sum"
    assert repr(agg.quantile("x", 0.9).alias("p90")) == "sw.agg.quantile('x', q=0.9).alias('p90')"


# Nulls, NaN and nothing at all.


def test_empty_windows() -> None:
    empty = {a.name: a.fold([]) for a in agg.REGISTRY if a.name != "bloom"}
    zeros = {"count", "count_distinct", "approx_count_distinct", "min_count", "max_count"}
    lists = {"collect", "collect_distinct", "first_n", "last_n", "top_k"}
    for name, result in empty.items():
        expected: Any = 0 if name in zeros else [] if name in lists else None
        assert result == expected, name


def test_count_without_a_column_counts_rows() -> None:
    assert agg.count().fold([None, 1, NAN]) == 3
    assert agg.count("x").fold([None, 1, NAN]) == 2


@pytest.mark.parametrize(
    ("aggregate", "result"),
    [
        (agg.min("x"), 1.0),
        (agg.max("x"), NAN),
        (agg.range("x"), NAN),
        (agg.sum("x"), NAN),
        (agg.median("x"), 2.0),
        (agg.quantile("x", 1), NAN),
        (agg.approx_quantile("x", 1), NAN),
        (agg.mode("x"), NAN),
        (agg.count_distinct("x"), 3),
        (agg.collect_distinct("x"), [1.0, 2.0, NAN]),
        (agg.top_k("x", 2), [NAN, NAN]),
        (agg.max_count("x"), 2),
        (agg.min_count("x"), 2),
        (agg.approx_count_distinct("x"), 3),
        (agg.first("x"), 1.0),
        (agg.last("x"), 1.0),
    ],
    ids=repr,
)
def test_nan_is_the_greatest_and_equals_itself(aggregate: sw.Aggregate, result: Any) -> None:
    events = [1.0, NAN, 2.0, NAN, 1.0] if aggregate.name != "mode" else [1.0, NAN, NAN]
    for found in (aggregate.fold(events), run_bound(aggregate, [pa.array(events)])):
        np.testing.assert_equal(found, result)


def test_negative_zero_equals_zero() -> None:
    for aggregate in (agg.count_distinct("x"), agg.approx_count_distinct("x")):
        assert aggregate.fold([0.0, -0.0]) == 1
    assert agg.min_count("x").fold([0.0, -0.0]) == 2
    assert run_bound(agg.min_count("x"), [pa.array([0.0, -0.0])]) == 2
    assert agg.argmax("x", "y").fold([(-0.0, "a"), (0.0, "b")]) == "a"


def test_argmin_skips_null_values_and_may_return_a_null() -> None:
    events = [(None, 1), (5, None), (7, 3), (5, 4)]
    assert agg.argmin("x", "y").fold(events) is None
    columns = [pa.array(column, pa.int64()) for column in zip(*events, strict=True)]
    assert run_bound(agg.argmin("x", "y"), columns) is None
    assert run_bound(agg.argmax("x", "y"), columns) == 3


@given(st.lists(st.tuples(st.sampled_from([1.0, 2.0, NAN]), st.integers(0, 99)), min_size=1))
def test_argmin_and_argmax_take_the_first_of_equals(events: list[tuple[float, int]]) -> None:
    columns = [pa.array(list(column)) for column in zip(*events, strict=True)]
    order = [INF if x != x else x for x, _ in events]
    assert run_bound(agg.argmin("x", "y"), columns) == events[order.index(min(order))][1]
    assert run_bound(agg.argmax("x", "y"), columns) == events[order.index(max(order))][1]


def test_strings_are_compared_joined_and_counted() -> None:
    strings = pa.array(["pear", None, "fig", "pear"])
    found = {
        a.name: run_bound(a, [strings])
        for a in [agg.min("s"), agg.max("s"), agg.first("s"), agg.last("s"), agg.mode("s")]
    }
    assert found == {"min": "fig", "max": "pear", "first": "pear", "last": "pear", "mode": "pear"}
    assert run_bound(agg.concat("s", sep="+"), [strings]) == "pear+fig+pear"
    assert run_bound(agg.collect_distinct("s"), [strings]) == ["fig", "pear"]
    assert run_bound(agg.top_k("s", 1), [strings]) == ["pear"]
    assert run_bound(agg.m4("s"), [strings]) == {
        "min": "fig",
        "max": "pear",
        "first": "pear",
        "last": "pear",
    }


TEMPORAL = [
    (pa.timestamp("us", "UTC"), [5, None, 3]),
    (pa.timestamp("s"), [5, None, 3]),
    (pa.date32(), [5, None, 3]),
    (pa.date64(), [432_000_000, None, 86_400_000]),
    (pa.time64("us"), [5, None, 3]),
    (pa.time32("ms"), [5, None, 3]),
    (pa.duration("ms"), [5, None, 3]),
]


@pytest.mark.parametrize(("kind", "values"), TEMPORAL, ids=lambda v: str(v))
def test_times_come_back_in_their_own_type(kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind)
    first, _, last = array.to_pylist()
    assert run_bound(agg.min("t"), [array]) == last
    assert run_bound(agg.max("t"), [array]) == first
    assert run_bound(agg.first("t"), [array]) == first
    assert run_bound(agg.last("t"), [array]) == last
    assert run_bound(agg.argmin("t", "t"), [array, array]) == last
    assert run_bound(agg.collect("t"), [array]) == [first, last]
    assert run_bound(agg.collect_distinct("t"), [array]) == [last, first]
    assert run_bound(agg.mode("t"), [array]) == last
    assert run_bound(agg.m4("t"), [array])["max"] == first
    assert run_bound(agg.count_distinct("t"), [array]) == 2


def test_the_range_of_times_is_a_duration() -> None:
    days = pa.array([1, 4], pa.date32())
    assert run_bound(agg.range("t"), [days]) == dt.timedelta(days=3)
    times = pa.array([1, 4], pa.timestamp("ms", "UTC"))
    assert run_bound(agg.range("t"), [times]) == dt.timedelta(milliseconds=3)
    with pytest.raises(ColumnTypeError, match="`range` needs a column of numbers"):
        agg.range("t").bind([pa.time32("s")])


def test_decimals_of_more_than_28_digits_are_not_rounded() -> None:
    big, small = Decimal("99999999999999999999999999999999.01"), Decimal("0.02")
    array = pa.array([big, small], pa.decimal128(36, 2))
    assert run_bound(agg.sum("d"), [array]) == Decimal("99999999999999999999999999999999.03")
    assert run_bound(agg.range("d"), [array]) == Decimal("99999999999999999999999999999998.99")


def test_decimals_are_summed_exactly() -> None:
    array = pa.array([Decimal("0.10"), Decimal("0.20"), None])
    assert run_bound(agg.sum("d"), [array]) == Decimal("0.30")
    assert run_bound(agg.max("d"), [array]) == Decimal("0.20")
    assert run_bound(agg.range("d"), [array]) == Decimal("0.10")
    for aggregate in [
        agg.mean("d"),
        agg.median("d"),
        agg.var("d"),
        agg.geomean("d"),
        agg.skew("d"),
    ]:
        assert isinstance(run_bound(aggregate, [array]), float | None), aggregate.name
    assert run_bound(agg.product("d"), [array]) == pytest.approx(0.02)
    assert run_bound(agg.corr("d", "e"), [array, array]) == pytest.approx(1.0)


def test_unsigned_and_small_integers_are_exact() -> None:
    large = pa.array([2**64 - 1, 2, 2**64 - 1], pa.uint64())
    assert run_bound(agg.max("x"), [large]) == 2**64 - 1
    assert run_bound(agg.min_count("x"), [large]) == 1
    assert run_bound(agg.last("x"), [large]) == 2**64 - 1
    assert run_bound(agg.mode("x"), [large]) == 2**64 - 1
    assert run_bound(agg.mean("x"), [large]) == pytest.approx((2**65) / 3)
    small = pa.array([100, 100, -128], pa.int8())
    assert run_bound(agg.sum("x"), [small]) == 72
    assert run_bound(agg.range("x"), [small]) == 228
    assert run_bound(agg.product("x"), [small]) == -1_280_000
    assert run_bound(agg.sum("x"), [pa.array([True, True, False])]) == 2
    assert run_bound(agg.product("x"), [pa.array([True, True])]) == 1


def test_floats_of_single_precision_are_summed_in_double() -> None:
    array = pa.array([0.1] * 10, pa.float32())
    assert run_bound(agg.sum("x"), [array]) == pytest.approx(float(np.float32(0.1)) * 10, rel=1e-12)
    assert agg.max("x").bind([pa.float32()]).components[1].algebra.dtypes == ("<f4",)


@pytest.mark.smoke
def test_floats_of_half_precision_are_taken_by_every_aggregate_of_numbers() -> None:
    check_floats(np.array([1.0, 2.0, 4.1], np.float16))


def test_single_precision_is_left_before_anything_is_computed() -> None:
    check_floats(np.array([1.1, 2.3, 4.7], np.float32))


def check_floats(values: Any) -> None:
    array = pa.array(values)
    for aggregate in agg.REGISTRY:
        if aggregate.takes != ("strings",):
            arrays = [array] * aggregate.arity
            events = values.tolist()  # Arrow's are not everywhere Python's
            expected = aggregate.fold([(x, x) for x in events] if aggregate.arity > 1 else events)
            assert same(run_bound(aggregate, arrays), expected), aggregate.name


# Precision.


def test_the_deviation_of_large_numbers_is_right() -> None:
    values = [1e9 + 1, 1e9 + 2, 1e9 + 3]
    assert agg.std("x").fold(values) == 1.0
    assert run_bound(agg.std("x"), [pa.array(values)]) == 1.0
    assert run_bound(agg.cov("x", "y"), [pa.array(values), pa.array([1, 2, 3])]) == 1.0
    assert run_bound(agg.skew("x"), [pa.array([*values, 1e9 + 10])]) == pytest.approx(
        run_bound(agg.skew("x"), [pa.array([1.0, 2.0, 3.0, 10.0])])
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40))
def test_spread_agrees_with_numpy(values: list[float]) -> None:
    x = np.array(values)
    scale = max(1.0, float(np.abs(x).max())) ** 2
    assert agg.var("x").fold(values) == pytest.approx(np.var(x, ddof=1), abs=1e-9 * scale)
    assert agg.var("x", ddof=0).fold(values) == pytest.approx(np.var(x), abs=1e-9 * scale)
    pairs = list(zip(values, values[::-1], strict=True))
    expected = np.cov(x, x[::-1], ddof=1)[0, 1]
    assert agg.cov("x", "y").fold(pairs) == pytest.approx(expected, abs=1e-9 * scale)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=300), st.floats(0, 1), st.randoms())
def test_quantiles_agree_with_numpy(values: list[int], q: float, random: Any) -> None:
    expected = np.quantile(values, q)
    aggregate = agg.quantile("x", q)
    assert aggregate.fold(values) == pytest.approx(expected, abs=1e-9)
    cut = random.randrange(len(values) + 1)
    older, newer = (Multiset(), Multiset())
    for value in values[:cut]:
        older = older + Multiset.of(value)
    for value in reversed(values[cut:]):
        newer = Multiset.of(value) + newer
    assert aggregate.lower(older + newer) == pytest.approx(expected, abs=1e-9)
    assert (older + newer) - older == newer


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN, INF]), max_size=200), max_size=6))
def test_multisets_are_sorted_runs_with_counts(runs: list[list[float]]) -> None:
    total = Multiset()
    for run in runs:
        part = Multiset()
        for value in run:
            part = part + Multiset.of(value)
        total = total + part
    values, counts = total.whole()
    everything = np.array([value for run in runs for value in run])
    expected, times = np.unique(everything, return_counts=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(counts, times)


def test_a_multiset_of_many_events_keeps_few_runs() -> None:
    total = Multiset()
    for value in range(10_000):
        total = total + Multiset.of(value)
    assert len(total.runs) < 20
    backwards = Multiset()
    for value in range(10_000):
        backwards = Multiset.of(value) + backwards
    assert len(backwards.runs) < 20
    zigzag = Multiset()
    for value in range(300):
        zigzag = zigzag + Multiset((tuple(range(64)), (value,)))
    assert len(zigzag.runs) < 20


def test_integers_beyond_64_bits_are_sorted_too() -> None:
    assert agg.mode("x").fold([2**70, 1, 2**70]) == 2**70
    assert agg.median("x").fold([2**70, 1, 2]) == 2.0


@given(st.lists(st.lists(st.integers(), max_size=50), max_size=10))
def test_ropes_are_lists(runs: list[list[int]]) -> None:
    rope = Rope()
    for run in runs:
        rope = rope + Rope(tuple(run))
    backwards = Rope()
    for run in reversed(runs):
        backwards = Rope(tuple(run)) + backwards
    expected = [value for run in runs for value in run]
    assert list(rope) == list(backwards) == expected
    assert rope == backwards
    assert len(rope) == len(expected)
    assert list(rope.drop(len(expected) // 2)) == expected[len(expected) // 2 :]


def test_collecting_long_runs_does_not_copy_them_at_every_combine() -> None:
    rope = Rope()
    for value in range(20_000):
        rope = rope + Rope((value,))
    assert list(rope) == list(range(20_000))
    assert max(len(leaf) for leaf in rope.leaves()) <= 32
    assert sum(1 for _ in rope.leaves()) < 2000


def test_a_float_sum_is_not_changed_by_what_left() -> None:
    values = np.array([1e16, 1.0, 1.0, 1.0])
    assert sw.slide(values, agg.sum(), 2)[-1] == 2.0


# Integers that do not fit.


@pytest.mark.parametrize(
    ("aggregate", "values"),
    [
        (agg.sum("x"), [2**63 - 1, 1]),
        (agg.sum("x"), [-(2**63), -1]),
        (agg.range("x"), [2**63 - 1, -1]),
        (agg.product("x"), [2**62, 2]),
        (agg.product("x"), [2**40, 2**40]),
    ],
    ids=repr,
)
def test_integers_never_wrap(aggregate: sw.Aggregate, values: list[int]) -> None:
    with pytest.raises(OverflowedError, match=f"`x_{aggregate.name}` does not fit 64 bits"):
        run_bound(aggregate, [pa.array(values)])


def test_integers_use_all_64_bits() -> None:
    assert run_bound(agg.sum("x"), [pa.array([2**63 - 1, 1, -1])]) == 2**63 - 1
    assert run_bound(agg.product("x"), [pa.array([2**62, 2, -1])]) == -(2**63)
    assert run_bound(agg.product("x"), [pa.array([2**62, 2**62, 0])]) == 0
    assert run_bound(agg.mean("x"), [pa.array([2**63 - 1, 2**63 - 1])]) == float(2**63)


# Sharing.


def test_aggregates_of_one_column_share_their_components() -> None:
    aggregates = [agg.mean("x"), agg.sum("x"), agg.count("x"), agg.var("x"), agg.std("x")]
    kept = share([a.bind([pa.float64()]) for a in aggregates])
    assert [component.algebra.name for component in kept] == ["Spread"]
    kept = share([a.bind([pa.int64()]) for a in aggregates])
    assert sorted(component.algebra.name for component in kept) == ["IntSum", "Spread"]
    kept = share([a.bind([pa.float64()]) for a in [*aggregates, agg.skew("x")]])
    assert [component.algebra.name for component in kept] == ["Cubes"]


def test_extremes_ends_and_quantiles_share_too() -> None:
    aggregates: list[sw.Aggregate] = [agg.min("x"), agg.max("x"), agg.range("x"), agg.m4("x")]
    kept = share([a.bind([pa.float64()]) for a in aggregates])
    assert len(kept) == 5
    kept = share([a.bind([pa.float64()]) for a in [agg.min("x"), agg.min_count("x")]])
    assert sorted(c.algebra.name for c in kept) == ["Count", "CountedSmallest"]
    bounds = [a.bind([pa.float64()]) for a in [agg.median("x"), agg.quantile("x", 0.9)]]
    assert len(share(bounds)) == 1
    kept = share([a.bind([pa.float64()] * 2) for a in [agg.cov("x", "y"), agg.corr("x", "y")]])
    assert len(kept) == 1


def test_shared_components_give_each_aggregate_its_answer() -> None:
    columns = {"x": Column.from_arrow(pa.array([1.0, None, 2.0, 6.0]))}
    aggregates = [agg.mean("x"), agg.sum("x"), agg.count("x"), agg.var("x"), agg.skew("x")]
    bounds = [a.bind([pa.float64()]) for a in aggregates]
    kept = share(bounds)
    states = []
    for component in kept:
        X, valid = read(component, columns, 4)
        out = component.algebra.new(1)
        fold_all.specialise(component.algebra)(X, valid, 4, out)
        states.append(out)
    for aggregate, bound in zip(aggregates, bounds, strict=True):
        own = [states_of(component, kept, states) for component in bound.components]
        assert bound.lower(own).tolist() == [pytest.approx(aggregate.fold([1.0, 2.0, 6.0]))]


def test_dense_counts_are_the_component_that_callers_may_skip() -> None:
    assert parts.count("x") in agg.mean("x").bind([pa.float64()]).components
    assert agg.count().bind([]).components == (parts.rows(),)
    assert agg.count().bind([pa.string()]).components == (parts.rows(),)


# Sketches.


def test_moments_estimate_quantiles_of_smooth_data() -> None:
    random = np.random.default_rng(7)
    for values in (
        random.normal(10, 2, 5000),
        random.exponential(size=5000),
        random.lognormal(0, 2, 5000),
        random.uniform(-1, 1, 5000),
    ):
        for q in (0.1, 0.5, 0.9, 0.99):
            estimate = run_bound(agg.moments("x", 10, q=q), [pa.array(values)])
            assert abs((values <= estimate).mean() - q) < 0.015


def test_moments_of_few_or_odd_values_stay_in_range() -> None:
    assert agg.moments("x").fold([5.0, 5.0]) == 5.0
    assert 0.0 <= agg.moments("x").fold([0, 1, 1, 0]) <= 1.0
    assert math.isnan(agg.moments("x").fold([1.0, NAN]))
    assert math.isnan(agg.moments("x").fold([1.0, INF]))
    assert 1.0 <= agg.moments("x").fold([1.0, 1e100]) <= 1e100
    assert run_bound(agg.moments("x", 3), [pa.array([1e9 + 1, 1e9 + 2])]) == pytest.approx(
        1e9 + 1.5, abs=0.5
    )


def test_approximate_answers_are_close() -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=20_000).tolist()
    assert agg.approx_count_distinct("x").fold(values) == pytest.approx(20_000, rel=0.06)
    rank = (np.array(values) <= agg.approx_quantile("x", 0.9).fold(values)).mean()
    assert rank == pytest.approx(0.9, abs=0.03)


def test_an_approximate_quantile_has_nan_as_the_greatest_value() -> None:
    random = np.random.default_rng(7)
    for numbers, nans in ((150, 50), (2000, 20), (2000, 3000), (300, 1), (1, 999), (0, 999)):
        values = random.permutation([*random.normal(size=numbers), *[NAN] * nans])
        for q in (0, 0.3, 0.5, numbers / (numbers + nans), 1):
            aggregate = agg.approx_quantile("x", q)
            algebra = aggregate.bind([pa.float64()]).components[0].algebra
            states = np.empty(7, object)
            for k, part in enumerate(np.array_split(values, 7)):
                states[k] = reduce(aggregate.combine, map(aggregate.lift, part))
            (kept,) = unpacked(algebra, [packed(states)])  # as Spark has them
            estimate = aggregate.lower(reduce(aggregate.combine, kept))
            assert estimate is not None
            below, upto = numbers / len(values), 1.0  # the ranks of NaN
            if estimate == estimate:
                below, upto = (values < estimate).mean(), (values <= estimate).mean()
            assert below - 0.03 <= q <= upto + 0.03
            if len(values) <= 256 or q == 1 or not numbers:
                assert same(estimate, agg.quantile("x", q).fold(values.tolist()))


def test_a_bloom_filter_misses_nothing_and_errs_seldom() -> None:
    aggregate = agg.bloom("x", capacity=500, error=0.01)
    bits = aggregate.fold(range(500))
    assert all(agg.bloom.contains(bits, value) for value in range(500))
    assert sum(agg.bloom.contains(bits, value) for value in range(1000, 11_000)) < 300
    assert agg.bloom.contains(bits, 3.0)
    days = pa.array([1, None], pa.date32())
    assert agg.bloom.contains(run_bound(agg.bloom("t"), [days]), dt.date(1970, 1, 2))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from slicewise.aggregates import sketches

    sketches.datasketches.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "datasketches", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'slicewise\[sketches\]'"):
        agg.approx_quantile("x", 0.5).bind([pa.float64()])
    with pytest.raises(MissingDependencyError, match="`approx_count_distinct` needs the package"):
        agg.approx_count_distinct("x").identity()


# What is refused.

# Without types, because the mistakes are the point.
untyped: Any = agg


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.sum("x", "y"), r"`sum` takes 1 column; given: 2 \(x, y\)"),
        (lambda: agg.cov("x"), r"`cov` takes 2 columns; given: 1 \(x\)"),
        (lambda: agg.argmin("x"), r"`argmin` takes 2 columns; given: 1 \(x\)"),
        (lambda: untyped.sum(3), "`sum` takes the names of its columns as strings; given: 3"),
        (lambda: agg.quantile("x", 1.5), "`q` of `quantile` is a number from 0 to 1.*given: 1.5"),
        (lambda: agg.quantile("x", NAN), "`q` of `quantile` is a number from 0 to 1.*given: nan"),
        (lambda: agg.quantile("x"), "`q` of `quantile` is a number from 0 to 1.*given: None"),
        (lambda: agg.quantile("x", True), "`q` of `quantile` is a number.*given: True"),
        (lambda: agg.approx_quantile("x", -1), "`q` of `approx_quantile` is a number"),
        (lambda: agg.moments("x", 10, q=2), "`q` of `moments` is a number"),
        (lambda: agg.moments("x", 0), "`k` of `moments` is how many powers are summed"),
        (lambda: agg.first_n("x", 0), "`n` of `first_n` is how many values to keep.*given: 0"),
        (lambda: agg.last_n("x"), "`n` of `last_n` is how many values to keep.*given: None"),
        (lambda: agg.top_k("x", -2), "`k` of `top_k` is how many values to keep.*given: -2"),
        (lambda: untyped.top_k("x", 2.0), "`k` of `top_k` is how many values to keep.*given: 2.0"),
        (lambda: agg.std("x", ddof=-1), "`ddof` of `std` is an integer from 0 on.*given: -1"),
        (lambda: untyped.var("x", ddof=0.5), "`ddof` of `var` is an integer from 0 on.*given: 0.5"),
        (lambda: untyped.cov("x", "y", ddof=None), "`ddof` of `cov` is an integer.*given: None"),
        (lambda: untyped.concat("x", sep=1), "`sep` of `concat` is the string between.*given: 1"),
        (lambda: agg.bloom("x", capacity=0), "`capacity` of `bloom` is how many.*given: 0"),
        (lambda: agg.bloom("x", error=1.0), "`error` of `bloom` is the probability.*given: 1.0"),
        (lambda: agg.approx_count_distinct("x", lg_k=3), "`lg_k` of `approx_count_distinct`"),
        (lambda: agg.approx_quantile("x", 0.5, k=1), "`k` of `approx_quantile` sets the size"),
    ],
)
def test_meaningless_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(AggregateError, match=message):
        make()


@pytest.mark.parametrize(
    ("aggregate", "kind", "message"),
    [
        (agg.sum("x"), pa.string(), "`sum` needs a column of numbers; 'x' holds string"),
        (agg.mean("x"), pa.timestamp("us"), "`mean` needs a column of numbers; 'x' holds timest"),
        (agg.median("x"), pa.string(), "`median` needs a column of numbers"),
        (agg.moments("x"), pa.string(), "`moments` needs a column of numbers"),
        (agg.approx_quantile("x", 0.5), pa.string(), "`approx_quantile` needs a column of num"),
        (agg.concat("x"), pa.int64(), "`concat` joins strings; 'x' holds int64"),
        (agg.max("x"), pa.list_(pa.int64()), "`max` needs a column whose values have an order"),
        (agg.mode("x"), pa.struct([("a", pa.int64())]), "`mode` needs a column whose values"),
    ],
    ids=repr,
)
def test_columns_of_the_wrong_type_are_refused(
    aggregate: sw.Aggregate, kind: pa.DataType, message: str
) -> None:
    with pytest.raises(ColumnTypeError, match=message):
        aggregate.bind([kind])


# The document.


def test_the_table_of_aggregates_is_that_of_the_registry() -> None:
    text = (ROOT / "docs" / "aggregates.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- table -->\n(.*?)<!-- end of table -->", text, re.DOTALL)
    assert table is not None
    assert table[1].strip() == "\n".join(table_of_aggregates())


def table_of_aggregates() -> list[str]:
    """The rows of the table in docs/aggregates.md, from what the aggregates do."""
    lines = [
        "| aggregate | kind | commutes | inverts | takes | of nothing | with NaN | runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return lines + [f"| {' | '.join(cells(a))} |" for a in agg.REGISTRY]


def cells(a: sw.Aggregate) -> list[str]:
    number = pa.string() if a.takes == ("strings",) else pa.float64()
    strange = [(1.0, 1.0), (NAN, 2.0), (2.0, 3.0)]
    with_nan = (
        ""
        if a.takes == ("strings",)
        else shown(a.fold(strange if a.arity > 1 else [x for x, _ in strange]))
    )
    return [
        f"`{repr(a).removeprefix('sw.agg.')}`",
        a.kind,
        "yes" if a.commutative else "no",
        "yes" if a.invertible else "no",
        ", ".join(a.takes),
        shown(a.fold([])),
        with_nan,
        a.how(*[number] * len(a.columns)).partition(":")[0],
    ]


def shown(result: Any) -> str:
    """A result as the table writes it; numbers that depend on the values stay out."""
    if isinstance(result, bytes):
        return "bits"
    if isinstance(result, float):
        return "NaN" if result != result else f"{result:g}"
    if isinstance(result, list):
        return f"[{', '.join(map(shown, result))}]"
    if isinstance(result, dict):
        return ", ".join(f"{name} {shown(value)}" for name, value in result.items())
    return "null" if result is None else str(result)


@pytest.mark.parametrize("values", [[True, False, True, True], [False], 40 * [True, False, None]])
def test_booleans_have_a_mode_and_distinct_values(values: list[bool | None]) -> None:
    there = [value for value in values if value is not None]
    expected = {
        "x_mode": max(sorted(set(there)), key=there.count),
        "x_collect_distinct": sorted(set(there)),
        "x_median": sw.agg.median("x").fold([int(value) for value in there]),
    }
    aggs = [sw.agg.mode("x"), sw.agg.collect_distinct("x"), sw.agg.median("x")]
    table = pa.table({"t": range(len(values)), "x": values})
    found = sw.windowed(table, time="t", windows=sw.tumbling(1000), aggs=aggs)
    assert found.select(list(expected)).to_pylist() == [expected]
    rolled = sw.rolling(table, time="t", over=1000, aggs=aggs).slice(len(values) - 1)
    assert list(rolled.to_pylist()[0].values())[2:] == list(expected.values())
    op = sw.Operator(windows=[sw.tumbling(1000)], aggs=aggs, time="t")
    op.process(table)
    (result,) = sw.Operator.restore(op.snapshot()).advance(2000)
    assert result.values == expected
    assert sw.slide(table["x"], sw.agg.mode(), 1000).to_pylist()[-1] == expected["x_mode"]


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([-1.7e308, 1.7e308], 0.5, 0.0),
        ([-1.7e308, 1.7e308], 0.25, -0.85e308),
        ([1.7e308, 1.6e308], 0.5, 1.65e308),
        ([-math.inf, 1.0], 0.5, -math.inf),
        ([1.0, math.inf], 0.5, math.inf),
        ([-(2**63), 2**63 - 1], 0.5, 0.0),
    ],
)
def test_quantiles_between_values_far_apart_do_not_overflow(
    values: list[float], q: float, expected: float
) -> None:
    assert sw.agg.quantile("x", q).fold(values) == pytest.approx(expected)
    found = sw.slide(pa.array(values), sw.agg.quantile(q), 2)
    assert found.to_pylist()[-1] == pytest.approx(expected)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_an_infinity_makes_deviations_nan(odd: float) -> None:
    """As in Spark, whatever the order and however many there are."""
    aggs = [sw.agg.var("x"), sw.agg.std("x", ddof=0), sw.agg.skew("x")]
    aggs += [sw.agg.cov("x", "y"), sw.agg.corr("x", "y")]
    for values in ([odd, 1.0, 2.0], [1.0, 2.0, odd], [odd, odd, 1.0], [odd, -odd, 5.0]):
        table = pa.table({"t": range(3), "x": values, "y": [1.0, 3.0, 2.0]})
        found = sw.windowed(table, time="t", windows=sw.sliding(3, 1), aggs=aggs)
        whole = next(row for row in found.to_pylist() if row["start"] == 0)
        rolled = sw.rolling(table, time="t", over=10, aggs=aggs).to_pylist()[-1]
        for one in aggs:
            events = values if one.arity == 1 else list(zip(values, [1.0, 3.0, 2.0], strict=True))
            assert math.isnan(one.fold(events))
            assert math.isnan(whole[one.output])
            assert math.isnan(rolled[f"{one.output}_10"])
    # One value alone: there is no sample, and a population that is at no distance from anything.
    assert sw.agg.var("x").fold([odd]) is None
    assert math.isnan(sw.agg.var("x", ddof=0).fold([odd]))
    assert sw.agg.corr("x", "y").fold([(odd, 1.0)]) is None
