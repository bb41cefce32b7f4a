"""Streams that are stopped in the middle of their work, for checkpoints that are kept as files.

`python -m tests.spark.checkpoints FOLDER` writes a checkpoint of each stream that the folder does
not have yet, and what comes after it. Files that are there stay: they were written by the release
that they stand for, and every later one has to go on from them.
"""

from __future__ import annotations

import gzip
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slicewise as sw
from tests.support.spark import Row, events
from tests.support.streaming import Source, disordered, drained, run

PARTITIONS = 2
# Checkpoints say where the files of a stream are; those that are kept say `EVENTS`.
EXPECTED = "expected.json.gz"
EVENTS = "file:///events"
ROWS = disordered(events(120, seed=61), 61, 25)
# The first files are in the checkpoint; with the last one the stream goes on.
PARTS = [ROWS[:50], ROWS[50:90], ROWS[90:]]
WATERMARK = 30

WINDOWS: dict[str, Any] = {
    "by": "k",
    "time": "t",
    "windows": [
        sw.tumbling(10),
        sw.sliding(40, every=8),
        sw.cumulate(24, every=6),
        sw.session(4),
        sw.tumbling(sw.rows(3)),
        sw.punctuated("flag"),
    ],
    "aggs": [
        sw.agg.count(),
        sw.agg.sum("x"),
        sw.agg.mean("y"),
        sw.agg.median("x"),
        sw.agg.count_distinct("s"),
        sw.agg.last("id"),
    ],
}
# The watermark of the second one is ahead of some events: they revise what was emitted.
REVISED: dict[str, Any] = {**WINDOWS, "watermark": 5, "lateness": 60, "keep_late": True}
ROLLING: dict[str, Any] = {
    "by": "k",
    "time": "t",
    "over": [20, sw.rows(4)],
    "aggs": [sw.agg.sum("x"), sw.agg.max("y"), sw.agg.last("id")],
}


@dataclass(frozen=True)
class Case:
    """A verb and what it is asked."""

    verb: Callable[..., Any]
    given: dict[str, Any]

    def stream(self, spark: Any, source: Source) -> Any:
        return self.verb(source.stream(spark), **{"watermark": WATERMARK} | self.given, buckets=2)


CASES = {
    "windowed": Case(sw.windowed, WINDOWS),
    "revised": Case(sw.windowed, REVISED),
    "rolling": Case(sw.rolling, ROLLING),
}


def going_on(spark: Any, case: Case, source: Source, checkpoint: Path) -> dict[str, list[str]]:
    """What a stream with the last file emits, and what is open in it then."""
    source.add(PARTS[-1])
    ran = run(case.stream(spark, source), checkpoint)
    return {"after": shown(ran.rows), "open": shown(drained(checkpoint))}


def shown(rows: list[Row]) -> list[str]:
    """Rows in a form that can be kept, and without an order."""
    return sorted(map(json.dumps, rows))


def pack(checkpoint: Path, events: Path, to: Path) -> None:
    """Write a checkpoint as one file, in which the folder of the events has another name."""
    rename(checkpoint, events.as_uri(), EVENTS)
    with (
        gzip.GzipFile(to, "wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as packed,
    ):
        packed.add(checkpoint, checkpoint.name)
    rename(checkpoint, EVENTS, events.as_uri())


def unpacked(name: str, kept: Path, folder: Path) -> tuple[Source, Path]:
    """The files of a stream and its checkpoint, as they were when that was stopped."""
    source = Source(folder / "in")
    source.add(*PARTS[:-1])
    with tarfile.open(kept / f"{name}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    rename(folder / name, EVENTS, source.folder.as_uri())
    return source, folder / name


def rename(checkpoint: Path, before: str, after: str) -> None:
    """Say in a checkpoint that files are in another folder."""
    for path in (checkpoint / "sources" / "0").iterdir():
        if path.suffix == ".crc":
            path.unlink()
        else:
            path.write_text(path.read_text().replace(f"{before}/", f"{after}/"))


def kept_results(kept: Path) -> dict[str, dict[str, list[str]]]:
    """The rows of each stream: before it was stopped, afterwards, and those that stayed open."""
    path = kept / EXPECTED
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}


def write(spark: Any, kept: Path) -> None:
    """Write the checkpoints that are not there yet, and what comes after them."""
    kept.mkdir(parents=True, exist_ok=True)
    expected = kept_results(kept)
    for name, case in CASES.items():
        if name in expected:
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            source = Source(folder / "in")
            source.add(*PARTS[:-1])
            before = run(case.stream(spark, source), folder / name)
            pack(folder / name, source.folder, kept / f"{name}.tar.gz")
            after = going_on(spark, case, source, folder / name)
            expected[name] = {"before": shown(before.rows), **after}
    (kept / EXPECTED).write_bytes(gzip.compress(json.dumps(expected).encode(), mtime=0))


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .getOrCreate()
    )
    write(session, Path(sys.argv[1]))
    session.stop()
