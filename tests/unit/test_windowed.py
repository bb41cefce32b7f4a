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
    CapabilityError,
    ColumnError,
    ColumnTypeError,
    SpanError,
    WindowError,
)
from slicewise.tuning import tuned

pytestmark = pytest.mark.smoke

SUM = sw.agg.sum("x")


@pytest.mark.parametrize(
    "way",
    [
        *({"merger": name} for name, entry in sw.mergers.CATALOGUE.items() if entry.compiled),
        {"store": "eager"},
        {"store": "lazy", "partials": "panes"},
        {"partials": "pairs+"},
    ],
    ids=repr,
)
def test_no_answer_depends_on_how_slices_are_merged_and_kept(way: dict[str, Any]) -> None:
    times = np.random.default_rng(7).integers(0, 200, 300)
    table = {"k": times % 3, "t": times, "x": times * 7 % 31}
    windows = [sw.sliding(30, every=4), sw.sliding(12, every=4), sw.session(3)]
    windows.append(sw.sliding(sw.rows(9), every=sw.rows(2)))
    query: dict[str, Any] = {"by": "k", "time": "t", "windows": windows, "aggs": SUM}
    found, plain = sw.windowed(table, **query, **way), sw.windowed(table, **query)
    assert {name: list(column) for name, column in found.items()} == {
        name: list(column) for name, column in plain.items()
    }


def test_mergers_and_stores_are_refused_as_an_operator_does() -> None:
    query: dict[str, Any] = {"time": "t", "windows": sw.tumbling(10), "aggs": sw.agg.max("x")}
    table = {"t": [1], "x": [2]}
    with pytest.raises(CapabilityError, match=r"`merger` is one of recalc, .*; given: 'quick'"):
        sw.windowed(table, **query, merger="quick")
    with pytest.raises(CapabilityError, match="`SubtractOnEvict` needs an aggregate with `invert`"):
        sw.windowed(table, **query, merger="subtract_on_evict")
    with pytest.raises(CapabilityError, match="eager store merges by its own trees"):
        sw.windowed(table, **query, merger="sba", store="eager")


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


def test_windows_of_rows_or_columns_alone_have_numbers_as_bounds() -> None:
    moments = pa.array([0, 1, 2], pa.timestamp("s"))
    table = pa.table({"t": moments, "km": [0.5, 1.5, 2.5], "x": [1, 2, 4]})
    found = sw.windowed(table, time="t", windows=sw.tumbling(sw.rows(2)), aggs=SUM)
    assert (found["start"].to_pylist(), found["end"].to_pylist()) == ([0], [2])
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
    for more in ({"watermark": 60}, {"lateness": 5}, {"emit": "on_update"}, {"emit": "final"}):
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


@pytest.mark.parametrize(("unit", "second"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_rule_01_a_unit_says_what_plain_numbers_are(unit: str, second: int) -> None:
    windows = [sw.tumbling("1m"), sw.session("30s"), sw.tumbling(60 * second, name="plain")]
    table = {"t": [59 * second, 60 * second], "x": [1, 2]}
    found = sw.windowed(table, time="t", windows=windows, aggs=SUM, unit=unit, lateness="1m")
    minute = [(0, 60), (60, 120)]
    expected = [*minute, (59, 90), *minute]
    assert [*zip(found["start"], found["end"], strict=True)] == [
        (start * second, end * second) for start, end in expected
    ]
    # 1970-01-01 was a Thursday.
    weeks = sw.windowed(table, time="t", windows=sw.tumbling("1w"), aggs=SUM, unit=unit)
    assert weeks["start"] == [-3 * 86_400 * second]


MOMENT = dt.datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("time", "more", "message"),
    [
        (
            5,
            {"windows": sw.tumbling("1s")},
            "'tumbling_1s' is measured in durations .* int64",
        ),
        (
            5.0,
            {"windows": sw.session("1s")},
            "'session_1s' is measured in durations .* double",
        ),
        (5, {"windows": sw.sliding("1s", every=sw.rows(2))}, "'sliding_1s_2rows' is measured in d"),
        (5, {"windows": sw.sliding(sw.rows(2), every="1s")}, "'sliding_2rows_1s' is measured in d"),
        (5, {"lateness": "1s"}, "`lateness` is measured in durations .* Say what its numbers mean"),
        (5, {"watermark": "1s"}, "`watermark` is measured in durations"),
        (MOMENT, {}, "'tumbling_10' is measured in plain numbers .* Give durations such as '10s'"),
        (MOMENT.date(), {"windows": sw.cumulate(10, every=5)}, "plain numbers .* holds date32"),
        (MOMENT, {"windows": sw.tumbling("1d"), "lateness": 9}, "`lateness` is measured in plain"),
        (MOMENT, {"windows": sw.tumbling("1d"), "unit": "s"}, "which says so itself. Leave `unit`"),
        (5, {"unit": "minutes"}, "is one of 's', 'ms', 'us', 'ns'; given: 'minutes'"),
        (5, {"windows": sw.tumbling("1500ms"), "unit": "s"}, "'tumbling_1500ms' has 1s500ms. Mult"),
        (
            5,
            {"windows": sw.tumbling("70000w"), "unit": "ns"},
            "below 2.* in the unit of the",
        ),
    ],
)
def test_rule_01_durations_and_plain_numbers_each_belong_to_their_like(
    time: Any, more: dict[str, Any], message: str
) -> None:
    query: dict[str, Any] = {"time": "t", "windows": sw.tumbling(10), "aggs": SUM} | more
    with pytest.raises(SpanError, match=message):
        sw.windowed({"t": [time], "x": [1]}, **query)


def test_rule_04_the_last_rows_every_step_are_reported_with_times() -> None:
    seconds = [1, 2, 4, 11]
    times = [MOMENT + dt.timedelta(seconds=s) for s in seconds]
    window = sw.sliding(sw.rows(2), every="5s")
    found = sw.windowed({"t": times, "x": [1, 2, 4, 8]}, time="t", windows=window, aggs=SUM)
    assert found["start"] == [times[1], times[2]]
    assert found["end"] == [MOMENT + dt.timedelta(seconds=s) for s in (5, 15)]
    assert found["x_sum"] == [6, 12]


MIXED = [
    sw.tumbling("10s"),
    sw.tumbling(sw.rows(2)),
    sw.sliding(sw.rows(2), every="10s", name="last"),
]


def mixed_table(*, km: bool = False) -> dict[str, Any]:
    times = [MOMENT + dt.timedelta(seconds=s) for s in (1, 4, 12)]
    return {"t": times, "x": [1, 2, 4]} | ({"km": [0.0, 2.5, 7.5]} if km else {})


def seconds(values: list[Any]) -> list[int | None]:
    """Moments as seconds after `MOMENT`."""
    plain = [v if v is None or isinstance(v, dt.datetime) else v.to_pydatetime() for v in values]
    return [None if v is None else round((v - MOMENT).total_seconds()) for v in plain]


@pytest.mark.parametrize("make", [dict, pa.table, pd.DataFrame, pl.DataFrame])
def test_each_row_keeps_the_bounds_that_its_own_window_means(make: Any) -> None:
    #   rule 12: the same columns on every engine; times stay times beside positions of rows
    found = sw.windowed(make(mixed_table()), time="t", windows=MIXED, aggs=SUM)
    table = pa.table(found) if make is not pd.DataFrame else pa.Table.from_pandas(found)
    names = ["window", "start", "end", "start_position", "end_position", "x_sum"]
    assert table.column_names == names
    assert table["window"].to_pylist() == ["tumbling_10s"] * 2 + ["tumbling_2rows"] + ["last"] * 2
    assert pa.types.is_timestamp(table.schema.field("start").type)
    assert seconds(table["start"].to_pylist()) == [0, 10, None, 1, 4]
    assert seconds(table["end"].to_pylist()) == [10, 20, None, 10, 20]
    assert table["start_position"].to_pylist() == [None, None, 0, None, None]
    assert table["end_position"].to_pylist() == [None, None, 2, None, None]


def test_positions_are_floats_when_one_of_the_columns_has_fractions() -> None:
    windows = [sw.tumbling("10s"), sw.tumbling(sw.rows(2)), sw.tumbling(sw.units(5, on="km"))]
    table = pa.table(mixed_table(km=True))
    found = sw.windowed(table, time="t", windows=windows, aggs=SUM)
    assert found.schema.field("start_position").type == pa.float64()
    assert found["end_position"].to_pylist() == [None, None, 2.0, 5.0, 10.0]
    # An empty table has the same columns, and so has a call that closes nothing.
    empty = sw.windowed(table.slice(0, 0), time="t", windows=windows, aggs=SUM)
    assert empty.schema == found.schema
    whole = sw.windowed(pa.table(mixed_table()), time="t", windows=MIXED, aggs=SUM)
    assert whole.schema.field("start_position").type == pa.int64()


def test_plain_numbers_as_times_share_their_columns_with_positions() -> None:
    windows = [sw.tumbling(10), sw.tumbling(sw.rows(2))]
    found = sw.windowed({"t": [1, 4, 12], "x": [1, 2, 4]}, time="t", windows=windows, aggs=SUM)
    assert list(found) == ["window", "start", "end", "x_sum"]
    assert [*zip(found["start"], found["end"], strict=True)] == [(0, 10), (10, 20), (0, 2)]


def test_an_operator_says_bounds_in_the_measure_of_the_window_and_folds_by_all_of_them() -> None:
    made: dict[str, Any] = {"windows": MIXED, "aggs": [SUM], "time": "t"}
    op = sw.Operator(**made, lateness="1m")
    table = mixed_table()
    op.process({name: values[:1] + values[2:] for name, values in table.items()})
    first = op.advance_arrow(MOMENT + dt.timedelta(seconds=20))
    op.process({name: values[1:2] for name, values in table.items()})
    blob = op.snapshot()
    results = op.advance(math.inf)
    assert {r.window: (r.start, r.end) for r in results if r.window == "tumbling_2rows"} == {
        "tumbling_2rows": (0, 2)
    }
    again = sw.Operator.restore(blob).advance_arrow(math.inf)
    assert again.schema == first.schema
    folded = sw.fold(pa.concat_tables([first, again]))
    expected = sw.windowed(pa.table(table), time="t", windows=MIXED, aggs=SUM)
    order = [("window", "ascending"), ("start", "ascending")]
    assert folded.sort_by(order).equals(expected.sort_by(order))


@pytest.mark.parametrize("name", ["start_position", "end_position"])
def test_no_key_or_result_has_the_name_of_a_bound(name: str) -> None:
    with pytest.raises(ColumnError, match=r"'start_position', 'end_position'.*Rename that column"):
        sw.windowed({name: [1] * 3, **mixed_table()}, by=name, time="t", windows=MIXED, aggs=SUM)
    with pytest.raises(AggregateError, match=f"the name '{name}'"):
        sw.windowed(mixed_table(), time="t", windows=MIXED, aggs=SUM.alias(name))


@pytest.mark.parametrize(
    "windows",
    [[sw.tumbling(10), sw.session(3)], [sw.tumbling(sw.rows(3)), sw.sliding(20, every=5)]],
    ids=["time", "rows"],
)
def test_rule_12_a_table_that_is_taken_in_pieces_gives_the_same_rows(
    windows: Any,
) -> None:
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "t": random.integers(0, 100, 200),
            "k": pa.array(
                [("a", "b", None)[n] for n in random.integers(0, 3, 200)]
            ).dictionary_encode(),
            "x": pa.array([None] * 100 + random.integers(0, 9, 100).tolist(), pa.int64()),
        }
    )
    aggs = [sw.agg.sum("x"), sw.agg.last("x"), sw.agg.collect("x")]
    query: Any = {"by": "k", "time": "t", "windows": windows, "aggs": aggs}
    whole = sw.windowed(table, **query)
    with tuned(rows_taken=17, objects_made=5):
        assert sw.windowed(table, **query).equals(whole)
        op, other = (sw.Operator(**query) for _ in range(2))
        for one in (op, other):
            one.process(table)
        wanted = op.advance(math.inf)
    with tuned(results_sorted=7):
        assert other.advance(math.inf) == wanted
