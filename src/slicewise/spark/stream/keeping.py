"""Buckets of keys: the stateful part of a stream.

A bucket's state is one packed snapshot, which Spark keeps in its checkpoint and carries inside the
Arrow batch, so its price is paid per bucket and not per key. The watermark is the stream's own: the
newest event time of all micro-batches up to this one, less the delay. It is a function of the
events alone, so it is the same when a micro-batch is replayed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from slicewise import tuning
from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING, EVER
from slicewise.slicing.ingest.reach import Reach
from slicewise.spark.stream.packing import AHEAD, EVENTS, Buckets, to_bytes, to_table
from slicewise.spark.stream.sifting import sifted
from slicewise.spark.workers import in_worker

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# What a bucket keeps.
STATE = "about string, kept binary"
# Events that some windows missed have their names in one column more than those that all did.
RESULTS, DROPPED, METRICS, PARTLY = range(4)
FORMAT = 1
# What is said about a query beside what a restart may not change.
UNFIXED = ("format", "schema", "late", "types", "metrics")


@dataclass
class Metrics:
    """What a bucket did in a micro-batch, and what it keeps after it."""

    events: int = 0
    late: int = 0
    late_partly: int = 0
    bad: int = 0
    slices: int = 0
    state_bytes: int = 0
    interpreted: int = 0
    failed: int = 0


# What a bucket hands on: packed tables, and at last a row with its metrics, zero in all others.
MADE = ", ".join(["kind tinyint, made binary", *(f"{f.name} bigint" for f in fields(Metrics))])


class Kept(ABC):
    """The state of the keys of a bucket, in the middle of a micro-batch."""

    @abstractmethod
    def take(self, events: pa.Table) -> None:
        """Take events in the order of their arrival."""

    @abstractmethod
    def advance(self, watermark: int) -> Iterator[pa.Table]:
        """Take a watermark; the rows that are due."""

    @abstractmethod
    def dropped(self) -> Iterator[pa.Table]:
        """The events that were left out since the last call, or missed by some windows."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All of it."""

    @abstractmethod
    def measured(self, metrics: Metrics) -> None:
        """Fill in how many events were late or bad, and what is kept."""


class Keeper(ABC):
    """How the state of a bucket comes to life; sent to workers."""

    @property
    def sayable(self) -> Reach:
        """The least and the greatest time of events that are not bad."""
        return EVER

    @abstractmethod
    def fresh(self) -> Kept:
        """The state of a bucket before the first event."""

    @abstractmethod
    def resumed(self, snapshot: bytes) -> Kept:
        """The state after a snapshot; refuses one that cannot be gone on from."""

    @abstractmethod
    def is_about(self, error: Exception, events: pa.Table) -> bool:
        """Tells if some of the events are to blame for an error, so that others can go on."""


@dataclass(frozen=True)
class KeepBuckets:
    """The function that Spark calls with each bucket, its packed events and its state.

    `about` is what a restart may not change, and so are `buckets`; `schema` is that of the events.
    The watermark is `delay` behind the newest event; `keep_late` hands on the events that are left
    out.
    """

    keeper: Keeper
    about: dict[str, Any]
    schema: pa.Schema
    delay: int
    keep_late: bool
    buckets: Buckets | None = None

    @in_worker
    def __call__(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        about = {**self.about, **(self.buckets.about() if self.buckets else {})}
        known, snapshot = state.get if state.exists else ("", None)
        newest = self._facts(json.loads(known), about) if known else BEGINNING
        batch = Arrived.of(frames)
        newest = max(newest, batch.newest)
        kept, made, metrics = self._step(snapshot, batch, newest)
        blob = kept.snapshot()
        metrics.state_bytes = len(blob)
        kept.measured(metrics)
        state.update((json.dumps({**about, "newest": newest}), blob))
        made.append((METRICS, b""))
        kinds, packed = zip(*made, strict=True)
        numbers = {name: [0] * (len(made) - 1) + [n] for name, n in asdict(metrics).items()}
        yield pd.DataFrame({"kind": list(kinds), "made": list(packed), **numbers})

    def _step(
        self, snapshot: bytes | None, batch: Arrived, newest: int
    ) -> tuple[Kept, list[tuple[int, bytes]], Metrics]:
        events = to_table(batch.packed[EVENTS], self.schema)
        bad = [to_table(batch.packed[AHEAD], self.schema)]
        count = events.num_rows + bad[0].num_rows
        kept = self._kept(snapshot)
        try:
            if events.num_rows:
                kept.take(events)
        except Exception as error:
            if not self.keeper.is_about(error, events):
                raise
            good, refused = sifted(
                events, self.about["by"], lambda some: self._kept(snapshot).take(some)
            )
            bad.append(refused)
            kept = self._kept(snapshot)
            if good.num_rows:
                kept.take(good)
        watermark = max(BEGINNING, newest - self.delay)
        made = [(RESULTS, piece) for piece in pieces(kept.advance(watermark))]
        out = [*bad, *kept.dropped()]  # asked for in any case: it is forgotten then
        if self.keep_late:
            for table in out:
                kind = PARTLY if table.num_columns > len(self.schema) else DROPPED
                made += [(kind, piece) for piece in pieces([table])]
        return kept, made, Metrics(events=count, bad=sum(table.num_rows for table in bad))

    def _kept(self, snapshot: bytes | None) -> Kept:
        return self.keeper.fresh() if snapshot is None else self.keeper.resumed(snapshot)

    def _facts(self, before: dict[str, Any], now: dict[str, Any]) -> int:
        """The newest event time of the checkpoint, if this query may go on from it."""
        check_about(before, now)
        newest: int = before["newest"]
        return newest


def check_about(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a checkpoint that was written by something that this query is not."""
    if before.get("format", 0) > FORMAT:
        raise SnapshotError(
            f"The checkpoint has format {before['format']}; this release of Slicewise reads "
            f"formats up to {FORMAT}. Go on with the release that wrote it, or a later one."
        )
    # Checkpoints of earlier releases do not say what the numbers of the time column mean.
    fixed = [n for n in now if n not in UNFIXED and not (n == "unit" and n not in before)]
    differing = [
        f"`{name}` was {before.get(name)!r} and is {now[name]!r}"
        for name in fixed
        if before.get(name) != now[name]
    ]
    types = known_types(before)
    # The bucket of a key depends on its type.
    differing += [
        f"the type of the column {name!r} was {types[name]} and is {kind}"
        for name, kind in now.get("types", {}).items()
        if types.get(name, kind) != kind
    ]
    if differing:
        raise SnapshotError(
            f"The checkpoint was written by another query: {'; '.join(differing)}. Give the same "
            "as before, or start with a new checkpoint."
        )


def known_types(about: dict[str, Any]) -> dict[str, str]:
    """The types of the key columns and the time column, as far as a checkpoint tells them."""
    found: dict[str, str] = about.get("types", {})
    if not found and "schema" in about:
        # Earlier releases say only what the rows of the result are like; the keys are in them.
        from pyspark.sql.types import StructType

        rows = StructType.fromJson(json.loads(about["schema"]))
        found = {name: rows[name].dataType.simpleString() for name in about["by"]}
    return found


@dataclass(frozen=True)
class Arrived:
    """The packed events of a micro-batch for one bucket, in an order that a replay repeats."""

    newest: int
    packed: dict[int, list[bytes]]

    @staticmethod
    def of(frames: Iterator[pd.DataFrame]) -> Arrived:
        newest = BEGINNING
        rows: list[tuple[Any, ...]] = []
        for frame in frames:
            newest = max(newest, int(frame["newest"].max()))
            columns = (frame[name].tolist() for name in ("part", "seq", "kind", "packed"))
            rows += zip(*columns, strict=True)
        # No two rows of one kind have the same part and number.
        rows.sort(key=lambda row: row[:3])
        packed: dict[int, list[bytes]] = {EVENTS: [], AHEAD: []}
        for _, _, kind, piece in rows:
            if kind in packed:
                packed[kind].append(piece)
        return Arrived(newest, packed)


def pieces(tables: Any) -> Iterator[bytes]:
    """Tables as packed pieces of a bounded number of rows."""
    for table in tables:
        size = tuning.active().rows_packed
        for start in range(0, table.num_rows, size):
            yield to_bytes(table.slice(start, size))
