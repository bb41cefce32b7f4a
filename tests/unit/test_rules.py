"""One small, readable case for each rule of the semantics; the laws try the rest at random.

The names cite the rules by number. Rules 5 (late events) and 13 (ties) have files of their own.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import slicewise as sw


def opened(*windows: Any, aggs: Any = None, **settings: Any) -> sw.Operator:
    """An operator that counts and adds up `x`."""
    chosen = [sw.agg.count(), sw.agg.sum("x")] if aggs is None else aggs
    return sw.Operator(windows=windows, aggs=chosen, time="t", **settings)


def bounds(results: list[Any]) -> list[tuple[int, int]]:
    return [(result.start, result.end) for result in results]


def test_rule_01_intervals_are_half_open_and_aligned_to_the_origin() -> None:
    #   -10        0        10       20
    #    |----a----|b-------c|--------|     a = -1, b = 0, c = 9 and 10 opens the next one
    table: dict[str, Any] = {"t": [-1, 0, 9, 10], "x": [1, 1, 1, 1]}
    found: Any = sw.windowed(table, time="t", windows=sw.tumbling(10), aggs=sw.agg.count())
    assert list(zip(found["start"], found["end"], found["count"], strict=True)) == [
        (-10, 0, 1),
        (0, 10, 2),
        (10, 20, 1),
    ]
    moved = sw.windowed(table, time="t", windows=sw.tumbling(10, origin=3), aggs=sw.agg.count())
    assert moved["start"] == [-7, 3]


def test_rule_02_a_window_closes_at_its_end_and_a_session_after_its_gap() -> None:
    op = opened(sw.tumbling(10), sw.session(5))
    op.process({"t": [3], "x": [1]})
    assert op.advance(8) == []  # an event at 8 would still join the session
    assert bounds(op.advance(9)) == [(3, 8)]
    assert bounds(op.advance(10)) == [(0, 10)]


@pytest.mark.parametrize("times", [[0, 5, 11], [11, 5, 0], [5, 11, 0]])
def test_rule_03_sessions_join_events_at_exactly_the_gap_in_any_order(times: list[int]) -> None:
    table: dict[str, Any] = {"t": times, "x": [1] * 3}
    found: Any = sw.windowed(table, time="t", windows=sw.session(5), aggs=sw.agg.count())
    assert (found["start"], found["end"], found["count"]) == ([0, 11], [10, 16], [2, 1])


def test_rule_04_rows_are_counted_by_key_and_a_late_event_shifts_its_successors() -> None:
    op = opened(sw.tumbling(sw.rows(2)), aggs=[sw.agg.collect("x")], lateness=100)
    op.process({"t": [1, 3, 5, 7], "x": [1, 3, 5, 7]})
    assert [r.values["x_collect"] for r in op.advance(7)] == [[1, 3]]  # 7 itself is not below 7
    assert [r.values["x_collect"] for r in op.advance(8)] == [[5, 7]]
    op.process({"t": [2], "x": [2]})
    assert [(r.start, r.revision, r.values["x_collect"]) for r in op.advance(8)] == [
        (0, 1, [1, 2]),
        (2, 1, [3, 5]),
    ]


def test_rule_06_on_close_revises_what_changed_and_retracts_what_is_gone() -> None:
    op = opened(sw.session(5), lateness=100)
    op.process({"t": [0, 9, 50], "x": [1, 2, 4]})
    assert bounds(op.advance(60)) == [(0, 5), (9, 14), (50, 55)]
    op.process({"t": [4], "x": [8]})  # joins the first two, and leaves the third alone
    changed = op.advance(60)
    assert [(r.start, r.end, r.retracted) for r in changed] == [
        (0, 5, True),
        (9, 14, True),
        (0, 14, False),
    ]
    assert changed[-1].values == {"count": 3, "x_sum": 11}


def test_rule_06_final_waits_for_the_lateness_and_on_update_does_not_wait() -> None:
    final, early = (opened(sw.tumbling(10), lateness=5, emit=e) for e in ("final", "on_update"))
    for op in (final, early):
        op.process({"t": [1], "x": [1]})
    assert (final.advance(14), bounds(final.advance(15))) == ([], [(0, 10)])
    assert [(r.revision, r.values["x_sum"]) for r in early.advance(1)] == [(0, 1)]
    early.process({"t": [2], "x": [1]})
    assert [(r.revision, r.values["x_sum"]) for r in early.advance(1)] == [(1, 2)]


def test_rule_07_empty_instances_are_not_emitted_and_a_gap_costs_nothing() -> None:
    op = opened(sw.sliding(10, every=1))
    op.process({"t": [0, 10**15], "x": [1, 1]})
    assert len(op.advance(math.inf)) == 20
    assert op.stats.combines < 100


def test_rule_08_nulls_are_skipped_nan_is_the_greatest_and_a_null_time_is_handed_out() -> None:
    aggs = [sw.agg.count(), sw.agg.count("x"), sw.agg.max("x"), sw.agg.min("x")]
    op = opened(sw.tumbling(10), aggs=aggs)
    op.process({"t": [1, 2, 3, None], "x": [None, math.nan, 1.0, 5.0]})
    [result] = op.advance(math.inf)
    assert (result.values["count"], result.values["x_count"], result.values["x_min"]) == (3, 2, 1)
    assert math.isnan(result.values["x_max"])
    assert op.stats.bad == 1
    assert [row["x"] for row in op.late] == [5.0]


def test_rule_09_float_sums_do_not_drift() -> None:
    values = [1e17, 1.0, 1.0, 1.0]
    assert sw.slide(values, sw.agg.sum(), 2) == [1e17, 1e17, 2.0, 2.0]
    table: dict[str, Any] = {"t": [0, 1, 2, 3], "x": values}
    assert sw.rolling(table, time="t", over=2, aggs=sw.agg.sum("x"))["x_sum_2"][2:] == [2.0, 2.0]


def test_rule_10_combining_respects_the_order_of_time_and_then_of_arrival() -> None:
    op = opened(sw.tumbling(10), aggs=[sw.agg.concat("s")])
    op.process({"t": [5, 1], "s": ["c", "a"]})
    op.process({"t": [5, 3], "s": ["d", "b"]})
    assert [r.values["s_concat"] for r in op.advance(10)] == ["abcd"]


def test_rule_11_a_table_ends_at_infinity_and_what_waits_for_rows_stays_open() -> None:
    table: dict[str, Any] = {"t": [1, 2, 3], "x": [1, 1, 1], "mark": [False, True, False]}
    windows = [
        sw.tumbling(10),
        sw.session(5),
        sw.tumbling(sw.rows(2)),
        sw.punctuated("mark"),
        sw.threshold("mark"),
    ]
    found: Any = sw.windowed(table, time="t", windows=windows, aggs=sw.agg.count())
    assert dict(zip(found["window"], found["count"], strict=True)) == {
        "tumbling_10": 3,
        "session_5": 3,
        "tumbling_2rows": 2,
        "punctuated_mark": 1,
        "threshold_mark": 1,
    }


def test_rule_12_any_batch_size_gives_the_same_rows() -> None:
    rows = [{"t": (7 * i) % 40, "x": i, "k": i % 3} for i in range(40)]
    windows = [sw.sliding(10, every=3), sw.session(2), sw.sliding(sw.rows(4), every=sw.rows(3))]
    aggs = [sw.agg.sum("x"), sw.agg.collect("x")]

    def answer(size: int) -> list[Any]:
        op = sw.Operator(windows=windows, aggs=aggs, time="t", by="k", emit="final")
        for start in range(0, len(rows), size):
            op.process(rows[start : start + size])
        found = op.advance(math.inf)
        return sorted(
            (r.key, r.window, r.start, r.end, tuple(r.values["x_collect"])) for r in found
        )

    assert answer(1) == answer(7) == answer(40)


def test_rule_16_few_keys_and_many_give_a_key_the_same_rows() -> None:
    """Many keys are kept side by side, few one by one: the way that is taken must not show."""
    ours = {"t": [1, 12, 5, 33], "x": [1.5, 2.5, 3.5, 4.5]}

    def answer(others: int) -> list[Any]:
        op = sw.Operator(
            windows=[sw.sliding(20, every=10), sw.session(8)],
            aggs=[sw.agg.sum("x"), sw.agg.max("x")],
            time="t",
            by="k",
            emit="final",
        )
        op.process({**ours, "k": [-1] * 4})
        op.process({"t": [7] * others, "x": [1.0] * others, "k": list(range(others))})
        return [(r.window, r.start, r.end, r.values) for r in op.advance(math.inf) if r.key == -1]

    assert answer(1) == answer(2_000)
