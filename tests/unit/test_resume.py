"""Going on from a snapshot: as if never stopped, or with another definition by the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import SnapshotError
from slicewise.slicing.state.resume import resume
from slicewise.testing import Oracle, assert_same_rows, fold
from slicewise.testing.oracle import alike
from slicewise.testing.strategies import KINDS, Step, steps, windows

TYPES = {
    "k": pa.string(),
    "t": pa.int64(),
    "x": pa.int64(),
    "s": pa.string(),
    "km": pa.int64(),
    "flag": pa.bool_(),
    "id": pa.int64(),
}
NOT_ONES_OWN = [kind for kind in KINDS if not kind.startswith("user")]
COMMUTING = [sw.agg.sum("x"), sw.agg.count(), sw.agg.median("x")]
ORDERED = [sw.agg.collect("s"), sw.agg.last("x"), sw.agg.mean("x")]
# What tells which events an instance holds: the first that came, and the earliest.
TELLING = [sw.agg.min("id"), sw.agg.min("t")]
MODES = [("on_close", 0), ("on_close", 7), ("final", 0), ("final", 7), ("on_update", 7)]


def revises(mode: tuple[str, int]) -> bool:
    """Whether what was emitted can change, which rules out windows of one's own."""
    return mode[0] == "on_update" or (mode[0] == "on_close" and mode[1] > 0)


def operator(defined: Sequence[Any], aggs: Any, emit: Any, lateness: int) -> sw.Operator:
    return sw.Operator(windows=defined, aggs=aggs, time="t", by="k", emit=emit, lateness=lateness)


def resumed(op: sw.Operator, before: sw.Operator) -> sw.Operator:
    return resume(op, before.snapshot(), TYPES)


def do(op: Any, step: Step) -> list[Any]:
    """The results of a step; events have the types that a table would give them."""
    if step[0] == "advance":
        results: list[Any] = op.advance(step[1])
        return results
    op.process(pa.Table.from_pylist(step[1], pa.schema(list(TYPES.items()))))
    return []


@st.composite
def cut_steps(draw: st.DrawFn) -> tuple[list[Step], list[Step]]:
    """Steps before and after a stop; events are numbered in the order of their arrival."""
    drawn = draw(steps())
    number = 0
    for kind, rows in drawn:
        for row in rows if kind == "process" else ():  # type: ignore[union-attr]  # they are rows
            row["id"] = number
            number += 1
    # A stream stops behind a watermark.
    stops = [k for k, step in enumerate(drawn) if k == 0 or drawn[k - 1][0] == "advance"]
    place = draw(st.sampled_from(stops))
    return drawn[:place], drawn[place:]


@settings(max_examples=60)
@given(data=st.data(), mode=st.sampled_from(MODES), parts=cut_steps())
@pytest.mark.parametrize("aggs", [COMMUTING, ORDERED], ids=["commuting", "ordered"])
def test_with_the_same_definition_it_is_as_if_never_stopped(
    data: st.DataObject, mode: Any, parts: Any, aggs: list[sw.Aggregate]
) -> None:
    defined = data.draw(windows(NOT_ONES_OWN if revises(mode) else tuple(KINDS)))
    steady = operator(defined, aggs, *mode)
    before, after = parts
    for step in before:
        do(steady, step)
    op = resumed(operator(defined, aggs, *mode), steady)
    for step in after:
        assert_same_rows(do(op, step), do(steady, step))
    assert op.late == steady.late


def only(results: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Results with some of their values."""
    return [replace(r, values={n: r.values[n] for n in names}) for r in results]


@settings(max_examples=60)
@given(data=st.data(), mode=st.sampled_from(MODES), parts=cut_steps())
@pytest.mark.parametrize("old", [COMMUTING, ORDERED], ids=["commuting", "ordered"])
def test_windows_and_aggregates_may_come_and_go(
    data: st.DataObject, mode: Any, parts: Any, old: list[sw.Aggregate]
) -> None:
    kinds = NOT_ONES_OWN if revises(mode) else tuple(KINDS)
    defined = data.draw(windows(kinds, max_size=3))
    kept = defined[: data.draw(st.integers(1, len(defined)))]
    # How far a column has come is not known without a window over it.
    timed = [kind for kind in kinds if not kind.endswith("_units")]
    added = [w for w in data.draw(windows(timed, max_size=2)) if w.name not in _names(defined)]
    new = [sw.agg.max("x"), sw.agg.std("x")]
    new += [sw.agg.first("s")] if old is ORDERED else [sw.agg.count_distinct("s")]
    stayed = [*TELLING, *old[data.draw(st.integers(0, len(old))) :]]
    if old is ORDERED:
        stayed.append(sw.agg.last("id"))  # the order of events matters as before
    # One that never stops, and knows all aggregates from the start.
    steady = operator(defined, [*stayed, *old_but(old, stayed), *new], *mode)
    first = operator(defined, [*stayed, *old_but(old, stayed)], *mode)
    before, after = parts
    for step in before:
        assert_same_rows(only(do(steady, step), _outputs(first)), do(first, step))
    for window in defined[len(kept) :]:
        steady.remove_window(window.name)
    for window in added:
        steady.add_window(window)
    seen = steady.stats.events
    since = max(steady.parts.progress.newest + 1, steady.watermark)
    op = resumed(operator([*kept, *added], [*stayed, *new], *mode), first)
    for step in after:
        got, expected = do(op, step), do(steady, step)
        names = [agg.output for agg in stayed]
        assert_same_rows(only(got, names), only(expected, names))
        whole = {(*_identity(r), r.revision): r for r in expected}
        for result in got:
            if result.retracted:
                continue
            twin = whole[(*_identity(result), result.revision)]
            for agg in new:
                value, wanted = result.values[agg.output], twin.values[agg.output]
                if result.values["id_min"] < seen:
                    assert value is None, "it holds an event that the aggregate never saw"
                else:
                    # Behind an earlier event nobody knows what it may still hold.
                    assert alike(value, wanted) or value is None
                if result.values["t_min"] >= since + 12:  # no longer than the longest slice
                    assert alike(value, wanted)


def old_but(old: Sequence[sw.Aggregate], stayed: Sequence[sw.Aggregate]) -> list[sw.Aggregate]:
    return [agg for agg in old if agg not in stayed]


def _names(defined: Sequence[Any]) -> list[str]:
    return [window.name for window in defined]


def _outputs(op: sw.Operator) -> list[str]:
    return [agg.output for agg in op.aggs]


def _identity(result: Any) -> tuple[Any, ...]:
    return (result.key, result.window, result.start, result.end)


@settings(max_examples=60)
@given(
    data=st.data(),
    emit=st.sampled_from(["on_close", "final", "on_update"]),
    lateness=st.sampled_from([(30, 1), (15, 4), (4, 15), (1, 9)]),
    parts=cut_steps(),
)
def test_lateness_may_change_and_what_was_too_late_stays_so(
    data: st.DataObject, emit: Any, lateness: tuple[int, int], parts: Any
) -> None:
    defined = data.draw(windows(tuple(KINDS) if emit == "final" else NOT_ONES_OWN))
    op = operator(defined, COMMUTING, emit, lateness[0])
    twin = Oracle(
        windows=defined, aggs=COMMUTING, time="t", by="k", emit=emit, lateness=lateness[0]
    )
    before, after = parts
    results = [result for step in before for result in do(op, step)]
    expected = [result for step in before for result in do(twin, step)]
    op = resumed(operator(defined, COMMUTING, emit, lateness[1]), op)
    twin.floor, twin.lateness = twin.horizon, lateness[1]
    if emit == "final":
        # With less lateness than before, what lies between is due with the next watermark.
        twin.watermark = min(twin.watermark, twin.floor + lateness[1])
    results += [result for step in after for result in do(op, step)]
    expected += [result for step in after for result in do(twin, step)]
    found, wanted = fold(results), fold(expected)
    assert found.keys() == wanted.keys()
    assert all(alike(found[identity], wanted[identity]) for identity in wanted)
    if emit == "final":
        assert len(results) == len(expected), "nothing comes twice"
    assert op.stats.late_dropped == len(twin.late)
    assert op.stats.late_partly == len(twin.partly)


def filled(**given: Any) -> sw.Operator:
    op = operator_of(**given)
    op.process([{"k": "a", "t": 3, "x": 1, "s": "p"}, {"k": "b", "t": 12, "x": 5, "s": "q"}])
    op.advance(4)
    return op


def operator_of(**given: Any) -> sw.Operator:
    plain: dict[str, Any] = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.sum("x")], "time": "t"}
    return sw.Operator(**(plain | {"by": "k"} | given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "s"}, "`by` was 'k' and is 's'"),
        ({"by": ["k", "s"]}, r"`by` was 'k' and is \['k', 's'\]"),
        ({"time": "x"}, "`time` was 't' and is 'x'"),
        ({"emit": "final"}, "`emit` was 'on_close' and is 'final'"),
    ],
)
def test_keys_time_and_emission_may_not_change(given: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=f"another operator: {message}.*or begin anew"):
        resumed(operator_of(**given), filled())


class Weighted(sw.Aggregate):
    """Compiled, with a parameter."""

    commutative = True

    def __init__(self, column: str, weight: float) -> None:
        super().__init__(column)
        self.weight = weight

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        return x * self.weight

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Changed(Weighted):
    """Another code of the same name, with other states."""

    name = "weighted"

    def identity(self) -> Any:
        return (0.0, 0)

    def lift(self, x: float) -> Any:
        return (x * self.weight, 1)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state: Any) -> float:
        return float(state[0])


@pytest.mark.parametrize("gone", [sw.delta("x", by=5), sw.punctuated("flag")], ids=str)
def test_a_window_may_go_while_events_wait_for_it(gone: Any) -> None:
    kept = sw.tumbling(sw.rows(2))
    op = sw.Operator(windows=[gone, kept], aggs=[sw.agg.count()], time="t")
    op.process({"t": [1, 2, 3], "x": [1, 9, 17], "flag": [True, False, True]})
    again = resumed(sw.Operator(windows=[kept], aggs=[sw.agg.count()], time="t"), op)
    assert [(r.window, r.start) for r in again.advance(9)] == [(kept.name, 0)]


def test_an_aggregate_whose_states_changed_is_refused() -> None:
    before = filled(aggs=[Weighted("x", 0.5)])
    message = "were <f8 and are now <f8 <i8: its code or the types of its columns"
    with pytest.raises(SnapshotError, match=message):
        resumed(operator_of(aggs=[Changed("x", 0.5)]), before)


def test_one_class_with_several_parameters_keeps_several_states() -> None:
    aggs = [Weighted("x", 0.5).alias("half"), Weighted("x", 2.0).alias("twice")]
    op = resumed(operator_of(aggs=aggs), filled(aggs=aggs))
    found = [r.values for r in op.advance(math.inf)]
    assert found == [{"half": 0.5, "twice": 2.0}, {"half": 2.5, "twice": 10.0}]


def test_an_aggregate_with_another_parameter_is_a_new_one() -> None:
    op = resumed(operator_of(aggs=[Weighted("x", 2.0)]), filled(aggs=[Weighted("x", 0.5)]))
    op.process([{"k": "a", "t": 21, "x": 7, "s": "p"}])
    assert [r.values["x_weighted"] for r in op.advance(math.inf)] == [None, None, 14.0]


def test_what_less_lateness_makes_final_comes_with_the_next_watermark() -> None:
    # watermark 25, lateness 20:  [0, 10) can change, and with lateness 1 no longer
    before = operator_of(emit="final", lateness=20)
    before.process([{"k": "a", "t": 3, "x": 1, "s": "p"}, {"k": "a", "t": 25, "x": 5, "s": "p"}])
    assert before.advance(25) == []
    op = resumed(operator_of(emit="final", lateness=1), before)
    assert [(r.start, r.values) for r in op.advance(25)] == [(0, {"x_sum": 1})]
    assert [(r.start, r.values) for r in op.advance(math.inf)] == [(20, {"x_sum": 5})]


def test_an_aggregate_that_needs_order_cannot_come_to_windows_that_kept_none() -> None:
    before = filled(lateness=5)
    with pytest.raises(SnapshotError, match=r"windows 'tumbling_10' need rows, or need"):
        resumed(operator_of(aggs=[sw.agg.collect("s")], lateness=5), before)


def test_windows_of_rows_keep_other_things_without_lateness_than_with_it() -> None:
    windows = [sw.tumbling(sw.rows(2))]
    message = "this lateness the windows 'tumbling_2rows' need rows, or need them no longer"
    for before, now in ((0, 5), (5, 0)):
        with pytest.raises(SnapshotError, match=message):
            resumed(
                operator_of(windows=windows, lateness=now),
                filled(windows=windows, lateness=before),
            )


def test_a_new_aggregate_is_null_where_it_missed_events() -> None:
    # tumbling(10):  [0, 10): a at 3 before the stop, a at 5 after it
    #                [20, 30): a at 21 after it
    op = resumed(operator_of(aggs=[sw.agg.sum("x"), sw.agg.max("x")]), filled())
    op.process([{"k": "a", "t": 5, "x": 2, "s": "p"}, {"k": "a", "t": 21, "x": 7, "s": "p"}])
    found = [(r.key, r.start, r.values["x_sum"], r.values["x_max"]) for r in op.advance(math.inf)]
    assert found == [("a", 0, 3, None), ("b", 10, 5, None), ("a", 20, 7, 7)]


@pytest.mark.parametrize("emit", ["on_close", "final"])
def test_a_restart_may_keep_none_of_the_windows_or_none_of_the_aggregates(emit: Any) -> None:
    #   a: 1, 12, | 14     b: 13, | 25     [0, 10) has closed, [10, 20) is open
    types = {"k": pa.string(), "t": pa.int64(), "x": pa.int64()}

    def made(windows: Any, agg: Any) -> sw.Operator:
        return sw.Operator(windows=windows, aggs=[agg], time="t", by="k", emit=emit)

    old = [sw.tumbling(10), sw.session(4)]
    before = made(old, sw.agg.sum("x"))
    before.process({"k": ["a", "a", "b"], "t": [1, 12, 13], "x": [1, 2, 5]})
    assert len(before.advance(12)) == 2

    def after(windows: Any, agg: Any) -> dict[Any, Any]:
        op = resume(made(windows, agg), before.snapshot(), types)
        op.process({"k": ["a", "b"], "t": [14, 25], "x": [3, 7]})
        return {(r.key, r.window, r.start): r.values for r in op.advance(math.inf)}

    # The open instances of windows that go are never emitted, and new windows begin anew.
    assert after([sw.tumbling(20)], sw.agg.sum("x")) == {("b", "tumbling_20", 20): {"x_sum": 7}}
    # Windows that stay go on; what the new aggregate did not see is null.
    assert after(old, sw.agg.max("x")) == {
        ("a", "tumbling_10", 10): {"x_max": None},
        ("b", "tumbling_10", 10): {"x_max": None},
        ("b", "tumbling_10", 20): {"x_max": 7},
        ("a", "session_4", 12): {"x_max": None},
        ("b", "session_4", 13): {"x_max": None},
        ("b", "session_4", 25): {"x_max": 7},
    }


@pytest.mark.parametrize("before", [None, "two_stacks", "flatfit"])
@pytest.mark.parametrize("after", [None, "flatfit", "daba"])
def test_another_merger_goes_on_with_the_slices_that_there_are(
    before: str | None, after: str | None
) -> None:
    made: dict[str, Any] = {"windows": [sw.sliding(9, every=2)], "aggs": COMMUTING, "time": "t"}
    plain, op = sw.Operator(**made), sw.Operator(**made, merger=before)
    for begin in (0, 20, 40):
        rows = [{"t": begin + t, "x": t * t % 7} for t in range(20)]
        plain.process(rows)
        op.process(rows)
        assert_same_rows(op.advance(begin + 15), plain.advance(begin + 15))
        op = resume(sw.Operator(**made, merger=after), op.snapshot(), TYPES)
    assert_same_rows(op.advance(math.inf), plain.advance(math.inf))
