"""`sw.rolling` by hand-worked examples: kinds of tables, kinds of time, and bad input."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import AggregateError, BadRowsWarning, ColumnError, ColumnTypeError, SpanError

pytestmark = pytest.mark.smoke

#   time   0    1    2    3    4    5    6
#   a      1         2,4            8
#   b           16                       32
T = [0, 2, 2, 5, 1, 6]
K = ["a", "a", "a", "a", "b", "b"]
X = [1, 2, 4, 8, 16, 32]
SUMS = [1, 7, 7, 14, 16, 32]  # over (t - 4, t]


def sums(data: Any, **settings: Any) -> Any:
    given = {"by": "k", "time": "t", "over": 4, "aggs": sw.agg.sum("x"), **settings}
    return sw.rolling(data, **given)


def test_rows_of_equal_time_see_each_other_and_the_far_end_is_left_out() -> None:
    assert sums({"k": K, "t": T, "x": X})["x_sum_4"] == SUMS
    # At span 3 the row at time 5 no longer sees those at time 2.
    assert sums({"k": K, "t": T, "x": X}, over=3)["x_sum_3"] == [1, 7, 7, 8, 16, 32]


def test_row_spans_end_at_the_row_itself_in_order_of_time_and_arrival() -> None:
    found = sums({"k": K, "t": T, "x": X}, over=sw.rows(2))
    assert found["x_sum_2rows"] == [1, 3, 6, 12, 16, 48]


def test_unsorted_rows_keep_their_place() -> None:
    order = [3, 5, 1, 0, 4, 2]
    data = {"k": [K[i] for i in order], "t": [T[i] for i in order], "x": [X[i] for i in order]}
    assert sums(data)["x_sum_4"] == [SUMS[i] for i in order]


def test_several_spans_and_aggregates_are_named_after_both() -> None:
    times = pa.array([dt.datetime(2024, 1, 1, 0, m) for m in (0, 5, 30)])
    table = pa.table({"t": times, "price": [3.0, 2.0, 1.0]})
    aggs = [sw.agg.max("price"), sw.agg.count().alias("n")]
    found = sw.rolling(table, time="t", over=["10m", "1h", sw.rows(100)], aggs=aggs)
    assert found.column_names[2:] == [
        "price_max_10m",
        "price_max_1h",
        "price_max_100rows",
        "n_10m",
        "n_1h",
        "n_100rows",
    ]
    assert found["price_max_10m"].to_pylist() == [3.0, 3.0, 1.0]
    assert found["price_max_1h"].to_pylist() == [3.0, 3.0, 3.0]
    assert found["n_10m"].to_pylist() == [1, 2, 1]


def test_a_null_key_is_a_key_and_several_keys_go_together() -> None:
    data = {"k": ["a", None, None, "a"], "j": [1, 1, 1, 2], "t": [0, 0, 1, 1], "x": [1, 2, 4, 8]}
    assert sums(data)["x_sum_4"] == [1, 2, 6, 9]
    assert sums(data, by=["k", "j"])["x_sum_4"] == [1, 2, 6, 8]


def test_a_row_without_a_time_is_null_and_in_nobodys_window() -> None:
    data = {"t": [0, None, 1], "x": [1, 2, 4]}
    found = sums(data, by=None, aggs=[sw.agg.sum("x"), sw.agg.collect("x"), sw.agg.count()])
    assert found["x_sum_4"] == [1, None, 5]
    assert found["x_collect_4"] == [[1], None, [1, 4]]
    assert found["count_4"] == [1, None, 2]


def test_no_time_at_all_gives_nulls() -> None:
    assert sums({"t": [None, None], "x": [1, 2]}, by=None)["x_sum_4"] == [None, None]


def test_floats_are_times_when_they_are_whole() -> None:
    frame = pd.DataFrame({"t": [0.0, np.nan, 3.0], "x": [1, 2, 4]})
    assert sums(frame, by=None)["x_sum_4"].fillna(-1).tolist() == [1, -1, 5]
    # Halves of a unit and infinite times are bad rows, as they are for windows.
    with pytest.warns(BadRowsWarning, match="2 rows have a time in 't' that cannot be used"):
        odd = sums({"t": [0.0, 0.5, np.inf, np.nan, 3.0], "x": [1, 2, 4, 8, 16]}, by=None)
    assert odd["x_sum_4"] == [1, None, None, None, 17]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_timestamps_of_any_unit_and_zone_are_times(unit: str, zone: str | None) -> None:
    times = (
        pa.array([0, 59, 60, 3600], pa.int64())
        .cast(pa.timestamp("s"))
        .cast(pa.timestamp(unit, zone))
    )
    table = pa.table({"t": times, "x": [1, 2, 4, 8]})
    found = sw.rolling(table, time="t", over="1m", aggs=sw.agg.sum("x"))
    assert found["x_sum_1m"].to_pylist() == [1, 3, 6, 8]


def test_nanoseconds_are_not_lost() -> None:
    times = pa.array([0, 1, 1000], pa.timestamp("ns"))
    found = sw.rolling(
        {"t": times, "x": pa.array([1, 2, 4])}, time="t", over="1us", aggs=sw.agg.sum("x")
    )
    assert found["x_sum_1us"].to_pylist() == [1, 3, 6]


@pytest.mark.parametrize(("unit", "second"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_rule_01_a_unit_says_what_plain_numbers_are(unit: str, second: int) -> None:
    data = {"t": [0, 59 * second, 60 * second], "x": [1, 2, 4]}
    assert sums(data, by=None, over=["1m", second], unit=unit)["x_sum_1m"] == [1, 3, 6]
    missing = pd.DataFrame({"t": [0.0, np.nan, 60.0 * second], "x": [1, 2, 4]})
    found = sums(missing, by=None, over="1m", unit=unit)
    assert found["x_sum_1m"].fillna(-1).tolist() == [1, -1, 4]


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        ([1], {"over": "1s"}, "the span 1s is measured in durations .* 't' holds int64. Say what"),
        ([1.0], {"over": "1s"}, "the span 1s is measured in durations .* 't' holds double"),
        (
            [dt.datetime(2024, 1, 1)],
            {"over": 5},
            "the span 5 is measured in plain numbers",
        ),
        ([dt.date(2024, 1, 1)], {"over": "1d", "unit": "s"}, "'t' holds date32.*Leave `unit` out"),
        ([1], {"over": "1ms", "unit": "s"}, "whole number of that unit; the span 1ms has 1ms"),
        ([1], {"over": "1s", "unit": "m"}, "one of 's', 'ms', 'us', 'ns'; given: 'm'"),
    ],
)
def test_rule_01_durations_and_plain_numbers_each_belong_to_their_like(
    data: list[Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpanError, match=message):
        sums({"t": data, "x": [1]}, by=None, **more)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_times(kind: pa.DataType) -> None:
    days = pa.array([dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 6)], kind)
    found = sw.rolling(
        pa.table({"t": days, "x": [1, 2, 4]}), time="t", over=["2d", "1w"], aggs=sw.agg.sum("x")
    )
    assert found["x_sum_2d"].to_pylist() == [1, 3, 4]
    assert found["x_sum_1w"].to_pylist() == [1, 3, 6]


def test_extreme_times_do_not_overflow() -> None:
    data = {"t": [-(2**63), -(2**63) + 1, 2**63 - 1], "x": [1, 2, 4]}
    found = sums(data, by=None, over=[1, 2, 2**61 - 1])
    assert found["x_sum_1"] == [1, 2, 4]
    assert found["x_sum_2"] == [1, 3, 4]
    assert found[f"x_sum_{2**61 - 1}"] == [1, 3, 4]


def test_no_rows_give_no_rows_of_the_right_types() -> None:
    table = pa.table({"t": pa.array([], pa.int64()), "x": pa.array([], pa.float64())})
    found = sums(table, by=None, aggs=[sw.agg.max("x"), sw.agg.count()])
    assert found.num_rows == 0
    assert found.schema.types[2:] == [pa.float64(), pa.int64()]


def test_many_keys_of_one_row_and_one_key_of_many_rows() -> None:
    size = 300_000
    x = np.arange(size, dtype=float)
    many = sums({"k": np.arange(size)[::-1].copy(), "t": np.zeros(size, np.int64), "x": x})
    np.testing.assert_array_equal(many["x_sum_4"], x)
    one = sums({"t": np.arange(size), "x": x}, by=None, over=[2, size])
    np.testing.assert_array_equal(one["x_sum_2"][1:], x[1:] + x[:-1])
    np.testing.assert_array_equal(one[f"x_sum_{size}"], np.cumsum(x))
    tied = sums({"t": np.zeros(size, np.int64), "x": x}, by=None)
    assert set(tied["x_sum_4"]) == {x.sum()}


def test_a_large_value_leaves_no_trace_behind() -> None:
    data = {"t": [0, 1, 9], "x": [1e16, 1.0, 1.0]}
    found = sums(data, by=None, aggs=[sw.agg.sum("x"), sw.agg.std("x", ddof=0)])
    assert found["x_sum_4"][2] == 1.0
    assert found["x_std_4"][2] == 0.0


@pytest.mark.parametrize("gaps", [[1], [1, 3, 2]], ids=["steady", "uneven"])
def test_windows_of_many_rows_are_what_numpy_makes_of_them(gaps: list[int]) -> None:
    size = 2_000
    random = np.random.default_rng(3)
    t, x = np.cumsum(np.resize(gaps, size)), random.normal(1e3, 1.0, size)
    x[random.random(size) < 0.1] = np.nan
    frame = pd.DataFrame({"t": t, "x": x}).sample(frac=1.0, random_state=3)
    aggs = [sw.agg.max("x"), sw.agg.var("x"), sw.agg.mean("x")]
    found = sw.rolling(frame, time="t", over=[90, sw.rows(70)], aggs=aggs).sort_values("t")
    for span, firsts in (
        ("90", np.searchsorted(t, t - 90, side="right")),
        ("70rows", np.maximum(np.arange(size) - 69, 0)),
    ):
        seen = [pd.Series(x[first : i + 1]) for i, first in enumerate(firsts)]
        for name in ("max", "var", "mean"):
            expected = [getattr(window, name)() for window in seen]
            np.testing.assert_allclose(found[f"x_{name}_{span}"], expected, rtol=1e-9)


def test_infinity_after_nulls_is_one_value() -> None:
    aggs = [sw.agg.mean("x"), sw.agg.var("x", ddof=0)]
    found = sums({"t": [0, 1, 2], "x": [None, math.inf, 1.0]}, by=None, over=[1, 2], aggs=aggs)
    assert found["x_mean_2"] == [None, math.inf, math.inf]
    assert found["x_var_1"][0] is None
    assert math.isnan(found["x_var_1"][1])  # as in Spark
    assert found["x_var_1"][2] == 0.0
    assert [math.isnan(value) for value in found["x_var_2"][1:]] == [True, True]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [3, 5, 1, 0, 4, 2]])
def test_the_input_stays_as_it_is_and_no_two_columns_share_memory(order: list[int]) -> None:
    frame = pd.DataFrame({"k": K, "t": T, "x": [float(x) for x in X]}).iloc[order]
    before = frame.copy()
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x"), sw.agg.count()]
    found = sums(frame, over=[2, 4], aggs=aggs)
    pd.testing.assert_frame_equal(frame, before)
    arrays = [table[name].to_numpy() for table in (frame, found) for name in table]
    for k, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:k] if one.dtype != object)


def test_sums_of_integers_are_exact() -> None:
    data = {"t": [0, 1, 2], "x": [2**62, -(2**62), 3]}
    assert sums(data, by=None, over=3)["x_sum_3"] == [2**62, 0, 3]


def test_results_of_python_objects_may_change_their_type_on_the_way() -> None:
    class Odd(sw.Aggregate):
        """Null, then whole numbers, then fractions."""

        compile = False

        def identity(self) -> float:
            return 0

        def lift(self, value: float) -> float:
            return value

        def combine(self, older: float, newer: float) -> float:
            return older + newer

        def lower(self, state: float) -> float | None:
            if state < 300:
                return None
            return int(state) if state < 600 else state / 2

    size = 1000
    found = sums({"t": list(range(size)), "x": list(range(size))}, by=None, over=1, aggs=Odd("x"))
    assert found["x_odd_1"] == [None if x < 300 else x if x < 600 else x / 2 for x in range(size)]


@pytest.mark.parametrize("over", [1, 7, 100, 5000, sw.rows(64)])
def test_a_row_costs_at_most_three_combines_whatever_the_span(over: Any) -> None:
    combines = []

    class Counted(sw.Aggregate):
        compile = False

        def identity(self) -> int:
            return 0

        def lift(self, value: int) -> int:
            return value

        def combine(self, older: int, newer: int) -> int:
            combines.append(1)
            return older + newer

        def lower(self, state: int) -> int:
            return state

    size = 2000
    x = np.random.default_rng(5).integers(0, 9, size)
    sums({"t": np.cumsum(x), "x": x}, by=None, over=over, aggs=Counted("x"))
    assert 0 < len(combines) <= 3 * size


# Kinds of tables.


def test_pandas_keeps_its_index_and_its_columns() -> None:
    index = pd.Index([7, 3, 3, 9, 1, 2], name="id")
    frame = pd.DataFrame({"k": K, "t": T, "x": X}, index=index)
    before = frame.copy()
    found = sums(frame)
    assert isinstance(found, pd.DataFrame)
    assert found.index.equals(index)
    assert found["x_sum_4"].tolist() == SUMS
    found.loc[:, "x"] = 0
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("keys", [[1, 1, 2, 2], [2, 1, 2, 1]], ids=["in order", "moved"])
def test_columns_of_a_pandas_result_share_no_memory(keys: list[int]) -> None:
    data = pd.DataFrame({"k": keys, "t": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0]})
    aggs = [sw.agg.sum("x"), sw.agg.max("x"), sw.agg.count()]
    found = sw.rolling(data, by="k", time="t", over=[9, sw.rows(1)], aggs=aggs)
    columns = [frame[name].to_numpy() for frame in (data, found) for name in frame.columns]
    pairs = combinations(columns, 2)
    assert not any(np.shares_memory(one, other) for one, other in pairs)
    expected = [1.0, 3.0, 3.0, 7.0] if keys[0] == 1 else [1.0, 2.0, 4.0, 6.0]
    assert found["x_sum_9"].tolist() == expected
    assert found["x_sum_1rows"].tolist() == data["x"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_pandas_reads_nan_as_null_and_gives_null_as_nan() -> None:
    frame = pd.DataFrame({"t": [0, 1, 9], "x": [np.nan, 2.0, np.nan], "n": [1, 2, 3]})
    aggs = [sw.agg.sum("x"), sw.agg.count("x"), sw.agg.max("n")]
    found = sums(frame, by=None, aggs=aggs)
    assert found["x_sum_4"].fillna(-1).tolist() == [-1, 2, -1]
    assert found["x_count_4"].tolist() == [0, 1, 0]
    assert found["n_max_4"].dtype == np.int64


def test_pandas_types_beyond_numbers_come_back() -> None:
    when = pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC")
    frame = pd.DataFrame(
        {
            "t": when,
            "s": ["b", "a"],
            "c": pd.Categorical(["u", "v"]),
            "b": [True, False],
            "i": pd.array([1, None], "Int64"),
        }
    )
    aggs = [sw.agg.max("t"), sw.agg.min("s"), sw.agg.first("b"), sw.agg.sum("i")]
    found = sw.rolling(frame, by="c", time="t", over="1d", aggs=aggs)
    assert found["t_max_1d"].dtype == frame["t"].dtype
    assert found["t_max_1d"].tolist() == when.tolist()
    assert found["s_min_1d"].tolist() == ["b", "a"]
    assert found["b_first_1d"].tolist() == [True, False]
    assert found["i_sum_1d"].fillna(-1).tolist() == [1, -1]


def test_pandas_times_and_durations_with_gaps_are_read_as_they_are() -> None:
    when = pd.to_datetime(["2024-01-01", "NaT", "2024-01-02", "2024-01-03"])
    frame = pd.DataFrame({"t": when, "d": when - when[0], "x": [1, 2, 4, 8]})
    found = sw.rolling(frame, time="t", over="2d", aggs=[sw.agg.sum("x"), sw.agg.max("d")])
    assert found["x_sum_2d"].fillna(-1).tolist() == [1, -1, 5, 12]
    assert found["d_max_2d"].isna().tolist() == [False, True, False, False]
    assert found["d_max_2d"].iloc[3] == pd.Timedelta(days=2)
    # A frame made of one block has columns that are not contiguous.
    block = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["t", "x", "y"])
    assert sums(block, by=None, over=4)["x_sum_4"].tolist() == [1, 5, 11, 17]


def test_a_named_index_of_pandas_can_be_the_time() -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.DatetimeIndex(["2024-01-01"] * 2, name="when"))
    found = sw.rolling(frame, time="when", over="1s", aggs=sw.agg.sum("x"))
    assert found["x_sum_1s"].tolist() == [3, 3]
    assert found.index.name == "when"


def test_polars_keeps_null_and_nan_apart() -> None:
    frame = pl.DataFrame({"t": [0, 1, 9], "x": [None, float("nan"), None]})
    found = sums(frame, by=None, aggs=[sw.agg.count("x"), sw.agg.max("x")])
    assert isinstance(found, pl.DataFrame)
    assert found["x_count_4"].to_list() == [0, 1, 0]
    assert [str(v) for v in found["x_max_4"]] == ["None", "nan", "None"]


def test_polars_frames_may_be_lazy_and_keys_categorical() -> None:
    frame = pl.DataFrame({"k": K, "t": T, "x": X}).with_columns(pl.col("k").cast(pl.Categorical))
    assert sums(frame)["x_sum_4"].to_list() == SUMS
    found = sums(frame.lazy())
    assert isinstance(found, pl.LazyFrame)
    assert found.collect()["x_sum_4"].to_list() == SUMS


def test_arrow_tables_may_be_chunked_and_keep_their_metadata() -> None:
    table = pa.table({"k": K, "t": T, "x": X}).replace_schema_metadata({"who": "me"})
    parts = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    dictionaries = parts.set_column(0, "k", parts["k"].dictionary_encode())
    for given in (table, parts, dictionaries):
        found = sums(given)
        assert found["x_sum_4"].to_pylist() == SUMS
        assert found.schema.metadata == {b"who": b"me"}
    (batch,) = table.to_batches()
    found = sums(batch)
    assert isinstance(found, pa.RecordBatch)
    assert found.column("x_sum_4").to_pylist() == SUMS


def test_a_dict_of_columns_gives_columns_of_its_own_kind() -> None:
    assert isinstance(sums({"k": K, "t": np.array(T), "x": X})["x_sum_4"], np.ndarray)
    assert isinstance(sums({"k": pa.array(K), "t": T, "x": X})["x_sum_4"], pa.Array)
    assert isinstance(sums({"k": K, "t": T, "x": X})["x_sum_4"], list)


# Bad input.


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"time": "tt"}, ColumnError, "no column 'tt'; the table has: 'k', 't', 'x'. Did you mean"),
        ({"by": "key"}, ColumnError, "There is no column 'key'"),
        ({"by": ["k", 3]}, ColumnError, "There is no column 3"),
        ({"aggs": sw.agg.sum("y")}, ColumnError, "There is no column 'y'"),
        ({"time": "k"}, ColumnTypeError, "timestamps, dates or whole numbers; 'k' holds string"),
        ({"aggs": sw.agg.sum("k")}, ColumnTypeError, "'k' holds string"),
        ({"over": 0}, SpanError, "longer than nothing; given: 0"),
        ({"over": -1}, SpanError, "longer than nothing; given: -1"),
        ({"over": float("nan")}, SpanError, "given: nan"),
        ({"over": []}, SpanError, "at least one span in `over`; given: none"),
        ({"over": sw.units(2, on="x")}, SpanError, r"units\(2, on='x'\). Name that column as the"),
        ({"aggs": []}, AggregateError, "at least one aggregate in `aggs`; given: none"),
        ({"aggs": sw.agg.sum}, AggregateError, "takes aggregates such as"),
        ({"aggs": "sum"}, AggregateError, "takes aggregates such as .*; given: 'sum'"),
        ({"aggs": sw.agg.sum()}, AggregateError, "`sum` must name its input column here"),
        ({"over": [4, 4]}, AggregateError, "'x_sum_4' is one that two results would have"),
        ({"aggs": sw.agg.sum("x").alias("x")}, None, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    change: dict[str, Any], error: type[Exception] | None, message: str
) -> None:
    data = {"k": K, "t": T, "x": X}
    if error is None:
        assert sums(data, **change)["x_4"] == SUMS
        return
    with pytest.raises(error, match=message):
        sums(data, **change)


def test_an_output_must_not_have_the_name_of_a_column() -> None:
    with pytest.raises(AggregateError, match="'x_sum_4' is one that the table has already"):
        sums({"t": T, "x": X, "x_sum_4": X}, by=None)


def test_a_wrong_kind_of_data_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match=r"pandas or polars DataFrame.*given: builtins\.list"):
        sums([1, 2, 3])


def test_columns_of_a_dict_have_one_length_and_one_type() -> None:
    with pytest.raises(ColumnTypeError, match="one length; given: 't' has 2, 'x' has 1"):
        sums({"t": [1, 2], "x": [1]}, by=None)
    with pytest.raises(ColumnTypeError, match="'x' has values of mixed types"):
        sums({"t": [1, 2], "x": [1, "a"]}, by=None)
    with pytest.raises(ColumnTypeError, match="'x' has values of mixed types"):
        sums(pd.DataFrame({"t": [1, 2], "x": [1, "a"]}), by=None)


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["t", "x", "x"])
    with pytest.raises(ColumnError, match="2 columns named 'x'"):
        sums(frame, by=None)


def test_lists_are_keys() -> None:
    found = sums({"k": [[1], [2], [1], None, []], "t": [1, 2, 3, 4, 4], "x": [1, 2, 4, 8, 16]})
    assert found["x_sum_4"] == [1, 2, 5, 8, 16]


def test_times_that_do_not_fit_are_bad_rows_and_such_spans_are_refused() -> None:
    with pytest.warns(BadRowsWarning, match="1 rows have a time"):
        great = sums({"t": np.array([2**63, 1], np.uint64), "x": np.array([1, 2])}, by=None)
    assert great["x_sum_4"].tolist()[1:] == [2]
    far = pa.array([2**62, 1], pa.timestamp("s"))
    with pytest.warns(BadRowsWarning, match="1 rows have a time"):
        found = sums({"t": far, "x": pa.array([1, 2])}, by=None, over="1s")
    assert found["x_sum_1s"].to_pylist() == [None, 2]
    long = f"{2**60}us"
    with pytest.raises(SpanError, match="must fit 64 bits in the unit of 't'"):
        sums({"t": pa.array([1], pa.timestamp("ns")), "x": pa.array([1])}, by=None, over=long)


def test_rolling_twice_in_a_fresh_process_still_finds_the_verb() -> None:
    code = (
        "import slicewise as sw\n"
        "for _ in range(2):\n"
        "    print(sw.rolling({'t': [1], 'x': [2]}, time='t', over=1, aggs=sw.agg.sum('x')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == ["{'t': [1], 'x': [2], 'x_sum_1': [2]}"] * 2
