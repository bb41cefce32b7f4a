"""Windows over an advancing column: fractions, types, and values that are of no use."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, ColumnTypeError

SUM = sw.agg.sum("x")


def km(length: float) -> Any:
    return sw.units(length, on="km")


def operator(*windows: Any, **changes: Any) -> sw.Operator:
    made: Any = {"windows": windows, "aggs": [SUM], "time": "t"} | changes
    return sw.Operator(**made)


def found(op: sw.Operator, watermark: Any = math.inf) -> list[Any]:
    return [(r.start, r.end, r.values["x_sum"]) for r in op.advance(watermark)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (sw.tumbling(km(2.5)), [(0.0, 2.5, 7), (2.5, 5.0, 24)]),
        (sw.tumbling(km(0.5)), [(0.0, 0.5, 1), (1.0, 1.5, 2), (2.0, 2.5, 4), (3.0, 3.5, 8)]),
        (sw.tumbling(km(2), origin=0.5), [(-1.5, 0.5, 1), (0.5, 2.5, 6), (2.5, 4.5, 24)]),
        (sw.fixed(0.5, km(1)), [(0.5, 1.5, 2)]),
        (sw.cumulate(km(2.5), km(1.5)), [(0.0, 1.5, 3), (0.0, 2.5, 7), (2.5, 4.0, 8)]),
        (sw.tumbling(km(2.0)), [(0, 2, 3), (2, 4, 12), (4, 6, 16)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_fractions_over_a_column_of_integers_are_not_cut_off(window: Any, expected: Any) -> None:
    op = operator(window)
    op.process({"t": [1, 2, 3, 4, 5], "km": [0, 1, 2, 3, 4], "x": [1, 2, 4, 8, 16]})
    assert found(op)[: len(expected)] == expected


def test_a_slice_begins_at_its_edge_and_not_next_to_it() -> None:
    """From -1.3 the remainder leads to -1.5000000000000002, which is before the edge."""
    op = operator(sw.tumbling(km(1)), sw.tumbling(km(2.5), origin=-1.5, name="v"))
    op.process({"t": [1, 2, 3], "km": [-1.6, -1.3, 1.2], "x": [1, 2, 4]})
    assert found(op)[-2:] == [(-1.5, 1.0, 2), (1.0, 3.5, 4)]
    many = [sw.tumbling(km(1 + k / 8), origin=-1.5, name=f"w{k}") for k in range(20)]
    listed = operator(*many)
    listed.process({"t": [1, 2, 3], "km": [-1.6, -1.3, 1.2], "x": [1, 2, 4]})
    sums = [(start < -1.5, total) for start, _, total in found(listed) if start <= -1.5]
    assert sorted(sums) == [*[(False, 2)] * 14, *[(False, 6)] * 6, *[(True, 1)] * 20]


def test_one_key_and_small_steps_over_a_column_of_floats_are_listed() -> None:
    op = operator(sw.tumbling(km(0.1)))
    op.process({"t": [1, 2], "km": [1.0, 2.0], "x": [1, 2]})
    assert found(op) == [(1.0, 1.1, 1), (2.0, 2.1, 2)]


def test_a_window_with_fractions_is_added_before_the_first_event_and_not_after() -> None:
    op = operator(sw.tumbling(km(2)))
    op.process({"t": pa.array([None], pa.int64()), "km": [5], "x": [1]})  # it has no time
    assert op.add_window(sw.tumbling(km(2.5))) is None
    op.process({"t": [1, 2], "km": [2, 3], "x": [1, 2]})
    assert op.add_window(sw.tumbling(km(0.5))) == 4.0
    with pytest.raises(CapabilityError, match=r"'tumbling_0\.1km' has other fractions"):
        op.add_window(sw.tumbling(km(0.1)))
    whole = operator(sw.tumbling(km(2)))
    whole.process({"t": [1], "km": [2], "x": [1]})
    with pytest.raises(CapabilityError, match=r"'tumbling_2\.5km' has other fractions"):
        whole.add_window(sw.tumbling(km(2.5)))
    assert found(whole) == [(2, 4, 1)]


def test_a_window_over_an_unknown_column_is_refused_when_types_are_known() -> None:
    op = operator(sw.tumbling(km(2)))
    op.process({"t": pa.array([None], pa.int64()), "km": [5], "x": [1]})
    with pytest.raises(CapabilityError, match="How far 'no' has come is not known"):
        op.add_window(sw.tumbling(sw.units(2, on="no")))


def test_a_snapshot_remembers_the_fractions_of_a_window_that_is_gone() -> None:
    op = operator(sw.tumbling(km(0.1), name="gone"), sw.tumbling(km(2)))
    op.process({"t": [1, 2, 3], "km": [1, 2, 3], "x": [1, 2, 4]})
    op.remove_window("gone")
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": [4], "km": [4], "x": [8]})
    assert found(again) == [(0, 2, 1), (2, 4, 6), (4, 6, 8)]


@pytest.mark.parametrize(
    "values",
    [["1", "2"], [True, False], [[1], [2]], [decimal.Decimal("1.5"), decimal.Decimal(2)]],
    ids=["text", "bool", "list", "decimal"],
)
def test_a_column_without_numbers_is_refused(values: Any) -> None:
    op = operator(sw.tumbling(km(2), name="w"))
    with pytest.raises(ColumnTypeError, match=r"needs integers or floats; 'km', which 'w' is over"):
        op.process({"t": [1, 2], "km": values, "x": [1, 2]})
    assert op.stats.events == 0
    op.process({"t": [1], "km": [None], "x": [1]})  # nothing is known of it yet
    op.process({"t": [1], "km": [1], "x": [2]})
    assert [r.values["x_sum"] for r in op.advance(math.inf)] == [2]
    frame = pd.DataFrame({"t": [1, 2], "km": values, "x": [1, 2]})
    with pytest.raises(ColumnTypeError, match="Cast it first, for example to float64"):
        sw.windowed(frame, time="t", windows=sw.tumbling(km(2)), aggs=SUM)


@pytest.mark.parametrize(
    ("values", "length"),
    [
        (np.array([1.0, math.inf]), 2),
        (np.array([1.0, -math.inf]), 0.5),
        (np.array([1, 2**62]), 2),
        (np.array([1, 2**63 + 5], np.uint64), 2),
        (np.array([1, 2**53 + 1]), 2.5),
        (np.array([1.0, 1e17]), 0.1),
    ],
    ids=str,
)
def test_a_value_out_of_reach_makes_its_event_bad(values: Any, length: float) -> None:
    op = operator(sw.tumbling(km(length)), sw.session(5))
    op.process({"t": [1, 2], "km": values, "x": [1, 2]})
    assert [r.values["x_sum"] for r in op.advance(math.inf)] == [1, 1]
    assert (op.stats.bad, [row["x"] for row in op.late]) == (1, [2])


def test_nan_and_null_are_in_no_instance_and_not_bad() -> None:
    op = operator(sw.tumbling(km(2)), sw.session(5))
    op.process({"t": [1, 2, 3], "km": pa.array([1.0, math.nan, None]), "x": [1, 2, 4]})
    assert [r.values["x_sum"] for r in op.advance(math.inf)] == [1, 7]
    assert (op.stats.bad, op.late) == (0, [])


def test_an_event_that_falls_behind_is_counted_and_handed_out_once() -> None:
    windows = [sw.tumbling(km(2)), sw.tumbling(sw.units(2, on="no")), sw.session(5)]
    op = operator(*windows, by="k")
    op.process({"t": [1, 2], "k": [1, 1], "km": [5, 9], "no": [5, 9], "x": [1, 2]})
    op.advance(3)
    late = {"t": [3, 4, 5], "k": [1, 2, 1], "km": [6, 6, 10], "no": [1, 1, 10], "x": [4, 8, 16]}
    op.process(late)
    assert (op.stats.behind, op.stats.late_dropped, op.stats.bad) == (1, 0, 0)
    assert op.late == [{"t": 3, "k": 1, "km": 6, "no": 1, "x": 4}]
    op = sw.Operator.restore(op.snapshot())
    assert op.stats.behind == 1
    ends = {(r.key, r.window, r.end): r.values["x_sum"] for r in op.advance(math.inf)}
    assert ends[1, "session_5", 10] == 23  # windows of time have it
    assert ends[1, "tumbling_2km", 12] == 16
