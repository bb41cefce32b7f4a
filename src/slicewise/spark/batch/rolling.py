"""`sw.rolling` on bounded DataFrames: one shuffle, whatever the spans and aggregates.

Rows are sorted by (key, time) and pass through Python once, batch after batch. Each batch takes
along the rows before it that its windows reach back to, so nothing else is carried. When all spans
are lengths of time, the rows of a key are cut into ranges of time, each with the rows before it
that its windows need; then a single key keeps all cores busy, if its rows reach over several
ranges. Shorter ranges would be more tasks for such a key, and more rows twice for every other one:
with 4 spans a range instead of 16 all queries took about a tenth longer. Which keys have most of
the rows, and how far back they go, is not known without a job.

Cut rows are sorted by one number: the bucket of their key and range, then how far into the range
they are. Spark sorts one number by its digits, and rows by several columns by comparing them, which
takes twice as long. Two ranges may share a bucket; Python tells their rows apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.arrays.grouping import encode
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.frames.trailing import length_of, rolling_columns
from slicewise.limits import REACH
from slicewise.slicing.ingest.events import names as names_of
from slicewise.spans import Duration, Rows, Span, Ticks
from slicewise.spans import span as as_span
from slicewise.spark.frames import (
    Frame,
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
    unused,
)
from slicewise.spark.query import Query, result_types
from slicewise.spark.sending import map_in_arrow
from slicewise.spark.stream.blame import blaming
from slicewise.spark.stream.stream import check_settings
from slicewise.spark.workers import in_worker
from slicewise.times import Times, times_of
from slicewise.verbs import check_outputs, checked_aggregates, listed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# Where a row is: its bucket, and its moment within the range of time that its key is cut into.
PLACE = "__place"
BUCKET_BITS = 30  # at most: more would not keep more ranges apart
# A range is this many times the longest span: so many rows are sent twice, one in this many.
SPANS_PER_RANGE = 16


@dataclass(frozen=True)
class Rolling:
    """A query on a DataFrame, and how it runs."""

    frame: Frame
    query: Query
    spans: tuple[Span, ...]

    @staticmethod
    def of(
        given: DataFrame,
        by: str | Sequence[str] | None,
        time: str,
        over: Any,
        aggs: Any,
        order: str | Sequence[str] | None = None,
        unit: str | None = None,
    ) -> Rolling:
        """The query, checked as far as it can be without a job."""
        spans = [as_span(one) for one in listed(over)]
        chosen = checked_aggregates("rolling", aggs)
        if not spans:
            raise SpanError("`rolling` needs at least one span in `over`; given: none.")
        keys = names_of(by)
        used = [column for agg in chosen for column in agg.columns]
        frame = Frame(given)
        decides = names_of(order)
        checked(frame, [*keys, time, *used, *decides])
        check_time(frame, time)
        check_keys(frame, keys)
        check_outputs(outputs(chosen, spans), frame.columns)
        ties: tuple[str, ...] = ()
        if not all(a.commutative for a in chosen) or any(isinstance(s, Rows) for s in spans):
            ties = tie_breakers(frame, decides, frame.columns, {*keys, time})
        query = Query.of((), chosen, time, keys, arrow_types(frame, frame.columns), ties, unit)
        for span in spans:
            length_of(span, no_times(query))  # refuses what has no meaning
        return Rolling(frame, query, tuple(spans))

    @cached_property
    def schema(self) -> StructType:
        """The schema of the result: the DataFrame's own columns, then the new ones.

        Names that the DataFrame has twice are told apart; `names` has them as they are.
        """
        from pyspark.sql.types import StructField, StructType

        query = self.query
        kinds = result_types(query.bounds(), query.types)
        kinds = [kind for kind in kinds for _ in self.spans]
        new = [
            StructField(name, spark_type(name, kind))
            for name, kind in zip(outputs(query.aggs, self.spans), kinds, strict=True)
        ]
        return StructType([*self.frame.schema.fields, *new])

    @property
    def names(self) -> list[str]:
        """The names of the result."""
        return [*self.frame.names, *outputs(self.query.aggs, self.spans)]

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
        if any(isinstance(span, Rows) for span in self.spans) or length >= REACH:
            return None
        return length

    def run(self) -> DataFrame:
        """The result, which Spark computes when it is asked for."""
        from pyspark.sql.types import StructType

        query, cut = self.query, self.range is not None
        new = arrow_schema(StructType(self.schema.fields[len(self.frame.columns) :]))
        task = RollOrdered(query, self.spans, self.reach, new, cut)
        if self.range is not None:
            rows, by, order = self._cut(self.range), [self._bucket()], [col(PLACE)]
            if query.order or not self._always_placed():
                order += self.frame.sorted_by([query.time, *query.order])
        else:
            rows, by = self.frame.rows, self.frame.all_at(query.by)
            order = self.frame.sorted_by([*query.by, query.time, *query.order])
        rows = rows.repartition(*by) if by else rows.repartition(1)
        found = map_in_arrow(rows.sortWithinPartitions(*order), task, self.schema)
        return found.toDF(*self.names)

    def _cut(self, length: int) -> DataFrame:
        """Each row in its range of time, and once more in the next one if that looks back to it."""
        from pyspark.sql import functions as F

        at = microseconds(self.frame, self.query.time)
        inside = F.pmod(at, F.lit(length).cast("bigint"))
        shift = moment_bits(self.reach)
        buckets = F.lit(1 << min(63 - shift, BUCKET_BITS)).cast("bigint")

        def place(begin: SparkColumn) -> SparkColumn:
            bucket = F.pmod(F.xxhash64(*self.frame.all_at(self.query.by), begin), buckets)
            return F.shiftleft(bucket, shift).bitwiseOR(at - begin + self.reach)

        own, following = place(at - inside), place(at - inside + length)
        places = F.when(inside > length - self.reach, F.array(own, following))
        return self.frame.rows.select("*", F.explode(places.otherwise(F.array(own))).alias(PLACE))

    def _bucket(self) -> SparkColumn:
        """What decides to which task a row goes; rows without a time go by their key."""
        from pyspark.sql import functions as F

        nowhere = F.xxhash64(F.lit(0), *self.frame.all_at(self.query.by))
        return F.coalesce(F.shiftright(col(PLACE), moment_bits(self.reach)), nowhere)

    def _always_placed(self) -> bool:
        """Whether every row with a time has a place; some numbers are too large to be cut."""
        from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

        kind = self.frame.schema[self.query.time].dataType
        return isinstance(kind, DateType | TimestampNTZType | TimestampType)


def rolling(
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    over: Any,
    aggs: Any,
    order: str | Sequence[str] | None = None,
    unit: str | None,
    more: tuple[Any, ...],
) -> Any:
    """The rows with a column for each aggregate and span; see `sw.rolling`."""
    asked = Rolling.of(frame, by, time, over, aggs, order, unit)
    check_settings(asked.query.measure, more)
    return asked.run()


def no_times(query: Query) -> Times:
    """No times of the type of the time column: they know the unit of its spans."""
    import pyarrow as pa

    nothing = Column.from_arrow(pa.array([], query.types[query.time]))
    return times_of(nothing, query.time, query.unit)


def outputs(aggs: Sequence[Aggregate], spans: Sequence[Span]) -> list[str]:
    """The names of the new columns."""
    return [f"{agg.output}_{span}" for agg in aggs for span in spans]


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
        """What the column with the places of cut rows is called beside those of the user."""
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
        columns = {n: Column.from_arrow(self.table.column(n)) for a in aggs for n in a.columns}
        keys = [pa.array(self.codes)]
        return rolling_columns(keys, self.times, columns, self.task.spans, aggs)

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
