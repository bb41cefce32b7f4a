"""Tables of every kind go in, and the result is of the kind that came, or Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import slicewise as sw
from slicewise.errors import ColumnTypeError

TIMES = [dt.datetime(2024, 1, 1, 0, minute) for minute in (0, 1, 2, 12)]
TABLE = pa.table({"t": TIMES, "k": ["a", "b", "a", "b"], "x": [1, 2, 3, 4]})
RECORDS = np.array(
    list(zip(np.array(TIMES, "M8[us]"), "abab", [1, 2, 3, 4], strict=True)),
    dtype=[("t", "M8[us]"), ("k", "U3"), ("x", "i8")],
)
WINDOWED: dict[str, Any] = {"by": "k", "time": "t", "windows": sw.tumbling("10m")}
ROLLING: dict[str, Any] = {"by": "k", "time": "t", "over": "10m"}
AGGS = [sw.agg.sum("x"), sw.agg.max("k")]


class Capsule:
    """A table of which nothing is known but that it hands over an array of Arrow."""

    def __init__(self) -> None:
        self.batch = TABLE.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)


KINDS: dict[str, tuple[Callable[[], Any], type]] = {
    "relation of DuckDB": (lambda: duckdb.from_arrow(TABLE), pa.Table),
    "reader": (TABLE.to_reader, pa.RecordBatchReader),
    "record batch": (lambda: TABLE.to_batches()[0], pa.RecordBatch),
    "dataset": (lambda: ds.dataset(TABLE), pa.Table),
    "scanner": (lambda: ds.dataset(TABLE).scanner(), pa.Table),
    "array of structs": (lambda: TABLE.to_batches()[0].to_struct_array(), pa.Table),
    "capsule": (Capsule, pa.Table),
    "list of dicts": (TABLE.to_pylist, list),
    "structured array": (lambda: RECORDS, np.ndarray),
    "record array": (lambda: RECORDS.view(np.recarray), np.recarray),
    "lazy frame": (lambda: pl.DataFrame(TABLE.to_pydict()).lazy(), pl.LazyFrame),
    "data frame of polars": (lambda: pl.DataFrame(TABLE.to_pydict()), pl.DataFrame),
    "data frame of pandas": (TABLE.to_pandas, pd.DataFrame),
    "dict": (TABLE.to_pydict, dict),
}


def rows(found: Any) -> list[dict[str, Any]]:
    """The rows of a table of any kind, times as datetimes."""
    if isinstance(found, pl.LazyFrame):
        found = found.collect()
    if isinstance(found, pl.DataFrame):
        found = found.to_arrow()
    if isinstance(found, pa.RecordBatchReader):
        found = found.read_all()
    if isinstance(found, pa.Table | pa.RecordBatch):
        found = found.to_pydict()
    if isinstance(found, np.ndarray):
        found = {name: pd.Series(found[name]) for name in found.dtype.names or ()}
    if isinstance(found, pd.DataFrame):
        found = {name: found[name].tolist() for name in found}
    if isinstance(found, dict):
        columns = found.values()
        found = [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    return [dict(row) for row in found]


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_of_the_kind_that_came(kind: str) -> None:
    make, expected = KINDS[kind]
    found = sw.windowed(make(), **WINDOWED, aggs=AGGS)
    assert type(found) is expected
    assert rows(found) == rows(sw.windowed(TABLE, **WINDOWED, aggs=AGGS))
    rolled = sw.rolling(make(), **ROLLING, aggs=AGGS)
    assert type(rolled) is expected
    assert rows(rolled) == rows(sw.rolling(TABLE, **ROLLING, aggs=AGGS))


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_takes_every_kind_of_table(kind: str) -> None:
    op = sw.Operator(windows=[sw.tumbling("10m")], aggs=AGGS, time="t", by="k")
    op.process(KINDS[kind][0]())
    assert sorted((r.key, r.values["x_sum"]) for r in op.advance(2**60)) == [
        ("a", 4),
        ("b", 2),
        ("b", 4),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_emitted_rows_of_every_kind_are_folded(kind: str) -> None:
    op = sw.Operator(windows=[sw.session(5)], aggs=[sw.agg.sum("x")], time="t", lateness=100)
    op.process({"t": [0, 9], "x": [1, 2]})
    first = op.advance_arrow(20)
    op.process({"t": [4], "x": [10]})
    emitted = pa.concat_tables([first, op.advance_arrow(20)])
    given = {
        "relation of DuckDB": duckdb.from_arrow,
        "reader": pa.Table.to_reader,
        "list of dicts": pa.Table.to_pylist,
        "data frame of polars": pl.from_arrow,
        "data frame of pandas": pa.Table.to_pandas,
        "dict": pa.Table.to_pydict,
    }.get(kind, lambda table: table)(emitted)
    assert rows(sw.fold(given)) == rows(sw.fold(emitted))


def test_rows_without_a_value_have_nulls_and_stay_as_they_are() -> None:
    given: list[dict[str, Any]] = [{"t": 1, "x": 2}, {"t": 2}, {"x": 5, "t": 3, "more": "a"}]
    found: Any = sw.rolling(given, time="t", over=10, aggs=sw.agg.sum("x"))
    assert found == [
        {"t": 1, "x": 2, "x_sum_10": 2},
        {"t": 2, "x_sum_10": 2},
        {"x": 5, "t": 3, "more": "a", "x_sum_10": 7},
    ]
    assert len(given[0]) == 2


def test_texts_of_a_structured_array_keep_their_length() -> None:
    found: Any = sw.windowed(RECORDS, **WINDOWED, aggs=AGGS)
    assert found.dtype["k"] == found.dtype["k_max"] == np.dtype("U3")
    assert found.dtype["start"] == np.dtype("M8[us]")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "A table is a pandas or polars DataFrame, .* structured array of numpy; given: builti"),
        ([1, 2], "a list of dicts or a structured array of numpy; given: builtins.list"),
        (np.zeros(3), "given: numpy.ndarray"),
        (pd.Series([1], name="x"), "given: a pandas Series, which is one column"),
        (pl.Series([1]), "A table has named columns, .*; Series makes none: "),
        (pa.array([1]), "A table has named columns, .*; Int64Array makes none: "),
    ],
    ids=str,
)
def test_what_is_no_table_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ColumnTypeError, match=message):
        sw.windowed(given, time="t", windows=sw.tumbling(5), aggs=sw.agg.sum("x"))


# Types of pandas.


PANDAS = {
    "Int64": ("Int64", "Int64", "Float64"),
    "Float64": ("Float64", "Float64", "Float64"),
    "int32": ("int32", "int64", "float64"),
    "int64[pyarrow]": ("int64[pyarrow]", "int64[pyarrow]", "double[pyarrow]"),
    "double[pyarrow]": ("double[pyarrow]", "double[pyarrow]", "double[pyarrow]"),
}


@pytest.mark.parametrize("kind", PANDAS)
@pytest.mark.parametrize("keys", ["category", "string", "string[pyarrow]", "object", "arrow"])
def test_types_of_pandas_come_back_as_they_came(kind: str, keys: str) -> None:
    key: Any = pd.ArrowDtype(pa.string()) if keys == "arrow" else keys
    values: list[Any] = [1, 2, 3, 4] if kind == "int32" else [1, None, 3, 4]
    frame = pd.DataFrame({"t": TIMES, "k": ["a", "b", "a", None], "x": values})
    frame = frame.astype({"k": key, "x": kind})
    aggs = [sw.agg.max("x"), sw.agg.sum("x"), sw.agg.mean("x"), sw.agg.last("k")]
    expected = [*PANDAS[kind], str(frame["k"].dtype)]
    found = sw.windowed(frame, **WINDOWED, aggs=aggs)
    assert [str(found[agg.output].dtype) for agg in aggs] == expected
    assert found["k"].dtype == frame["k"].dtype
    rolled = sw.rolling(frame, **ROLLING, aggs=aggs)
    assert [str(rolled[f"{agg.output}_10m"].dtype) for agg in aggs] == expected
    assert [rolled[name].dtype for name in frame] == [frame[name].dtype for name in frame]
    if kind != "int32":  # a window without a value has a null, not a NaN
        assert found["x_max"].isna().sum() == rolled["x_max_10m"].isna().sum() == 1


def test_times_of_arrow_in_pandas_come_back_as_such() -> None:
    kind: Any = pd.ArrowDtype(pa.timestamp("ms", "UTC"))
    frame = pd.DataFrame({"t": pd.Series(TIMES).dt.tz_localize("UTC").astype(kind), "x": 1})
    found = sw.windowed(frame, time="t", windows=sw.tumbling("10m"), aggs=sw.agg.count())
    assert {str(found[name].dtype) for name in ("start", "end")} == {
        "timestamp[ms, tz=UTC][pyarrow]"
    }


# Series.


def test_a_series_slides_to_a_series() -> None:
    series = pd.Series([1.0, 2.0, None, 4.0], index=list("abcd"), name="x")
    found = sw.slide(series, sw.agg.sum(), 2)
    pd.testing.assert_series_equal(found, pd.Series([1.0, 3, 2, 4], list("abcd"), name="x"))
    every = sw.slide(series, sw.agg.count("x"), [1, 3], every=2)
    pd.testing.assert_series_equal(every[3], pd.Series([2, 2], list("bd"), name="x"))
    assert sw.slide(series, sw.agg.sum(), 2, every=9).empty
    pair = (series, pd.Series([1.0] * 4))
    assert sw.slide(pair, sw.agg.weighted_mean(), 2).tolist() == [1.0, 1.5, 2.0, 4.0]
    lazy = sw.slide(pl.Series("x", [1, 2, None, 4]), sw.agg.sum(), 2)
    assert (lazy.name, lazy.to_list()) == ("x", [1, 3, 2, 4])
