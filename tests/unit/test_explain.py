"""What `op.explain()` says, and that saying it changes nothing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import slicewise as sw
from slicewise.testing import paths_taken

SUM = sw.agg.sum("x")


class Longest(sw.Aggregate):
    """The longest text; states are texts, which are not compiled."""

    def identity(self) -> str:
        return ""

    def lift(self, value: str) -> str:
        return value

    def combine(self, older: str, newer: str) -> str:
        return max(older, newer, key=len)

    def lower(self, state: str) -> str:
        return state


def operator(*windows: Any, **changes: Any) -> sw.Operator:
    made: Any = {"windows": windows, "aggs": [SUM], "time": "t", "by": "k"} | changes
    return sw.Operator(**made)


def test_windows_that_share_slices_are_named_together() -> None:
    op = operator(sw.tumbling(10), sw.tumbling(20), sw.session(3), sw.session(5), sw.fixed(5, 3))
    said = op.explain()
    assert "tumbling_10, tumbling_20, fixed_5_3: share slices of time, cut at edges" in said
    assert "session_3, session_5: share slices, cut where events are more than 3 apart." in said


def test_what_is_stored_is_said_with_the_reason() -> None:
    plain = operator(sw.tumbling(10)).explain()
    assert "Storage: states alone are kept: no window or aggregate needs rows." in plain
    rows = operator(sw.tumbling(sw.rows(3)), lateness=5).explain()
    assert "Storage: rows are kept: tumbling_3rows depend on the events themselves." in rows
    unordered = operator(sw.tumbling(10), aggs=[sw.agg.collect("x")]).explain()
    assert "x_collect depend on the order of events" in unordered


def test_the_merger_is_named() -> None:
    assert (
        "lazy, when a window closes, by boundary aggregation" in operator(sw.tumbling(10)).explain()
    )
    stacks = operator(sw.tumbling(10), merger="two_stacks").explain()
    assert "by two_stacks, which is kept between watermarks: one for each window of" in stacks
    shared = operator(sw.tumbling(10), merger="flatfit").explain()
    assert "which is kept between watermarks: one for all windows of a key." in shared
    assert "Merging: eager, by a tree" in operator(sw.tumbling(10), store="eager").explain()


def test_aggregates_are_compiled_or_say_why_not() -> None:
    op = operator(sw.tumbling(10), aggs=[SUM, Longest("s")])
    assert "decided by the types of the first batch" in op.explain()
    op.process({"t": [1], "k": [1], "x": [1], "s": ["a"]})
    assert "x_sum: compiled." in op.explain()
    assert "s_longest: interpreted: " in op.explain()


def test_explaining_changes_nothing_and_counts_the_keys() -> None:
    op = operator(sw.tumbling(10))
    count = 20_000
    keys = np.array([f"key number {k}" for k in range(count)])
    with paths_taken() as taken:
        op.process({"t": np.arange(count) % 50, "k": keys, "x": np.ones(count)})
    assert taken["bands"] == 1
    before = op.snapshot()
    said = op.explain()
    assert op.snapshot() == before
    assert op.stats.slices == count
    found = re.search(r"Memory of the keys: (\d+) bytes, (\d+) a key for 20000 keys", said)
    assert found is not None
    assert int(found[1]) >= sum(map(len, keys))  # the texts themselves are among them
    assert int(found[2]) == -(-int(found[1]) // count)
    sliced = re.search(r"Memory of time: (\d+) bytes, .* for 20000 slices with states", said)
    assert sliced is not None
    assert int(sliced[1]) >= 8 * count


def test_events_that_wait_are_among_what_is_explained() -> None:
    op = operator(sw.tumbling(10), sw.tumbling(sw.rows(2)))
    op.process({"t": [1, 2, 12], "k": [1, 1, 1], "x": [1, 2, 4]})
    assert "Memory of events that wait" in op.explain()
    op.remove_window("tumbling_2rows")
    assert "events that wait" not in op.explain()
