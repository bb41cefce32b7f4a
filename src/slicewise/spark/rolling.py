"""`sw.rolling` on bounded DataFrames: one shuffle, whatever the spans and aggregates.

Rows are sorted by (key, time) and pass through Python once, batch after batch. Each batch takes
along the rows before it that its windows reach back to, so nothing else is carried. When all spans
are lengths of time, the rows of a key are cut into ranges of time, each with the rows before it
that its windows need; then a single key keeps all cores busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.grouping import encode
from slicewise.slicing.events import LATEST
from slicewise.slicing.events import names as names_of
from slicewise.spans import Duration, Rows, Span, Ticks
from slicewise.spans import span as as_span
from slicewise.spark.blame import blaming
from slicewise.spark.frames import (
    ROWS_OUT,
    arrow_schema,
    arrow_types,
    check_keys,
    check_time,
    checked,
    col,
    fit,
    joined,
    microseconds,
    spark_type,
    tie_breakers,
)
from slicewise.spark.query import Query, check_sendable, result_types
from slicewise.times import Times, times_of
from slicewise.trailing import length_of, rolling_columns
from slicewise.verbs import check_outputs, checked_aggregates, listed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# The range of time a key is cut into, and whether a row is there only for the windows of others.
RANGE, BEFORE, OWN = "__range", "__before", "__own"
# A range is this many times the longest span: so many rows are sent twice, one in this many.
SPANS_PER_RANGE = 16


@dataclass(frozen=True)
class Rolling:
    """A query on a DataFrame, and how it runs."""

    frame: DataFrame
    query: Query
    spans: tuple[Span, ...]

    @staticmethod
    def of(
        frame: DataFrame, by: str | Sequence[str] | None, time: str, over: Any, aggs: Any
    ) -> Rolling:
        """The query, checked as far as it can be without a job."""
        spans = [as_span(one) for one in listed(over)]
        chosen = checked_aggregates("rolling", aggs)
        if not spans:
            raise SpanError("`rolling` needs at least one span in `over`; given: none.")
        keys = names_of(by)
        used = [column for agg in chosen for column in agg.columns]
        checked(frame, [*keys, time, *used])
        check_time(frame, time)
        check_keys(frame, keys)
        check_outputs(outputs(chosen, spans), frame.columns)
        query = Query.of((), chosen, time, keys, arrow_types(frame, frame.columns))
        for span in spans:
            length_of(span, no_times(query))  # refuses what has no meaning
        return Rolling(frame, query, tuple(spans))

    @cached_property
    def schema(self) -> StructType:
        """The schema of the result: the DataFrame's own columns, then the new ones."""
        from pyspark.sql.types import StructField, StructType

        query = self.query
        kinds = result_types(query.bounds(), query.types)
        kinds = [kind for kind in kinds for _ in self.spans]
        new = [
            StructField(name, spark_type(name, kind))
            for name, kind in zip(outputs(query.aggs, self.spans), kinds, strict=True)
        ]
        return StructType([*self.frame.schema.fields, *new])

    @cached_property
    def reach(self) -> int:
        """The longest span of time, in units of the time column; 0 when all spans are rows."""
        times = no_times(self.query)
        lengths = [times.length(s) for s in self.spans if isinstance(s, Duration | Ticks)]
        return max(lengths, default=0)

    @property
    def range(self) -> int | None:
        """How long the ranges of time are that keys are cut into; `None` when they are not cut.

        The rows that a number of rows reaches back to may be anywhere, so then keys stay whole.
        """
        length = SPANS_PER_RANGE * self.reach
        if any(isinstance(span, Rows) for span in self.spans) or length >= LATEST:
            return None
        return length

    def run(self) -> DataFrame:
        """The result, which Spark computes when it is asked for."""
        from pyspark.sql.types import StructType

        query, cut = self.query, self.range is not None
        new = arrow_schema(StructType(self.schema.fields[len(self.frame.columns) :]))
        task = RollOrdered(query, self.spans, self.reach, new, cut)
        check_sendable(task)
        rows = self._cut(self.range) if self.range is not None else self.frame
        by = task.keys
        rows = rows.repartition(*map(col, by)) if by else rows.repartition(1)
        order = map(col, [*by, query.time, *self._ties()])
        return rows.sortWithinPartitions(*order).mapInArrow(task, self.schema)

    def _cut(self, length: int) -> DataFrame:
        """Each row in its range of time, and once more in the next one if that looks back to it."""
        from pyspark.sql import functions as F

        at = microseconds(self.frame, self.query.time)
        inside = F.pmod(at, F.lit(length).cast("bigint"))
        begin = at - inside
        both = F.array(begin, begin + length)
        ranges = F.when(inside > length - self.reach, both).otherwise(F.array(begin))
        rows = self.frame.select("*", begin.alias(OWN), F.explode(ranges).alias(RANGE))
        # Null where there is no time, and such rows are answered too.
        before = F.coalesce(F.col(OWN) != F.col(RANGE), F.lit(False))
        return rows.select("*", before.alias(BEFORE)).drop(OWN)

    def _ties(self) -> list[str]:
        """Columns that order rows of one time, where that matters: a DataFrame has no order."""
        if all(agg.commutative for agg in self.query.aggs) and self.range is not None:
            return []
        return tie_breakers(self.frame, self.frame.columns, {*self.query.by, self.query.time})


def rolling(
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    over: Any,
    aggs: Any,
) -> Any:
    """The rows with a column for each aggregate and span; see `sw.rolling`."""
    return Rolling.of(frame, by, time, over, aggs).run()


def no_times(query: Query) -> Times:
    """No times of the type of the time column: they know the unit of its spans."""
    import pyarrow as pa

    return times_of(Column.from_arrow(pa.array([], query.types[query.time])), query.time)


def outputs(aggs: Sequence[Aggregate], spans: Sequence[Span]) -> list[str]:
    """The names of the new columns."""
    return [f"{agg.output}_{span}" for agg in aggs for span in spans]


@dataclass(frozen=True)
class RollOrdered:
    """From partitions sorted by (key, time) to the same rows with more columns."""

    query: Query
    spans: tuple[Span, ...]
    reach: int
    new: pa.Schema
    cut: bool

    @property
    def keys(self) -> list[str]:
        """The columns whose values keep rows apart."""
        return [*self.query.by, *([RANGE] if self.cut else [])]

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
        self.reads = list(dict.fromkeys([*task.keys, self.query.time, *used]))
        self.rows = max((span.count for span in task.spans if isinstance(span, Rows)), default=1)
        self.before: pa.Table | None = None
        self.held: pa.Table | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for table in joined(batches):
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
            with blaming(self.query.aggs, self.query.by, read):
                found = sorted_rows.roll()
            yield from self._answered(table.slice(0, stop - known), found, known)
        first = sorted_rows.needed_from(stop, self.rows)
        self.before, self.held = used.slice(first, stop - first), table.slice(stop - known)

    def _answered(
        self, table: pa.Table, found: Sequence[Column], begin: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows with their new columns, without those that are there for others only."""
        import pyarrow as pa
        import pyarrow.compute as pc

        part = np.arange(begin, begin + table.num_rows)
        new = [
            fit(column.take(part).to_arrow(), field.type)
            for column, field in zip(found, self.task.new, strict=True)
        ]
        before = table.column(BEFORE) if self.task.cut else None
        if self.task.cut:
            table = table.drop_columns([RANGE, BEFORE])
        # What passes through keeps its very type: time zones inside of structs, for example.
        schema = pa.schema([*table.schema, *self.task.new])
        made = pa.Table.from_arrays([*table.columns, *new], schema=schema)
        if before is not None:
            made = made.filter(pc.invert(before))
        yield from made.to_batches(max_chunksize=ROWS_OUT)


class SortedRows:
    """Rows sorted by (key, time), as rolling takes them."""

    def __init__(self, table: pa.Table, task: RollOrdered) -> None:
        self.table, self.task = table, task
        name = task.query.time
        self.times = times_of(Column.from_arrow(table.column(name)), name)
        codes, _ = encode([table.column(key) for key in task.keys])
        size = table.num_rows
        changes = (
            np.zeros(size, np.bool_) if codes is None else np.diff(codes, prepend=codes[0]) != 0
        )
        # Numbered as they come, so that rows are in order by them.
        self.codes = np.cumsum(changes)
        self.open_from = int(np.searchsorted(self.codes, self.codes[-1]))

    def roll(self) -> list[Column]:
        """The results of each aggregate over each span."""
        import pyarrow as pa

        aggs = self.task.query.aggs
        columns = {n: Column.from_arrow(self.table.column(n)) for a in aggs for n in a.columns}
        keys = [pa.array(self.codes)]
        return rolling_columns(keys, self.times, columns, self.task.spans, aggs)

    @cached_property
    def _newest(self) -> tuple[np.ndarray, np.ndarray]:
        """The usable times of the last key, and their rows."""
        times, valid = self.times.values[self.open_from :], self.times.valid
        rows = np.arange(self.open_from, self.table.num_rows)
        if valid is None:
            return times, rows
        return times[valid[self.open_from :]], rows[valid[self.open_from :]]

    @property
    def tied_from(self) -> int:
        """The first of the rows of the newest time; only to windows of time do they matter."""
        times, rows = self._newest
        if not self.task.reach or not len(times):
            return len(self.codes)
        return int(rows[np.searchsorted(times, times[-1])])

    def needed_from(self, stop: int, count: int) -> int:
        """The first row before `stop` that windows of rows to come reach back to."""
        times, rows = self._newest
        inside = rows < stop
        by_count = max(self.open_from, stop - (count - 1))
        reached = rows[inside & (times > times[-1] - self.task.reach)] if len(times) else rows
        by_time = int(reached[0]) if self.task.reach and len(reached) else stop
        return min(by_count, by_time, stop)
