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
from tests.laws.test_bands import by_time


class Picky(sw.Aggregate):
    """The sum, compiled; it cannot take 13 and does not go beyond a thousand."""

    name = "picky"
    arity = 1
    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        if value == 13:
            raise ValueError("13 is bad luck")
        return value

    def combine(self, older: float, newer: float) -> float:
        if older + newer > 1000:
            raise ValueError("more than a thousand is bad luck")
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Ponderous(Picky):
    """The same, interpreted."""

    compile = False


class Careful(Picky):
    """The same, for events one after the other."""

    commutative = False


class Slow(Careful):
    """And interpreted."""

    compile = False


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
