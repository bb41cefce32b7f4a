"""Stores and partials change what is kept and combined, and no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import CapabilityError
from slicewise.testing import Oracle, assert_same_rows, fold
from slicewise.testing.strategies import Row, Step, events, steps, windows
from slicewise.windows import Window

AGGREGATES: list[list[sw.Aggregate]] = [
    [sw.agg.sum("x"), sw.agg.count(), sw.agg.max("x")],
    [sw.agg.collect("x"), sw.agg.count("x")],
]
ways = st.fixed_dictionaries(
    {
        "store": st.sampled_from(["lazy", "eager"]),
        "partials": st.sampled_from([None, "cutty", "pairs", "panes"]),
    }
)


@given(windows(), st.sampled_from(AGGREGATES), steps(), ways, st.integers(0, 20))
def test_every_store_and_technique_emits_what_the_definitions_say(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], way: Any, lateness: int
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    made |= {"lateness": lateness, "emit": "final"}
    op, oracle = sw.Operator(**made, **way), Oracle(**made)
    for verb, given_ in script:
        if verb == "process":
            op.process(given_)
            oracle.process(given_)
        else:
            assert_same_rows(op.advance(given_), oracle.advance(given_))
    assert op.plan.store == way["store"]


@given(windows(), st.sampled_from(AGGREGATES), steps(ordered=True), ways)
def test_every_store_and_technique_answers_events_in_order(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], way: Any
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "ordered": True}
    op, oracle = sw.Operator(**made, **way), Oracle(**made)
    for verb, given_ in script:
        if verb == "process":
            assert_same_rows(op.process(given_) or [], oracle.process(given_) or [])
        else:
            assert_same_rows(op.advance(given_), oracle.advance(given_))


@given(events(), ways, st.integers(0, 40))
def test_a_snapshot_goes_on_with_its_store_and_technique(
    rows: list[Row], way: Any, cut: int
) -> None:
    defined = [sw.sliding(9, every=4), sw.session(3), sw.sliding(sw.rows(3), every=sw.rows(2))]
    op = sw.Operator(windows=defined, aggs=AGGREGATES[0], time="t", by="k", **way)
    op.process(rows[:cut])
    op.advance(5)
    again = sw.Operator.restore(op.snapshot())
    assert (again.plan.store, again.plan.partials) == (op.plan.store, op.plan.partials)
    answers = []
    for one in (op, again):
        one.process(rows[cut:])
        answers.append(fold(one.advance(10**9)))
    assert answers[0] == answers[1]


def fed(window: Window, batch: int = 500, **options: Any) -> sw.Operator:
    op = sw.Operator(windows=[window], aggs=[sw.agg.sum("x")], time="t", ordered=True, **options)
    for begin in range(0, 6000, batch):
        op.process({"t": np.arange(begin, begin + batch), "x": np.ones(batch)})
    return op


@pytest.mark.parametrize(
    "window",
    [sw.sliding(1000, every=300), sw.sliding(sw.rows(1000), every=sw.rows(300))],
    ids=["time", "rows"],
)
def test_cutty_keeps_a_slice_for_each_begin_pairs_for_each_end_too(window: Window) -> None:
    slices = {p: fed(window, partials=p).stats.slices for p in ("cutty", "pairs", "panes")}
    assert slices["cutty"] < slices["pairs"] < slices["panes"]


def test_a_tree_answers_long_windows_with_few_combines() -> None:
    window = sw.sliding(2000, every=10)
    lazy, eager = (fed(window, 10, store=s).stats.combines for s in ("lazy", "eager"))
    assert eager < lazy / 2


def test_the_planner_takes_a_tree_for_windows_of_many_slices() -> None:
    def store(*defined: Window) -> str:
        return sw.Operator(windows=defined, aggs=[sw.agg.max("x")], time="t").plan.store

    assert store(sw.tumbling(10)) == "lazy"
    assert store(sw.sliding(60, every=10)) == "lazy"
    assert store(sw.sliding(3600, every=1)) == "eager"
    assert store(sw.session(10)) == "lazy"


def test_pairs_plus_is_pairs_with_a_tree() -> None:
    op = sw.Operator(
        windows=[sw.sliding(10, every=3)], aggs=[sw.agg.sum("x")], time="t", partials="pairs+"
    )
    assert op.plan.store == "eager"
    assert "Partials: pairs+." in op.explain()
    assert "Merging: eager" in op.explain()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "greedy"}, r"`store` is one of 'lazy', 'eager'; given: 'greedy'"),
        ({"partials": "panels"}, r"`partials` is one of .*; given: 'panels'"),
        ({"store": "eager", "merger": "sba"}, r"eager store merges by its own trees.*'sba'"),
        ({"partials": "pairs+", "store": "lazy"}, r"'pairs\+'` is Pairs with an eager store"),
    ],
)
def test_ways_that_there_are_not_are_refused(options: Any, message: str) -> None:
    with pytest.raises(CapabilityError, match=message):
        sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", **options)
