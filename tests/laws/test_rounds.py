"""Rows that come in rounds: how they are found, and that `sw.rolling` is the same on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.spans import Rows, Ticks
from slicewise.testing import paths_taken
from slicewise.tuning import tuned
from tests.support.rolled import FLOATS, SPANS, Centre, Path, Row, same, table, twin

BUILT_IN: list[sw.Aggregate] = [
    sw.agg.count(),
    sw.agg.count("x"),
    sw.agg.count("s"),
    sw.agg.sum("x"),
    sw.agg.mean("x"),
    sw.agg.max("x"),
    sw.agg.min("x"),
    sw.agg.std("x"),
]
OWN: list[sw.Aggregate] = [Path("x"), Centre("x")]


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    """Tables of any size are looked at."""
    with tuned(rounds_rows=1, rounds_keys=1):
        yield


@st.composite
def round_rows(draw: st.DrawFn) -> list[Row]:
    """Rows in the order of time, each key once at a time, always in the same order."""
    keys = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 7, 2**43]), min_size=1, max_size=9))
    time = draw(st.sampled_from([0, -9, -(2**63) - 1]))
    rows: list[Row] = []
    for gap in gaps:
        time += gap
        for k in keys:
            x, s = draw(FLOATS), draw(st.sampled_from([None, "s"]))
            rows.append({"k": k, "t": time, "x": x, "s": s})
    return rows


def rolled(rows: list[Row], spans: list[Any], aggs: list[sw.Aggregate]) -> tuple[pa.Table, int]:
    """The result, and how many calls went by rounds."""
    with paths_taken() as taken:
        found = sw.rolling(table(rows), by="k", time="t", over=spans, aggs=aggs)
    return found, taken["rounds"]


def check(found: pa.Table, rows: list[Row], spans: list[Any], aggs: list[sw.Aggregate]) -> None:
    for agg in aggs:
        for span in spans:
            results = found[f"{agg.output}_{span}"].to_pylist()
            assert same(results, twin(rows, span, agg)), (agg, span, results)


@given(
    rows=round_rows(),
    spans=st.lists(SPANS, min_size=1, max_size=3, unique=True),
    most=st.integers(1, 9),
)
@settings(max_examples=75)
def test_full_rounds_give_the_fold_of_the_rows_that_a_row_sees(
    rows: list[Row], spans: list[Ticks | Rows], most: int
) -> None:
    with tuned(side_by_side=most):
        found, calls = rolled(rows, spans, [*BUILT_IN, *OWN])
    assert calls == 1
    check(found, rows, spans, [*BUILT_IN, *OWN])


@given(
    rows=round_rows(),
    extra=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3),
    lost=st.lists(st.integers(0, 99), max_size=3),
    gone=st.lists(st.integers(0, 99), max_size=1),
    spans=st.lists(SPANS, min_size=1, max_size=2, unique=True),
)
@settings(max_examples=50)
def test_rows_that_are_out_of_place_change_nothing(
    rows: list[Row],
    extra: list[tuple[int, int]],
    lost: list[int],
    gone: list[int],
    spans: list[Ticks | Rows],
) -> None:
    rows = [dict(row) for row in rows]
    for one, place in extra if rows else []:
        rows.insert(place % len(rows), dict(rows[one % len(rows)]))
    for one in lost if rows else []:
        rows[one % len(rows)]["t"] = None
    for one in gone if rows else []:
        del rows[one % len(rows)]
    found, _ = rolled(rows, spans, [*BUILT_IN, *OWN])
    check(found, rows, spans, [*BUILT_IN, *OWN])


def random_rounds(keys: int, rounds: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(100.0, 10.0, keys * rounds)
    x[random.random(keys * rounds) < 0.01] = math.nan
    times = np.cumsum(random.integers(1, 4, rounds))
    return {
        "k": np.tile(np.arange(keys), rounds),
        "t": np.repeat(times, keys),
        "x": x,
    }


# 16 keys are done by a few instructions, 1024 side by side.
@pytest.mark.parametrize("keys", [1, 15, 16, 17, 64, 1023, 1024, 1025, 2100])
@pytest.mark.parametrize("states", [1 << 12, 1 << 18])
def test_many_keys_are_the_same_by_rounds_and_one_after_the_other(keys: int, states: int) -> None:
    data = random_rounds(keys, 60, seed=keys)
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x"), sw.agg.count()]
    query: dict[str, Any] = {"by": "k", "time": "t", "over": [1, 30, 10**9], "aggs": aggs}
    with tuned(rounds_states=states):
        by_rounds = sw.rolling(data, **query)
    with tuned(rounds_rows=10**9):
        by_key = sw.rolling(data, **query)
    for name, values in by_key.items():
        np.testing.assert_array_equal(by_rounds[name], values, err_msg=name)


def test_columns_of_a_pandas_result_share_no_memory() -> None:
    data = pd.DataFrame(random_rounds(100, 60, seed=1))
    before = data.copy()
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x")]
    found = sw.rolling(data, by="k", time="t", over=[1, 30], aggs=aggs)
    arrays = [
        *(found[name].to_numpy() for name in found),
        *(data[name].to_numpy() for name in data),
    ]
    for one, other in combinations(arrays, 2):
        assert not np.shares_memory(one, other)
    pd.testing.assert_frame_equal(found[["k", "t", "x"]], before)
    pd.testing.assert_frame_equal(data, before)


def test_long_windows_of_many_rounds_go_one_key_after_the_other() -> None:
    rows = [{"k": k, "t": t, "x": 1.0, "s": None} for t in range(40) for k in "ab"]
    with tuned(rounds_states=58, rounds_keys=2):
        assert rolled(rows, [Ticks(30)], [sw.agg.sum("x")])[1] == 1  # 29 rounds of 2 keys
        assert rolled(rows, [Ticks(31)], [sw.agg.sum("x")])[1] == 0
        # A window that is never full has no boundary.
        assert rolled(rows, [Ticks(99)], [sw.agg.sum("x")])[1] == 1


def test_an_aggregate_of_ones_own_never_meets_a_window_without_rows() -> None:
    class Strict(sw.Aggregate):
        def identity(self) -> tuple[int, float]:
            return (0, 0.0)

        def lift(self, value: float) -> tuple[int, float]:
            return (1, value)

        def combine(self, older: tuple[int, float], newer: tuple[int, float]) -> tuple[int, float]:
            return (older[0] + newer[0], older[1] + newer[1])

        def lower(self, state: tuple[int, float]) -> float:
            return state[1] / state[0]

    rows = [{"k": k, "t": t, "x": 6.0, "s": None} for t in range(3) for k in "ab"]
    assert rolled(rows, [Ticks(1)], [Strict("x")])[1] == 1
    found, calls = rolled(rows[:-1], [Ticks(1)], [Strict("x")])
    assert calls == 0
    assert found["x_strict_1"].to_pylist() == [6.0] * 5


def are_rounds(codes: list[int], times: list[int]) -> bool:
    data = {
        "k": np.array(codes, np.int64),
        "t": np.array(times, np.int64),
        "x": np.ones(len(codes)),
    }
    with paths_taken() as taken:
        sw.rolling(data, by="k", time="t", over=3, aggs=[sw.agg.sum("x")])
    return bool(taken["rounds"])


@pytest.mark.parametrize(
    ("codes", "times"),
    [
        ([0, 1, 0, 1], [5, 5, 4, 4]),  # times fall from round to round
        ([0, 1, 0, 1], [5, 4, 5, 5]),  # and within one
        ([0, 1, 0, 1], [5, 5, 5, 5]),  # a key comes twice
        ([0, 0, 1, 1], [5, 5, 9, 9]),
        ([0, 1, 2, 2, 0, 1], [5, 5, 5, 9, 9, 9]),  # keys change their order
        ([0, 1, 2, 0, 1], [5, 5, 5, 9, 9]),  # the last round lacks a key
        ([0, 1, 2, 0, 1, 1], [5, 5, 5, 9, 9, 9]),
    ],
)
def test_other_rows_do_not_come_in_rounds(codes: list[int], times: list[int]) -> None:
    assert not are_rounds(codes, times)


def test_small_tables_and_few_keys_are_not_looked_at() -> None:
    codes, times = [0, 1, 0, 1], [1, 1, 2, 2]
    assert are_rounds(codes, times)
    assert not are_rounds([], [])
    with tuned(rounds_keys=3):
        assert not are_rounds(codes, times)
    with tuned(rounds_rows=5):
        assert not are_rounds(codes, times)
