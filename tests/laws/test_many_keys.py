"""Hundreds of keys and batches of thousands of events give what the definitions say.

Random examples are small, and the ways that large batches take are others than those of small ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows, paths_taken
from slicewise.tuning import tuned
from slicewise.windows import Window
from tests.support.operators import without_retracted_values

FREE: list[Window] = [
    sw.tumbling(70),
    sw.sliding(100, every=30),
    sw.sliding(20, every=50),
    sw.cumulate(90, every=20),
    sw.fixed(150, 90),
]
CONTEXT: list[Window] = [
    sw.session(9),
    sw.session(20, max_length=60),
    sw.tumbling(sw.rows(4)),
    sw.sliding(sw.rows(3), every=25, name="last_rows"),
    sw.punctuated("flag"),
]
SUMS = [sw.agg.sum("x"), sw.agg.count()]


def batches(keys: int, size: int, many: int, disorder: float = 0.3) -> list[dict[str, Any]]:
    """Batches of `size` events, 200 units of time long; some events are up to 90 units older."""
    random = np.random.default_rng(keys + size)
    made: list[dict[str, Any]] = []
    for number in range(many):
        delays = random.integers(0, 90, size) * (random.random(size) < disorder)
        made.append(
            {
                "t": np.sort(random.integers(200 * number, 200 * (number + 1), size)) - delays,
                "k": random.integers(0, keys, size),
                "x": random.integers(-9, 9, size),
                "flag": random.random(size) < 0.2,
            }
        )
    return made


def follow(given: list[dict[str, Any]], **made: Any) -> tuple[sw.Operator, Oracle]:
    """Give the same batches to both, with a watermark that leaves some events late."""
    op, oracle = sw.Operator(time="t", **made), Oracle(time="t", **made)
    for batch in given:
        op.process(batch)
        oracle.process(batch)
        watermark = int(batch["t"].max()) - 60
        emitted, expected = op.advance(watermark), oracle.advance(watermark)
        assert_same_rows(without_retracted_values(emitted), without_retracted_values(expected))
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))
    assert op.stats.late_dropped == len(oracle.late)
    assert op.stats.late_partly == len(oracle.partly)
    return op, oracle


@pytest.mark.parametrize("emit", ["on_close", "final"])
def test_many_keys_by_time_give_what_the_definitions_say(emit: Any) -> None:
    given = batches(300, 4500, 2)
    with tuned(keys_by_time=256), paths_taken() as taken:
        op, _ = follow(given, windows=FREE, aggs=SUMS, by="k", emit=emit)
    assert (taken["bands"], taken["bands closed"]) == (2, 3)
    assert op.stats.late_partly > 0


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
def test_many_keys_with_revisions_give_what_the_definitions_say(emit: Any) -> None:
    given = batches(200, 2000, 2)
    follow(given, windows=FREE, aggs=SUMS, by="k", emit=emit, lateness=25)


@pytest.mark.parametrize("lateness", [0, 25])
def test_many_keys_with_windows_of_context_give_what_the_definitions_say(lateness: int) -> None:
    given = batches(200, 2000, 2)
    follow(given, windows=[*CONTEXT, sw.tumbling(70)], aggs=SUMS, by="k", lateness=lateness)


def test_many_keys_of_texts_and_of_two_columns_give_what_the_definitions_say() -> None:
    for by in ("name", ["name", "flag"]):
        given = batches(200, 2000, 2)
        for batch in given:
            batch["name"] = np.array([f"key {k}" for k in batch["k"]], object)
        follow(given, windows=[sw.tumbling(70), sw.session(9)], aggs=SUMS, by=by)


def test_many_keys_where_order_matters_give_what_the_definitions_say() -> None:
    aggs = [sw.agg.first("x"), sw.agg.collect("x")]
    follow(
        batches(200, 2000, 2), windows=[sw.sliding(100, every=30), CONTEXT[0]], aggs=aggs, by="k"
    )


@pytest.mark.parametrize("lateness", [0, 25])
def test_large_batches_of_one_key_give_what_the_definitions_say(
    lateness: int,
) -> None:
    windows = [*FREE, sw.session(9), sw.session(2)]
    for defined in (FREE, windows):
        follow(batches(1, 2000, 2), windows=defined, aggs=SUMS, lateness=lateness)
    # Few events, so that sessions end.
    follow(batches(1, 40, 20), windows=windows, aggs=SUMS, lateness=lateness)


def test_large_batches_in_order_give_what_the_definitions_say() -> None:
    made: dict[str, Any] = {"windows": [*FREE, *CONTEXT], "aggs": SUMS, "by": "k", "time": "t"}
    op, oracle = sw.Operator(**made, ordered=True), Oracle(**made, ordered=True)
    for batch in batches(200, 2000, 2, disorder=0):
        ours = op.process(batch)
        assert ours is not None
        assert_same_rows(ours, oracle.process(batch))
    assert_same_rows(op.advance(math.inf), oracle.advance(math.inf))
