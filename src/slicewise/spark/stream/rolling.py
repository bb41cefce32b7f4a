"""`sw.rolling` on streams: each event with its trailing aggregates, once the watermark passes it.

A bucket keeps the events that wait for the watermark, with all their columns, and of those that
have been answered what aggregates read, as far back as windows to come can reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.arrays.grouping import encode
from slicewise.arrays.ordering import order_of
from slicewise.columns import Column, unreadable
from slicewise.errors import SnapshotError
from slicewise.frames.trailing import rolling_columns
from slicewise.limits import BEGINNING
from slicewise.slicing.ingest.ties import order_of_ties
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.state.describe import aggregate_described, aggregate_of, chosen
from slicewise.spans import Duration, Rows, Span, Ticks
from slicewise.spark.asked import AskedSpans
from slicewise.spark.blame import is_about_events
from slicewise.spark.frames import arrow_schema, fit
from slicewise.spark.options import StreamOptions
from slicewise.spark.query import Query
from slicewise.spark.stream.keeping import Keeper, Kept, Metrics
from slicewise.spark.stream.stream import Stream
from slicewise.times import parsed, times_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KeepTrailing(Keeper):
    """Spans and aggregates; `made` is the schema of the rows with their new columns."""

    query: Query
    spans: tuple[Span, ...]
    reach: int
    made: pa.Schema

    @cached_property
    def reads(self) -> list[str]:
        """The columns that windows to come need of the events behind the watermark."""
        used = [column for agg in self.query.aggs for column in agg.columns]
        return list(dict.fromkeys([*self.query.by, self.query.time, *used]))

    @cached_property
    def new(self) -> list[pa.Field]:
        """The columns that rolling adds."""
        return list(self.made)[-len(self.query.aggs) * len(self.spans) :]

    @cached_property
    def passed(self) -> list[str]:
        """The columns of the events, which pass through."""
        return [field.name for field in self.made][: -len(self.new)]

    @property
    def rows(self) -> int:
        """How many rows of a key the next one reaches back to."""
        return max((span.count for span in self.spans if isinstance(span, Rows)), default=1) - 1

    def fresh(self) -> Kept:
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        return TrailingKept(self)

    def resumed(self, snapshot: bytes) -> Kept:
        source = BlobReader(snapshot)
        header = source.header
        if self.reach > header["reach"] or self.rows > header["rows"]:
            raise SnapshotError(
                f"The checkpoint keeps events for spans up to {header['reach']} and "
                f"{header['rows'] + 1} rows; the spans of this query reach back over {self.reach} "
                f"and {self.rows + 1} rows. Give no longer spans than before, or start with a new "
                "checkpoint."
            )
        kept = TrailingKept(self)
        self.query.bounds()
        kept.watermark = header["watermark"]
        before, waiting = (
            table_of(
                source.get_bytes(header[name]), any_text=True
            )  # what passes through may be any
            for name in ("before", "waiting")
        )
        missing = set(self.reads) - set(before.column_names)
        if missing:
            shown = ", ".join(sorted(map(repr, missing)))
            raise SnapshotError(
                f"The checkpoint keeps nothing of the column {shown}, so aggregates of it would "
                "miss the events before. Leave it out, or start with a new checkpoint."
            )
        kept.before = self._read(before, self.reads)
        kept.waiting = self._read(waiting, self.passed)
        return kept

    def _read(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        """Events of a checkpoint with the columns of this query; new ones are null in them."""
        import pyarrow as pa

        types, columns = self.query.types, []
        for name in names:
            if name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, types[name]))
                continue
            column = table.column(name)
            try:
                columns.append(column.cast(types[name]))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SnapshotError(
                    f"The column {name!r} was {column.type} and is {types[name]}, and events that "
                    "the checkpoint keeps cannot be changed so. Cast the column to its old type, "
                    "give it another name, or start with a new checkpoint."
                ) from error
        return pa.Table.from_arrays(columns, names=list(names))

    def is_about(self, error: Exception, events: pa.Table) -> bool:
        return is_about_events(error, self.query.aggs, self.query.by, events)


class TrailingKept(Kept):
    """The events of a bucket that wait, and those that windows to come reach back to."""

    def __init__(self, keeper: KeepTrailing) -> None:
        self.keeper = keeper
        self.watermark = BEGINNING
        self.before: pa.Table | None = None
        self.waiting: pa.Table | None = None
        self.late: list[pa.Table] = []
        self.timeless: list[pa.Table] = []
        self.failed = 0

    def _times(self, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        name = self.keeper.query.time
        times = parsed(Column.from_arrow(table.column(name)), name)
        usable = np.ones(table.num_rows, np.bool_) if times.usable is None else times.usable
        return times.values, usable

    def take(self, events: pa.Table) -> None:
        import pyarrow as pa

        events = self.keeper.query.read(events)
        times, usable = self._times(events)
        for name in {name for agg in self.keeper.query.aggs for name in agg.columns}:
            bad = unreadable(events.column(name))
            usable = usable if bad is None else usable & ~bad
        late = usable & (times < self.watermark)
        if late.any():
            self.late.append(events.filter(pa.array(late)))
        if not usable.all():
            self.timeless.append(events.filter(pa.array(~usable)))
        good = usable & ~late
        new = events if good.all() else events.filter(pa.array(good))
        self.waiting = new if self.waiting is None else pa.concat_tables([self.waiting, new])

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        import pyarrow as pa

        for table in self.timeless:
            yield self._answered(table, [pa.nulls(table.num_rows, f.type) for f in self.keeper.new])
        self.watermark = max(self.watermark, watermark)
        if self.waiting is None:
            return
        waiting = self.waiting.combine_chunks()
        times, _ = self._times(waiting)
        due = times < self.watermark
        if not due.any():
            return
        ready = self._in_order(waiting.filter(pa.array(due)))
        self.waiting = waiting.filter(pa.array(~due))
        yield from self._due(ready)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """Rows of one key and time in the order of what decides between them."""
        import pyarrow as pa

        query = self.keeper.query
        if not query.order:
            return rows
        codes, _ = encode([rows.column(name) for name in query.by])
        keys = np.zeros(rows.num_rows, np.int64) if codes is None else codes
        times, _ = self._times(rows)
        order = order_of(times, keys)
        keys, times = keys[order], times[order]
        new = np.append(True, (keys[1:] != keys[:-1]) | (times[1:] != times[:-1]))

        def pick(some: np.ndarray) -> list[Any]:
            return [rows.column(name).take(pa.array(order[some])) for name in query.order]

        places = order_of_ties(new, pick)
        return rows.take(pa.array(order if places is None else order[places]))

    def _due(self, ready: pa.Table) -> Iterator[pa.Table]:
        """The answers of events that have none after them to come in their windows."""
        import pyarrow as pa

        query = self.keeper.query
        read = ready.select(self.keeper.reads)
        known = 0 if self.before is None else self.before.num_rows
        used = read if self.before is None else pa.concat_tables([self.before, read])
        used = used.combine_chunks()
        times = times_of(Column.from_arrow(used.column(query.time)), query.time, query.unit)
        keys = [used.column(name) for name in query.by]
        try:
            found = self._rolled(used)
        except Exception as error:
            if not self.keeper.is_about(error, used):
                raise
            found = self._rolled_apart(used)
        self.before = used.filter(pa.array(self._needed(keys, times.values)))
        yield self._answered(ready, [column.slice(known) for column in found])

    def _rolled(self, used: pa.Table) -> list[Any]:
        """The results of each aggregate over each span."""
        query = self.keeper.query
        times = times_of(Column.from_arrow(used.column(query.time)), query.time, query.unit)
        columns = {n: Column.from_arrow(used.column(n)) for a in query.aggs for n in a.columns}
        keys = [used.column(name) for name in query.by]
        found = rolling_columns(keys, times, columns, self.keeper.spans, query.aggs)
        return [
            fit(column.to_arrow(), field.type)
            for column, field in zip(found, self.keeper.new, strict=True)
        ]

    def _rolled_apart(self, used: pa.Table) -> list[Any]:
        """The results key by key; where an aggregate raises an error they are null."""
        import pyarrow as pa

        codes, count = encode([used.column(name) for name in self.keeper.query.by])
        groups = np.zeros(used.num_rows, np.int64) if codes is None else codes
        order, parts = [], []
        for code in range(count):
            rows = np.flatnonzero(groups == code)
            some = used.take(pa.array(rows))
            try:
                made = self._rolled(some)
            except Exception:
                self.failed += len(rows)
                made = [pa.nulls(len(rows), field.type) for field in self.keeper.new]
            order.append(rows)
            parts.append(pa.Table.from_arrays(made, schema=pa.schema(self.keeper.new)))
        back = np.argsort(np.concatenate(order), kind="stable")
        return list(pa.concat_tables(parts).take(pa.array(back)).combine_chunks().columns)

    def _needed(self, keys: Sequence[Any], times: np.ndarray) -> np.ndarray:
        """Which events windows to come reach back to."""
        needed: np.ndarray = times > self.watermark - self.keeper.reach
        if self.keeper.rows:
            codes, _ = encode(keys)
            groups = np.zeros(len(times), np.int64) if codes is None else codes
            order = order_of(times, groups)
            ends = np.append(np.flatnonzero(np.diff(groups[order])), len(order) - 1)
            place = ends[np.searchsorted(ends, np.arange(len(order)))] - np.arange(len(order))
            needed[order[place < self.keeper.rows]] = True
        return needed

    def _answered(self, rows: pa.Table, new: list[Any]) -> pa.Table:
        import pyarrow as pa

        schema = self.keeper.made
        passed = [fit(rows.column(f.name), f.type) for f in list(schema)[: -len(new)]]
        return pa.Table.from_arrays([*passed, *new], schema=schema)

    def dropped(self) -> Iterator[pa.Table]:
        yield from self.late

    def snapshot(self) -> bytes:
        import pyarrow as pa

        keeper, types = self.keeper, self.keeper.query.types
        before = self.before
        if before is None:
            before = pa.schema([(name, types[name]) for name in keeper.reads]).empty_table()
        waiting = self.waiting
        if waiting is None:
            waiting = pa.schema([(name, types[name]) for name in keeper.passed]).empty_table()
        out = BlobWriter()
        header = {
            "reach": keeper.reach,
            "rows": keeper.rows,
            "watermark": self.watermark,
            "spans": [said(span) for span in keeper.spans],
            "aggs": [aggregate_described(agg) for agg in keeper.query.aggs],
            "order": keeper.query.order,
            "before": out.put_bytes(table_bytes(before)),
            "waiting": out.put_bytes(table_bytes(waiting)),
        }
        return out.blob(header)

    def measured(self, metrics: Metrics) -> None:
        metrics.late += sum(table.num_rows for table in self.late)
        metrics.bad += sum(table.num_rows for table in self.timeless)
        kept = (self.before, self.waiting)
        metrics.slices = sum(table.num_rows for table in kept if table is not None)
        metrics.failed = self.failed
        metrics.interpreted = sum(not bound.compiled for bound in self.keeper.query.bounds())


def restored(blob: bytes, schema: pa.Schema, about: dict[str, Any], aggs: Any) -> Kept:
    """The state of a bucket from its snapshot alone; aggregates of one's own may be given."""
    source = BlobReader(blob)
    header = source.header
    found = chosen(
        "aggs", header["aggs"], aggs, aggregate_described, aggregate_of, lambda agg: agg.output
    )
    waiting = table_of(source.get_bytes(header["waiting"]), any_text=True)
    types = {field.name: field.type for field in waiting.schema}
    order = header.get("order", ())
    query = Query.of((), found, about["time"], about["by"], types, order, about.get("unit"))
    spans = tuple(SPANS[kind](count) for kind, count in header["spans"])
    return KeepTrailing(query, spans, header["reach"], schema).resumed(blob)


SPANS: dict[str, Any] = {"time": Duration, "ticks": Ticks, "rows": Rows}


def said(span: Span) -> tuple[str, int]:
    """A span in plain words."""
    if isinstance(span, Duration):
        return "time", span.microseconds
    assert isinstance(span, Ticks | Rows)
    return ("rows" if isinstance(span, Rows) else "ticks"), span.count


def rolling_stream(
    frame: Any,
    *,
    by: str | Sequence[str] | None,
    time: str,
    over: Any,
    aggs: Aggregate | Sequence[Aggregate],
    order: str | Sequence[str] | None,
    unit: str | None,
    options: StreamOptions,
) -> Any:
    """The rows of a stream with their trailing aggregates; see `sw.rolling`."""
    asked = AskedSpans.of(frame, by, time, over, aggs, order, unit)
    settings = options.checked(asked.query.measure).behind(asked.frame.schema[time])
    keeper = KeepTrailing(asked.query, asked.spans, asked.reach, arrow_schema(asked.schema))
    about = {"verb": "rolling", "unit": unit}
    columns = asked.frame.columns
    return Stream(asked, columns, keeper, asked.schema, asked.names, settings, about).run()
