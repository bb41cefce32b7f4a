"""`sw.windowed` gives the rows of the definitions, and those of polars where it has them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import windowed_rows
from slicewise.testing.oracle import alike, in_order
from slicewise.testing.strategies import KINDS, Row, events, windows
from slicewise.windows import Window
from tests.support.operators import aggregates, keys

EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "t": pa.int64(),
        "x": pa.int64(),
        "s": pa.string(),
        "km": pa.int64(),
        "flag": pa.bool_(),
    }
)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def assert_is_the_batch_answer(
    rows: list[Row], defined: list[Window], aggs: list[sw.Aggregate], by: Any
) -> None:
    found = sw.windowed(table_of(rows), by=by, time="t", windows=defined, aggs=aggs)
    wanted = windowed_rows(rows, windows=defined, aggs=aggs, time="t", by=by)
    names = [] if by is None else [by] if isinstance(by, str) else by
    assert found.column_names == [*names, "window", "start", "end", *(a.output for a in aggs)]
    results = []
    for row in found.to_pylist():
        key = None if by is None else row[by] if isinstance(by, str) else tuple(row[n] for n in by)
        values = {a.output: row[a.output] for a in aggs}
        results.append(sw.Result(key, row["window"], row["start"], row["end"], values))
    assert results == in_order(results, [window.name for window in defined])
    heads = [(r.key, r.window, r.start, r.end) for r in results]
    assert len(set(heads)) == len(heads)
    assert set(heads) == set(wanted)
    for head, result in zip(heads, results, strict=True):
        assert alike(result.values, wanted[head]), (head, result.values, wanted[head])


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_window_gives_the_batch_answer(kind: str) -> None:
    @given(events(keys=["b", "a", None]), KINDS[kind]("w"), aggregates, keys)
    def check(rows: list[Row], window: Window, aggs: list[sw.Aggregate], by: Any) -> None:
        assert_is_the_batch_answer(rows, [window], aggs, by)

    check()


@given(events(), windows(), aggregates, keys)
def test_mixed_windows_give_the_batch_answer(
    rows: list[Row], defined: list[Window], aggs: list[sw.Aggregate], by: Any
) -> None:
    assert_is_the_batch_answer(rows, defined, aggs, by)


@given(events(keys=["b", "a", None]), windows(), aggregates)
def test_pandas_polars_and_arrow_give_the_same(
    rows: list[Row], defined: list[Window], aggs: list[sw.Aggregate]
) -> None:
    made: dict[str, Any] = {"by": "k", "time": "t", "windows": defined, "aggs": aggs}
    arrow = table_of(rows)
    frame = pl.DataFrame(pl.from_arrow(arrow))
    expected = sw.windowed(arrow, **made)
    by_polars = sw.windowed(frame, **made)
    assert isinstance(by_polars, pl.DataFrame)
    assert by_polars.to_dicts() == expected.to_pylist()
    assert sw.windowed(frame.lazy(), **made).collect().equals(by_polars, null_equal=True)
    by_pandas = sw.windowed(arrow.to_pandas(), **made)
    assert isinstance(by_pandas, pd.DataFrame)
    assert list(by_pandas.columns) == expected.column_names
    for name in ("window", "start", "end"):
        assert by_pandas[name].tolist() == expected[name].to_pylist()
    # Whole numbers with nulls are floats in pandas.
    for name in expected.column_names[4:]:
        ours = [None if is_missing(v) else v for v in by_pandas[name].tolist()]
        theirs = [None if is_missing(v) else v for v in expected[name].to_pylist()]
        assert alike(as_floats(ours), as_floats(theirs)), name


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def as_floats(values: list[Any]) -> list[Any]:
    """Numbers as floats, arrays as lists: what pandas keeps of them."""
    return [
        float(v)
        if isinstance(v, int)
        else as_floats([*(v.items() if isinstance(v, dict) else v)])
        if hasattr(v, "__len__") and not isinstance(v, str)
        else v
        for v in values
    ]


moments = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.integers(-200, 400),
        st.none() | st.integers(-9, 9),
    ),
    min_size=1,
    max_size=40,
)


def frame_of(rows: list[tuple[Any, int, Any]], unit: Any = "us") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "k": [k for k, _, _ in rows],
            "t": [EPOCH + dt.timedelta(seconds=t) for _, t, _ in rows],
            "x": [x for _, _, x in rows],
        },
        {"k": pl.String, "t": pl.Datetime(unit), "x": pl.Int64},
    )


@given(moments, st.integers(1, 90), st.integers(1, 90), st.sampled_from(["us", "ns", "ms"]))
def test_time_windows_are_those_of_polars_group_by_dynamic(
    rows: list[tuple[Any, int, Any]], length: int, every: int, unit: Any
) -> None:
    frame = frame_of(rows, unit)
    ours = sw.windowed(
        frame,
        by="k",
        time="t",
        windows=[sw.sliding(f"{length}s", f"{every}s")],
        aggs=[sw.agg.sum("x"), sw.agg.count(), sw.agg.max("x"), sw.agg.mean("x")],
    )
    theirs = (
        frame.sort("t")
        .group_by_dynamic(
            "t",
            every=f"{every}s",
            period=f"{length}s",
            # Otherwise polars leaves out windows that begin before the one of the first row.
            offset=f"-{-(-length // every) * every}s",
            closed="left",
            label="left",
            group_by="k",
            start_by="window",
            include_boundaries=True,
        )
        .agg(
            x_sum=pl.when(pl.col("x").count() > 0).then(pl.col("x").sum()),
            count=pl.len(),
            x_max=pl.max("x"),
            x_mean=pl.mean("x"),
        )
        .filter(pl.col("count") > 0)
        .select("k", pl.col("t").alias("start"), "x_sum", "count", "x_max", "x_mean")
        .sort("k", "start")
    )
    assert ours.schema["start"] == ours.schema["end"] == frame.schema["t"]
    assert set(ours["end"] - ours["start"]) <= {dt.timedelta(seconds=length)}
    kept = ours.select("k", "start", "x_sum", "count", "x_max", "x_mean")
    assert kept.rows() == theirs.rows()


@given(moments, st.integers(1, 60))
def test_sessions_are_those_of_a_polars_expression(
    rows: list[tuple[Any, int, Any]], gap: int
) -> None:
    frame = frame_of(rows)
    ours = sw.windowed(
        frame, by="k", time="t", windows=sw.session(f"{gap}s"), aggs=[sw.agg.count()]
    )
    pause = pl.col("t").diff().over("k") > pl.duration(seconds=gap)
    theirs = (
        frame.sort("k", "t")
        .with_columns(session=pause.fill_null(value=False).cum_sum().over("k"))
        .group_by("k", "session")
        .agg(
            start=pl.min("t"),
            end=pl.max("t") + pl.duration(seconds=gap),
            count=pl.len().cast(pl.Int64),
        )
        .select("k", "start", "end", "count")
        .sort("k", "start")
    )
    assert ours.drop("window").rows() == theirs.rows()
