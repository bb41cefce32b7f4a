"""Restoring a snapshot and going on is the same as never having stopped."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.plain import pack, unpack
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import KINDS, Step, steps, windows
from slicewise.windows import Window
from tests.support.operators import aggregates, keys, revisable, without_retracted_values

cuts = st.lists(st.booleans(), min_size=60, max_size=60)


def assert_goes_on(made: dict[str, Any], script: list[Step], cut: list[bool]) -> None:
    """One operator is stopped at the cuts, the other one never; the oracle watches both."""
    stopped, steady, oracle = sw.Operator(**made), sw.Operator(**made), Oracle(**made)
    for (verb, given_), now in zip([*script, ("advance", math.inf)], cut, strict=False):
        if now:
            stopped = sw.Operator.restore(stopped.snapshot())
        results: list[Any] = [getattr(op, verb)(given_) or [] for op in (stopped, steady, oracle)]
        ours, theirs, wanted = map(without_retracted_values, results)
        assert_same_rows(ours, theirs)
        assert_same_rows(ours, wanted)
        for counter in ("events", "late_dropped", "bad"):
            assert getattr(stopped.stats, counter) == getattr(steady.stats, counter)
        assert stopped.late == steady.late
        assert stopped.watermark == steady.watermark


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_window_goes_on_after_a_snapshot(kind: str) -> None:
    @given(
        KINDS[kind]("w"), aggregates, keys, steps(), st.sampled_from(["on_close", "final"]), cuts
    )
    def check(window: Window, aggs: Any, by: Any, script: Any, emit: Any, cut: Any) -> None:
        made = {"windows": [window], "aggs": aggs, "time": "t", "by": by, "emit": emit}
        assert_goes_on(made, script, cut)

    check()


@given(windows(), aggregates, keys, steps(), st.integers(0, 30), cuts, st.booleans())
def test_revisions_and_retractions_go_on_after_a_snapshot(
    defined: list[Window],
    aggs: list[sw.Aggregate],
    by: Any,
    script: list[Step],
    lateness: int,
    cut: list[bool],
    early: bool,
) -> None:
    made = {"windows": revisable(defined), "aggs": aggs, "time": "t", "by": by}
    made |= {"lateness": lateness, "emit": "on_update" if early else "on_close"}
    assert_goes_on(made, script, cut)


@given(windows(), aggregates, steps(), st.integers(0, 30), cuts)
def test_final_results_go_on_after_a_snapshot(
    defined: list[Window],
    aggs: list[sw.Aggregate],
    script: list[Step],
    lateness: int,
    cut: list[bool],
) -> None:
    made = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    assert_goes_on(made | {"lateness": lateness, "emit": "final"}, script, cut)


@given(windows(), aggregates, keys, steps(ordered=True), cuts)
def test_ordered_events_go_on_after_a_snapshot(
    defined: list[Window], aggs: list[sw.Aggregate], by: Any, script: list[Step], cut: list[bool]
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": by}
    assert_goes_on(made | {"ordered": True}, script, cut)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(
        timezones=st.none() | st.timezones().filter(lambda zone: zone.key != "localtime")
    )
    | st.dates()
    | st.timedeltas()
    | st.times(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


@given(st.lists(plain))
def test_plain_values_come_back_as_they_were_without_pickle(values: list[Any]) -> None:
    out = BlobWriter()
    header = {"values": pack(values, out)}
    source = BlobReader(out.blob(header))
    found = unpack(source.header["values"], source)
    assert found == values
    assert shapes(found) == shapes(values)
    assert source.header["pickled"] == []


def shapes(value: Any) -> Any:
    """The types of nested values, since 1 == 1.0 == True."""
    if isinstance(value, list | tuple):
        return type(value), [*map(shapes, value)]
    if isinstance(value, dict):
        return dict, [*map(shapes, value.values())]
    return type(value)
