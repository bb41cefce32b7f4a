"""The decisions of Scotty, Figures 4 to 6, for every kind of window, order and aggregate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import pytest

import slicewise as sw
from slicewise.windows import Window


class Every(sw.UserWindow):
    """Each event is an instance of its own."""

    opened = 0

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        ends, self.opened = self.opened, 1
        return 1, ends


class Newest(sw.Aggregate):
    """The sum and what came last: it inverts but does not commute."""

    name = "newest"
    compile = False

    def identity(self) -> Any:
        return (0, None)

    def lift(self, value: Any) -> Any:
        return (value, value)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] if newer[1] is None else newer[1])

    def invert(self, total: Any, oldest: Any) -> Any:
        return (total[0] - oldest[0], total[1])

    def lower(self, state: Any) -> Any:
        return state[0]


# The classes of Scotty, Section 4.4: context free, session, forward context free, forward aware.
WINDOWS: dict[str, tuple[Window, str]] = {
    "tumbling": (sw.tumbling(10), "free"),
    "sliding": (sw.sliding(10, every=3), "free"),
    "cumulate": (sw.cumulate(10, every=2), "free"),
    "fixed": (sw.fixed(0, 10), "free"),
    "units": (sw.tumbling(sw.units(10, on="km")), "free"),
    "session": (sw.session(5), "session"),
    "bounded session": (sw.session(5, max_length=20), "forward free"),
    "rows": (sw.tumbling(sw.rows(4)), "forward free"),
    "sliding rows": (sw.sliding(sw.rows(4), every=sw.rows(2)), "forward free"),
    "time every rows": (sw.sliding(10, every=sw.rows(2)), "forward free"),
    "punctuated": (sw.punctuated("flag"), "forward free"),
    "threshold": (sw.threshold("flag"), "forward free"),
    "user": (Every(), "forward free"),
    "rows every time": (sw.sliding(sw.rows(4), every=10), "forward aware"),
}
COUNTS = ("rows", "sliding rows", "rows every time")
# Whether they commute and invert.
AGGREGATES = {
    (True, True): sw.agg.sum("x"),
    (True, False): sw.agg.max("x"),
    (False, True): Newest("x"),
    (False, False): sw.agg.first("x"),
}


class Stream(NamedTuple):
    ordered: bool
    emit: Any
    lateness: int
    revised: bool


STREAMS = {
    "in order": Stream(True, "on_close", 0, False),
    "in order, final": Stream(True, "final", 0, False),
    "out of order": Stream(False, "on_close", 0, False),
    "out of order, final": Stream(False, "final", 30, False),
    "out of order, late": Stream(False, "on_close", 30, True),
    "out of order, early": Stream(False, "on_update", 0, True),
}

# User windows are not revised, and refused when they would have to be.
CASES = [(k, n) for k in WINDOWS for n in STREAMS if k != "user" or not STREAMS[n].revised]


def operator(*windows: Window, aggs: Any = None, **made: Any) -> sw.Operator:
    return sw.Operator(windows=windows, aggs=aggs or [sw.agg.sum("x")], time="t", **made)


def planned(kind: str, powers: tuple[bool, bool], stream: Stream) -> tuple[bool, bool, str]:
    """Rows, splits and removals as in the figures; events that wait come in order."""
    context = WINDOWS[kind][1]
    commutes, inverts = powers
    aware = context == "forward aware"
    driven = context not in ("free", "session")
    rows = aware if stream.ordered else not commutes or driven
    splits = driven if stream.revised else aware
    shifts = kind in COUNTS and stream.revised
    return rows, splits, ("invert" if inverts else "recompute") if shifts else "never"


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_rows_splits_and_removals_are_decided_as_in_the_figures(kind: str, name: str) -> None:
    stream = STREAMS[name]
    for powers, aggregate in AGGREGATES.items():
        op = operator(
            WINDOWS[kind][0],
            aggs=[aggregate],
            ordered=stream.ordered,
            emit=stream.emit,
            lateness=stream.lateness,
        )
        found = op.plan.stores_rows, op.plan.splits, op.plan.removes
        assert found == planned(kind, powers, stream), powers


@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case[0] != "units"])
def test_rows_are_kept_when_the_plan_says_so(kind: str, name: str) -> None:
    stream = STREAMS[name]
    times = [2, 5, 8] if stream.ordered else [8, 2, 5]
    for aggregate in (sw.agg.sum("x"), sw.agg.first("x")):
        op = operator(
            WINDOWS[kind][0],
            aggs=[aggregate],
            ordered=stream.ordered,
            emit=stream.emit,
            lateness=stream.lateness,
        )
        op.process({"t": times, "x": [1, 2, 3], "flag": [False, False, True]})
        op.advance(0)
        # In order, an event may wait for others of its time.
        assert (op.stats.stored_rows > 1) == op.plan.stores_rows


def test_several_windows_and_aggregates_need_what_one_of_them_needs() -> None:
    needs: list[tuple[Any, Any, Any]] = [
        ([sw.tumbling(10), sw.session(5)], ["sum", "max"], (False, False, "never")),
        ([sw.tumbling(10), sw.punctuated("flag")], ["sum", "max"], (True, True, "never")),
        ([sw.tumbling(10), sw.tumbling(sw.rows(2))], ["sum", "count"], (True, True, "invert")),
        ([sw.tumbling(10), sw.tumbling(sw.rows(2))], ["sum", "max"], (True, True, "recompute")),
        ([sw.tumbling(10), sw.session(5)], ["sum", "first"], (True, False, "never")),
    ]
    for windows, names, expected in needs:
        aggs = [getattr(sw.agg, name)("x") for name in names]
        plan = operator(*windows, aggs=aggs, lateness=5).plan
        assert (plan.stores_rows, plan.splits, plan.removes) == expected


WORDS = {
    ("rows", 0): "no slice is ever cut; no event ever leaves a slice",
    ("rows", 5): "slices may be cut by late events; a late event shifts rows",
    ("punctuated", 0): "no slice is ever cut; no event ever leaves a slice",
    ("punctuated", 5): "slices may be cut by late events; no event ever leaves a slice",
    ("rows every time", 0): "slices are cut where windows turn out to begin; no event ever leaves",
    ("rows every time", 5): "slices may be cut by late events; a late event shifts rows",
    ("session", 5): "no slice is ever cut; no event ever leaves a slice",
}


@pytest.mark.parametrize(("kind", "lateness"), WORDS)
def test_the_decisions_are_said_in_words(kind: str, lateness: int) -> None:
    said = operator(WINDOWS[kind][0], lateness=lateness).explain()
    assert f"Changes: {WORDS[kind, lateness]}" in said


def test_the_plan_adapts_when_windows_come_and_go() -> None:
    op = operator(sw.tumbling(10), lateness=5)
    plain = op.plan
    assert (plain.stores_rows, plain.splits, plain.removes, plain.store) == (
        False,
        False,
        "never",
        "lazy",
    )
    op.process({"t": [1, 2], "x": [1, 2]})
    op.add_window(sw.tumbling(sw.rows(2), name="pairs"))
    assert (op.plan.stores_rows, op.plan.splits, op.plan.removes) == (True, True, "invert")
    assert "pairs depend on the events themselves" in op.explain()
    op.process({"t": [4, 3, 12], "x": [4, 8, 16]})
    assert op.advance(5) != []
    assert op.stats.stored_rows > 0
    op.add_window(sw.sliding(5000, every=1, name="long"))
    assert op.plan.store == "eager"
    assert "Merging: eager" in op.explain()
    op.remove_window("long")
    op.remove_window("pairs")
    assert op.plan == plain
    op.advance(6)
    assert op.stats.stored_rows == 0
    results = [(r.start, r.values["x_sum"]) for r in op.advance(math.inf)]
    assert results == [(0, 15), (10, 16)]


def test_the_store_follows_slices_sharing_and_aggregates() -> None:
    long, shorter = sw.sliding(1000, every=1), sw.sliding(500, every=1)
    rows = sw.sliding(sw.rows(1000), every=sw.rows(1))
    sharing = [sw.sliding(500 + k, every=1) for k in range(10)]
    shapes: list[tuple[list[Window], Any, str]] = [
        ([long], sw.agg.max("x"), "eager"),  # many slices
        ([rows], sw.agg.max("x"), "eager"),
        ([long], sw.agg.sum("x"), "lazy"),  # what inverts is cheap to combine
        ([sw.sliding(5000, every=1)], sw.agg.sum("x"), "eager"),
        ([shorter], sw.agg.max("x"), "lazy"),
        (sharing, sw.agg.max("x"), "eager"),  # slices that many windows ask for
        ([sw.sliding(1000, every=100)], sw.agg.max("x"), "lazy"),  # few slices
        ([sw.tumbling(n) for n in range(1, 50)], sw.agg.max("x"), "lazy"),
        ([sw.session(5), sw.punctuated("flag")], sw.agg.max("x"), "lazy"),  # a slice each
    ]
    for windows, aggregate, store in shapes:
        assert operator(*windows, aggs=[aggregate]).plan.store == store, windows


def test_what_is_given_stands_whatever_the_planner_would_choose() -> None:
    for window, store in product([sw.tumbling(10), sw.sliding(5000, every=1)], ["lazy", "eager"]):
        assert operator(window, store=store).plan.store == store
    assert operator(sw.sliding(5000, every=1), merger="daba").plan.store == "lazy"
