"""Each fast path is taken where it should be, and only there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

import slicewise as sw
from slicewise.testing import paths_taken
from slicewise.tuning import FastPath, Tuning, active, tuned

RANDOM = np.random.default_rng(5)
SUM = [sw.agg.sum("x")]


def events(size: int, keys: int) -> dict[str, Any]:
    """Events in no order."""
    return {
        "t": RANDOM.integers(0, 1000, size),
        "k": RANDOM.permutation(np.arange(size) % keys),
        "x": RANDOM.random(size),
    }


def operate(size: int, keys: int, *windows: Any, **more: Any) -> None:
    by = "k" if keys > 1 else None
    op = sw.Operator(windows=windows, aggs=SUM, time="t", by=by, **more)
    op.process(events(size, keys))
    assert op.advance(math.inf)


def roll(rows: int, keys: int) -> None:
    data = {"t": np.arange(rows) // keys, "k": np.arange(rows) % keys, "x": np.ones(rows)}
    sw.rolling(pd.DataFrame(data), by="k", time="t", over=5, aggs=SUM)


def table(keys: Any) -> None:
    data = pd.DataFrame({"t": np.arange(len(keys)), "k": keys, "x": 1.0})
    sw.windowed(data, by="k", time="t", windows=[sw.tumbling(5)], aggs=SUM)


def slide(length: int, agg: Any = None, size: int = 100, algorithm: str | None = None) -> None:
    sw.slide(np.ones(size), sw.agg.max() if agg is None else agg, length, algorithm=algorithm)


def merge_by_pba(length: int, processors: int) -> None:
    with tuned(processors=processors):
        op = sw.Operator(windows=[sw.sliding(length, every=1)], aggs=SUM, time="t", merger="pba")
        op.process({"t": np.arange(length + 9), "x": np.ones(length + 9)})
        assert op.advance(length + 5)


LONG, MANY = Tuning().threads_length, Tuning().keys_by_time
TAKEN: list[tuple[FastPath, Any]] = [
    ("bands", lambda: operate(5000, MANY, sw.tumbling(10))),
    ("bands closed", lambda: operate(5000, MANY, sw.sliding(500, every=250))),
    ("rounds", lambda: roll(1 << 15, 32)),
    ("two threads", lambda: slide(LONG, size=3 * LONG, algorithm="pba")),
    ("suffixes ahead", lambda: merge_by_pba(LONG, 2)),
    ("text table", lambda: table(["a", "b"])),
]
NOT_TAKEN: list[tuple[FastPath, Any]] = [
    ("bands", lambda: operate(5000, MANY - 10, sw.tumbling(10))),
    ("bands", lambda: operate(3000, MANY, sw.tumbling(10))),
    ("bands", lambda: operate(5000, MANY, sw.tumbling(10), lateness=5)),
    ("bands", lambda: operate(5000, MANY, sw.tumbling(10), store="eager")),
    ("bands", lambda: operate(5000, MANY, sw.tumbling(sw.rows(3)))),
    ("bands closed", lambda: operate(5000, MANY, sw.sliding(100, every=2))),
    ("rounds", lambda: roll(1 << 15, 31)),
    ("rounds", lambda: roll(1 << 14, 32)),
    ("two threads", lambda: slide(LONG - 1, size=3 * LONG, algorithm="pba")),
    ("suffixes ahead", lambda: merge_by_pba(LONG // 2, 2)),
    ("suffixes ahead", lambda: merge_by_pba(LONG, 1)),
    ("text table", lambda: table([1, 2])),
]


@pytest.mark.parametrize(("path", "run"), TAKEN, ids=[path for path, _ in TAKEN])
def test_a_fast_path_is_taken(path: FastPath, run: Any) -> None:
    with paths_taken() as taken:
        run()
    assert taken[path]


@pytest.mark.parametrize(("path", "run"), NOT_TAKEN)
def test_a_fast_path_is_left_where_it_does_not_serve(path: FastPath, run: Any) -> None:
    with paths_taken() as taken:
        run()
    assert not taken[path]


def test_every_fast_path_has_a_test() -> None:
    # Series need Spark: `test_results_of_windows_that_overlap_come_in_series`.
    assert {path for path, _ in TAKEN} | {"series"} == set(get_args(FastPath))


def test_thresholds_hold_as_long_as_they_are_asked_for() -> None:
    before = active()
    with tuned(keys_by_time=5), tuned(events_by_time=7):
        assert active() == replace(before, keys_by_time=5, events_by_time=7)
    with pytest.raises(RuntimeError), tuned(keys_by_time=5):
        raise RuntimeError
    assert active() == before
    with pytest.raises(TypeError, match="no_such_threshold"), tuned(no_such_threshold=1):
        pass


def test_thresholds_that_end_in_another_order_take_back_only_what_they_changed() -> None:
    outer, inner = tuned(forget_at_least=7), tuned(prune_at_least=9)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert (active().forget_at_least, active().prune_at_least) == (Tuning().forget_at_least, 9)
    inner.__exit__(None, None, None)
    assert active().prune_at_least == Tuning().prune_at_least
