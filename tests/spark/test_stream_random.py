"""Batch = stream: whatever the events, their disorder, the files, the triggers and the lateness."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.testing import fold
from tests.support.queries import FREE, ROWS
from tests.support.spark import answers, assert_same, events, frame_of
from tests.support.streaming import Source, cut, disordered, drained, emitted, late, run

KINDS = [window for window in [*FREE, *ROWS] if not isinstance(window, sw.UserWindow)]
COMMUTE = [sw.agg.sum("x"), sw.agg.count(), sw.agg.median("x")]
ORDERED = [*COMMUTE, sw.agg.last("s")]


def agrees(spark: Any, folder: Path, seed: int, windows: list[Any], aggs: list[Any]) -> None:
    """Hold a stream of random events and settings against the batch run of the same events."""
    draw = random.Random(seed)
    count = draw.choice([12, 60, 150])
    given = disordered(events(count, seed), seed, draw.choice([0, 10, 80]))
    source = Source(folder / "in")
    source.add(*cut(given, seed, draw.randrange(1, 8)))
    emit: Any = draw.choice(["final", "on_close", "on_update"])
    by = draw.choice([None, "k", ["k", "s"]])
    query: dict[str, Any] = {"by": by, "time": "t", "windows": windows, "aggs": aggs}
    stream = sw.windowed(
        source.stream(spark, draw.randrange(1, 4)), **query, emit=emit, keep_late=True,
        watermark=draw.choice([0, 10, 50]), lateness=draw.choice([0, 15, 70]),
        buckets=draw.choice([1, 3]),
    )  # fmt: skip
    ran = run(stream, folder / "state")
    lost = {row["id"] for row in late(ran.rows)}
    counted = [row for row in given if row["id"] not in lost]
    found = emitted([*ran.rows, *drained(folder / "state")], by)
    expected = answers(sw.windowed(frame_of(spark, counted), **query), by)
    assert_same(fold(found), expected)
    if emit == "final":
        assert len(found) == len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_of_windows(spark: Any, tmp_path: Path, seed: int) -> None:
    draw = random.Random(100 + seed)
    windows = draw.sample(KINDS, draw.randrange(2, 7))
    agrees(spark, tmp_path, 100 + seed, windows, draw.choice([COMMUTE, ORDERED]))


@pytest.mark.slow
@pytest.mark.parametrize("aggs", [COMMUTE, ORDERED], ids=["commute", "ordered"])
@pytest.mark.parametrize("number", range(len(KINDS)), ids=[window.name for window in KINDS])
def test_each_kind_of_window_alone(
    spark: Any, tmp_path: Path, number: int, aggs: list[Any]
) -> None:
    agrees(spark, tmp_path, 200 + number + len(aggs), [KINDS[number]], aggs)
