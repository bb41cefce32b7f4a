"""Events that an aggregate raises an error for are bad, and nothing else is lost."""

from __future__ import annotations

import math
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.testing import Oracle, fold
from slicewise.windows import Window
from tests.support.bands import by_time
from tests.support.refusing import Careful, Picky, Ponderous, Slow

REFUSING: dict[str, list[Window]] = {
    "time": [sw.tumbling(10), sw.sliding(20, every=10)],
    "sessions": [sw.session(3)],
    "rows": [sw.tumbling(sw.rows(2)), sw.sliding(sw.rows(2), every=10, name="last")],
    "order": [sw.punctuated("flag"), sw.tumbling(sw.rows(2)), sw.session(3, max_length=9)],
    "measure": [sw.tumbling(sw.units(10, on="km"))],
    "mixed": [sw.tumbling(10), sw.tumbling(sw.rows(2)), sw.session(4)],
    "opened": [sw.sliding(5, every=sw.rows(2), name="opened"), sw.punctuated("flag")],
}


@pytest.mark.parametrize("own", [Picky, Ponderous, Careful, Slow])
@pytest.mark.parametrize(
    "mode",
    [{}, {"emit": "final", "lateness": 5}, {"lateness": 50}, {"ordered": True}, {"by_time": True}],
    ids=str,
)
@pytest.mark.parametrize("kind", REFUSING)
def test_events_that_an_aggregate_cannot_take_are_bad_and_the_rest_goes_on(
    own: Any, mode: dict[str, Any], kind: str
) -> None:
    made: dict[str, Any] = {"windows": REFUSING[kind], "time": "t", "by": "k"}
    made |= {name: value for name, value in mode.items() if name != "by_time"}
    times = np.arange(30)
    rows = {"t": times, "k": times % 2, "x": times * 1.0, "km": times, "flag": times % 5 == 0}
    x = rows["x"].copy()
    x[[4, 21]], x[7] = 13.0, 2000.0
    bad = [4, 7, 13, 21]
    null = [None if t in bad else value for t, value in enumerate(x.tolist())]
    with by_time() if "by_time" in mode else nullcontext():
        op = sw.Operator(aggs=[own("x").alias("total"), sw.agg.count()], **made)
        oracle = Oracle(aggs=[sw.agg.sum("x").alias("total"), sw.agg.count()], **made)
        found: list[Any] = []
        expected: list[Any] = []
        for begin in (0, 10, 20):
            part = slice(begin, begin + 10)
            batch = {name: values[part] for name, values in (rows | {"x": x}).items()}
            script: list[Any] = [("process", batch), ("advance", begin + 8), ("advance", begin + 8)]
            for verb, value in script:
                with suppress(ValueError):
                    found += getattr(op, verb)(value) or []
            op = sw.Operator.restore(op.snapshot())
            expected += oracle.process(batch | {"x": null[part]})
            expected += oracle.advance(begin + 8)
        found += op.advance(math.inf)
        expected += oracle.advance(math.inf)
    assert totals(found) == totals(expected)
    assert (op.stats.bad, sorted(row["t"] for row in op.late)) == (4, bad)


def totals(rows: list[Any]) -> dict[Any, Any]:
    """The answer; the sum of nothing is null for the one and zero for the other."""
    return {i: (v["total"] or 0.0, v["count"]) for i, v in fold(rows).items()}


@pytest.mark.parametrize("own", [Picky, Ponderous, Careful, Slow])
@pytest.mark.parametrize("ordered", [False, True])
def test_the_error_of_an_event_is_raised_once(own: Any, ordered: bool) -> None:
    windows = [sw.tumbling(10), sw.tumbling(sw.rows(2))]
    op = sw.Operator(windows=windows, aggs=[own("x").alias("total")], time="t", ordered=ordered)
    waits = not ordered and not own.commutative  # all windows get their events in order
    if waits:
        op.process({"t": [1, 2, 3], "x": [1.0, 13.0, 4.0]})
    with pytest.raises(ValueError, match="13 is bad luck"):
        op.advance(20) if waits else op.process({"t": [1, 2, 3], "x": [1.0, 13.0, 4.0]})
    assert (op.stats.bad, op.late) == (1, [{"t": 2, "x": 13.0}])
    found = [(r.window, r.values["total"]) for r in op.advance(20)]
    assert found == [("tumbling_10", 5.0), ("tumbling_2rows", 1.0)]
    assert op.stats.bad == 1


@pytest.mark.parametrize("own", [Picky, Ponderous])
@pytest.mark.parametrize("windows", [[sw.session(5)], [sw.session(5), sw.tumbling(4)]])
@pytest.mark.parametrize("by", [None, "k"])
def test_sessions_that_cannot_become_one_are_both_kept(own: Any, windows: Any, by: Any) -> None:
    """An event joins two sessions whose sums together are too much: no event is to blame."""
    made: Any = {"windows": windows, "aggs": [own("x").alias("total")], "time": "t", "by": by}
    op = sw.Operator(**made)
    op.process({"t": [0, 8], "x": [600.0, 700.0], "k": [1, 1]})
    op.process({"t": [4], "x": [1.0], "k": [1]})
    op = sw.Operator.restore(op.snapshot())
    for _ in range(2):
        with pytest.raises(ValueError, match="more than a thousand"):
            op.advance(math.inf)
    assert (op.stats.bad, op.late) == (0, [])
    group = op.parts.slices.groups["sessions"]
    (states,) = group.store.states[-1] or ()
    slots = group.runs.slot[group.runs.places(np.zeros(1, np.int64))]
    assert sum(states[slots].tolist()) == 1301.0


@pytest.mark.parametrize("own", [Picky, Ponderous])
def test_sessions_of_ones_own_aggregates_become_one_behind_the_watermark(own: Any) -> None:
    made: Any = {"windows": [sw.session(6)], "aggs": [own("x").alias("total")], "time": "t"}
    op = sw.Operator(**made)
    for begin in range(0, 900, 30):
        # Each batch begins a session of its own, which the next one joins with those before.
        op.process({"t": [begin + t for t in (20, 10, 15, 5, 25, 0)], "x": [1.0] * 6})
        op.advance(begin)
        assert op.stats.slices <= 15
    (session,) = op.advance(math.inf)
    assert (session.start, session.end, session.values) == (0, 901, {"total": 180.0})


@pytest.mark.parametrize("own", [Picky, Ponderous])
def test_slices_that_no_window_holds_together_raise_no_error(own: Any) -> None:
    """What lies between windows is beside them until it is let go, and goes into none."""
    windows = [sw.sliding(3, every=10), sw.sliding(25, every=30)]
    op = sw.Operator(windows=windows, aggs=[own("x").alias("total")], time="t")
    op.process({"t": [31, 54, 56], "x": [100.0, 700.0, 800.0]})
    found = []
    for watermark in (34, 58, math.inf):
        found += [(r.start, r.end, r.values["total"]) for r in op.advance(watermark)]
    assert found == [(30, 33, 100.0), (30, 55, 800.0)]


class Wordy(Careful):
    """What it says is put together in compiled code."""

    name = "wordy"

    def combine(self, older: float, newer: float) -> float:
        if older + newer > 1000:
            raise ValueError(f"{int(older)} and {int(newer)} are too much")
        return older + newer


def test_compiled_code_may_make_texts() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[Wordy("x"), sw.agg.count()], time="t")
    op.process({"t": [1, 2, 3], "x": [1.0, 2000.0, 5.0]})
    assert "x_wordy: compiled." in op.explain()
    with pytest.raises(ValueError, match="1 and 2000 are too much"):
        op.advance(20)
    assert [r.values for r in op.advance(20)] == [{"x_wordy": 6.0, "count": 3}]
