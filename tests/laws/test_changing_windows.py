"""Windows added and removed while an operator runs, with snapshots in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.base import Aggregate
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import KINDS, Row, Step, events
from slicewise.windows import UserWindow, Window
from tests.laws.test_operator import aggregates, without_retracted_values

NAMES = ["v", "w", "x"]
TIMED = [kind for kind in KINDS if "units" not in kind]
MODES = [("final", 0), ("final", 9), ("on_close", 0), ("on_close", 9), ("on_update", 9)]


@dataclass(frozen=True)
class Add:
    window: Window


@dataclass(frozen=True)
class Remove:
    which: int


class Restore:
    pass


def windows_of(kinds: Sequence[str], name: str) -> st.SearchStrategy[Window]:
    return st.sampled_from(kinds).flatmap(lambda kind: KINDS[kind](name))


def scripts(kinds: Sequence[str]) -> st.SearchStrategy[list[Any]]:
    """Batches, watermarks and changes; events mostly come in order, or nothing new would show."""
    batches = events(max_size=30).map(lambda rows: nearly_sorted(rows))
    change = (
        st.sampled_from(NAMES).flatmap(lambda name: windows_of(kinds, name)).map(Add)
        | st.builds(Remove, st.integers(0, 2))
        | st.builds(Restore)
        | st.integers(-20, 55)
    )
    return st.tuples(batches, st.lists(st.tuples(st.integers(0, 30), change), max_size=10)).map(
        lambda drawn: woven(*drawn)
    )


def nearly_sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["t"] // 12)


def woven(rows: list[Row], changes: list[tuple[int, Any]]) -> list[Any]:
    """Steps: the events, cut where something else happens."""
    script: list[Any] = []
    done = 0
    for place, change in sorted(changes, key=lambda pair: pair[0]):
        if rows[done:place]:
            script.append(("process", rows[done:place]))
        done = max(done, place)
        script.append(("advance", change) if isinstance(change, int) else change)
    if rows[done:]:
        script.append(("process", rows[done:]))
    return [*script, ("advance", math.inf)]


class Watched:
    """An operator, and oracles for what it emits.

    A window that depends on the rows before it has an oracle of its own, which sees the events
    that come after the window.
    """

    def __init__(self, **made: Any) -> None:
        self.made = made
        self.op = sw.Operator(**made)
        self.oracles: dict[str, Oracle] = {}
        self.oracle = Oracle(**made)

    def change(self, change: Any) -> None:
        names = [window.name for window in self.op.windows]
        if isinstance(change, Restore):
            self.op = sw.Operator.restore(self.op.snapshot())
        elif isinstance(change, Add):
            if change.window.name not in names and self.takes(change.window):
                self.add(change.window)
        elif len(names) > 1:
            name = names[change.which % len(names)]
            self.op.remove_window(name)
            self.oracles.pop(name, self.oracle).remove_window(name)

    def takes(self, window: Window) -> bool:
        revises = self.made["emit"] == "on_update" or (
            self.made["emit"] == "on_close" and self.made["lateness"]
        )
        return not (revises and isinstance(window, UserWindow))

    def add(self, window: Window) -> None:
        since = self.op.add_window(window)
        begin = -math.inf if since is None else since
        oracle = self.oracle
        if since is not None and window.traits.needs_rows:
            oracle = self.oracles[window.name] = Oracle(**self.made | {"windows": []})
            oracle.watermark = self.oracle.watermark
        oracle.add_window(window, since=begin)

    def step(self, step: Step) -> None:
        verb, given_ = step
        ours: Any = getattr(self.op, verb)(given_) or []
        theirs = [
            row
            for oracle in [self.oracle, *self.oracles.values()]
            for row in getattr(oracle, verb)(given_) or []
        ]
        assert_same_rows(without_retracted_values(ours), without_retracted_values(theirs))


def check(made: Any, script: list[Any]) -> None:
    watched = Watched(time="t", **made)
    for step in script:
        if isinstance(step, tuple):
            watched.step(step)
        else:
            watched.change(step)


@given(windows_of(TIMED, "v"), aggregates, scripts(TIMED), st.sampled_from(MODES))
def test_windows_come_and_go_as_the_definitions_say(
    window: Window, aggs: list[Aggregate], script: list[Any], mode: tuple[Any, int]
) -> None:
    emit, lateness = mode
    if isinstance(window, UserWindow):
        emit = "final"
    made = {"windows": [window], "aggs": aggs, "by": "k", "emit": emit, "lateness": lateness}
    check(made, script)


FREE = ["tumbling", "sliding", "cumulate", "fixed"]


@given(windows_of(FREE, "v"), aggregates, scripts(FREE), st.sampled_from(MODES))
def test_context_free_windows_come_and_go_as_the_definitions_say(
    window: Window, aggs: list[Aggregate], script: list[Any], mode: tuple[Any, int]
) -> None:
    made = {"windows": [window], "aggs": aggs, "by": "k", "emit": mode[0], "lateness": mode[1]}
    check(made, script)


UNITS = [kind for kind in KINDS if "units" in kind]


@given(aggregates, scripts(UNITS), st.sampled_from(MODES))
def test_windows_over_a_column_come_and_go_beside_another_one(
    aggs: list[Aggregate], script: list[Any], mode: tuple[Any, int]
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
