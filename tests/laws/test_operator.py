"""The operator emits exactly what the definitions say, whatever comes in whatever order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows, fold
from slicewise.testing.oracle import alike
from slicewise.testing.strategies import KINDS, Row, Step, events, steps, windows
from slicewise.windows import Window
from tests.support.operators import AGGREGATES, aggregates, assert_follows, keys, revisable

# Which of the events of one time comes first decides what these hold, and user windows are not
# revised.
BY_ARRIVAL = (
    "tumbling_rows", "sliding_rows", "rows_every_time", "punctuated", "threshold", "delta",
    "user_counts", "user_data",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_window_alone_emits_what_it_is_defined_to(kind: str) -> None:
    @given(KINDS[kind]("w"), aggregates, keys, steps(), st.sampled_from(["on_close", "final"]))
    def check(
        window: Window, aggs: list[sw.Aggregate], by: Any, script: list[Step], emit: Any
    ) -> None:
        made = {"windows": [window], "aggs": aggs, "time": "t", "by": by, "emit": emit}
        assert_follows(sw.Operator(**made), Oracle(**made), script)

    check()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("user")])
def test_each_kind_of_window_alone_is_revised_and_answers_early(kind: str) -> None:
    @settings(max_examples=25)
    @given(
        KINDS[kind]("w"),
        aggregates,
        keys,
        steps(),
        st.integers(0, 30),
        st.sampled_from(["on_close", "on_update"]),
    )
    def check(
        window: Window,
        aggs: list[sw.Aggregate],
        by: Any,
        script: list[Step],
        lateness: int,
        emit: Any,
    ) -> None:
        made = {"windows": [window], "aggs": aggs, "time": "t", "by": by, "emit": emit}
        made["lateness"] = lateness
        assert_follows(sw.Operator(**made), Oracle(**made), script)

    check()


@given(windows(), aggregates, keys, steps(), st.integers(0, 30))
def test_mixed_windows_with_lateness_are_revised_and_retracted(
    defined: list[Window], aggs: list[sw.Aggregate], by: Any, script: list[Step], lateness: int
) -> None:
    made: dict[str, Any] = {"windows": revisable(defined), "aggs": aggs, "time": "t", "by": by}
    assert_follows(
        sw.Operator(**made, lateness=lateness), Oracle(**made, lateness=lateness), script
    )


@given(windows(), aggregates, steps(), st.integers(0, 30))
def test_early_results_come_whenever_something_changed(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], lateness: int
) -> None:
    made: dict[str, Any] = {"windows": revisable(defined), "aggs": aggs, "time": "t", "by": "k"}
    made |= {"lateness": lateness, "emit": "on_update"}
    assert_follows(sw.Operator(**made), Oracle(**made), script)


@given(windows(), aggregates, steps(), st.integers(0, 30))
def test_final_results_come_once(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], lateness: int
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    made |= {"lateness": lateness, "emit": "final"}
    assert_follows(sw.Operator(**made), Oracle(**made), script)


@given(windows(), aggregates, keys, steps(ordered=True), st.sampled_from(["on_close", "final"]))
def test_ordered_events_are_answered_as_they_come(
    defined: list[Window], aggs: list[sw.Aggregate], by: Any, script: list[Step], emit: Any
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": by}
    made |= {"ordered": True, "emit": emit}
    assert_follows(sw.Operator(**made), Oracle(**made), script)


# What the column of `units` may hold: fractions, nothing, NaN, and the same again and again.
KM: dict[str, Callable[[int, bool], Any]] = {
    "fractional": lambda t, chance: t / 4,
    "null": lambda t, chance: None if chance else t // 2,
    "nan": lambda t, chance: math.nan if chance else t / 2,
    "still": lambda t, chance: 7 if t > 0 else 3,
    "still_and_fractional": lambda t, chance: t // 10 + 0.5,
}


@pytest.mark.parametrize("drives", KM)
def test_windows_over_a_column_follow_whatever_it_holds(drives: str) -> None:
    @settings(max_examples=25)
    @given(
        windows([kind for kind in KINDS if kind.endswith("_units")], max_size=2),
        aggregates,
        steps(),
        st.sampled_from([("on_close", 0), ("on_close", 9), ("final", 9), ("on_update", 9)]),
    )
    def check(
        defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], how: tuple[Any, int]
    ) -> None:
        for _, given_ in script:
            for row in given_ if isinstance(given_, list) else ():
                row["km"] = KM[drives](row["t"], row["flag"])
        made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
        made |= {"emit": how[0], "lateness": how[1]}
        assert_follows(sw.Operator(**made), Oracle(**made), script)

    check()


@given(windows(), events(distinct_times=True), st.randoms(use_true_random=False), st.integers(1, 9))
def test_arrival_order_and_batch_size_do_not_change_the_answer(
    defined: list[Window], rows: list[Row], random: Any, size: int
) -> None:
    shuffled = random.sample(rows, len(rows))
    answers = []
    for arriving, step in ((rows, len(rows) + 1), (shuffled, size)):
        op = sw.Operator(
            windows=defined, aggs=AGGREGATES[2], time="t", by="k", emit="final", lateness=0
        )
        for begin in range(0, len(arriving), step):
            op.process(arriving[begin : begin + step])
        answers.append(fold(op.advance(math.inf)))
    assert answers[0] == answers[1]


@given(
    windows([kind for kind in KINDS if kind not in BY_ARRIVAL]),
    events(),
    st.randoms(use_true_random=False),
    st.integers(1, 9),
    st.integers(0, 60),
)
def test_ties_in_any_order_and_watermarks_in_between_give_the_same_for_what_commutes(
    defined: list[Window], rows: list[Row], random: Any, size: int, lateness: int
) -> None:
    shuffled = random.sample(rows, len(rows))
    answers = []
    for arriving, step in ((rows, len(rows) + 1), (shuffled, size)):
        op = sw.Operator(windows=defined, aggs=AGGREGATES[0], time="t", by="k", lateness=lateness)
        emitted = []
        for begin in range(0, len(arriving), step):
            op.process(arriving[begin : begin + step])
            # As far as no event that is still to come is lost, and past many of them.
            to_come = [row["t"] for row in arriving[begin + step :]]
            emitted += op.advance(min(to_come, default=50) + random.randint(0, lateness))
        answers.append(fold([*emitted, *op.advance(math.inf)]))
        assert op.stats.late_dropped == 0
    assert alike(answers[0], answers[1])


@given(windows(), steps(bounded=False), st.integers(0, 30))
def test_after_the_end_further_watermarks_return_nothing(
    defined: list[Window], script: list[Step], lateness: int
) -> None:
    op = sw.Operator(
        windows=revisable(defined), aggs=AGGREGATES[0], time="t", by="k", lateness=lateness
    )
    for verb, given_ in script:
        op.process(given_) if verb == "process" else op.advance(given_)
    op.advance(math.inf)
    assert op.advance(math.inf) == []
    assert op.advance(-5) == []
    assert op.stats.slices == 0


def test_many_windows_over_many_batches_share_a_list_of_edges() -> None:
    # More progressions than are worked out one by one, and batches that go past the list.
    lengths = range(7, 47)
    op = sw.Operator(
        windows=[sw.tumbling(length, name=str(length)) for length in lengths],
        aggs=[sw.agg.count()],
        time="t",
        emit="final",
    )
    results = []
    for begin in range(0, 2000, 50):
        op.process({"t": list(range(begin, begin + 50))})
        results += op.advance(begin + 50)
    results += op.advance(math.inf)
    found = {(r.window, r.start): r.values["count"] for r in results}
    expected = {
        (str(length), start): min(start + length, 2000) - start
        for length in lengths
        for start in range(0, 2000, length)
    }
    assert found == expected


MERGERS = [name for name, entry in sw.mergers.CATALOGUE.items() if entry.compiled]


@pytest.mark.parametrize("merger", MERGERS)
def test_every_merger_gives_the_same_answer(merger: str) -> None:
    aggs = [sw.agg.sum("x"), sw.agg.count()]
    defined = [sw.sliding(20, every=3), sw.cumulate(10, every=4), sw.session(2)]

    @given(events())
    def check(rows: list[Row]) -> None:
        answers = []
        for name in (None, merger):
            op = sw.Operator(windows=defined, aggs=aggs, time="t", by="k", merger=name)
            op.process(rows)
            answers.append(fold([*op.advance(10), *op.advance(math.inf)]))
        assert answers[0] == answers[1]

    check()


def test_rows_of_many_keys_grow_over_many_batches() -> None:
    # No row is evicted before the end, so every run moves and doubles several times.
    made: dict[str, Any] = {"windows": [sw.tumbling(10**9)], "aggs": [sw.agg.last("x")]}
    op = sw.Operator(**made, time="t", by="k", lateness=10**6)
    for batch in range(12):
        times = [batch * 1000 + i for i in range(900)]
        op.process({"t": times, "k": [i % 7 for i in times], "x": times})
        op.advance(times[-1])
    assert op.stats.stored_rows == 12 * 900
    expected = {k: max(t for t in range(12_000) if t % 7 == k and t % 1000 < 900) for k in range(7)}
    assert {r.key: r.values["x_last"] for r in op.advance(math.inf)} == expected


def test_the_changing_windows_of_the_cutty_paper_follow_their_definition() -> None:
    from examples.changing_windows import ChangingWindows, trades

    made: dict[str, Any] = {
        "windows": [ChangingWindows(minute=1)],
        "aggs": [sw.agg.weighted_mean("price", "volume"), sw.agg.count()],
        "time": "minute",
    }
    rows = trades()
    shuffled = [rows[(7 * k) % len(rows)] for k in range(len(rows))]
    op, oracle = sw.Operator(**made), Oracle(**made)
    op.process(shuffled)
    oracle.process(rows)
    for watermark in (20, 33, math.inf):
        assert_same_rows(op.advance(watermark), oracle.advance(watermark))
