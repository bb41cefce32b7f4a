"""`sw.rolling` equals its slow twin: the fold, for every row, of the rows it can see."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.arrays.grouping import encode, group
from slicewise.codegen.algebra import NOTHING
from slicewise.mergers.boundary import not_below
from slicewise.spans import Rows, Ticks
from slicewise.tuning import tuned
from tests.support.rolled import (
    KEYS,
    ROWS,
    SPANS,
    TIMES,
    TYPES,
    Centre,
    Path,
    Row,
    same,
    table,
    twin,
)

AGGS: list[sw.Aggregate] = [
    sw.agg.count(),
    sw.agg.count("x"),
    sw.agg.sum("x"),
    sw.agg.max("x"),
    sw.agg.min("s"),
    sw.agg.std("x"),
    sw.agg.first("x"),
    sw.agg.last("s"),
    sw.agg.collect("s"),
    sw.agg.median("x"),
    Path("x"),
]


@given(rows=ROWS, spans=st.lists(SPANS, min_size=1, max_size=3, unique=True))
@settings(max_examples=100)
def test_every_row_gets_the_fold_of_the_rows_it_sees(
    rows: list[Row], spans: list[Ticks | Rows]
) -> None:
    found = sw.rolling(table(rows), by="k", time="t", over=spans, aggs=AGGS)
    for agg in AGGS:
        for span in spans:
            results = found[f"{agg.output}_{span}"].to_pylist()
            assert same(results, twin(rows, span, agg)), (agg, span, results)


@given(rows=ROWS, span=SPANS, size=st.integers(1, 5))
def test_blocks_of_any_size_give_the_same(rows: list[Row], span: Ticks | Rows, size: int) -> None:
    with tuned(rolling_block=size, rolling_objects=size):
        found = sw.rolling(table(rows), by="k", time="t", over=span, aggs=AGGS)
    for agg in AGGS:
        assert same(found[f"{agg.output}_{span}"].to_pylist(), twin(rows, span, agg)), agg


NUMBERS: list[sw.Aggregate] = [
    sw.agg.count("n"),
    sw.agg.sum("n"),
    sw.agg.mean("n"),
    sw.agg.var("n", ddof=0),
    sw.agg.max("n"),
    sw.agg.min("n"),
    sw.agg.mean("x"),
    sw.agg.argmax("n", "x"),
    Centre("x"),
]
NUMBER_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": KEYS,
            "t": TIMES,
            "n": st.one_of(st.none(), st.integers(-(2**40), 2**40)),
            "x": st.one_of(st.none(), st.integers(-9, 9).map(float)),
        }
    ),
    max_size=24,
)


@given(rows=NUMBER_ROWS, span=SPANS, tile=st.integers(1, 5))
def test_integers_with_nulls_go_through_one_loop_with_floats(
    rows: list[Row], span: Ticks | Rows, tile: int
) -> None:
    assert all(agg.bind([pa.int64()] * agg.arity).compiled for agg in NUMBERS)
    data = pa.table({n: pa.array([row[n] for row in rows], TYPES[n]) for n in "ktnx"})
    with tuned(rolling_tile=tile):
        found = sw.rolling(data, by="k", time="t", over=span, aggs=NUMBERS)
    for agg in NUMBERS:
        results = found[f"{agg.output}_{span}"].to_pylist()
        assert same(results, twin(rows, span, agg)), (agg, results)


@given(rows=ROWS, span=SPANS)
def test_without_a_key_all_rows_are_of_one(rows: list[Row], span: Ticks | Rows) -> None:
    agg = sw.agg.collect("x")
    found = sw.rolling(table(rows), time="t", over=span, aggs=agg)[f"x_collect_{span}"]
    assert same(found.to_pylist(), twin([{**row, "k": 0} for row in rows], span, agg))


PAIRS = st.fixed_dictionaries(
    {
        "k": KEYS,
        "t": st.integers(-8, 8),
        "x": st.integers(1, 50).map(float),
        "y": st.integers(-50, 50).map(float),
    }
)


@pytest.mark.parametrize("agg", sw.agg.REGISTRY, ids=repr)
@given(rows=st.lists(PAIRS, min_size=1, max_size=15), span=SPANS)
@settings(max_examples=8)
def test_every_aggregate_of_the_registry_rolls(
    agg: sw.Aggregate, rows: list[Row], span: Ticks | Rows
) -> None:
    data = table(rows)
    if agg.takes[0] == "strings":
        rows = [{**row, "x": str(row["x"])} for row in rows]
        data = data.drop_columns("x").append_column("x", pa.array([row["x"] for row in rows]))
    found = sw.rolling(data, by="k", time="t", over=span, aggs=agg)[f"{agg.output}_{span}"]
    assert same(found.to_pylist(), twin(rows, span, agg))


@given(
    codes=st.lists(st.integers(0, 3), max_size=80),
    times=st.lists(st.integers(-5, 5), min_size=80, max_size=80),
)
def test_rows_are_ordered_by_key_and_time_and_arrival(codes: list[int], times: list[int]) -> None:
    rows = range(len(codes))
    expected = sorted(rows, key=lambda i: (codes[i], times[i], i))
    made = group(np.array(codes, np.int64), 4, np.array(times[: len(codes)], np.int64))
    order = list(rows) if made.order is None else made.order.tolist()
    assert order == expected
    assert made.times.tolist() == [times[i] for i in expected]
    assert made.starts.tolist() == [sum(c < k for c in codes) for k in range(5)]
    pairs = [(codes[i], times[i]) for i in rows]
    assert made.ties == (len(set(pairs)) < len(pairs))


@given(
    firsts=st.lists(st.integers(0, 9), max_size=40).map(sorted),
    value=st.integers(0, 10),
    data=st.data(),
)
def test_where_windows_reach_a_row_is_found_from_anywhere_before(
    firsts: list[int], value: int, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(firsts)))
    stop = data.draw(st.integers(begin, len(firsts)))
    find = not_below.specialise(NOTHING)
    found = find(value, np.array(firsts, np.int64), begin, stop)
    assert found == bisect_left(firsts, value, begin, stop)


KEY_TYPES: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.uint64(), st.integers(2**64 - 9, 2**64 - 1)),
    (pa.string(), st.text(max_size=2)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.sampled_from([0.0, 1.5, -2.0])),
    (pa.timestamp("us", "UTC"), st.integers(0, 3)),
    (pa.decimal128(5, 2), st.decimals(-9, 9, places=2)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from("ab")),
    (pa.struct([("a", pa.int64())]), st.none()),
    (pa.null(), st.none()),
]


@pytest.mark.parametrize(("kind", "values"), KEY_TYPES, ids=lambda v: str(v)[:24])
@given(data=st.data())
@settings(max_examples=25)
def test_rows_share_a_code_when_their_keys_are_equal(
    kind: pa.DataType, values: Any, data: st.DataObject
) -> None:
    given_ = st.lists(st.tuples(st.one_of(st.none(), values), st.integers(0, 2)), max_size=12)
    pairs = data.draw(given_)
    keys = [pa.array([a for a, _ in pairs], kind), pa.array([b for _, b in pairs], pa.int64())]
    codes, size = encode(keys)
    assert codes is not None
    assert all(0 <= code < size for code in codes.tolist())
    for i, one in enumerate(pairs):
        for j, other in enumerate(pairs):
            assert (codes[i] == codes[j]) == (one == other)


SORTED = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(-99, 99).map(float)),
    min_size=1,
    max_size=40,
).map(lambda rows: sorted(rows, key=lambda row: row[1]))


@given(rows=SORTED, seconds=st.integers(1, 20))
@settings(max_examples=25)
def test_polars_gives_the_same_on_sorted_rows(
    rows: list[tuple[str, int, float]], seconds: int
) -> None:
    frame = pl.DataFrame(rows, schema=["k", "t", "x"], orient="row").with_columns(
        (pl.col("t") * 1_000_000).cast(pl.Datetime("us"))
    )
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x")]
    found = sw.rolling(frame, by="k", time="t", over=f"{seconds}s", aggs=aggs)
    rolled = frame.with_columns(
        getattr(pl.col("x"), f"rolling_{name}_by")("t", window_size=f"{seconds}s")
        .over("k")
        .alias(f"x_{name}_{seconds}s")
        for name in ("max", "mean", "std")
    )
    for name in found.columns[3:]:
        # polars subtracts what leaves a window, so its last digits differ.
        assert same(found[name].to_list(), rolled[name].to_list()) or np.allclose(
            found[name].fill_null(-1), rolled[name].fill_null(-1), atol=1e-4
        )


@given(rows=SORTED, seconds=st.integers(1, 20))
@settings(max_examples=25)
def test_pandas_gives_the_same_on_sorted_rows_without_ties(
    rows: list[tuple[str, int, float]], seconds: int
) -> None:
    # pandas lets a row see only those rows of its own time that came before it.
    rows = list({row[:2]: row for row in rows}.values())
    frame = pd.DataFrame(rows, columns=["k", "t", "x"])
    frame["t"] = pd.to_datetime(frame["t"], unit="s")
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x")]
    found = sw.rolling(frame, by="k", time="t", over=f"{seconds}s", aggs=aggs)
    for _, part in frame.groupby("k"):
        rolled = part.set_index("t")["x"].rolling(f"{seconds}s")
        for name in ("max", "mean", "std"):
            mine = found.loc[part.index, f"x_{name}_{seconds}s"].to_numpy()
            theirs = getattr(rolled, name)().to_numpy()
            np.testing.assert_allclose(mine, theirs, atol=1e-4)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), min_size=1, max_size=60),
    st.integers(1, 9),
)
def test_rows_that_are_sorted_in_pieces_are_in_the_same_order(
    rows: list[tuple[int, int]], most: int
) -> None:
    codes, times = (np.array(column) for column in zip(*rows, strict=True))
    with tuned(rows_sorted=most):
        found = group(codes, 4, times)
        order = np.arange(len(rows)) if found.order is None else found.order
        places = np.arange(len(rows)) if found.places is None else found.places
    assert order.tolist() == np.lexsort((times, codes)).tolist()
    assert places.tolist() == np.argsort(order).tolist()
    assert found.times.tolist() == times[order].tolist()
    assert found.ties == (len(set(rows)) < len(rows))
