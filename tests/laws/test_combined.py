"""Windows of time and sessions that share slices, cut at the edges of both (Scotty, Section 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle
from slicewise.testing.strategies import KINDS, Step, steps
from slicewise.tuning import active, tuned
from slicewise.windows import Window
from tests.support.changes import MODES, check, scripts
from tests.support.operators import assert_follows

AGGS = [sw.agg.sum("x"), sw.agg.count()]
FREE = ("tumbling", "sliding", "cumulate", "fixed")
GAPS = st.integers(1, 6)


@st.composite
def beside_sessions(draw: st.DrawFn) -> list[Window]:
    """Windows of time and sessions, at least one of each."""
    drawn = draw(st.lists(st.sampled_from(FREE), min_size=1, max_size=3))
    free = [draw(KINDS[kind](f"{kind}_{k}")) for k, kind in enumerate(drawn)]
    gaps = draw(st.lists(GAPS, min_size=1, max_size=2))
    return [*free, *(sw.session(gap, name=f"session_{k}") for k, gap in enumerate(gaps))]


def together(op: sw.Operator) -> Any:
    """The only slice group of an operator, which all its windows share."""
    assert [group.kind for group in op.plan.groups] == ["sessions"]
    (group,) = op.parts.slices.groups.values()
    return group


def slices(op: sw.Operator) -> list[tuple[int, int]]:
    """The first and last event of each slice of the only key."""
    runs = together(op).runs
    slots = runs.slot[runs.places(np.zeros(1, np.int64))]
    return list(zip(runs.first[slots].tolist(), runs.last[slots].tolist(), strict=True))


@pytest.fixture(params=["by search", "put in order"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each of the ways in which events that are not in order find their slices."""
    moves = 0 if request.param == "put in order" else active().moves_per_event
    with tuned(moves_per_event=moves):
        yield


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_answers_are_what_the_definitions_say(mode: tuple[Any, int]) -> None:
    @settings(max_examples=50)
    @given(beside_sessions(), steps(keys=("a",), max_size=40), st.sampled_from(["lazy", "eager"]))
    def follows(defined: list[Window], script: list[Step], store: Any) -> None:
        made: Any = {"windows": defined, "aggs": AGGS, "time": "t", "emit": mode[0]}
        op = sw.Operator(**made, lateness=mode[1], store=store)
        assert_follows(op, Oracle(**made, lateness=mode[1]), script)
        if (
            op.parts.slices.groups and not op.parts.slices.apart
        ):  # a late event gives each window its own slices
            together(op)

    follows()


@given(beside_sessions(), steps(), st.sampled_from([("on_close", 9), ("on_update", 9)]))
def test_keys_whose_results_may_be_revised_share_slices_too(
    defined: list[Window], script: list[Step], mode: tuple[Any, int]
) -> None:
    made: Any = {"windows": defined, "aggs": AGGS, "time": "t", "by": "k", "emit": mode[0]}
    op = sw.Operator(**made, lateness=mode[1])
    assert op.plan.combined
    assert_follows(op, Oracle(**made, lateness=mode[1]), script)


@given(beside_sessions(), steps(ordered=True, keys=("a",)))
def test_events_in_order_give_what_the_definitions_say(
    defined: list[Window], script: list[Step]
) -> None:
    for aggs in (AGGS, [sw.agg.first("x"), sw.agg.concat("s")]):
        made: Any = {"windows": defined, "aggs": aggs, "time": "t", "ordered": True}
        op = sw.Operator(**made)
        assert op.plan.combined
        assert_follows(op, Oracle(**made), script)


@given(beside_sessions(), scripts([*FREE, "session"]), st.sampled_from(MODES))
def test_windows_come_and_go(
    defined: list[Window], script: list[Any], mode: tuple[Any, int]
) -> None:
    made: Any = {"windows": defined, "aggs": AGGS, "by": None, "emit": mode[0], "lateness": mode[1]}
    check(made, script)


@pytest.mark.parametrize("chance", range(20))
def test_many_events_in_no_order_give_what_windows_apart_give(chance: int) -> None:
    random = np.random.default_rng(chance)
    size = 3000
    times = random.integers(0, random.choice([300, 3000, 30_000]), size)
    table = {"t": times, "x": random.integers(0, 9, size), "k": np.zeros(size)}
    gap, length = (int(n) for n in random.integers(1, 60, 2))
    windows: Any = [sw.tumbling(length), sw.sliding(100, every=30), sw.session(gap)]
    shared = sw.Operator(windows=windows, aggs=AGGS, time="t")
    apart = sw.Operator(windows=windows, aggs=AGGS, time="t", by="k")
    assert (shared.plan.combined, apart.plan.combined) == (True, False)
    for part in np.array_split(np.arange(size), 4):
        for op in (shared, apart):
            op.process({name: values[part] for name, values in table.items()})
    expected = [replace(result, key=None) for result in apart.advance(math.inf)]
    assert shared.advance(math.inf) == expected


def test_slices_are_cut_at_the_edges_of_both() -> None:
    """The example of Scotty's Figure 11: sessions of gap 4 beside windows of length 3."""
    op = sw.Operator(windows=[sw.tumbling(3), sw.session(4)], aggs=AGGS, time="t")
    op.process({"t": [0, 2, 4, 5, 11, 17, 18], "x": [1] * 7})
    # Fixed edges at 3 and 18, flexible ones before 11 and 17.
    assert slices(op) == [(0, 2), (4, 5), (11, 11), (17, 17), (18, 18)]
    op.process({"t": [9], "x": [1]})  # extends the session of 11 to the front, over an edge ...
    assert slices(op) == [(0, 2), (4, 5), (9, 11), (17, 17), (18, 18)]
    op.process({"t": [1, 16, 14], "x": [1] * 3})  # ... and all of it becomes one session
    assert slices(op) == [(0, 2), (4, 5), (9, 11), (14, 14), (16, 17), (18, 18)]
    found = [(r.start, r.end, r.values["count"]) for r in op.advance(50) if "session" in r.window]
    assert found == [(0, 22, 11)]


def test_an_event_fuses_slices_that_no_edge_parts() -> None:
    op = sw.Operator(windows=[sw.tumbling(100), sw.session(4)], aggs=AGGS, time="t")
    op.process({"t": [90, 98, 101], "x": [1, 2, 4]})
    assert slices(op) == [(90, 90), (98, 98), (101, 101)]
    op.process({"t": [94], "x": [8]})
    assert slices(op) == [(90, 98), (101, 101)]
    assert [(r.window, r.start, r.values["x_sum"]) for r in op.advance(math.inf)] == [
        ("tumbling_100", 0, 11),
        ("tumbling_100", 100, 4),
        ("session_4", 90, 15),
    ]


@pytest.mark.parametrize("lateness", [0, 50])
def test_a_session_without_end_keeps_one_slice_of_what_lies_behind(lateness: int) -> None:
    windows = [sw.sliding(20, every=5), sw.session(10)]
    op = sw.Operator(windows=windows, aggs=AGGS, time="t", lateness=lateness)
    for begin in range(0, 50_000, 100):
        times = np.arange(begin, begin + 100, 2)
        op.process({"t": times, "x": np.ones(len(times))})
        op.advance(begin + 90)
        assert op.stats.slices <= 2 * (100 + 20 + lateness) // 5
    (session,) = [r for r in op.advance(math.inf) if r.window == "session_10"]
    assert (session.start, session.end, session.values["count"]) == (0, 50_008, 25_000)


def test_an_event_is_added_once() -> None:
    """Apart, it is added to a slice of each."""
    windows: Any = [sw.tumbling(1000), sw.session(5)]
    shared = sw.Operator(windows=windows, aggs=AGGS, time="t")
    keyed = sw.Operator(windows=windows, aggs=AGGS, time="t", by="k")
    assert (shared.plan.combined, keyed.plan.combined) == (True, False)
    table = {"t": np.arange(20_000), "x": np.ones(20_000), "k": np.zeros(20_000)}
    for op in (shared, keyed):
        op.process(table)
        op.advance(math.inf)
    assert shared.stats.combines < 20_100 < 39_900 < keyed.stats.combines


def test_a_snapshot_from_before_goes_on_apart() -> None:
    """What an operator keeps is as its snapshot says, whatever the planner would choose now."""
    windows: Any = [sw.tumbling(10), sw.session(5)]
    op = sw.Operator(windows=windows, aggs=AGGS, time="t")
    assert op.plan.combined
    op.parts.slices.combined = False
    op.parts.slices.replan()
    op.process({"t": [1, 12, 14], "x": [1, 2, 4]})
    again = sw.Operator.restore(op.snapshot())
    assert (again.plan.combined, len(again.parts.slices.groups)) == (False, 2)
    op.process({"t": [22], "x": [8]})
    again.process({"t": [22], "x": [8]})
    assert again.advance(math.inf) == op.advance(math.inf)


def test_explaining_names_edges_and_gaps() -> None:
    op = sw.Operator(windows=[sw.tumbling(10), sw.session(5)], aggs=AGGS, time="t")
    said = op.explain()
    assert (
        "tumbling_10, session_5: share slices, cut where events are more than 5 apart and at "
        "edges every 10 from 0." in said
    )
    op.process({"t": [1], "x": [1]})
    assert "Memory of time and sessions: " in op.explain()
    op.remove_window("session_5")
    assert "tumbling_10: has its own slices, cut at edges every 10 from 0." in op.explain()
