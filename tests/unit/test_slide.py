"""`sw.slide`: kinds of input, what it promises about exactness, and what it refuses."""

from __future__ import annotations

import datetime as dt
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.mergers import PBA, SBA, array
from slicewise.mergers.pba import chunk_size_count, chunk_size_time
from slicewise.tuning import tuned

FIVE = np.array([1.0, 5.0, 2.0, 0.0, 3.0])


# values    1 5 2 0 3        length 2
# windows   [1]              fewer values while there are fewer
#           [1 5] [5 2] ...


def test_results_cover_fewer_values_while_there_are_fewer() -> None:
    assert sw.slide(FIVE, sw.agg.sum(), 3).tolist() == [1.0, 6.0, 8.0, 7.0, 5.0]


def test_a_window_longer_than_the_input_covers_all_of_it() -> None:
    assert sw.slide(FIVE, sw.agg.max(), 10**15).tolist() == [1.0, 5.0, 5.0, 5.0, 5.0]


# values    1 5 2 0 3 | 4 8 7        length 2, every 4: values 1 and 5 are in no window
#               ---       ---


def test_every_above_length_leaves_gaps() -> None:
    values = np.array([1, 5, 2, 0, 3, 4, 8, 7])
    assert sw.slide(values, sw.agg.sum(), 2, every=4).tolist() == [2, 15]


def test_every_above_the_input_gives_no_result() -> None:
    assert sw.slide(FIVE, sw.agg.max(), 2, every=6).tolist() == []
    assert sw.slide(FIVE, sw.agg.max(), 2, every=10**15).tolist() == []


def test_every_need_not_divide_length() -> None:
    values = np.arange(1, 13)
    assert sw.slide(values, sw.agg.sum(), 5, every=3).tolist() == [6, 20, 35, 50]


@pytest.mark.parametrize("values", [np.array([]), pa.array([], pa.int64()), []])
def test_no_values_give_no_results(values: Any) -> None:
    assert len(sw.slide(values, sw.agg.count(), 3)) == 0


def test_results_are_of_the_kind_of_the_values() -> None:
    assert isinstance(sw.slide(FIVE, sw.agg.max(), 2), np.ndarray)
    assert isinstance(sw.slide(pa.array(FIVE), sw.agg.max(), 2), pa.Array)
    assert isinstance(sw.slide(pa.chunked_array([FIVE, FIVE]), sw.agg.max(), 2), pa.Array)
    assert sw.slide([3, None, 1], sw.agg.min(), 2) == [3, 3, 1]


NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i4", ">f8"]


# Short windows are folded one by one, which is other code.
@pytest.mark.parametrize(
    ("dtype", "length"), [*((dtype, 7) for dtype in NUMBERS), ("u1", 2), ("i8", 2), ("f8", 2)]
)
def test_every_type_of_number_slides(dtype: str, length: int) -> None:
    values = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1]).astype(dtype)
    wide = values.astype(np.float64)
    for aggregate in (sw.agg.max(), sw.agg.sum(), sw.agg.mean()):
        found = sw.slide(values, aggregate, length).astype(np.float64)
        assert found.tolist() == sw.slide(wide, aggregate, length).tolist()
    # Half floats widen: no processor computes with them.
    expected = np.dtype("f4") if dtype == "f2" else values.dtype.newbyteorder("=")
    assert sw.slide(values, sw.agg.max(), length).dtype == expected


def test_views_with_gaps_slide_like_copies() -> None:
    assert sw.slide(FIVE[::2], sw.agg.max(), 2).tolist() == [1.0, 2.0, 3.0]
    assert sw.slide(FIVE[::-1], sw.agg.max(), 2).tolist() == [3.0, 3.0, 2.0, 5.0, 5.0]


def test_the_input_is_not_changed() -> None:
    values = FIVE.copy()
    sw.slide(values, sw.agg.max(), 2)
    assert values.tolist() == FIVE.tolist()


def test_length_one_gives_values_that_may_be_changed() -> None:
    values = FIVE.copy()
    found = sw.slide(values, sw.agg.max(), 1)
    found[:] = 0.0
    assert values.tolist() == FIVE.tolist()


def test_dates_and_times_come_back_as_what_they_were() -> None:
    days = np.array(["2024-01-03", "2024-01-01", "2024-01-02"], "datetime64[D]")
    found = sw.slide(days, sw.agg.min(), 2)
    assert found.astype("datetime64[D]").tolist() == [
        dt.date(2024, 1, 3),
        dt.date(2024, 1, 1),
        dt.date(2024, 1, 1),
    ]
    stamps = pa.array([3, 1, None], pa.timestamp("us", "UTC"))
    assert sw.slide(stamps, sw.agg.max(), 2) == pa.array([3, 3, 1], pa.timestamp("us", "UTC"))


def test_decimals_and_strings_run_interpreted() -> None:
    assert sw.slide([Decimal("1.5"), Decimal("2.5")], sw.agg.sum(), 2) == [
        Decimal("1.5"),
        Decimal("4.0"),
    ]
    assert sw.slide(["b", "a", "c"], sw.agg.min(), 2) == ["b", "a", "a"]
    assert sw.slide(["b", "a", "c"], sw.agg.concat(), 2, every=1) == ["b", "ba", "ac"]


def test_nulls_take_their_place_in_a_window_but_leave_no_trace() -> None:
    values = pa.array([1, None, None, None, 5])
    assert sw.slide(values, sw.agg.sum(), 2).to_pylist() == [1, 1, None, None, 5]
    assert sw.slide(values, sw.agg.count("x"), 2).to_pylist() == [1, 1, 0, 0, 1]
    assert sw.slide(values, sw.agg.count(), 2).to_pylist() == [1, 2, 2, 2, 2]


def test_null_is_nan_in_a_numpy_array_of_results() -> None:
    found = sw.slide(np.array([1, None, None, 4], object), sw.agg.sum(), 2)
    assert found.tolist()[:2] == [1.0, 1.0]
    assert math.isnan(found[2])


def test_several_columns_come_as_a_tuple_or_by_name() -> None:
    price, volume = np.array([10.0, 20.0, 40.0]), np.array([1.0, 1.0, 3.0])
    expected = [10.0, 15.0, 35.0]
    mean = sw.agg.weighted_mean("price", "volume")
    assert sw.slide((price, volume), mean, 2).tolist() == expected
    assert sw.slide({"volume": volume, "price": price}, mean, 2).tolist() == expected


class Peaks(sw.Aggregate):
    """Its result is a number, or text when there is none: the type depends on the values."""

    compile = False

    def identity(self) -> int:
        return 0

    def lift(self, value: int) -> int:
        return value

    def combine(self, older: int, newer: int) -> int:
        return max(older, newer)

    def lower(self, state: int) -> int | None:
        return state if state > 2 else None


def test_types_that_follow_from_results_follow_from_all_of_them() -> None:
    assert sw.slide([1, 1, 1, 9], Peaks(), 2) == [None, None, None, 9]


# Exactness.


def test_no_trace_of_a_huge_value_remains_after_it_left() -> None:
    values = np.full(200_000, 0.1)
    values[1000] = 1e16
    for length in (3, 7, 64, 1024):
        found = sw.slide(values, sw.agg.sum(), length)
        clean = sw.slide(np.full(200_000, 0.1), sw.agg.sum(), length)
        assert (found[1000 + length :] == clean[1000 + length :]).all()


def test_sums_of_integers_are_exact_or_refused() -> None:
    big = np.array([2**62, -(2**62), 2**62, 2**62 - 1, 0, 0, 0, 0])
    assert sw.slide(big, sw.agg.sum(), 2).tolist()[:3] == [2**62, 0, 0]
    with pytest.raises(sw.errors.OverflowedError, match="does not fit 64 bits"):
        sw.slide(np.array([2**62, 2**62, 0, 0]), sw.agg.sum(), 2)


# Bad input.


@pytest.mark.parametrize("name", ["length", "every"])
@pytest.mark.parametrize("value", [0, -1, math.nan, 2.0, True, None, "3", 2**62, 10**30])
def test_only_whole_numbers_from_one_on_are_lengths(name: str, value: Any) -> None:
    given = {"length": 2, "every": 1, name: value}
    text = rf"`{name}` is a number of values, an integer from 1 to .*; given: "
    with pytest.raises(sw.errors.SpanError, match=text):
        sw.slide(FIVE, sw.agg.max(), **given)


# Several lengths.


def test_several_lengths_give_a_dict_from_each_to_its_results() -> None:
    found = sw.slide(FIVE, sw.agg.sum(), [3, 1])
    assert {length: results.tolist() for length, results in found.items()} == {
        3: [1.0, 6.0, 8.0, 7.0, 5.0],
        1: FIVE.tolist(),
    }
    assert sw.slide([1, 5, 2, 0, 3], sw.agg.sum(), (2,)) == {2: [1, 6, 7, 2, 3]}
    lengths = np.array([2, 3])
    assert list(sw.slide(FIVE, sw.agg.max(), lengths, algorithm="flatfit")) == [2, 3]


def test_several_slides_belong_to_the_lengths_or_give_a_dict_from_each() -> None:
    values = [1, 5, 2, 0, 3, 4]
    for algorithm in (None, "flatfit", "daba"):
        by_length = sw.slide(values, sw.agg.sum(), [3, 4], [2, 3], algorithm)
        assert by_length == {3: [6, 7, 7], 4: [8, 9]}
        assert sw.slide(values, sw.agg.sum(), 3, [2, 3], algorithm) == {2: [6, 7, 7], 3: [8, 7]}
        assert sw.slide(values, sw.agg.sum(), [3, 4], 2, algorithm) == {3: [6, 7, 7], 4: [6, 8, 9]}


@pytest.mark.parametrize("values", [np.array([]), pa.array([], pa.int64()), []])
@pytest.mark.parametrize("algorithm", [None, "flatfit"])
def test_no_values_give_no_results_for_any_length(values: Any, algorithm: str | None) -> None:
    found = sw.slide(values, sw.agg.count(), [3, 4], algorithm=algorithm)
    assert [len(results) for results in found.values()] == [0, 0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"length": []}, "`length` is an empty list. Give at least one number."),
        ({"length": [2], "every": []}, "`every` is an empty list."),
        (
            {"length": [2, 3, 2]},
            r"`length` has 2 more than once, and results are told apart by it; given: \[2, 3, 2\]",
        ),
        ({"length": 2, "every": [1, 1]}, "`every` has 1 more than once"),
        ({"length": [2, 0]}, r"`length` is a number of values, an integer from 1 .*; given: 0"),
        ({"length": [2.0]}, r"`length` is a number of values, an integer from 1 .*; given: 2.0"),
        ({"length": [2], "every": [-1]}, r"`every` is a number of values.*; given: -1"),
        (
            {"length": [2, 3], "every": [1, 2, 3]},
            "`every` is one number for all lengths, or has one for each; given: 3 for 2 lengths.",
        ),
    ],
)
def test_lengths_are_some_that_differ_and_are_whole(given: dict[str, Any], text: str) -> None:
    with pytest.raises(sw.errors.SpanError, match=text):
        sw.slide(FIVE, sw.agg.max(), **given)


def test_slides_that_have_no_common_multiple_in_reach_need_no_more_than_the_values() -> None:
    values = np.random.default_rng(1).integers(0, 100, 5000)
    queries = {100: 97, 200: 101, 300: 103, 400: 107, 500: 109}  # they repeat after 1.2e10 values
    found = sw.slide(values, sw.agg.max(), [*queries], [*queries.values()], algorithm="flatfit")
    for length, every in queries.items():
        assert found[length].tolist() == sw.slide(values, sw.agg.max(), length, every).tolist()


def test_numpy_integers_are_lengths() -> None:
    lengths: Any = (np.int32(2), np.uint8(2))
    assert sw.slide(FIVE, sw.agg.max(), *lengths).tolist() == [5.0, 2.0]


def test_an_unknown_algorithm_lists_the_catalogue() -> None:
    text = r"`algorithm` is None or one of recalc, .*sba, pba.*; given: 'quick'"
    with pytest.raises(sw.errors.CapabilityError, match=text):
        sw.slide(FIVE, sw.agg.max(), 2, algorithm="quick")


def test_an_algorithm_refuses_what_it_cannot_do() -> None:
    with pytest.raises(sw.errors.CapabilityError, match="needs an aggregate with `invert`"):
        sw.slide(FIVE, sw.agg.max(), 2, algorithm="subtract_on_evict")


def test_the_number_of_columns_must_fit() -> None:
    with pytest.raises(sw.errors.AggregateError, match="`max` takes 1 column; given: 2"):
        sw.slide((FIVE, FIVE), sw.agg.max(), 2)
    with pytest.raises(sw.errors.AggregateError, match="`cov` takes 2 columns; given: 1"):
        sw.slide(FIVE, sw.agg.cov(), 2)
    with pytest.raises(sw.errors.ColumnError, match="no column 'y', which `cov` reads"):
        sw.slide({"x": FIVE}, sw.agg.cov("x", "y"), 2)
    with pytest.raises(sw.errors.ColumnTypeError, match="of equal length; given: 5, 4 values"):
        sw.slide((FIVE, FIVE[:4]), sw.agg.cov(), 2)


@pytest.mark.parametrize("values", [[1, "a"], np.array([1, "a"], object), [1, 2.5, "x"], [{1}, 2]])
def test_mixed_types_are_refused(values: Any) -> None:
    with pytest.raises(sw.errors.ColumnTypeError, match="must be of one type that Arrow knows"):
        sw.slide(values, sw.agg.max(), 2)


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.array(1.0), 7, "text", None])
def test_other_things_than_columns_are_refused(values: Any) -> None:
    with pytest.raises(sw.errors.ColumnTypeError, match="`slide` takes a one-dimensional numpy"):
        sw.slide(values, sw.agg.max(), 2)


def test_a_sum_of_strings_is_refused() -> None:
    with pytest.raises(sw.errors.ColumnTypeError, match="`sum` needs a column of numbers"):
        sw.slide(["a", "b"], sw.agg.sum(), 2)


def test_something_else_than_an_aggregate_is_refused() -> None:
    with pytest.raises(sw.errors.AggregateError, match="takes an aggregate such as"):
        sw.slide(FIVE, max, 2)  # type: ignore[arg-type]  # the mistake under test


# Boundary aggregators.


def test_chunks_of_count_windows_have_the_size_of_theorem_1() -> None:
    # Section 4.4: for W[n, 1] it is (n + 2) / 2; Section 5.1.1: 17 for a range of 2**5.
    assert [chunk_size_count(n) for n in (5, 10, 32, 2**20)] == [3, 6, 17, 2**19 + 1]
    assert chunk_size_count(10, 2) == 4  # 5 slices, as in Figure 2, would have to wait
    assert chunk_size_count(10, 5) == 2  # few slices: all of them
    for length in range(1, 60):
        for every in range(1, length + 1):
            assert length // every // chunk_size_count(length, every) == 1  # k = 1


def test_chunk_sizes_are_the_formulas_of_the_paper() -> None:
    # Theorem 1, for W[r, s].
    for r in range(1, 80):
        for s in range(1, r + 1):
            wanted = r // s
            if r // s > s + r % s + 1:
                wanted = math.floor(Fraction(s * (r // s + 1) + r % s + 1, s + 1))
            assert chunk_size_count(r, s) == wanted
    # Theorem 2, with the time of a combine beside r and s.
    for r, s, unit in product(range(1, 60), range(1, 9), range(1, 6)):
        if s > r:
            continue
        slack = s * (r % s) + unit if r % s else 0
        wanted = r // s
        if r // s > Fraction(s + 2 * unit + slack, unit):
            wanted = math.floor(Fraction(r // s * (s + unit) + s + 2 * unit + slack, s + 2 * unit))
        assert chunk_size_time(r, s, unit) == wanted


@pytest.mark.parametrize(
    ("length", "chunk"),
    [(5, chunk_size_count(10, 2)), (20, chunk_size_time(20, 1, 1)), (5, 1)],
)
def test_slices_are_merged_in_chunks_of_the_size_that_is_given(length: int, chunk: int) -> None:
    # Each text is a slice of two events, as in W[10, 2].
    values = [(3 * n) % 7 for n in range(60)]
    merger = PBA(sw.agg.concat(), length=length, chunk=chunk)
    texts = [f"{a}{b}" for a, b in zip(values[::2], values[1::2], strict=True)]
    for n, text in enumerate(texts):
        if len(merger) == length:
            merger.evict()
        merger.insert(text)
        assert merger.query() == "".join(texts[max(0, n - length + 1) : n + 1])
        assert (merger._p[1] - merger._p[4]) % chunk == (n + 1) % chunk
    with pytest.raises(SpanError, match=r"given: rows\(0\)"):
        PBA(sw.agg.max(), chunk=0)


def test_chunks_of_time_windows_have_the_size_of_theorem_2() -> None:
    # A combine is short against an hour's seconds: the chunk is the window.
    assert chunk_size_time(3600.0, 1.0, 1e-6) == 3600
    # Slides as short as a combine: floor((20 * 2 + 1 + 2) / 3), and with a rest one more slice.
    assert chunk_size_time(20, 1, 1) == 14
    assert chunk_size_time(20.5, 1, 1) == 14
    for slices in range(1, 60):
        assert slices // chunk_size_time(slices, 1, 1) == 1  # k = 1


class Counted(sw.Aggregate):
    """Concatenation that says which thread combined how often."""

    compile = False
    calls: ClassVar[dict[int, int]] = {}

    def identity(self) -> str:
        return ""

    def lift(self, value: str) -> str:
        return value

    def combine(self, older: str, newer: str) -> str:
        thread = threading.get_ident()
        self.calls[thread] = self.calls.get(thread, 0) + 1
        return older + newer

    def lower(self, state: str) -> str:
        return state


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 17, 100])
@pytest.mark.parametrize("fixed", [True, False])
def test_pba_combines_at_most_three_times_a_slide_in_the_calling_thread(
    length: int, fixed: bool
) -> None:
    aggregate, here = Counted(), threading.get_ident()
    window = PBA(aggregate, length=length if fixed else None)
    text = "".join(chr(97 + i % 26) for i in range(6 * length + 50))
    for i, letter in enumerate(text):
        aggregate.calls[here] = 0
        if len(window) == length:
            window.evict()
        window.insert(letter)
        assert window.query() == text[max(0, i + 1 - length) : i + 1]
        assert aggregate.calls[here] <= 3


@pytest.mark.parametrize("length", [2, 5, 64])
def test_sba_combines_under_three_times_a_slide_on_average(length: int) -> None:
    aggregate, here = Counted(), threading.get_ident()
    window = SBA(aggregate)
    aggregate.calls.clear()
    for i in range(50 * length):
        if len(window) == length:
            window.evict()
        window.insert(chr(97 + i % 26))
        window.query()
    assert aggregate.calls[here] < 3 * 50 * length


@pytest.mark.parametrize("length", [3, 8, 64, 99])
def test_a_whole_array_costs_under_three_combines_a_slide_in_both_threads_of_pba(
    length: int,
) -> None:
    aggregate, here = Counted(), threading.get_ident()
    (component,) = aggregate.bind([pa.string()]).components
    text = "".join(chr(97 + i % 26) for i in range(20 * length))
    columns = {"x0": Column.from_arrow(pa.array(list(text)))}
    aggregate.calls.clear()
    with ThreadPoolExecutor(1) as other, tuned(threads_length=2):
        part = array.prepare(component, columns, len(text), length, 1, PBA, other)
        (found,) = part(0, len(text), component.algebra.new(len(text)))
    assert found.tolist() == [text[max(0, i + 1 - length) : i + 1] for i in range(len(text))]
    assert len(aggregate.calls) == 2
    assert sum(aggregate.calls.values()) < 3 * len(text)  # chunks of Theorem 1 would cost 4 each
    assert aggregate.calls[here] < 2 * len(text)


@pytest.mark.parametrize("merger", [SBA(Counted()), PBA(Counted()), PBA(Counted(), length=4)])
def test_windows_may_grow_shrink_and_empty(merger: Any) -> None:
    rng = np.random.default_rng(7)
    held = ""
    for step in range(3000):
        grow = rng.random() < (0.8 if step // 500 % 2 == 0 else 0.2)
        if grow or not held:
            letter = chr(97 + step % 26)
            merger.insert(letter)
            held += letter
        else:
            merger.evict()
            held = held[1:]
        assert len(merger) == len(held)
        if step % 3 == 0:
            assert merger.query() == held
    merger.evict_many(len(held))
    assert merger.query() == ""
    with pytest.raises(sw.errors.EmptyWindowError, match="holds none"):
        merger.evict()


def test_a_pba_of_no_length_is_refused() -> None:
    with pytest.raises(sw.errors.SpanError):
        PBA(sw.agg.max(), length=0)


def test_an_error_in_the_other_thread_reaches_the_caller() -> None:
    class Fragile(Counted):
        def combine(self, older: str, newer: str) -> str:
            if threading.current_thread() is not threading.main_thread():
                raise ZeroDivisionError("on purpose")
            return older + newer

    window = PBA(Fragile(), length=8)
    window.insert_many("abcdefgh")
    window.evict()
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        window.query()


def test_two_threads_are_used_for_long_windows_of_wide_states_only() -> None:
    wide = sw.agg.moments("x", 10).bind([pa.float64()]).components[0].algebra
    narrow = sw.agg.sum("x").bind([pa.float64()]).components[-1].algebra
    several = array.cores() > 1
    assert array.two_threads(wide, 2**15, None) == several
    assert not array.two_threads(wide, 64, None)
    assert not array.two_threads(narrow, 2**15, None)
    assert array.two_threads(narrow, 2**15, PBA)
    assert not array.two_threads(wide, 64, PBA)  # SBA for small windows
    assert not array.two_threads(wide, 2**15, SBA)


def test_two_threads_give_what_one_gives() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-(2**40), 2**40, 70_000)
    for aggregate in (sw.agg.sum(), sw.agg.max(), sw.agg.var()):
        for every in (1, 2, 3):
            one = sw.slide(values, aggregate, 2**15 + 1, every, algorithm="sba")
            two = sw.slide(values, aggregate, 2**15 + 1, every, algorithm="pba")
            assert np.allclose(one, two, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("algorithm", ["recalc", "flatfat", "two_stacks", "daba_lite"])
@pytest.mark.parametrize("every", [1, 3])
def test_values_that_are_taken_in_pieces_give_the_same_results(algorithm: str, every: int) -> None:
    values = np.random.default_rng(4).random(100)
    whole = sw.slide(values, sw.agg.max(), 8, every, algorithm=algorithm)
    with tuned(combines_done=40):
        pieces = sw.slide(values, sw.agg.max(), 8, every, algorithm=algorithm)
    assert pieces.tolist() == whole.tolist()
