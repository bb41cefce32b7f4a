"""Keys of which nothing is known any more are forgotten, and no answer tells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.slicing.emit.explain import bytes_of
from slicewise.testing import Oracle
from slicewise.testing.strategies import KINDS, Following, Step, steps, windows
from slicewise.tuning import active, tuned
from slicewise.windows import Window
from tests.support import bands, changes
from tests.support.changes import MODES, TIMED, windows_of
from tests.support.operators import aggregates, assert_follows, revisable

KEYS = st.sampled_from(["k", ["k"], ["k", "s"]])


@contextmanager
def at_once() -> Iterator[None]:
    """Look for dead keys, slices and emitted instances in every call."""
    with tuned(forget_at_least=-(10**9), evict_at_least=-(10**9), prune_at_least=0):
        yield


def fleeting(script: list[Any]) -> list[Any]:
    """The same with keys that come and go: each has some of its events in a short time."""
    return [
        (step[0], [row | {"k": f"{row['t'] // 9}{row['k']}"} for row in step[1]])
        if isinstance(step, tuple) and step[0] == "process"
        else step
        for step in script
    ]


MIXED: dict[str, list[Window]] = {
    "free": [sw.tumbling(7), sw.sliding(20, every=6), sw.cumulate(30, every=10)],
    "sessions": [sw.session(4), sw.session(9, name="wide")],
    "bounded": [sw.session(9, max_length=12), sw.tumbling(10)],
    "threshold": [sw.threshold("flag"), sw.session(5)],
    "counted": [sw.tumbling(sw.rows(3)), sw.sliding(sw.rows(2), every=10, name="last")],
    "opened": [sw.sliding(8, every=sw.rows(2), name="opened"), sw.tumbling(10)],
    "units": [sw.tumbling(sw.units(5, on="km")), sw.tumbling(10)],
    "user": [Following("own"), sw.session(4)],
}
MODES_OF_MIXED: dict[str, dict[str, Any]] = {
    "on_close": {},
    "late": {"lateness": 8},
    "early": {"emit": "on_update", "lateness": 8},
    "final": {"emit": "final", "lateness": 8},
    "eager": {"store": "eager"},
    "ordered": {"ordered": True},
    "by_time": {},
}


@pytest.mark.parametrize("how", MODES_OF_MIXED)
@pytest.mark.parametrize("mixed", MIXED)
def test_keys_of_a_long_stream_come_and_go(mixed: str, how: str) -> None:
    if mixed == "user" and how in ("late", "early"):
        return  # such windows are not revised
    random = np.random.default_rng(11)
    made: dict[str, Any] = {"windows": MIXED[mixed], "by": "k", "time": "t"}
    made |= MODES_OF_MIXED[how]
    with at_once(), bands.by_time() if how == "by_time" else nullcontext():
        for aggs in ([sw.agg.sum("x")], [sw.agg.collect("x")]):
            op = sw.Operator(aggs=aggs, **made)
            oracle = Oracle(aggs=aggs, **{n: v for n, v in made.items() if n != "store"})
            for begin in range(0, 400, 10):
                times = begin + np.sort(random.integers(0, 10, 9))
                if how != "ordered":
                    times -= random.integers(0, 9, 9)
                # A key lives for some batches beside those that come and go before it ends.
                keys = times // 20 - random.integers(0, 3, 9)
                batch: dict[str, Any] = {
                    "t": times,
                    "k": keys,
                    "x": random.integers(0, 9, 9),
                    "km": times // 2,
                }
                batch["flag"] = random.random(9) < 0.15
                script: list[Any] = [("process", batch), ("advance", begin)]
                assert_follows(op, oracle, script[: 1 if how == "ordered" else 2])
            if mixed in ("free", "sessions", "bounded", "threshold"):
                assert len(op.parts.keys) < 20  # of 23 that came
            assert_follows(op, oracle, [("advance", math.inf)])


@given(windows_of(TIMED, "v"), aggregates, changes.scripts(TIMED), st.data())
def test_keys_come_and_go_with_windows_and_snapshots(
    window: Window, aggs: list[sw.Aggregate], script: list[Any], data: st.DataObject
) -> None:
    emit, lateness = data.draw(st.sampled_from(MODES))
    made = {"windows": [window], "aggs": aggs, "by": data.draw(KEYS)}
    made |= {"emit": "final" if isinstance(window, sw.UserWindow) else emit, "lateness": lateness}
    with at_once():
        changes.check(made, fleeting(script))


@given(windows(), aggregates, KEYS, steps(), st.integers(0, 30), st.booleans())
def test_keys_come_and_go_while_answers_are_revised(
    defined: list[Window],
    aggs: list[sw.Aggregate],
    by: Any,
    script: list[Step],
    lateness: int,
    early: bool,
) -> None:
    made: dict[str, Any] = {"windows": revisable(defined), "aggs": aggs, "time": "t", "by": by}
    made |= {"lateness": lateness, "emit": "on_update" if early else "on_close"}
    with at_once():
        assert_follows(sw.Operator(**made), Oracle(**made), fleeting(script))


@given(windows(), aggregates, KEYS, steps(ordered=True), st.sampled_from([None, "eager"]))
def test_keys_come_and_go_with_events_in_order(
    defined: list[Window], aggs: list[sw.Aggregate], by: Any, script: list[Step], store: Any
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": by}
    made["ordered"] = True
    with at_once():
        assert_follows(sw.Operator(**made, store=store), Oracle(**made), fleeting(script))


@given(bands.free_windows(), st.sampled_from(bands.AGGREGATES), steps())
def test_keys_come_and_go_where_slices_are_kept_by_time(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step]
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    with at_once(), bands.by_time():
        bands.assert_follows(sw.Operator(**made), Oracle(**made), fleeting(script))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_forgotten_unless_its_next_answer_depends_on_it(kind: str) -> None:
    # What a user window emitted cannot be revised.
    late = [] if kind.startswith("user") else [{"lateness": 5}]

    @given(KINDS[kind]("w"), st.sampled_from([{}, {"ordered": True}, *late]))
    def check(window: Window, how: dict[str, Any]) -> None:
        op = sw.Operator(windows=[window], aggs=[sw.agg.sum("x")], time="t", by="k", **how)
        for t in (0, 1000, 2000):
            row = {"t": t, "k": t, "x": 1, "km": t, "flag": False}
            op.process([row])
            op.advance(t + 900)
        waits = kind.startswith("user") or kind in ("punctuated", "delta")
        lasts = waits or "rows" in kind or "units" in kind
        assert len(op.parts.keys) == (3 if lasts else 0)

    with at_once():
        check()


@pytest.mark.parametrize("measured", [False, True])
def test_what_a_key_alone_has_stays_with_it(measured: bool) -> None:
    # The keys of the first events are gone when the window of the other one goes on.
    window = sw.tumbling(sw.units(10, on="km"), name="w") if measured else Following("w")
    first: list[Window] = [sw.tumbling(5), window] if measured else [sw.tumbling(5)]
    with at_once():
        op = sw.Operator(windows=first, aggs=[sw.agg.sum("x")], time="t", by="k")
        rows = [{"t": 1, "k": k, "x": 1, "km": None, "flag": True} for k in "abc"]
        op.process(rows)
        if not measured:
            op.add_window(window)
        op.process([{"t": 2, "k": "d", "x": 3, "km": 17, "flag": True}])
        op.advance(100)
        assert len(op.parts.keys) == 1
        op.process([{"t": 200, "k": "d", "x": 9, "km": k, "flag": False} for k in (6, 18, 29)])
        found = [r.values["x_sum"] for r in op.advance(201) if r.window == "w"]
    assert found == ([12] if measured else [3])
    assert op.stats.behind == (1 if measured else 0)


def test_a_key_that_was_forgotten_is_as_good_as_new() -> None:
    found = []
    with at_once():
        op = sw.Operator(windows=[sw.session(5)], aggs=[sw.agg.sum("x")], time="t", by="k")
        for t, key in ((0, "a"), (10, "b"), (20, "a"), (30, None), (40, "a")):
            op.process([{"t": t, "k": key, "x": t}])
            found += [(r.key, r.start, r.values["x_sum"]) for r in op.advance(t + 6)]
            assert len(op.parts.keys) == 0
    assert found == [("a", 0, 0), ("b", 10, 10), ("a", 20, 20), (None, 30, 30), ("a", 40, 40)]


FORGETTING: list[Window] = [
    sw.tumbling(10),
    sw.sliding(100, every=7),
    sw.session(5),
    sw.session(5, max_length=50, name="bounded"),
    sw.threshold("flag"),
]
HOW: dict[str, dict[str, Any]] = {
    "whole": {"by": "k"},
    "text": {"by": "visit", "emit": "final", "lateness": 20},
    "two": {"by": ["k", "visit"], "lateness": 20},
    "early": {"by": "k", "emit": "on_update"},
    "ordered": {"by": "visit", "ordered": True},
    "eager": {"by": "k", "store": "eager"},
}


@pytest.mark.parametrize("how", HOW)
def test_keys_that_are_known_level_off_when_each_batch_has_fresh_ones(how: str) -> None:
    op = sw.Operator(windows=FORGETTING, aggs=[sw.agg.sum("x")], time="t", **HOW[how])
    known, held = [], []
    for number in range(80):
        # Two events of each key: the second ends the threshold's run.
        times = np.arange(1000 * number, 1000 * (number + 1))
        visits = [f"visit {n // 2}" for n in times.tolist()]
        batch = {"t": times, "k": times // 2 * 1000, "visit": visits, "x": times}
        op.process(batch | {"flag": times % 2 == 0})
        op.advance_arrow(int(times[-1]))
        known.append(len(op.parts.keys))
        held.append(bytes_of(op))
    assert max(known) < 3 * active().forget_at_least
    assert max(held[40:]) <= 1.05 * max(held[:40])
    op.advance(math.inf)
    assert op.stats.slices == 0
