"""What `repr` shows of definitions can be pasted back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.limits import BEGINNING
from slicewise.slicing.edges.partials import PartialPlan, plan_partials
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.plan import GroupPlan, Plan
from slicewise.slicing.settings import Settings
from slicewise.testing.strategies import KINDS
from slicewise.windows import Periodic, Window

PASTED = [kind for kind in KINDS if not kind.startswith("user")]
SPACE = {
    "sw": sw,
    "np": np,
    "Plan": Plan,
    "GroupPlan": GroupPlan,
    "WindowEntry": WindowEntry,
    "Settings": Settings,
}
SPACE |= {"PartialPlan": PartialPlan, "Periodic": Periodic}

SECONDS = st.integers(1, 100_000).map(lambda seconds: dt.timedelta(seconds=seconds))
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 1))
TIMED = st.one_of(
    st.builds(sw.tumbling, SECONDS, origin=st.none() | MOMENTS),
    st.builds(
        sw.tumbling, st.sampled_from(["1w", "90m", "1 day"]), origin=st.sampled_from([0, None])
    ),
    st.builds(sw.sliding, SECONDS, SECONDS, origin=st.none() | MOMENTS),
    st.builds(sw.cumulate, SECONDS, st.just("1s"), origin=st.none() | MOMENTS),
    st.builds(sw.fixed, MOMENTS, SECONDS),
    st.builds(sw.session, SECONDS, max_length=st.none() | SECONDS),
    st.builds(sw.sliding, SECONDS, st.integers(1, 9).map(sw.rows)),
    st.builds(sw.sliding, st.integers(1, 9).map(sw.rows), SECONDS, origin=st.none() | MOMENTS),
    st.builds(sw.delta, st.just("x"), by=st.floats(0.1, 9)),
)


def pasted(shown: str) -> Any:
    return eval(shown, dict(SPACE))


@pytest.mark.parametrize("kind", PASTED)
def test_windows_of_every_kind_can_be_pasted_back(kind: str) -> None:
    @given(KINDS[kind]("named") | KINDS[kind](kind))
    def law(window: Any) -> None:
        assert repr(window).startswith("sw.")
        assert pasted(repr(window)) == window

    law()


@given(TIMED)
def test_windows_of_durations_can_be_pasted_back(window: Any) -> None:
    assert pasted(repr(window)) == window


def test_reprs_are_as_one_writes_them() -> None:
    assert repr(sw.tumbling("5m")) == "sw.tumbling('5m')"
    assert repr(sw.sliding("1h", "5m")) == "sw.sliding('1h', every='5m')"
    assert repr(sw.tumbling("90m")) == "sw.tumbling('1h30m', name='tumbling_90m')"
    assert repr(sw.tumbling(sw.rows(3), name="w")) == "sw.tumbling(sw.rows(3), name='w')"
    assert repr(sw.fixed("2024-01-31", "1d")) == "sw.fixed('2024-01-31T00:00:00', '1d')"
    assert repr(sw.sliding(sw.units(0.5, on="km"), sw.units(1, on="km"))) == (
        "sw.sliding(sw.units(0.5, on='km'), every=sw.units(1, on='km'))"
    )
    assert repr(sw.threshold(lambda event: True)) == "sw.threshold(<lambda>)"
    far = sw.tumbling("1h", origin=np.datetime64("20000-01-01"))
    assert pasted(repr(far)) == far


def test_every_kind_of_window_says_how_it_is_made() -> None:
    # A dataclass with slots is a copy, and the class that it is made of is a subclass too.
    kinds = {kind.__name__: kind for kind in Window.__subclasses__() if kind is not sw.UserWindow}
    ours = [k for k in kinds.values() if k.__module__.startswith("slicewise.windows.")]
    assert len(ours) == 10
    assert all("recipe" in vars(kind) for kind in ours)


@pytest.mark.parametrize("agg", sw.agg.REGISTRY, ids=str)
def test_aggregates_can_be_pasted_back(agg: sw.Aggregate) -> None:
    assert pasted(repr(agg)) == agg
    assert pasted(repr(agg.alias("other"))) == agg.alias("other")


OPERATORS: list[dict[str, Any]] = [
    {"time": "t"},
    {"time": None},
    {"time": "t", "by": "k", "lateness": "1h", "emit": "final", "order": "x"},
    {"time": "t", "by": ["k"], "lateness": 90, "unit": "s", "max_late": None},
    {"time": "t", "ordered": True, "merger": "flatfit", "partials": "pairs"},
]


@pytest.mark.parametrize("settings", OPERATORS, ids=str)
def test_operators_and_plans_can_be_pasted_back(settings: dict[str, Any]) -> None:
    op = sw.Operator(
        windows=[sw.sliding("10m", every="1m"), sw.session("5m")],
        aggs=[sw.agg.max("x"), sw.agg.std("x").alias("spread")],
        **settings,
    )
    again = pasted(repr(op))
    assert repr(again) == repr(op)
    assert (again.settings, again.windows, again.plan) == (op.settings, op.windows, op.plan)
    assert str(BEGINNING) in repr(op.plan)
    assert pasted(repr(op.plan)) == op.plan
    bare = sw.Operator(windows=[sw.tumbling(5)], aggs=[sw.agg.sum("x")], time="t")
    assert repr(bare) == ("sw.Operator(windows=[sw.tumbling(5)], aggs=[sw.agg.sum('x')], time='t')")


def test_plans_of_partials_can_be_pasted_back() -> None:
    windows = [sw.sliding(12, every=4), sw.sliding(10, every=6)]
    made = plan_partials(windows, "pairs")
    assert repr(pasted(repr(made))) == repr(made)
