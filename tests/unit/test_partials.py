"""Plans of partials: the examples of the papers, and what is refused."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, WindowError
from slicewise.slicing.edges.partial_runs import count_combines, run_partials
from slicewise.slicing.edges.partials import TECHNIQUES, cutting, plan_partials

# Figure 7 of the Cutty paper: a count window of range 10 and slide 3.
#
# events   0 1 2 3 4 5 6 7 8 9 10 11 12
# windows  [-----------------)
#                [------------------)
# cutty    |     |     |     |        |      begins: 0 3 6 9 12
# pairs    | |   | |   | |   | |      |      begins, and ends 10 13 = 1 + 3 k
# panes    | | | | | | | | | | |  |   |      gcd(10, 3) = 1
FIGURE_7 = [sw.sliding(sw.rows(10), every=sw.rows(3), name="w")]


@pytest.mark.parametrize(
    ("technique", "edges", "fragments", "longest"),
    [
        ("cutty", (0,), (3,), 4),
        ("pairs", (0, 1), (1, 2), 7),
        ("pairs+", (0, 1), (1, 2), 7),
        ("panes", (0, 1, 2), (1, 1, 1), 10),
    ],
)
def test_figure_7_of_the_cutty_paper(
    technique: Any, edges: Any, fragments: Any, longest: int
) -> None:
    plan = plan_partials(FIGURE_7, technique)
    assert (plan.composite, plan.edges, plan.fragments) == (3, edges, fragments)
    assert plan.longest == longest
    assert plan.answers == {1: ("w",)}


def test_two_queries_share_the_edges_they_have_in_common() -> None:
    # Example 1 of the FlatFIT paper: 6 every 2 and 8 every 4; the composite slide is 4.
    windows = [sw.sliding(6, every=2, name="a"), sw.sliding(8, every=4, name="b")]
    for technique in ("cutty", "pairs", "pairs+", "panes"):
        plan = plan_partials(windows, technique)
        assert (plan.composite, plan.edges, plan.fragments) == (4, (0, 2), (2, 2))
        assert plan.answers == {0: ("a", "b"), 2: ("a",)}
        assert plan.longest == 4


def test_origins_shift_the_edges_and_narrow_the_panes() -> None:
    windows = [sw.tumbling(6, name="a"), sw.tumbling(6, origin=2, name="b")]
    assert plan_partials(windows).edges == (0, 2)
    assert plan_partials(windows, "panes").edges == (0, 2, 4)
    assert plan_partials(windows).answers == {0: ("a",), 2: ("b",)}


def test_only_eager_techniques_keep_a_tree() -> None:
    eager = [t for t in TECHNIQUES if plan_partials(FIGURE_7, t).eager]  # type: ignore[arg-type]
    assert eager == ["cutty", "pairs+"]


def test_a_composite_slide_without_end_is_asked_for_in_parts() -> None:
    primes = [9973, 9967, 9949, 9941]
    windows = [sw.tumbling(sw.rows(p), name=str(p)) for p in primes]
    plan = plan_partials(windows)
    assert plan.composite == int(np.prod(primes))
    assert plan.cuts(9000, 10_000).tolist() == sorted(primes)
    with pytest.raises(
        WindowError, match=r"too many to list. Ask for a part .* `cuts\(low, high\)`"
    ):
        _ = plan.edges


def test_a_window_with_gaps_is_cut_at_its_end_by_pairs_alone() -> None:
    # [0, 2) [5, 7) ...: Cutty's partial goes on to the next begin and is read as it stands.
    windows = [sw.sliding(sw.rows(2), every=sw.rows(5))]
    assert plan_partials(windows).fragments == (5,)
    assert plan_partials(windows, "pairs").fragments == (2, 3)
    found = run_partials(np.arange(12), sw.agg.sum(), windows)
    assert found.values.tolist() == [1, 11, 21]


def test_nulls_leave_no_trace_in_partials() -> None:
    values = pa.array([1, None, 3, None, None, 6])
    found = run_partials(values, sw.agg.sum(), [sw.tumbling(sw.rows(2))])
    assert found.values.tolist() == [1, 3, 6]
    found = run_partials(values, sw.agg.min(), [sw.sliding(sw.rows(2), every=sw.rows(3))])
    assert found.values.tolist() == [1, None]


def test_aggregates_of_two_columns_take_a_dict_of_columns() -> None:
    columns = {"p": np.array([1.0, 3.0, 5.0, 7.0]), "v": np.array([1.0, 3.0, 1.0, 1.0])}
    windows = [sw.tumbling(sw.rows(2))]
    found = run_partials(columns, sw.agg.weighted_mean("p", "v"), windows, technique="pairs")
    assert found.values.tolist() == [2.5, 6.0]


def test_cutty_makes_about_half_the_partials_of_pairs() -> None:
    random = np.random.default_rng(1)
    ranges, slides = random.integers(2000, 8001, 20) * 10, random.integers(100, 2001, 20) * 10
    windows = [
        sw.sliding(sw.rows(int(r)), every=sw.rows(int(s)), name=str(k))
        for k, (r, s) in enumerate(zip(ranges, slides, strict=True))
    ]
    cutty = count_combines(windows, 200_000)
    pairs = count_combines(windows, 200_000, technique="pairs+")
    lazy = count_combines(windows, 200_000, technique="pairs")
    assert 0.45 < cutty.partials / pairs.partials < 0.55
    assert 0.4 < cutty.peak / pairs.peak < 0.6
    assert cutty.combines < 0.85 * pairs.combines
    assert pairs.combines < 0.3 * lazy.combines


@pytest.mark.parametrize(
    ("windows", "technique", "text"),
    [
        ([], "cutty", "needs at least one window; given: none"),
        ([sw.tumbling(5)], "weave", "one of 'cutty', 'panes', 'pairs', 'pairs.'; given: 'weave'"),
        ([sw.session(5)], "cutty", "tumbling and sliding windows with lengths in whole numbers"),
        ([sw.tumbling(sw.units(0.5, on="km"))], "pairs", "lengths in whole numbers; given"),
        ([sw.tumbling(5), sw.tumbling(sw.rows(5))], "cutty", "one measure: time, rows, or one"),
    ],
)
def test_what_cannot_be_planned_is_refused(windows: Any, technique: Any, text: str) -> None:
    with pytest.raises(WindowError, match=text):
        plan_partials(windows, technique)
    with pytest.raises(WindowError, match=text):
        cutting(windows, technique)


@pytest.mark.parametrize("merger", ["two_stacks", "fiba", "tree"])
def test_a_merger_that_cannot_answer_for_newest_parts_is_refused(merger: str) -> None:
    text = f"'recalc', 'flatfat', 'bint', 'flatfit' can answer; given: '{merger}'"
    with pytest.raises(CapabilityError, match=text):
        run_partials(np.arange(5), sw.agg.sum(), FIGURE_7, merger=merger)
