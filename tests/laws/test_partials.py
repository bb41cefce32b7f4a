"""Every technique of partial aggregation gives what folding each window on its own gives."""

from math import gcd, lcm
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.slicing.edges.partial_runs import count_combines, run_partials, schedule
from slicewise.slicing.edges.partials import TECHNIQUES, plan_partials

sizes = st.integers(1, 12)
row_windows = st.lists(st.tuples(sizes, sizes), min_size=1, max_size=4).map(
    lambda pairs: [
        sw.sliding(sw.rows(length), every=sw.rows(every), name=str(k))
        for k, (length, every) in enumerate(pairs)
    ]
)
time_windows = st.lists(st.tuples(sizes, sizes, st.integers(-9, 9)), min_size=1, max_size=4).map(
    lambda triples: [
        sw.sliding(length, every=every, origin=origin, name=str(k))
        for k, (length, every, origin) in enumerate(triples)
    ]
)
techniques = st.sampled_from(TECHNIQUES)
mergers = st.sampled_from([None, "recalc", "flatfat", "bint", "flatfit"])


def brute_force(values: list[Any], windows: Any) -> dict[tuple[int, int], list[Any]]:
    return {
        (number, start): values[start:end]
        for number, window in enumerate(windows)
        for start, end in window.full(len(values))
    }


@given(windows=row_windows, technique=techniques, merger=mergers, rows=st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_partials_give_every_window_its_events_in_order(
    windows: Any, technique: Any, merger: Any, rows: int
) -> None:
    values = list(range(rows))
    found = run_partials(
        np.array(values), sw.agg.collect(), windows, technique=technique, merger=merger
    )
    answers = zip(found.window.tolist(), found.start.tolist(), found.values.tolist(), strict=True)
    assert {(w, s): value for w, s, value in answers} == brute_force(values, windows)
    assert found.end.tolist() == sorted(found.end.tolist())


@pytest.mark.parametrize("merger", ["recalc", "flatfat", "bint", "flatfit"])
@given(
    windows=row_windows,
    technique=techniques,
    values=st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=50),
)
@settings(max_examples=30, deadline=None)
def test_compiled_partials_give_the_same(
    merger: str, windows: Any, technique: Any, values: list[int]
) -> None:
    found = run_partials(
        np.array(values), sw.agg.sum(), windows, technique=technique, merger=merger
    )
    answers = zip(found.window.tolist(), found.start.tolist(), found.values.tolist(), strict=True)
    expected = {place: sum(events) for place, events in brute_force(values, windows).items()}
    assert {(w, s): value for w, s, value in answers} == expected


@given(windows=time_windows)
@settings(max_examples=200, deadline=None)
def test_plans_repeat_and_cut_where_the_technique_says(windows: Any) -> None:
    period = lcm(*(w.every for w in windows))
    begins = {(w.origin + k * w.every) % period for w in windows for k in range(period // w.every)}
    ends = {(b + w.length) % period for w in windows for b in _begins(w, period)}
    pane = gcd(
        *(n for w in windows for n in (w.length, w.every)),
        *(w.origin - windows[0].origin for w in windows),
    )
    expected = {
        "cutty": begins,
        "pairs": begins | ends,
        "pairs+": begins | ends,
        "panes": {(windows[0].origin + k * pane) % period for k in range(period // pane)},
    }
    for technique, edges in expected.items():
        plan = plan_partials(windows, technique)  # type: ignore[arg-type]  # a name of the list
        assert plan.composite == period
        assert plan.edges == tuple(sorted(edges))
        assert sum(plan.fragments) == period
        assert plan.partials == len(plan.fragments)
        assert set(plan.answers) == ends
        for window in windows:
            times = sum(window.name in names for names in plan.answers.values())
            assert times == period // window.every
    assert expected["cutty"] <= expected["pairs"] <= expected["panes"]


def _begins(window: Any, period: int) -> list[int]:
    return [window.origin + k * window.every for k in range(period // window.every)]


@given(length=st.integers(1, 200), every=st.integers(1, 200))
@settings(max_examples=200, deadline=None)
def test_one_window_needs_as_many_partials_as_the_papers_say(length: int, every: int) -> None:
    window = [sw.sliding(sw.rows(length), every=sw.rows(every))]
    cutty, pairs, panes = (plan_partials(window, t) for t in ("cutty", "pairs", "panes"))
    rest = length % every
    assert cutty.fragments == (every,)
    assert sorted(pairs.fragments) == sorted(f for f in (rest, every - rest) if f and f <= every)
    assert set(panes.fragments) == {gcd(length, every)}
    assert cutty.longest == -(-length // every) <= length // every + 1
    assert pairs.longest == length // every * len(pairs.fragments) + (rest > 0)
    assert panes.longest == length // gcd(length, every)


@given(windows=row_windows, technique=techniques, rows=st.integers(1, 80))
@settings(max_examples=100, deadline=None)
def test_a_lazy_store_combines_once_less_than_a_window_has_parts(
    windows: Any, technique: Any, rows: int
) -> None:
    plan = plan_partials(windows, technique)
    steps = schedule(plan, rows)
    parts = [
        int(np.sum((steps.bounds[:-1] < end) & (steps.bounds[1:] > start)))
        for start, end in zip(steps.start, steps.end, strict=True)
    ]
    counts = count_combines(windows, rows, technique=technique, merger="recalc")
    assert counts.combines == sum(n - 1 for n in parts)
    assert counts.partials == len(plan.cuts(0, rows))
    assert counts.peak <= max(1, min(plan.longest, counts.partials))
