"""The part of `sw.rolling` that runs on workers: sorted rows in, the same with new columns out.

Rows come batch after batch. Each batch takes along the rows before it that its windows reach back
to, so nothing else is carried. Cut rows are sorted by their place, one number: the bucket of their
key and range of time, then how far into the range they are, the rows before it included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slicewise import tuning
from slicewise.arrays.grouping import encode
from slicewise.columns import Column, columns_of
from slicewise.frames.trailing import rolling_columns
from slicewise.spans import Rows, Span
from slicewise.spark.blame import blaming
from slicewise.spark.frames import fit, joined, unused
from slicewise.spark.query import Query
from slicewise.spark.workers import in_worker
from slicewise.times import times_of

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = "__place"
# A range is this many times the longest span: so many rows are sent twice, one in this many.
SPANS_PER_RANGE = 16


def moment_bits(reach: int) -> int:
    """How many bits a moment within a range takes, the rows before the range included."""
    return ((SPANS_PER_RANGE + 1) * reach).bit_length()


@dataclass(frozen=True)
class RollOrdered:
    """From partitions sorted by (key, time), or by place if `cut`, to rows with more columns."""

    query: Query
    spans: tuple[Span, ...]
    reach: int
    new: pa.Schema
    cut: bool

    @property
    def place(self) -> str:
        """The name of the column with the places of cut rows, beside those of the user."""
        return unused(PLACE, self.query.types)

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Partition(self).run(batches)


class Partition:
    """A sorted partition on its way through.

    `before` has the columns that aggregates read of rows that have been answered and that windows
    to come reach back to. `held` are rows of the newest time: more may come, and a window holds
    all rows of its own time.
    """

    def __init__(self, task: RollOrdered) -> None:
        self.task = task
        self.query = task.query
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        used = [column for agg in self.query.aggs for column in agg.columns]
        place = [task.place] if task.cut else []
        self.reads = list(dict.fromkeys([*self.query.by, self.query.time, *used, *place]))
        self.rows = max((span.count for span in task.spans if isinstance(span, Rows)), default=1)
        self.before: pa.Table | None = None
        self.held: pa.Table | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for rows in joined(batches):
            table = self.query.named(rows)
            waiting.append(table)
            # As many new rows as old ones at least, so that the work at most doubles.
            carried = 0 if self.before is None else self.before.num_rows
            if sum(part.num_rows for part in waiting) >= carried:
                yield from self._step(waiting, last=False)
                waiting = []
        yield from self._step(waiting, last=True)

    def _step(self, tables: list[pa.Table], *, last: bool) -> Iterator[pa.RecordBatch]:
        """Answer all rows but those that may have more rows of their time to come."""
        import pyarrow as pa

        tables = tables if self.held is None else [self.held, *tables]
        if not tables:
            return
        table = pa.concat_tables(tables).combine_chunks()
        read = self.query.read(table.select(self.reads))
        known = 0 if self.before is None else self.before.num_rows
        used = read if self.before is None else pa.concat_tables([self.before, read])
        used = used.combine_chunks()
        if not table.num_rows:
            return
        sorted_rows = SortedRows(used, self.task)
        stop = used.num_rows if last else max(known, sorted_rows.tied_from)
        if stop > known:
            with blaming(self.query, used, self._again):
                found = sorted_rows.roll()
            own = sorted_rows.own[known:stop]
            yield from self._answered(table.slice(0, stop - known), found, known, own)
        first = sorted_rows.needed_from(stop, self.rows)
        self.before, self.held = used.slice(first, stop - first), table.slice(stop - known)

    def _again(self, query: Query, rows: pa.Table) -> object:
        return SortedRows(rows, replace(self.task, query=query)).roll()

    def _answered(
        self, table: pa.Table, found: Sequence[Column], begin: int, own: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """The rows with their new columns, without those that are there for others only."""
        import pyarrow as pa

        part = slice(begin, begin + table.num_rows)
        new = [
            fit(column.take(part).to_arrow(), field.type)
            for column, field in zip(found, self.task.new, strict=True)
        ]
        if self.task.cut:
            table = table.drop_columns([self.task.place])
        # What passes through keeps its very type: time zones inside of structs, for example.
        schema = pa.schema([*table.schema, *self.task.new])
        made = pa.Table.from_arrays([*table.columns, *new], schema=schema)
        if not own.all():
            made = made.filter(pa.array(own))
        yield from made.to_batches(max_chunksize=tuning.active().rows_out)


class SortedRows:
    """Rows sorted by (key, time) or by place, as rolling takes them.

    `moments` are times or, of cut rows, how far into their range they are. `own` says which rows
    are not there for the windows of others only. Rows from `open_from` on have the newest key, or
    the newest bucket, so more rows may come that see them.
    """

    def __init__(self, table: pa.Table, task: RollOrdered) -> None:
        import pyarrow as pa

        self.table, self.task = table, task
        name, size = task.query.time, table.num_rows
        self.times = times_of(Column.from_arrow(table.column(name)), name, task.query.unit)
        self.moments, self.own = self.times.values, np.ones(size, np.bool_)
        keys = [table.column(key) for key in task.query.by]
        codes, _ = encode(keys)
        changes = np.zeros(size, np.bool_) if codes is None else changed(codes)
        opened, mixed = changes, False
        if task.cut:
            buckets, ranges = self._places()
            opened = changed(buckets)
            changes = changes | changed(ranges)
            mixed = bool((changes & ~opened).any())  # ranges that share a bucket
        if mixed:
            found, _ = encode([*keys, pa.array(ranges)])
            assert found is not None
            self.codes = found
        else:
            # Numbered as they come, so that rows are in order by them.
            self.codes = np.cumsum(changes | opened)
        self.open_from = int(np.flatnonzero(opened)[-1]) if opened.any() else 0

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The buckets and the ranges of cut rows; those without a place have a bucket of theirs."""
        place = Column.from_arrow(self.table.column(self.task.place))
        shift = moment_bits(self.task.reach)
        buckets, moments = place.values >> shift, place.values & ((1 << shift) - 1)
        ranges, self.own = self.times.values - moments, moments >= self.task.reach
        if place.valid is not None:
            nowhere = ~place.valid
            buckets[nowhere], ranges[nowhere], self.own[nowhere] = -1, 0, True
            moments = np.where(nowhere, self.times.values, moments)
        self.moments = moments
        return buckets, ranges

    def roll(self) -> list[Column]:
        """The results of each aggregate over each span."""
        import pyarrow as pa

        aggs = self.task.query.aggs
        columns, bad = columns_of(self.table, [name for agg in aggs for name in agg.columns])
        keys = [pa.array(self.codes)]
        return rolling_columns(keys, self.times.without(bad), columns, self.task.spans, aggs)

    @cached_property
    def _newest(self) -> tuple[np.ndarray, np.ndarray]:
        """The moments of the rows from `open_from` on that have a time, and these rows."""
        moments, valid = self.moments[self.open_from :], self.times.valid
        rows = np.arange(self.open_from, self.table.num_rows)
        if valid is None:
            return moments, rows
        return moments[valid[self.open_from :]], rows[valid[self.open_from :]]

    @property
    def tied_from(self) -> int:
        """The first of the rows of the newest time; only to windows of time do they matter."""
        moments, rows = self._newest
        if not self.task.reach or not len(moments):
            return len(self.codes)
        return int(rows[np.searchsorted(moments, moments[-1])])

    def needed_from(self, stop: int, count: int) -> int:
        """The first row before `stop` that windows of rows to come reach back to."""
        moments, rows = self._newest
        inside = rows < stop
        by_count = max(self.open_from, stop - (count - 1))
        newest = moments[-1] if len(moments) else 0
        reached = rows[inside & (moments > newest - self.task.reach)]
        by_time = int(reached[0]) if self.task.reach and len(reached) else stop
        return min(by_count, by_time, stop)


def changed(values: np.ndarray) -> np.ndarray:
    """Which values differ from the one before; the first one does not."""
    differ: np.ndarray = np.diff(values, prepend=values[:1]) != 0
    return differ
