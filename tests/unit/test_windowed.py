"""`sw.windowed` by examples: types, nulls, zones, and what it refuses."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import (
    AggregateError,
    BadRowsWarning,
    ColumnError,
    ColumnTypeError,
    SpanError,
    WindowError,
)

pytestmark = pytest.mark.smoke

SUM = sw.agg.sum("x")


def test_rows_are_sorted_by_key_window_start_and_end() -> None:
    table = {"k": [2, 1, 2, 1], "t": [1, 9, 8, 2], "x": [1, 2, 4, 8]}
    windows = [sw.tumbling(10, name="z"), sw.cumulate(10, 5, name="a")]
    found = sw.windowed(table, by="k", time="t", windows=windows, aggs=SUM)
    rows = [*zip(*found.values(), strict=True)]
    assert rows == [
        (1, "z", 0, 10, 10),
        (1, "a", 0, 5, 8),
        (1, "a", 0, 10, 10),
        (2, "z", 0, 10, 5),
        (2, "a", 0, 5, 1),
        (2, "a", 0, 10, 5),
    ]


def test_an_empty_table_gives_an_empty_one_with_the_same_types() -> None:
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.int64()})
    full = pa.table({"k": ["a"], "t": [dt.datetime(2024, 1, 1)], "x": [1]}, schema)
    made: dict[str, Any] = {"by": "k", "time": "t", "windows": sw.tumbling("1h"), "aggs": SUM}
    found = sw.windowed(schema.empty_table(), **made)
    assert found.num_rows == 0
    assert found.schema == sw.windowed(full, **made).schema
    assert len(sw.windowed(schema.empty_table().to_pandas(), **made)) == 0
    assert sw.windowed(pl.DataFrame(pl.from_arrow(schema.empty_table())), **made).is_empty()


def test_one_row_makes_one_instance() -> None:
    found = sw.windowed({"t": [7], "x": [3]}, time="t", windows=sw.session(5), aggs=SUM)
    assert found == {"window": ["session_5"], "start": [7], "end": [12], "x_sum": [3]}


def test_null_and_nan_are_keys_and_null_comes_first() -> None:
    table = pa.table({"k": [math.nan, 1.0, None, 0.0, -0.0], "t": [1] * 5, "x": [1, 2, 4, 8, 16]})
    found = sw.windowed(table, by="k", time="t", windows=sw.tumbling(10), aggs=SUM)
    assert str(found["k"].to_pylist()) == "[None, 0.0, 1.0, nan]"
    assert found["x_sum"].to_pylist() == [4, 24, 2, 1]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["b", None, "a"]).dictionary_encode(),
        pa.array([True, None, False]),
        pa.array([dt.date(2024, 1, 2), None, dt.date(2024, 1, 1)]),
        pa.array([b"b", None, b"a"]),
        pa.array([2, None, 1], pa.uint64()),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_may_have_any_type(keys: pa.Array) -> None:
    table = pa.table({"k": keys, "t": [1, 2, 3], "x": [1, 2, 3]})
    found = sw.windowed(table, by="k", time="t", windows=sw.tumbling(10), aggs=SUM)
    assert found["x_sum"].to_pylist() == [2, 3, 1]
    assert found["k"].to_pylist() == keys.take(pa.array([1, 2, 0])).to_pylist()


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "Europe/Berlin")],
    ids=str,
)
def test_start_and_end_have_the_type_of_the_time_column(kind: pa.DataType) -> None:
    times = pa.array([1_700_000_000, 1_700_003_600], pa.int64()).cast(pa.timestamp("s")).cast(kind)
    table = pa.table({"t": times, "x": [1, 2]})
    found = sw.windowed(table, time="t", windows=sw.tumbling("1h"), aggs=SUM)
    assert found.schema.field("start").type == found.schema.field("end").type == kind
    hours = found["start"].cast(pa.int64()).to_pylist()
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    assert [h / per_second % 3600 for h in hours] == [0, 0]


def test_bounds_that_the_time_column_could_not_hold_are_microseconds() -> None:
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("s")), "x": [1, 2]})
    found = sw.windowed(table, time="t", windows=sw.tumbling("1500ms"), aggs=SUM)
    assert found.schema.field("start").type == pa.timestamp("us")
    assert found["start"].cast(pa.int64()).to_pylist() == [0, 1_500_000]


def test_whole_days_over_dates_are_dates_and_hours_are_not() -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(1969, 12, 31)]
    table = pl.DataFrame({"t": days, "x": [1, 2, 4]})
    found = sw.windowed(table, time="t", windows=sw.tumbling("1d"), aggs=SUM)
    assert found["start"].to_list() == [days[2], days[0], days[1]]
    assert found["end"].to_list() == [day + dt.timedelta(days=1) for day in found["start"]]
    by_hour = sw.windowed(table, time="t", windows=sw.tumbling("12h"), aggs=SUM)
    assert by_hour.schema["start"] == pl.Datetime("us")


def test_windows_of_rows_or_columns_have_numbers_as_bounds() -> None:
    moments = pa.array([0, 1, 2], pa.timestamp("s"))
    table = pa.table({"t": moments, "km": [0.5, 1.5, 2.5], "x": [1, 2, 4]})
    windows = [sw.tumbling("2s"), sw.tumbling(sw.rows(2))]
    found = sw.windowed(table, time="t", windows=windows, aggs=SUM)
    assert found["start"].to_pylist() == [0, 2_000_000, 0]
    windows = [sw.tumbling(sw.units(1.0, on="km"))]
    found = sw.windowed(table, time="t", windows=windows, aggs=SUM)
    assert found["end"].to_pylist() == [1.0, 2.0, 3.0]


def test_durations_are_bounded_by_durations() -> None:
    table = pa.table({"t": pa.array([1, 70], pa.duration("s")), "x": [1, 2]})
    found = sw.windowed(table, time="t", windows=sw.tumbling("1m"), aggs=SUM)
    assert found["start"].to_pylist() == [dt.timedelta(0), dt.timedelta(minutes=1)]


def test_nanoseconds_below_a_microsecond_stay_on_their_side_of_an_edge() -> None:
    times = pd.to_datetime([999, 1000, 1001, -1], unit="ns")
    frame = pd.DataFrame({"t": times, "x": [1, 2, 4, 8]})
    found = sw.windowed(frame, time="t", windows=sw.tumbling("1us"), aggs=SUM)
    assert found["x_sum"].tolist() == [8, 1, 6]
    assert found["start"].dtype == frame["t"].dtype


def test_rows_without_a_usable_time_are_left_out_with_a_warning() -> None:
    table = {"t": [1.0, math.nan, None, math.inf, 2.5, 3.0], "x": [1, 2, 4, 8, 16, 32]}
    with pytest.warns(BadRowsWarning, match="4 rows are in no window: they have no usable time"):
        found = sw.windowed(table, time="t", windows=sw.tumbling(10), aggs=SUM)
    assert found["x_sum"] == [33]


def test_a_table_without_bad_rows_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.windowed({"t": [1], "x": [1]}, time="t", windows=sw.tumbling(10), aggs=SUM)


def test_nan_in_pandas_is_null() -> None:
    frame = pd.DataFrame({"t": [1, 2, 11], "x": [1.0, np.nan, np.nan]})
    found = sw.windowed(
        frame, time="t", windows=sw.tumbling(10), aggs=[SUM, sw.agg.count("x").alias("n")]
    )
    assert found["n"].tolist() == [1, 0]
    assert found["x_sum"].isna().tolist() == [False, True]


def test_texts_have_the_type_that_pandas_gives_them() -> None:
    frame = pd.DataFrame({"k": ["a", None], "t": [1, 2], "s": ["p", None]})
    query: Any = {"by": "k", "time": "t", "windows": sw.tumbling(10), "aggs": sw.agg.max("s")}
    # Before pandas 3 a column without values may be anything.
    known = isinstance(frame["k"].dtype, pd.StringDtype)
    for rows in (frame, frame.iloc[1:], frame.iloc[:0])[: 3 if known else 1]:
        found = sw.windowed(rows, **query)
        texts = ["k", "window", "s_max"]
        assert {found[name].dtype for name in texts} == {frame["k"].dtype}
        # It is NaN from pandas 3 on.
        assert found["k"].isna().sum() == found["s_max"].isna().sum() == (len(rows) > 0)
        rolled = sw.rolling(rows, by="k", time="t", over=5, aggs=sw.agg.last("s"))
        assert rolled["s_last_5"].dtype == frame["k"].dtype


def test_a_named_index_level_can_be_the_time() -> None:
    index = pd.DatetimeIndex(["2024-01-01 00:10", "2024-01-01 01:10"], name="when")
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    found = sw.windowed(frame, time="when", windows=sw.tumbling("1h"), aggs=SUM)
    assert found["start"].tolist() == [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01 01:00")]


def test_a_record_batch_and_arrays_come_back_as_such() -> None:
    made: dict[str, Any] = {"time": "t", "windows": sw.tumbling(10), "aggs": SUM}
    batch = pa.RecordBatch.from_pydict({"t": [1], "x": [2]})
    assert isinstance(sw.windowed(batch, **made), pa.RecordBatch)
    assert sw.windowed(batch.slice(0, 0), **made).num_rows == 0
    arrays = sw.windowed({"t": np.array([1]), "x": np.array([2])}, **made)
    assert isinstance(arrays["x_sum"], np.ndarray)


def test_conditions_see_every_column() -> None:
    table = {"t": [1, 2, 3], "speed": [9, 9, 1], "x": [1, 2, 4]}
    fast = sw.threshold(lambda event: event["speed"] > 5)
    assert sw.windowed(table, time="t", windows=fast, aggs=SUM)["x_sum"] == [3]


def test_what_is_for_streams_changes_nothing() -> None:
    made: dict[str, Any] = {"time": "t", "windows": sw.tumbling(10), "aggs": SUM}
    table = {"t": [30, 1, 12], "x": [1, 2, 4]}
    expected = sw.windowed(table, **made)
    for more in ({"watermark": "1m"}, {"lateness": 5}, {"emit": "on_update"}, {"emit": "final"}):
        assert sw.windowed(table, **made, **more) == expected


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"by": "kk"}, ColumnError, "no column 'kk'; the table has: 'k', 't', 'x', 's'"),
        ({"time": "tt"}, ColumnError, "Did you mean 't'"),
        ({"aggs": sw.agg.sum("xs")}, ColumnError, "no column 'xs'"),
        ({"windows": sw.punctuated("mark")}, ColumnError, "no column 'mark'"),
        ({"windows": sw.tumbling(sw.units(1, on="km"))}, ColumnError, "no column 'km'"),
        ({"windows": []}, WindowError, "at least one window"),
        ({"windows": [5]}, WindowError, "takes windows such as"),
        ({"windows": [sw.tumbling(5), sw.tumbling(5)]}, WindowError, "Two windows have the name"),
        ({"aggs": []}, AggregateError, "needs at least one aggregate"),
        ({"aggs": sw.agg.sum()}, AggregateError, "must name its input column"),
        ({"aggs": SUM.alias("start")}, AggregateError, "the name 'start'"),
        ({"time": "s"}, ColumnTypeError, "A time column holds timestamps.*to_datetime"),
        ({"emit": "sometimes"}, WindowError, "`emit` is one of"),
        ({"lateness": "soon"}, SpanError, "A span as text"),
        ({"aggs": sw.agg.sum("s")}, ColumnTypeError, "needs a column of numbers"),
    ],
)
def test_a_mistake_is_explained(change: Any, error: type[Exception], message: str) -> None:
    made: Any = {"by": "k", "time": "t", "windows": sw.tumbling(10), "aggs": SUM} | change
    table = {"k": [1], "t": [1], "x": [1], "s": ["a"]}
    with pytest.raises(error, match=message):
        sw.windowed(table, **made)


@pytest.mark.parametrize("name", ["window", "start", "end"])
def test_a_key_cannot_have_the_name_of_a_column_of_the_result(name: str) -> None:
    table = {name: [1], "t": [1], "x": [1]}
    with pytest.raises(ColumnError, match=f"`by` has {name!r}"):
        sw.windowed(table, by=name, time="t", windows=sw.tumbling(10), aggs=SUM)


def test_a_duration_over_plain_numbers_is_in_microseconds() -> None:
    found = sw.windowed(
        {"t": [0, 2_000_000], "x": [1, 2]}, time="t", windows=sw.tumbling("1s"), aggs=SUM
    )
    assert found["start"] == [0, 2_000_000]
