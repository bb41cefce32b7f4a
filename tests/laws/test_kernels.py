"""Kernels as plain Python give the very bits that compiled ones give."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import SlicewiseError
from slicewise.mergers import CATALOGUE
from slicewise.testing.strategies import Step, steps, windows
from slicewise.tuning import tuned
from slicewise.windows import Window
from tests.support.columns import aggregates_on, columns_of
from tests.support.operators import aggregates, keys

# One type of each kind of state: each further one would compile all of it anew.
KINDS = pytest.mark.parametrize("kind", ["int64", "float64"])


def bits(value: Any) -> Any:
    """A value such that two are equal where the bits are; all NaN are one."""
    if isinstance(value, pa.Table):
        return value.schema, bits(value.to_pydict())
    if isinstance(value, sw.Result):
        return bits((value.key, value.window, value.start, value.end, value.values)), value.revision
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, dict):
        return {bits(key): bits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(bits, value))
    return type(value), value


def answer(made: Callable[[], Any]) -> Any:
    """The bits of an answer; the words of an error."""
    try:
        return bits(made())
    except (SlicewiseError, ArithmeticError) as error:
        return type(error), str(error)


def assert_the_same_both_ways(made: Callable[[], Any]) -> None:
    with tuned(kernels="plain"):
        found = answer(made)
    with tuned(kernels="compiled"):
        assert found == answer(made)


@KINDS
def test_windows_over_columns_of_each_kind(kind: str) -> None:
    defined = [sw.sliding(10, every=5), sw.session(3), sw.tumbling(sw.rows(4)), sw.tumbling(7)]
    assert_the_same_both_ways(
        lambda: sw.windowed(columns_of(kind), time="t", windows=defined, aggs=aggregates_on(kind))
    )


@KINDS
def test_rolling_over_columns_of_each_kind(kind: str) -> None:
    assert_the_same_both_ways(
        lambda: sw.rolling(
            columns_of(kind), time="t", over=[3, 10, sw.rows(4)], aggs=aggregates_on(kind)
        )
    )


@given(steps(), windows(), aggregates, keys, st.sampled_from(["on_close", "on_update", "final"]))
def test_operators_give_the_same_and_keep_the_same(
    script: list[Step], defined: list[Window], aggs: list[sw.Aggregate], by: Any, emit: Any
) -> None:
    def made() -> Any:
        op = sw.Operator(windows=defined, aggs=aggs, time="t", by=by, lateness=5, emit=emit)
        found = [getattr(op, verb)(argument) for verb, argument in script[:-1]]
        blob = op.snapshot()
        return [*found, blob, *(getattr(op, verb)(argument) for verb, argument in script[-1:])]

    assert_the_same_both_ways(made)


NUMBERS = [0, 1, -1, 2**31, -(2**31), 2**32, 3037000500, 2**62, -(2**62), 2**63 - 1, -(2**63)]


@given(st.lists(st.none() | st.sampled_from(NUMBERS), max_size=12))
@settings(max_examples=100)
def test_whole_numbers_at_the_ends_of_64_bits(values: list[int | None]) -> None:
    agg = sw.agg
    aggs = [agg.sum("x"), agg.mean("x"), agg.product("x"), agg.range("x"), agg.var("x")]
    aggs += [agg.min_count("x"), agg.median("x"), agg.argmax("x", "x"), agg.skew("x")]
    unsigned = [None if x is None else x % 2**64 for x in values]
    for kind, column in ((pa.int64(), values), (pa.uint64(), unsigned)):
        table = pa.table({"t": range(len(values)), "x": pa.array(column, kind)})
        for some in aggs:
            assert_the_same_both_ways(
                lambda table=table, some=some: sw.windowed(  # type: ignore[misc]
                    table, time="t", windows=[sw.sliding(4, every=2)], aggs=some
                )
            )


TIMES = st.sampled_from([0, 1, 5, 2**36, 2**61 - 1, 1 - 2**61])


@given(st.lists(TIMES, max_size=8), windows(["tumbling", "sliding", "cumulate", "session"]))
def test_times_that_are_far_apart(times: list[int], defined: list[Window]) -> None:
    column = pa.array([0, *times], pa.int64())
    table = pa.table({"t": column, "x": column})
    assert_the_same_both_ways(
        lambda: sw.windowed(table, time="t", windows=defined, aggs=sw.agg.max("x"))
    )


@pytest.mark.parametrize("algorithm", [None, *CATALOGUE])
@pytest.mark.parametrize("agg", [sw.agg.max(), sw.agg.sum(), sw.agg.var()], ids=repr)
def test_slides_by_each_merger(algorithm: str | None, agg: sw.Aggregate) -> None:
    values = [0.1 * k * (-1) ** k for k in range(60)]
    assert_the_same_both_ways(lambda: sw.slide(values, agg, 7, 3, algorithm=algorithm))
