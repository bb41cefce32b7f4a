"""Slices that are kept by time, however few there are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import KINDS, Step
from slicewise.tuning import Tuning, tuned
from slicewise.windows import Window

FREE = ("tumbling", "sliding", "cumulate", "fixed")


AGGREGATES: list[list[sw.Aggregate]] = [
    [sw.agg.sum("x")],
    [sw.agg.max("x"), sw.agg.min("x"), sw.agg.count("x"), sw.agg.std("x")],
    [sw.agg.first("x"), sw.agg.last("x"), sw.agg.mean("x"), sw.agg.range("x")],
]


def by_time(**more: Any) -> AbstractContextManager[Tuning]:
    """Keep slices by time, however few keys and events there are."""
    return tuned(keys_by_time=1, events_by_time=0, moved_per_event=10**9, **more)


@st.composite
def free_windows(draw: Any) -> list[Window]:
    kinds = draw(st.lists(st.sampled_from([k for k in KINDS if k in FREE]), min_size=1, max_size=4))
    return [draw(KINDS[kind](f"w{number}")) for number, kind in enumerate(kinds)]


def assert_follows(op: sw.Operator, oracle: Oracle, script: list[Step]) -> None:
    for verb, given_ in script:
        ours: Any = op.process(given_) if verb == "process" else op.advance(given_)
        theirs: Any = oracle.process(given_) if verb == "process" else oracle.advance(given_)
        if verb == "advance" or op.ordered:
            assert_same_rows(ours, theirs)
