"""Exactly once: streams whose processes are killed give the batch answer, nothing twice or lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.testing import windowed_rows
from tests.support.spark import SCHEMA, Row, assert_same, events, own_spark
from tests.support.streaming import Source, cut, disordered, emitted

# Each start of Spark takes seconds, and there are a dozen.
pytestmark = pytest.mark.slow

WINDOWS = [
    sw.sliding(30, every=10),
    sw.session(3),
    sw.tumbling(sw.rows(4)),
    sw.punctuated("flag"),
]

# As a user's script: the aggregate lives in `__main__`, which no worker can import.
SCRIPT = f"""
import sys
import warnings

warnings.simplefilter("ignore")
import slicewise as sw
from pyspark.sql import SparkSession

master, folder, files = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.task.maxFailures", "4")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")


class Total(sw.Aggregate):
    commutative = True

    def identity(self):
        return (0.0, 0)

    def lift(self, x):
        return (float(x), 1)

    def combine(self, older, newer):
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state):
        return state[0]


aggs = [sw.agg.sum("x"), sw.agg.count(), sw.agg.last("s"), Total("id")]
windows = [
    sw.sliding(30, every=10),
    sw.session(3),
    sw.tumbling(sw.rows(4)),
    sw.punctuated("flag"),
]
stream = spark.readStream.schema({SCHEMA!r}).option("maxFilesPerTrigger", files)
found = sw.windowed(
    stream.parquet(f"{{folder}}/in"),
    by="k", time="t", windows=windows, aggs=aggs, watermark=20, lateness=20, emit="final",
)
query = (
    found.writeStream.format("parquet")
    .option("path", f"{{folder}}/out")
    .option("checkpointLocation", f"{{folder}}/state")
    .trigger(availableNow=True)
    .start()
)
print("started", flush=True)
query.awaitTermination()
spark.read.parquet(f"{{folder}}/out").coalesce(1).write.parquet(f"{{folder}}/emitted")
left = sw.drain(f"{{folder}}/state", aggs=aggs)
left.coalesce(1).write.parquet(f"{{folder}}/left")
print("done", flush=True)
spark.stop()
"""


@contextmanager
def running(folder: Path, master: str, files: int) -> Iterator[subprocess.Popen[bytes]]:
    """The script in a process group of its own, which is gone afterwards."""
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with (folder / "log").open("a") as log, (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, str(script), master, str(folder), str(files)],
            cwd=folder,
            env=own_spark(folder / "work"),
            stdout=said,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            for pid in [process.pid, *_children(process.pid)]:
                _kill(os.killpg, pid)
            process.wait(60)


def _kill(how: Callable[[int, int], None], pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it is gone, or leads no group
        how(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """All processes below one, which may lead groups of their own."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _executors(pid: int) -> list[int]:
    """The executor processes of a cluster."""
    found = []
    for child in _children(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
            found.append(child)
    return found


def wait_for(done: Callable[[], Any], process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait until something is so, while the process runs."""
    end = time.monotonic() + seconds
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def given(folder: Path, count: int, files: int) -> list[Row]:
    rows = disordered(events(count, seed=61), 61, 35)
    Source(folder / "in").add(*cut(rows, 61, files))
    return rows


def check(folder: Path, rows: list[Row]) -> None:
    """What came to the sink and what is still open are the batch answer, each row once."""
    found = [
        row
        for part in ("emitted", "left")
        for file in sorted((folder / part).glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
    results = emitted(found)
    aggs = [sw.agg.sum("x"), sw.agg.count(), sw.agg.last("s"), sw.agg.sum("id").alias("id_total")]
    expected = windowed_rows(rows, windows=WINDOWS, aggs=aggs, time="t", by="k")
    assert_same({(r.key, r.window, r.start, r.end): r.values for r in results}, expected)
    assert len(results) == len(expected), "nothing comes twice"


def commits(folder: Path) -> int:
    """How many micro-batches are done."""
    path = folder / "state" / "commits"
    return sum(name.name.isdigit() for name in path.iterdir()) if path.exists() else 0


def planned(folder: Path) -> int:
    """How many micro-batches have begun."""
    path = folder / "state" / "offsets"
    return sum(name.name.isdigit() for name in path.iterdir()) if path.exists() else 0


def has_come(folder: Path, number: int) -> bool:
    """Whether the query of this process runs, and so many micro-batches are done."""
    return "started" in (folder / "said").read_text() and commits(folder) >= number


def test_a_stream_that_is_killed_again_and_again_gives_each_row_once(tmp_path: Path) -> None:
    rows = given(tmp_path, 400, files=60)
    draw = random.Random(62)
    inside = 0
    for _ in range(10):
        with running(tmp_path, "local[2]", 1) as process:
            # In the micro-batch that is done again, or in one of the next.
            come = partial(has_come, tmp_path, commits(tmp_path) + draw.choice([0, 0, 0, 1]))
            assert wait_for(come, process, 120), log_of(tmp_path)
            time.sleep(draw.uniform(0, 2.5))
            assert process.poll() is None, "it was done before it could be killed"
            inside += planned(tmp_path) > commits(tmp_path)
    assert inside >= 5, "most are killed in the middle of a micro-batch"
    with running(tmp_path, "local[2]", 6) as process:
        assert process.wait(300) == 0, log_of(tmp_path)
    check(tmp_path, rows)


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()[-4000:]


def test_a_cluster_that_loses_an_executor_gives_each_row_once(tmp_path: Path) -> None:
    rows = given(tmp_path, 200, files=8)
    with running(tmp_path, "local-cluster[2,1,1024]", 1) as process:
        assert wait_for(lambda: planned(tmp_path) > 2, process, 200), log_of(tmp_path)
        victims = _executors(process.pid)
        assert len(victims) == 2
        _kill(os.kill, victims[0])
        assert process.wait(300) == 0, log_of(tmp_path)
        assert commits(tmp_path) == 8
    check(tmp_path, rows)
