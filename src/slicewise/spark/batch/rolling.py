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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.limits import REACH
from slicewise.spans import Rows
from slicewise.spark.asked import AskedSpans
from slicewise.spark.batch.rolling_rows import PLACE, SPANS_PER_RANGE, RollOrdered, moment_bits
from slicewise.spark.frames import arrow_schema, col, microseconds
from slicewise.spark.options import StreamOptions
from slicewise.spark.sending import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET_BITS = 30  # at most: more would not keep more ranges apart


class Rolling(AskedSpans):
    """Trailing aggregates of a bounded DataFrame, and how they are computed."""

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

        def place(begin: Column) -> Column:
            bucket = F.pmod(F.xxhash64(*self.frame.all_at(self.query.by), begin), buckets)
            return F.shiftleft(bucket, shift).bitwiseOR(at - begin + self.reach)

        own, following = place(at - inside), place(at - inside + length)
        places = F.when(inside > length - self.reach, F.array(own, following))
        return self.frame.rows.select("*", F.explode(places.otherwise(F.array(own))).alias(PLACE))

    def _bucket(self) -> Column:
        """The column that says to which task a row goes; rows without a time go by their key."""
        from pyspark.sql import functions as F

        nowhere = F.xxhash64(F.lit(0), *self.frame.all_at(self.query.by))
        return F.coalesce(F.shiftright(col(PLACE), moment_bits(self.reach)), nowhere)

    def _always_placed(self) -> bool:
        """Tells if every row with a time has a place: some numbers are too large to be cut."""
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
    options: StreamOptions,
) -> Any:
    """The rows with a column for each aggregate and span; see `sw.rolling`."""
    asked = Rolling.of(frame, by, time, over, aggs, order, unit)
    options.checked(asked.query.measure)
    return asked.run()
