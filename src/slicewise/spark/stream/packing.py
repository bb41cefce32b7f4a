"""Micro-batches packed by bucket: what crosses the shuffle of a stream, and what comes back.

Before the shuffle each input partition sends the events of each bucket of keys as a few rows of
packed Arrow batches, and a heartbeat to every bucket: the newest event time that the partition saw.
So every bucket is called in every micro-batch, and all of them know the newest event time of the
whole micro-batch within it. Rows never exist one by one between the input and the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slicewise.columns import Column
from slicewise.limits import BEGINNING, EVER
from slicewise.slicing.ingest.reach import Reach
from slicewise.spark.compat import state_partitions
from slicewise.spark.frames import joined
from slicewise.spark.query import retyped
from slicewise.spark.workers import in_worker
from slicewise.times import UNITS, parsed

if TYPE_CHECKING:
    import pyarrow as pa

# Columns of the packed rows, and those that Spark adds to the events for packing.
PACKED = "bucket int, part int, seq int, kind tinyint, newest bigint, packed binary"
HASH, NOW = "__hash", "__now"
EVENTS, AHEAD, HEARTBEAT = range(3)


@dataclass(frozen=True)
class Buckets:
    """How keys are dealt to buckets: to `count` of them, or to one per partition of the state.

    The number of partitions belongs to the checkpoint, which is not known when a query is built, so
    tasks ask for it; `partitions` is what the session says.
    """

    count: int | None
    partitions: int

    def labels(self) -> tuple[int, ...]:
        """The label of each bucket, asked in a task."""
        partitions = state_partitions(self.partitions)
        return labels_for(self.count or partitions, partitions)

    def about(self) -> dict[str, int | None]:
        """The entries of a checkpoint about them, asked in a task: they fix the labels."""
        partitions = state_partitions(self.partitions)
        count = self.count or partitions
        return {
            "buckets": count,
            "spark.sql.shuffle.partitions": partitions if count > 1 else None,
        }


@dataclass(frozen=True)
class Pack:
    """From the events of an input partition to packed rows for every bucket.

    Columns come in the order of `schema`; what is behind them is ours. Events further ahead of the
    clock than `max_ahead` are packed apart, and do not count as the newest; nor do those out of
    `reach`, which are bad. `unit` says what numbers as times mean.
    """

    schema: pa.Schema
    time: str
    buckets: Buckets
    max_ahead: int | None
    reach: Reach = EVER
    unit: str | None = None

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        labels = self.buckets.labels()
        newest, seq, latest = BEGINNING, 0, None
        for rows in joined(batches):
            if seq == 0 and self.max_ahead is not None:
                many, one = UNITS[self.unit or "us"]
                latest = rows.column(NOW)[0].as_py() * one // many + self.max_ahead
            own = rows.select(range(len(self.schema))).rename_columns(self.schema.names)
            times = parsed(Column.from_arrow(own.column(self.time)), self.time)
            times = times.within(*self.reach)
            kinds = kinds_of(times.values, latest)
            good = kinds == EVENTS
            if times.usable is not None:
                good &= times.usable
            if good.any():
                newest = max(newest, int(times.values[good].max()))
            events = retyped(own, self._types())
            buckets = rows.column(HASH).to_numpy() % len(labels)
            found = [
                (labels[bucket], kind, BEGINNING, piece)
                for bucket, kind, piece in pieces_of(events, buckets, kinds)
            ]
            yield packed_rows(found, part, seq)
            seq += 1
        beats = [(label, HEARTBEAT, newest, b"") for label in labels]
        yield packed_rows(beats, part, seq)

    def _types(self) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in self.schema}


def pieces_of(
    events: pa.Table, buckets: np.ndarray, kinds: np.ndarray
) -> Iterator[tuple[int, int, bytes]]:
    """The events of each bucket and kind, in the order of arrival."""
    import pyarrow as pa

    # Numbers of 16 bits are sorted by counting. There are at most 32768 buckets.
    groups = buckets.astype(np.uint16) * np.uint16(HEARTBEAT) + kinds.astype(np.uint16)
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    stops = np.append(starts[1:], len(ordered))
    table = events.take(pa.array(order)) if len(starts) > 1 else events
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        bucket, kind = divmod(int(ordered[start]), HEARTBEAT)
        yield bucket, kind, to_bytes(table.slice(start, stop - start))


def kinds_of(times: np.ndarray, latest: int | None) -> np.ndarray:
    """Which events are too far ahead; none is when there is no latest time."""
    if latest is None:
        return np.full(len(times), EVENTS, np.int8)
    return np.where(times > latest, AHEAD, EVENTS).astype(np.int8)


def packed_rows(rows: list[tuple[int, int, int, bytes]], part: int, seq: int) -> pa.RecordBatch:
    """Rows (label, kind, newest, bytes) as a batch of the schema `PACKED`."""
    import pyarrow as pa

    labels, kinds, newest, packed = zip(*rows, strict=True)
    count = len(rows)
    columns = {
        "bucket": pa.array(labels, pa.int32()),
        "part": pa.array([part] * count, pa.int32()),
        "seq": pa.array([seq] * count, pa.int32()),
        "kind": pa.array(kinds, pa.int8()),
        "newest": pa.array(newest, pa.int64()),
        "packed": pa.array(packed, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def to_bytes(table: pa.Table) -> bytes:
    """A table as bytes, without its schema."""
    (batch,) = table.combine_chunks().to_batches() or [None]
    if batch is None:
        return b""
    made: bytes = batch.serialize().to_pybytes()
    return made


def to_table(pieces: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of several packed tables, one after the other."""
    import pyarrow as pa

    batches = [pa.ipc.read_record_batch(pa.py_buffer(piece), schema) for piece in pieces if piece]
    return pa.Table.from_batches(batches, schema)


@cache
def labels_for(buckets: int, partitions: int) -> tuple[int, ...]:
    """Numbers for buckets that Spark's hash spreads evenly over its shuffle partitions.

    >>> labels_for(4, 2)
    (0, 1, 2, 4)
    """
    most = -(-buckets // partitions)
    taken = [0] * partitions
    found: list[int] = []
    number = 0
    while len(found) < buckets:
        partition = murmur3(number) % partitions
        if taken[partition] < most:
            taken[partition] += 1
            found.append(number)
        number += 1
    return tuple(found)


def murmur3(number: int, seed: int = 42) -> int:
    """Spark's hash of an int, by which it chooses a shuffle partition.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    mask = 0xFFFFFFFF
    mixed = number * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    mixed = mixed * 0x1B873593 & mask
    h = seed ^ mixed
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & mask
    h ^= h >> 13
    h = h * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
