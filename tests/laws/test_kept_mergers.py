"""Mergers that an operator keeps between watermarks: the same answers, for fewer combines."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.mergers import CATALOGUE
from slicewise.slicing.edges.chunks import chunk_sizes
from slicewise.slicing.families.family import WindowEntry
from slicewise.testing import paths_taken
from slicewise.tuning import tuned
from slicewise.windows import Window

MERGERS = [name for name, entry in CATALOGUE.items() if entry.compiled]
SHARED = [name for name in MERGERS if CATALOGUE[name].suffixes]

# Batches of events around a watermark that moves on: late ones too, some of them beyond it.
events = st.tuples(st.integers(-15, 12), st.sampled_from("ab"), st.none() | st.integers(-9, 9))
batches = st.lists(st.tuples(st.lists(events, max_size=8), st.integers(0, 6)), max_size=14)


def run(
    batches: list[tuple[list[tuple[int, str, int | None]], int]], *, stop: bool = False, **made: Any
) -> list[Any]:
    """What an operator emits, batch by batch; with `stop` it goes on from a snapshot each time."""
    op, watermark = sw.Operator(time="t", by="k", **made), 0
    found: list[Any] = []
    for rows, step in batches:
        op.process([{"t": watermark + t, "k": k, "x": x} for t, k, x in rows])
        watermark += step
        found.append(sorted(map(repr, op.advance(watermark))))
        if stop:
            op = sw.Operator.restore(op.snapshot())
    found.append(sorted(map(repr, op.advance(math.inf))))
    return found


KINDS: dict[str, dict[str, Any]] = {
    "time": {"windows": [sw.sliding(9, every=2), sw.sliding(4, every=2), sw.cumulate(6, every=3)]},
    "one": {"windows": [sw.sliding(20, every=1)]},
    "late": {"windows": [sw.sliding(9, every=2), sw.tumbling(4)], "lateness": 8},
    "final": {"windows": [sw.sliding(9, every=3)], "lateness": 5, "emit": "final"},
    "updates": {"windows": [sw.sliding(9, every=3)], "lateness": 5, "emit": "on_update"},
    "sessions": {"windows": [sw.session(3), sw.sliding(8, every=4)]},
    "rows": {
        "windows": [
            sw.sliding(sw.rows(5), every=sw.rows(2)),
            sw.sliding(sw.rows(3), every=sw.rows(1)),
            sw.sliding(sw.rows(4), every=3, name="last four"),
        ]
    },
    "late rows": {"windows": [sw.sliding(sw.rows(4), every=sw.rows(1))], "lateness": 9},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("merger", MERGERS)
def test_a_merger_that_is_kept_gives_the_same_answers(merger: str, kind: str) -> None:
    aggs = [sw.agg.sum("x"), sw.agg.count("x")]
    if CATALOGUE[merger].needs == "associative":
        aggs.append(sw.agg.last("x"))

    @settings(max_examples=8)
    @given(batches=batches, stop=st.booleans())
    def check(batches: Any, stop: bool) -> None:
        made = {"aggs": aggs, **KINDS[kind]}
        assert run(batches, merger=merger, stop=stop, **made) == run(batches, **made)

    check()


@settings(max_examples=20)
@given(batches=batches, merger=st.sampled_from(["two_stacks", "flatfit"]))
def test_windows_may_come_and_go_while_mergers_are_kept(batches: Any, merger: str) -> None:
    answers = []
    for name in (None, merger):
        op = sw.Operator(
            windows=[sw.sliding(8, every=2)], aggs=[sw.agg.sum("x")], time="t", by="k", merger=name
        )
        found: list[str] = []
        watermark = 0
        for n, (rows, step) in enumerate(batches):
            op.process([{"t": watermark + t, "k": k, "x": x} for t, k, x in rows])
            if n == 2:
                op.add_window(sw.sliding(12, every=4))
            if n == 5:
                op.remove_window("sliding_8_2")
            watermark += step
            found += map(repr, op.advance(watermark))
        answers.append(found)
    assert answers[0] == answers[1]


def combines(windows: list[Window], merger: str | None, slides: int) -> int:
    """The combines of an operator that answers after each event."""
    op = sw.Operator(windows=windows, aggs=[sw.agg.count()], time="t", merger=merger)
    for t in range(slides):
        op.process({"t": [t]})
        op.advance(t + 1)
    return op.stats.combines


BOUNDS = {
    "flatfat": 3 * math.log2(256),  # a path is renewed, and two are read
    "bint": 2 * math.log2(256) + 1,
    "flatfit": 3,
    "two_stacks": 3,
    "two_stacks_lite": 3,
    "daba": 5,
    "daba_lite": 4,
    "sba": 3,
    "slick_deque": 2,
    "pba": 4,  # suffixes included, which another thread may make
}


@pytest.mark.parametrize("merger", BOUNDS)
def test_a_slide_costs_an_operator_what_the_paper_of_its_merger_says(merger: str) -> None:
    n, slides = 256, 1500
    assert combines([sw.sliding(n, every=1)], merger, slides) <= BOUNDS[merger] * slides


def test_without_a_merger_that_is_kept_a_slide_costs_the_whole_window() -> None:
    assert combines([sw.sliding(200, every=1)], None, 600) > 200 * 300


@pytest.mark.parametrize("merger", SHARED)
def test_windows_of_one_operator_share_one_merger(merger: str) -> None:
    windows = [sw.sliding(n, every=1) for n in (60, 120, 180, 240)]
    alone = [combines([window], merger, 1000) for window in windows]
    together = combines(windows, merger, 1000)
    assert together < sum(alone)
    if merger == "flatfit":
        assert together <= 6 * 1000 <= 0.6 * sum(alone)


LONG = sw.sliding(64, every=1)


def answers_of_pba(window: Window, **limits: Any) -> tuple[list[Any], int]:
    """What an operator answers after each event by PBA, and how often suffixes were made ahead."""
    found: list[Any] = []
    with tuned(**limits), paths_taken() as paths:
        op = sw.Operator(
            windows=[window], aggs=[sw.agg.max("x"), sw.agg.sum("x")], time="t", merger="pba"
        )
        for t in range(400):
            op.process({"t": [t], "x": [t * 7919 % 1009]})
            found += [list(result.values.values()) for result in op.advance(t + 1)]
    return found, paths["suffixes ahead"]


@pytest.mark.parametrize("window", [LONG, sw.sliding(sw.rows(64), every=sw.rows(1))], ids=repr)
def test_suffixes_are_made_between_watermarks_by_a_second_thread(window: Window) -> None:
    expected = answers_of_pba(window)
    assert expected[1] == 0
    alone = answers_of_pba(window, threads_length=8, processors=1)
    assert alone == expected
    found, ahead = answers_of_pba(window, threads_length=8, processors=2)
    assert (found, ahead > 300) == (expected[0], True)


@pytest.mark.parametrize(
    ("window", "unit", "size"),
    [
        (sw.sliding(sw.rows(32), every=sw.rows(1)), None, 17),  # Theorem 1, as in Section 5.1.1
        (sw.sliding(sw.rows(10), every=sw.rows(2)), None, 4),
        (sw.sliding(sw.units(32, on="km"), every=sw.units(1, on="km")), None, 17),
        (sw.sliding("1h", every="1s"), None, 3600),  # Theorem 2: a combine is short against that
        (sw.sliding(3600, every=1), "s", 3600),
        (sw.sliding(20, every=1), "ns", 11),  # a combine takes ten slides
        (sw.sliding(3600, every=1), None, 0),  # nobody said how long a slide is
        (sw.sliding(sw.rows(7), every=sw.rows(2)), None, 6),  # two slices a slide
        (sw.session(5), None, 0),
    ],
)
def test_chunks_have_the_size_of_the_theorem_that_fits(
    window: Window, unit: str | None, size: int
) -> None:
    assert chunk_sizes([WindowEntry(3, window)], unit) == ({3: size} if size else {})
    assert chunk_sizes([WindowEntry(3, window), WindowEntry(4, LONG)], unit) == {}


def test_a_late_event_costs_its_mergers_one_beginning() -> None:
    windows = [sw.sliding(100, every=1)]
    costs = []
    for late in (None, 450):
        op = sw.Operator(windows=windows, aggs=[sw.agg.count()], time="t", merger="two_stacks")
        for t in range(600):
            op.process({"t": [t]})
            if t == 500 and late is not None:
                op.process({"t": [late]})
            op.advance(t + 1)
        costs.append(op.stats.combines)
    assert 0 < costs[1] - costs[0] <= 4 * 100
