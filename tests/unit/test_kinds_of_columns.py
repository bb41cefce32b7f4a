"""Columns of every kind that tables have go in, and come out as they came."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import AggregateError, ColumnError

WINDOWS = [sw.tumbling(10)]
K = ["b", "a", None, "b"]
T = [1, 2, 3, 12]
X = [1, 2, 3, 4]
TOTALS = {None: [3], "a": [2], "b": [1, 4]}


def totals(rows: list[dict[str, Any]]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for row in rows:
        found.setdefault(row["k"], []).append(row["x_sum"])
    return found


def operator(data: Any, *, by: Any = "k", aggs: Any = None) -> list[dict[str, Any]]:
    """The rows of an operator that is fed twice and goes on from a snapshot between the two."""
    op = sw.Operator(windows=WINDOWS, aggs=aggs or [sw.agg.sum("x")], time="t", by=by)
    op.process(data)
    again = sw.Operator.restore(op.snapshot())
    again.process(data)
    rows: list[dict[str, Any]] = again.advance_arrow(math.inf).to_pylist()
    return rows


# Texts as views.


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_keys_may_be_views(kind: pa.DataType) -> None:
    keys = [None if k is None else k.encode() for k in K] if kind == pa.binary_view() else K
    table = pa.table({"t": T, "k": pa.array(keys, kind), "x": X})
    found = sw.windowed(table, by="k", time="t", windows=WINDOWS, aggs=sw.agg.sum("x"))
    assert found["k"].type == kind
    expected = [None, "a", "b", "b"]
    assert [k.decode() if isinstance(k, bytes) else k for k in found["k"].to_pylist()] == expected
    assert found["x_sum"].to_pylist() == [3, 2, 1, 4]
    rolled = sw.rolling(table, by="k", time="t", over=10, aggs=sw.agg.max("k"))
    assert rolled["k_max_10"].type == kind
    assert rolled["k_max_10"].to_pylist() == keys
    assert sorted(row["x_sum"] for row in operator(table)) == [2, 4, 6, 8]


def test_keys_may_be_views_within_others() -> None:
    inner = pa.array([{"s": k} for k in "abab"], pa.struct([("s", pa.string_view())]))
    table = pa.table({"t": T, "k": inner, "n": [1, 1, 1, 2], "x": X})
    for by in ("k", ["k", "n"]):
        found = sw.windowed(table, by=by, time="t", windows=WINDOWS, aggs=sw.agg.sum("x"))
        assert found["k"].type == inner.type
        assert sorted(found["x_sum"].to_pylist()) == [2, 4, 4]
        assert len(operator(table, by=by)) == 3


def test_an_operator_takes_texts_of_polars() -> None:
    frame = pl.DataFrame({"t": T, "k": K, "x": X})
    assert totals(operator(frame)) == {k: [2 * x for x in v] for k, v in TOTALS.items()}
    joined = operator(frame, by=None, aggs=[sw.agg.concat("k")])
    assert [row["k_concat"] for row in joined] == ["bbaa", "bb"]


# Categories.


CATEGORIES = pl.Enum(["b", "unused", "a"])


@pytest.mark.parametrize("kind", [CATEGORIES, pl.Categorical()], ids=["enum", "categorical"])
@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_categories_of_polars_come_back_as_they_came(kind: Any, lazy: bool) -> None:
    frame: Any = pl.DataFrame({"t": T, "k": K, "x": X}).with_columns(pl.col("k").cast(kind))
    aggs = [sw.agg.sum("x"), sw.agg.first("k"), sw.agg.argmax("x", "k")]
    found: Any = sw.windowed(
        frame.lazy() if lazy else frame, by="k", time="t", windows=WINDOWS, aggs=aggs
    )
    rolled: Any = sw.rolling(frame, time="t", over=10, aggs=sw.agg.mode("k"))
    found = found.collect() if lazy else found
    assert [found.schema[name] for name in ("k", "k_first", "x_argmax")] == [kind] * 3
    assert totals(found.to_dicts()) == TOTALS
    assert found["k_first"].to_list() == found["k"].to_list()
    assert (rolled.schema["k"], rolled.schema["k_mode_10"]) == (kind, kind)
    assert totals(operator(frame)) == {k: [2 * x for x in v] for k, v in TOTALS.items()}


def test_categories_of_pandas_come_back_as_they_came() -> None:
    kind = pd.CategoricalDtype(["b", "unused", "a"], ordered=True)
    frame = pd.DataFrame({"t": T, "k": pd.Categorical(K, dtype=kind), "x": X})
    aggs = [sw.agg.sum("x"), sw.agg.last("k")]
    found = sw.windowed(frame, by="k", time="t", windows=WINDOWS, aggs=aggs)
    assert (found["k"].dtype, found["k_last"].dtype) == (kind, kind)
    assert found["x_sum"].to_list() == [3, 2, 1, 4]
    assert found["k"].to_list()[1:] == ["a", "b", "b"]
    assert found["k"].isna().to_list() == [True, False, False, False]
    rolled = sw.rolling(frame, time="t", over=10, aggs=sw.agg.first("k"))
    assert rolled["k_first_10"].dtype == kind


def test_dictionaries_of_arrow_come_back_as_they_came() -> None:
    keys = pa.array(K).dictionary_encode()
    table = pa.table({"t": T, "k": keys, "x": X})
    found = sw.windowed(table, by="k", time="t", windows=WINDOWS, aggs=sw.agg.min("k"))
    assert (found["k"].type, found["k_min"].type) == (keys.type, keys.type)
    assert found["k_min"].to_pylist() == found["k"].to_pylist() == [None, "a", "b", "b"]
    batch = table.to_batches()[0]
    again = sw.windowed(batch, by="k", time="t", windows=WINDOWS, aggs=sw.agg.min("k"))
    assert again.column("k").type == keys.type
    columns = {"t": pa.array(T), "k": keys, "x": pa.array(X)}
    plain = sw.rolling(columns, by="k", time="t", over=10, aggs=sw.agg.first("k"))
    assert plain["k_first_10"].type == keys.type


# Names.


def test_columns_of_one_name_are_an_error_that_names_them() -> None:
    arrow = pa.table([T, K, X, X], names=["t", "k", "x", "x"])
    pandas = pd.DataFrame([[1, "a", 2, 3]], columns=["t", "k", "x", "x"])
    query: Any = {"by": "k", "time": "t", "aggs": sw.agg.sum("x")}
    for data in (arrow, arrow.to_batches()[0], pandas):
        with pytest.raises(ColumnError, match=r"2 columns named 'x'.*Rename"):
            sw.windowed(data, windows=WINDOWS, **query)
        with pytest.raises(ColumnError, match="2 columns named 'x'"):
            sw.rolling(data, over=10, **query)
        op = sw.Operator(windows=WINDOWS, aggs=[sw.agg.sum("x")], time="t")
        with pytest.raises(ColumnError, match="several are named 'x'"):
            op.process(data)
        op.process({"t": [1], "x": [5]})
        assert [result.values for result in op.advance(100)] == [{"x_sum": 5}]

    class Every(sw.UserWindow):
        def on_event(self, time: int, event: Any) -> tuple[int, int]:
            return (1, 1)

    with pytest.raises(ColumnError, match="2 columns named 'x'"):  # which sees every column
        sw.windowed(arrow, time="t", windows=Every(), aggs=sw.agg.count())
    # Those that nothing reads are in nobody's way.
    found = sw.rolling(arrow, by="k", time="t", over=10, aggs=sw.agg.count())
    assert found.column_names == ["t", "k", "x", "x", "count_10"]


def test_a_level_of_the_index_may_have_the_name_of_a_column() -> None:
    frame = pd.DataFrame({"t": T, "x": X}).set_index("t", drop=False)
    found = sw.rolling(frame, time="t", over=10, aggs=sw.agg.sum("x"))
    assert found["x_sum_10"].to_list() == [1, 3, 6, 7]


# Nothing but nulls.


CONSTRUCTORS = [n for n in dir(sw.agg) if n[0].islower() and callable(getattr(sw.agg, n))]


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_rolling_takes_nothing_but_nulls_like_windowed(name: str) -> None:
    make = getattr(sw.agg, name)
    more: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("argmin", "argmax", "cov", "corr", "weighted_mean"), ("y",)),
        **dict.fromkeys(("first_n", "last_n", "top_k"), (2,)),
        **dict.fromkeys(("quantile", "approx_quantile"), (0.5,)),
    }
    agg = make("x", *more.get(name, ()))
    table = pa.table({"t": [1, 2], "x": pa.nulls(2), "y": pa.nulls(2)})
    answer = sw.windowed(table, time="t", windows=WINDOWS, aggs=agg).column(agg.output)
    rolled = sw.rolling(table, time="t", over=10, aggs=agg).column(f"{agg.output}_10")
    assert rolled.type == answer.type
    assert rolled.to_pylist() == 2 * answer.to_pylist()
    slid = sw.slide({"x": table["x"], "y": table["y"]}, agg, 2)
    assert slid.to_pylist() == rolled.to_pylist()


# Minus zero.


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("a", pa.float64())]),
        pa.struct([("s", pa.struct([("a", pa.float32())])), ("n", pa.int64())]),
        pa.list_(pa.float64()),
        pa.list_(pa.struct([("a", pa.float64())]), 1),
        pa.map_(pa.string(), pa.float64()),
    ],
    ids=str,
)
def test_keys_with_minus_zero_within_come_out_with_zero(kind: pa.DataType) -> None:
    def value(zero: float, kind: pa.DataType) -> Any:
        if pa.types.is_struct(kind):
            return {field.name: value(zero, field.type) for field in kind}
        if pa.types.is_map(kind):
            return [("a", zero)]
        return [value(zero, kind.value_type)] if pa.types.is_nested(kind) else zero

    keys = pa.array([value(-0.0, kind), value(0.0, kind), None], kind)
    table = pa.table({"t": [1, 2, 3], "k": keys, "x": [1, 2, 4]})
    found = sw.windowed(table, by="k", time="t", windows=WINDOWS, aggs=sw.agg.sum("x"))
    assert found["x_sum"].to_pylist() == [4, 3]
    assert found["k"].type == kind
    assert "-0.0" not in repr(found["k"].to_pylist())
    assert "-0.0" not in repr(operator(table))
    rolled = sw.rolling(table, by="k", time="t", over=10, aggs=sw.agg.sum("x"))
    assert rolled["x_sum_10"].to_pylist() == [1, 3, 4]


# Results of one's own.


class Fickle(sw.Aggregate):
    """A text where the total is large."""

    def identity(self) -> int:
        return 0

    def lift(self, x: int) -> int:
        return x

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def lower(self, state: int) -> Any:
        return "large" if state > 2 else state


class Slow(Fickle):
    """The same without machine code."""

    compile = False


@pytest.mark.parametrize("kind", [Fickle, Slow])
def test_results_of_several_types_are_an_error_that_names_the_aggregate(kind: Any) -> None:
    table = pa.table({"t": np.arange(600), "x": np.ones(600, np.int64)})
    said = rf"`lower` of the aggregate {kind.__name__}\('x'\) must return values of one type"
    some = table.slice(0, 6)
    for aggs in (kind("x"), [sw.agg.sum("x"), kind("x")]):
        with pytest.raises(AggregateError, match=said):
            sw.windowed(some, time="t", windows=sw.sliding(4, 2), aggs=aggs)
        with pytest.raises(AggregateError, match=said):
            sw.rolling(some, time="t", over=4, aggs=aggs)
    with pytest.raises(AggregateError, match=said):
        sw.slide({"x": some["x"]}, kind("x"), 4)
    # Results that come block by block.
    grows = pa.table({"t": table["t"], "x": (np.arange(600) >= 400).astype(np.int64)})
    with pytest.raises(AggregateError, match=said):
        sw.rolling(grows, time="t", over=100, aggs=kind("x"))


# A type from the first value.

FIRST_VALUES = [7, 2.5, True, "z", b"z", [1], {"a": 1}, dt.datetime(2024, 1, 2), Decimal("1.5")]
KINDS_OF_WINDOWS = {
    "sliding": sw.sliding(20, 10),
    "session": sw.session(15),
    "rows": sw.tumbling(sw.rows(3)),
    "threshold": sw.threshold("flag"),
}


@pytest.mark.parametrize("value", FIRST_VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("window", KINDS_OF_WINDOWS.values(), ids=KINDS_OF_WINDOWS)
def test_a_column_has_the_type_of_its_first_value(value: Any, window: Any) -> None:
    """Nulls that came before it leave the traces that they leave in one batch."""
    aggs = [
        sw.agg.argmin("x", "who"), sw.agg.argmax("x", "who"), sw.agg.first("who"),
        sw.agg.argmin("who2", "x"), sw.agg.count("who"), sw.agg.collect("who"),
    ]  # fmt: skip
    aggs = [a for a in aggs if not (a.columns[0] == "who2" and isinstance(value, list | dict))]
    rows: list[dict[str, Any]] = [
        {"k": k, "t": t, "x": x, "who": who, "who2": who, "flag": t < 16 or k == "b"}
        for k, t, x, who in [
            ("a", 1, 5, None), ("b", 2, 6, None), ("a", 3, 9, None),
            ("a", 15, 1, value), ("b", 16, 7, None), ("a", 16, 5, value), ("b", 40, 0, value),
        ]
    ]  # fmt: skip

    def answers(*parts: int, snapshots: bool) -> list[dict[str, Any]]:
        op = sw.Operator(windows=[window], aggs=aggs, time="t", by="k", lateness=1000)
        found, begin = [], 0
        for end in (*parts, len(rows)):
            op.process(rows[begin:end])
            begin = end
            op = sw.Operator.restore(op.snapshot()) if snapshots else op
            found += op.advance_arrow(rows[end - 1]["t"]).to_pylist()
        found += op.advance_arrow(math.inf).to_pylist()
        folded = sw.fold(pa.Table.from_pylist(found))
        return sorted(folded.to_pylist(), key=lambda row: (row["k"], row["start"]))

    whole = answers(snapshots=False)
    assert whole
    for snapshots in (False, True):
        assert answers(3, snapshots=snapshots) == whole
        assert answers(2, 3, 5, snapshots=snapshots) == whole
    firsts = [row["who_first"] for row in whole if row["who_first"] is not None]
    assert {type(first) for first in firsts} == {type(value)}
