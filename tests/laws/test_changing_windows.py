"""Windows added and removed while an operator runs, with snapshots in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import assert_same_rows
from slicewise.testing.strategies import KINDS
from slicewise.windows import Window
from tests.support.changes import MODES, TIMED, Add, Remove, Watched, check, scripts, windows_of
from tests.support.operators import aggregates, without_retracted_values


@given(windows_of(TIMED, "v"), aggregates, scripts(TIMED), st.sampled_from(MODES))
def test_windows_come_and_go_as_the_definitions_say(
    window: Window, aggs: list[sw.Aggregate], script: list[Any], mode: tuple[Any, int]
) -> None:
    emit, lateness = mode
    if isinstance(window, sw.UserWindow):
        emit = "final"
    made = {"windows": [window], "aggs": aggs, "by": "k", "emit": emit, "lateness": lateness}
    check(made, script)


FREE = ["tumbling", "sliding", "cumulate", "fixed"]


@given(windows_of(FREE, "v"), aggregates, scripts(FREE), st.sampled_from(MODES))
def test_context_free_windows_come_and_go_as_the_definitions_say(
    window: Window, aggs: list[sw.Aggregate], script: list[Any], mode: tuple[Any, int]
) -> None:
    made = {"windows": [window], "aggs": aggs, "by": "k", "emit": mode[0], "lateness": mode[1]}
    check(made, script)


UNITS = [kind for kind in KINDS if "units" in kind]


@given(aggregates, scripts(UNITS), st.sampled_from(MODES))
def test_windows_over_a_column_come_and_go_beside_another_one(
    aggs: list[sw.Aggregate], script: list[Any], mode: tuple[Any, int]
) -> None:
    stays = sw.tumbling(sw.units(4, on="km"), name="stays")
    script = [step for step in script if not isinstance(step, Remove) or step.which]
    made = {"windows": [stays], "aggs": aggs, "by": "k", "emit": mode[0], "lateness": mode[1]}
    check(made, script)


def test_a_count_of_rows_that_is_added_begins_behind_the_newest_event() -> None:
    made = {"windows": [sw.tumbling(50)], "aggs": [sw.agg.count()], "by": "k", "emit": "final"}
    rows = [{"k": "a", "t": t} for t in (13, 13, 13, 14, 20)]
    counted = [sw.tumbling(sw.rows(1), name="w"), sw.sliding(sw.rows(2), every=10, name="x")]
    script = [("process", rows[:1]), *map(Add, counted), ("process", rows[1:]), ("advance", 90)]
    check(made | {"lateness": 0}, script)
    watched = Watched(time="t", **made, lateness=0)
    for step in script[:-1]:
        watched.step(step) if isinstance(step, tuple) else watched.change(step)
    found = [
        (r.window, r.start, r.end) for r in watched.op.advance(90) if r.window != "tumbling_50"
    ]
    assert found == [("w", 2, 3), ("w", 3, 4), ("x", 14, 30)]


def test_an_instance_whose_rows_now_begin_before_the_window_is_retracted() -> None:
    # Row 0 was the event at 14; a late event at 7 takes its place, from before the window came.
    made: Any = {"windows": [sw.tumbling(50)], "aggs": [sw.agg.sum("x")], "by": "k"}
    watched = Watched(time="t", **made, emit="on_update", lateness=3)
    watched.step(("process", [{"k": "a", "t": 2, "x": 1}]))
    watched.step(("advance", 9))
    watched.change(Add(sw.sliding(sw.rows(5), every=8, name="last")))
    watched.step(("process", [{"k": "a", "t": 14, "x": 2}]))
    watched.step(("advance", 9))
    watched.step(("process", [{"k": "a", "t": 7, "x": 4}]))
    found = watched.op.advance(9)
    assert [(r.start, r.end) for r in found if r.retracted] == [(14, 16)]
    expected = [*watched.oracle.advance(9), *watched.oracles["last"].advance(9)]
    assert_same_rows(without_retracted_values(found), without_retracted_values(expected))
