"""Streams of files for the tests, and what an operator makes of the same micro-batches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import slicewise as sw
from slicewise.testing import Emitted
from tests.support.spark import SCHEMA, Row, plain

TYPES = pa.schema(
    [
        ("k", pa.string()),
        ("t", pa.int64()),
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ("km", pa.int64()),
        ("flag", pa.bool_()),
        ("id", pa.int64()),
    ]
)
HEAD = ("window", "start", "end", "revision", "retracted", "late")


def disordered(rows: Iterable[Row], seed: int, disorder: int) -> list[Row]:
    """The events in an order in which each is at most `disorder` behind the newest."""
    draw = random.Random(seed)
    return sorted(rows, key=lambda row: row["t"] + draw.uniform(0, disorder))


def cut(rows: Sequence[Row], seed: int, parts: int) -> list[list[Row]]:
    """The events in as many parts of random lengths, one after the other."""
    draw = random.Random(seed)
    cuts = [0, *sorted(draw.sample(range(1, len(rows)), parts - 1)), len(rows)]
    return [list(rows[a:b]) for a, b in pairwise(cuts)]


@dataclass
class Source:
    """A folder of files, which a stream reads in the order in which they were added."""

    folder: Path
    schema: pa.Schema = field(default_factory=lambda: TYPES)
    files: int = 0

    def add(self, *parts: Sequence[Row]) -> None:
        """A file for each part."""
        self.folder.mkdir(exist_ok=True)
        for rows in parts:
            path = self.folder / f"{self.files:05}.parquet"
            pq.write_table(pa.Table.from_pylist(list(rows), self.schema), path)
            moment = 1_700_000_000 + self.files  # files are taken by their age
            os.utime(path, (moment, moment))
            self.files += 1

    def stream(self, spark: Any, files: int = 1, schema: str = SCHEMA) -> Any:
        """The stream of them, so many in a micro-batch."""
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.folder))


@dataclass
class Ran:
    """What a query handed to its sink, by micro-batch, and what it said of itself."""

    batches: list[list[Row]]
    metrics: list[dict[str, int]]

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]


def run(frame: Any, checkpoint: Path, *, rows: bool = True) -> Ran:
    """Run a query over all files that are there; without `rows` nothing is done with its rows."""
    batches: list[list[Row]] = []

    def keep(batch: Any, number: int) -> None:
        batches.append([plain(row) for row in batch.collect()])

    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(keep) if rows else writer.format("noop")
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(300)
        assert not query.isActive, "the query takes too long"
    finally:
        query.stop()
    progress = [p for p in query.recentProgress if "slicewise" in p["observedMetrics"]]
    return Ran(batches, [plain(p["observedMetrics"]["slicewise"]) for p in progress])


def drained(checkpoint: Path, **given: Any) -> list[Row]:
    """What is still open."""
    return [plain(row) for row in sw.drain(checkpoint, **given).collect()]


def emitted(rows: Iterable[Row], by: Any = "k") -> list[Emitted]:
    """Rows of a stream of windows in the form of an operator's results."""
    names = [by] if isinstance(by, str) else list(by or ())
    found = []
    for row in rows:
        if row["window"] is None:
            continue  # a dropped event
        key: Any = tuple(row[name] for name in names)
        key = None if by is None else key[0] if isinstance(by, str) else key
        values = {name: v for name, v in row.items() if name not in (*names, *HEAD)}
        found.append(
            Emitted(
                key,
                row["window"],
                row["start"],
                row["end"],
                values,
                row.get("revision", 0),
                row.get("retracted", False),
            )
        )
    return found


def late(rows: Iterable[Row]) -> list[Row]:
    """The dropped events among the rows of a stream."""
    found = [dict(row["late"]) for row in rows if row["window"] is None]
    for row in found:
        if row.get("missed", ()) is None:
            del row["missed"]  # all windows did
    return sorted(found, key=lambda row: row["id"])


@dataclass
class Fed:
    """An operator that is fed with the micro-batches of a stream, in this process."""

    operator: sw.Operator
    delay: int
    newest: int | None = None

    def step(self, rows: Sequence[Row]) -> list[Any]:
        """The results of a micro-batch."""
        times = [row["t"] for row in rows if row["t"] is not None]
        self.newest = max([*times, *([] if self.newest is None else [self.newest])], default=None)
        self.operator.process(pa.Table.from_pylist(list(rows), TYPES))
        return self.operator.advance(self.newest - self.delay) if self.newest is not None else []


def grouped(parts: Sequence[Sequence[Row]], files: int) -> list[list[Row]]:
    """The micro-batches of so many files each."""
    return [
        [row for part in parts[begin : begin + files] for row in part]
        for begin in range(0, len(parts), files)
    ]
