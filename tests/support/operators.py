"""Operators beside the oracle: queries for both, and that their answers are the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import Step
from slicewise.windows import Window

AGGREGATES: list[list[sw.Aggregate]] = [
    [sw.agg.sum("x"), sw.agg.count(), sw.agg.mean("x")],
    [sw.agg.max("x"), sw.agg.min("x"), sw.agg.count("x"), sw.agg.std("x")],
    [sw.agg.collect("x"), sw.agg.sum("x")],
    [sw.agg.first("x"), sw.agg.last("s"), sw.agg.concat("s")],
    # `x` is one of few numbers, so that ties of the largest and the smallest are common.
    [sw.agg.argmax("x", "s"), sw.agg.argmin("x", "s"), sw.agg.m4("x")],
    [sw.agg.first_n("x", 2), sw.agg.last_n("s", 3)],
]


aggregates = st.sampled_from(AGGREGATES)


keys = st.sampled_from([None, "k", ["k"], ["k", "flag"]])


def without_retracted_values(rows: Iterable[Any]) -> list[Any]:
    """A retraction names an instance; its values say nothing."""
    blanked = []
    for row in rows:
        if row.retracted:
            row = replace(row, values={}) if isinstance(row, sw.Result) else row._replace(values={})
        blanked.append(row)
    return blanked


def assert_follows(op: sw.Operator, oracle: Oracle, script: list[Step]) -> None:
    for verb, given_ in script:
        ours: Any = op.process(given_) if verb == "process" else op.advance(given_)
        theirs: Any = oracle.process(given_) if verb == "process" else oracle.advance(given_)
        if verb == "advance" or op.ordered:
            assert_same_rows(without_retracted_values(ours), without_retracted_values(theirs))
    assert op.stats.late_dropped == len(oracle.late)
    assert op.stats.bad == len(oracle.bad)
    assert op.stats.late_partly == len(oracle.partly)
    handed_out = [row for row in op.late if row.get("missed") is not None]
    expected = [{**row, "missed": names} for row, names in oracle.partly]
    assert in_any_order(handed_out) == in_any_order(expected)


def in_any_order(rows: list[Any]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def revisable(defined: list[Window]) -> list[Window]:
    """The windows that may be revised; user windows see each event once."""
    kept = [window for window in defined if not isinstance(window, sw.UserWindow)]
    return kept or [sw.tumbling(5)]
