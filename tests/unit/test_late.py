"""Events below the watermark: what still takes them, what missed them, and who is told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows, paths_taken
from slicewise.tuning import tuned


def operator(*windows: Any, **more: Any) -> sw.Operator:
    return sw.Operator(**{"windows": windows, "aggs": [sw.agg.sum("x")], "time": "t"} | more)


def shown(results: list[Any]) -> list[tuple[Any, ...]]:
    return [(r.window, r.start, r.end, *r.values.values()) for r in results]


@pytest.mark.parametrize("agg", [sw.agg.sum("x"), sw.agg.last("x"), sw.agg.collect("x")])
@pytest.mark.parametrize("emit", ["on_close", "final", "on_update"])
def test_rule_05_an_event_below_the_watermark_counts_for_an_open_window(
    agg: Any, emit: Any
) -> None:
    op = operator(sw.tumbling(100), aggs=[agg], emit=emit)
    op.process({"t": [57, 70], "x": [1, 2]})
    op.advance(60)
    op.process({"t": [55], "x": [4]})
    (result,) = op.advance(math.inf) if emit != "on_update" else op.advance(60)
    expected = {"x_sum": 7, "x_last": 2, "x_collect": [4, 1, 2]}
    assert result.values == {agg.output: expected[agg.output]}
    assert (op.stats.late_dropped, op.stats.late_partly, op.late) == (0, 0, [])


def test_rule_05_an_event_counts_for_the_instances_that_are_open_and_no_others() -> None:
    op = operator(sw.sliding(10, every=5, name="s"), sw.tumbling(10, name="t"), sw.session(3))
    op.process({"t": [0, 14], "x": [1, 2]})
    op.advance(12)
    op.process({"t": [9, 1], "x": [4, 8]})
    assert op.late == [{"t": 9, "x": 4, "missed": ["s", "t"]}, {"t": 1, "x": 8}]
    assert (op.stats.late_dropped, op.stats.late_partly) == (1, 1)
    assert shown(op.advance(math.inf)) == [
        ("s", 5, 15, 6),
        ("s", 10, 20, 2),
        ("t", 10, 20, 2),
        ("session_3", 9, 12, 4),
        ("session_3", 14, 17, 2),
    ]


def test_rule_05_windows_that_depend_on_rows_take_nothing_below_the_horizon() -> None:
    windows = [sw.tumbling(sw.rows(2)), sw.session(5, max_length=50), sw.tumbling(100)]
    op = operator(*windows)
    op.process({"t": [10, 70], "x": [1, 2]})
    op.advance(60)
    op.process({"t": [55], "x": [4]})
    assert op.late == [{"t": 55, "x": 4, "missed": [windows[0].name, windows[1].name]}]
    assert [r.values["x_sum"] for r in op.advance(math.inf)] == [3, 2, 7]


#   time      0    5    10   15   20   25
#             c..c      y  |          o     gap 5, horizon 17: `c` is closed, `y` would be open
def test_rule_05_what_closed_is_gone_and_an_event_between_belongs_to_the_open_session() -> None:
    op = operator(sw.session(5), emit="final", aggs=[sw.agg.collect("x")])
    op.process({"t": [5, 8, 20], "x": [1, 2, 3]})
    assert shown(op.advance(17)) == [("session_5", 5, 13, [1, 2])]
    op.process({"t": [12], "x": [4]})  # near the closed one, and makes one that is open
    op.process({"t": [16], "x": [5]})  # joins that with the one at 20
    op.process({"t": [7], "x": [6]})  # before the end of the closed one, and near the open one
    op.process({"t": [1], "x": [7]})
    assert op.late == [{"t": 1, "x": 7}]
    assert shown(op.advance(math.inf)) == [("session_5", 7, 25, [6, 4, 5, 3])]


def test_rule_05_events_of_a_batch_are_one_session_whatever_their_order() -> None:
    for times in ([5, 9], [9, 5]):
        op = operator(sw.session(5))
        op.process({"t": [100], "x": [0]})
        op.advance(12)
        op.process({"t": times, "x": [1, 1]})
        assert shown(op.advance(50)) == [("session_5", 5, 14, 2)]


def test_rule_05_revisions_follow_events_below_the_horizon() -> None:
    op = operator(sw.tumbling(100), sw.tumbling(10), lateness=20)
    op.process({"t": [5, 95], "x": [1, 2]})
    op.advance(105)
    op.process({"t": [6], "x": [4]})
    (revised,) = op.advance(105)
    assert (revised.window, revised.values, revised.revision) == ("tumbling_100", {"x_sum": 7}, 1)
    assert op.late == [{"t": 6, "x": 4, "missed": ["tumbling_10"]}]


def test_the_names_of_windows_do_not_meet_a_column_of_that_name() -> None:
    op = operator(sw.tumbling(10, name="a"), sw.tumbling(100, name="b"))
    op.process({"t": [50], "x": [1], "missed": ["mine"]})
    op.advance(50)
    op.process({"t": [5], "x": [2], "missed": ["yours"]})
    assert op.late == [{"t": 5, "x": 2, "missed": "yours", "missed_": ["a"]}]
    again = sw.Operator.restore(op.snapshot())
    assert (again.late, again.stats.late_partly) == (op.late, 1)
    table = op.take_late()
    assert table is not None
    assert table.column_names == ["t", "x", "missed", "missed_"]


def test_an_event_that_no_instance_would_hold_is_not_late() -> None:
    op = operator(sw.sliding(2, every=5))
    op.process({"t": [20], "x": [1]})
    op.advance(20)
    op.process({"t": [3, 5], "x": [2, 4]})  # between two instances, and in a closed one
    assert (op.late, op.stats.late_dropped) == ([{"t": 5, "x": 4}], 1)


def test_windows_share_slices_until_a_late_event_comes_to_them() -> None:
    op = operator(sw.tumbling(50), sw.session(5), sw.session(10), emit="final")
    op.process({"t": [10, 20], "x": [1, 2]})
    op.advance(18)
    assert len(op.parts.slices.groups) == 1
    op.process({"t": [2], "x": [8]})
    assert op.plan.combined is False
    assert "has its own slices" in op.explain()
    assert shown(op.advance(math.inf)) == [
        ("tumbling_50", 0, 50, 11),
        ("session_5", 20, 25, 2),
        ("session_10", 2, 30, 11),
    ]


def test_rows_that_a_late_event_may_come_between_go_when_their_windows_close() -> None:
    for window in (sw.tumbling(1000), sw.session(3)):
        op = operator(window, aggs=[sw.agg.last("x")], by="k")
        most = 0
        for begin in range(0, 60_000, 500):
            times = np.arange(begin, begin + 500) // 10 * 10
            op.process({"t": times, "k": np.arange(500) % 7, "x": times})
            op.advance(begin + 400)
            most = max(most, op.stats.stored_rows)
        assert most < 12_000
        assert len(op.snapshot()) < 40_000


@pytest.mark.parametrize("emit", ["on_close", "final"])
def test_rule_05_many_keys_by_time_with_snapshots_in_between(emit: Any) -> None:
    random = np.random.default_rng(5)
    made: dict[str, Any] = {"windows": [sw.tumbling(90), sw.sliding(60, every=20), sw.session(7)]}
    made |= {"aggs": [sw.agg.sum("x"), sw.agg.count()], "time": "t", "by": "k", "emit": emit}
    op, oracle = sw.Operator(**made), Oracle(**made)
    for number in range(3):
        times = 100 * number + random.integers(-80, 100, 4200)
        batch = {"t": times, "k": random.integers(0, 300, 4200), "x": random.integers(0, 9, 4200)}
        with tuned(keys_by_time=256), paths_taken() as taken:
            op.process(batch)
        assert taken["bands"]
        oracle.process(batch)
        if number == 1:
            op = sw.Operator.restore(op.snapshot())
        assert_same_rows(op.advance(100 * number + 60), oracle.advance(100 * number + 60))
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))
    assert op.stats.late_partly == len(oracle.partly) > 0
    assert op.stats.late_dropped == len(oracle.late)
