"""Windows over an advancing column, with fractions of all kinds, are as they are defined."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows
from slicewise.windows import Window

SIZES = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.7, 1 / 3, 1, 1.1, 2.5, 3])
ORIGINS = st.sampled_from([0, 0.05, 0.5, -1.5])


@st.composite
def measured(draw: st.DrawFn, name: str) -> Window:
    """A window over `km`."""
    first, second, origin = draw(SIZES), draw(SIZES), draw(ORIGINS)
    length, every = sw.units(max(first, second), on="km"), sw.units(min(first, second), on="km")
    kind = draw(st.sampled_from(["tumbling", "sliding", "gaps", "cumulate", "fixed"]))
    if kind == "tumbling":
        return sw.tumbling(length, origin=origin, name=name)
    if kind == "fixed":
        return sw.fixed(origin, length, name=name)
    if kind == "cumulate":
        return sw.cumulate(length, every, origin=origin, name=name)
    spans = (every, length) if kind == "gaps" else (length, every)
    return sw.sliding(*spans, origin=origin, name=name)


@st.composite
def journeys(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events whose kilometres advance with time, in whole numbers or with fractions."""
    steps = st.integers(0, 2) if draw(st.booleans()) else st.sampled_from([0.0, 0.05, 0.1, 0.3])
    keys = draw(st.sampled_from(["a", "ab"]))
    km: int | float = 0 if draw(st.booleans()) else -3
    rows = []
    for t in range(draw(st.integers(1, 25))):
        km = round(km + draw(steps), 2)
        rows.append({"t": t, "k": draw(st.sampled_from(keys)), "km": km, "x": t})
    return rows


@given(
    measured("w"),
    measured("v"),
    journeys(),
    st.sampled_from([sw.agg.sum("x"), sw.agg.collect("x")]),
    st.sampled_from([("on_close", 0), ("final", 3), ("on_update", 0)]),
    st.booleans(),
)
def test_windows_over_a_column_emit_what_they_are_defined_to(
    first: Window,
    second: Window,
    rows: list[dict[str, Any]],
    agg: Any,
    mode: tuple[Any, int],
    stops: bool,
) -> None:
    made: dict[str, Any] = {"windows": [first, second], "aggs": [agg], "time": "t", "by": "k"}
    made |= {"emit": mode[0], "lateness": mode[1]}
    op, oracle = sw.Operator(**made), Oracle(**made)
    for begin in range(0, len(rows), 10):
        batch = rows[begin : begin + 10]
        op.process(batch[::-1])
        oracle.process(batch[::-1])
        assert_same_rows(op.advance(begin + 10), oracle.advance(begin + 10))
        if stops:
            op = sw.Operator.restore(op.snapshot())
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))
    assert (op.stats.bad, op.stats.behind) == (0, 0)
