"""Machine code is kept on disk: a fresh worker loads it and compiles nothing again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import slicewise as sw
from tests.support.spark import Touchy, events, frame_of


def counting(task: Callable[[Iterator[Any]], Iterator[Any]], folder: str) -> Any:
    """The task, which then writes how many functions its process loaded and compiled so far."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task(batches)
        stats = [
            value.stats
            for module in list(sys.modules.values())
            if module.__name__.startswith("_slicewise_")
            for value in vars(module).values()
            if hasattr(value, "stats") and hasattr(value, "py_func")
        ]
        hits = sum(sum(s.cache_hits.values()) for s in stats)
        misses = sum(sum(s.cache_misses.values()) for s in stats)
        Path(folder, uuid4().hex).write_text(f"{os.getpid()} {hits} {misses}", encoding="utf-8")

    return run


def test_a_fresh_worker_compiles_nothing_again(
    spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    frame = frame_of(spark, events(40, seed=1))
    agg = Touchy("x", "none")

    def counted(name: str) -> tuple[set[int], int, int]:
        """The worker processes, and how many functions they loaded and compiled."""
        folder = tmp_path / name
        folder.mkdir()
        # Workers with other variables of the environment are other processes.
        for variable, value in (("SLICEWISE_CACHE_DIR", tmp_path / "kept"), ("FRESH", name)):
            monkeypatch.setitem(spark.sparkContext.environment, variable, str(value))
        plain = type(frame).mapInArrow

        def watched(self: Any, task: Any, *more: Any) -> Any:
            return plain(self, counting(task, str(folder)), *more)

        with monkeypatch.context() as patch:
            patch.setattr(type(frame), "mapInArrow", watched)
            query: Any = {"by": "k", "time": "t", "aggs": agg}
            for found in (
                sw.windowed(frame, windows=sw.sliding(20, 10), **query),
                sw.rolling(frame, over=10, **query),
            ):
                found.collect()
        reports = [list(map(int, file.read_text().split())) for file in folder.iterdir()]
        # Numbers of one process only grow.
        last = {pid: max(r[1:] for r in reports if r[0] == pid) for pid, *_ in reports}
        hits, misses = (sum(numbers) for numbers in zip(*last.values(), strict=True))
        return set(last), hits, misses

    first, _, compiled = counted("first")
    second, loaded, again = counted("second")
    assert not first & second
    assert compiled > 0
    assert loaded > 0
    assert again == 0


def test_workers_of_our_daemon_begin_with_what_they_need(spark: Any, monkeypatch: Any) -> None:
    def loaded(batches: Iterator[Any]) -> Iterator[Any]:
        import sys

        import pyarrow as pa

        names = ["numba", "pandas", "slicewise.slicing.operator"]
        yield pa.RecordBatch.from_pydict({"known": [name in sys.modules for name in names]})

    # A daemon of its own, to whose workers nothing of ours was ever sent.
    monkeypatch.setitem(spark.sparkContext.environment, "FRESH", "daemon")
    found = spark.range(0, 1, 1, 1).mapInArrow(loaded, "known boolean").collect()
    assert [row["known"] for row in found] == [True, True, True]
