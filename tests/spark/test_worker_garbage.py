"""Spark's workers collect garbage after every task; what was imported must not slow that down."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import slicewise as sw
from slicewise.spark.workers import freeze_modules, in_worker
from tests.support.spark import events, frame_of


def frozen_in_workers(spark: Any) -> list[tuple[int, int]]:
    """How many objects are left out, and how many not, in workers that ran a task of ours."""

    def report(batches: Iterator[Any]) -> Iterator[Any]:
        import gc
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        if "slicewise.spark.workers" in sys.modules:
            row = {"left_out": [gc.get_freeze_count()], "visited": [len(gc.get_objects())]}
            yield pa.RecordBatch.from_pydict(row)

    frame = spark.range(0, 4, 1, 4).mapInArrow(report, "left_out long, visited long")
    return [tuple(row) for row in frame.collect()]


def test_garbage_collection_after_a_task_leaves_out_what_was_imported(spark: Any) -> None:
    frame = frame_of(spark, events(60, 1))
    windows = sw.windowed(frame, by="k", time="t", windows=sw.tumbling(10), aggs=sw.agg.sum("x"))
    assert windows.count()
    found = frozen_in_workers(spark)
    assert found
    assert all(left_out > 10 * visited for left_out, visited in found), found


def test_the_process_of_the_driver_is_left_as_it_is() -> None:
    before = gc.get_freeze_count()
    assert list(in_worker(lambda: iter([1, 2]))()) == [1, 2]
    freeze_modules()
    assert gc.get_freeze_count() == before
