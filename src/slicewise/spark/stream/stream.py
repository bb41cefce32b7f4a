"""Streams: packed by bucket, kept in Spark's checkpoint, and unpacked to rows.

    events -> mapInArrow (Pack) -> groupBy(bucket).applyInPandasWithState (KeepBuckets)
           -> mapInArrow (Unpack) -> rows

Only the DataFrame API is used. The watermark is the stream's own, see `keeping`; how far it is
behind is said by `watermark=` or by Spark's `withWatermark`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

from slicewise.errors import CapabilityError, ColumnError
from slicewise.names import missed_name
from slicewise.spark import compat
from slicewise.spark.asked import AskedSpans, AskedWindows
from slicewise.spark.frames import Frame, arrow_schema, conformed
from slicewise.spark.options import StreamSettings
from slicewise.spark.sending import map_in_arrow, sent
from slicewise.spark.stream.keeping import (
    DROPPED,
    FORMAT,
    MADE,
    METRICS,
    PARTLY,
    RESULTS,
    STATE,
    KeepBuckets,
    Keeper,
    Metrics,
)
from slicewise.spark.stream.packing import HASH, NOW, PACKED, Buckets, Pack, to_table
from slicewise.spark.workers import in_worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

LATE = "late"
OBSERVED = "slicewise"
# How far the first clock on earth is ahead of UTC. A time without a zone may be that of any clock,
# so it is too far ahead only if it is by this one.
FIRST_CLOCK = 14 * 3_600_000_000


@dataclass(frozen=True)
class Stream:
    """A streaming DataFrame on its way through the buckets.

    `rows` is the schema of what comes out, without the late output, and `names` are the names that
    it has; `columns` are those that the buckets need of the events. `about` is what a checkpoint
    says of the verb. With `missed` the late output has the names of the windows that missed an
    event.
    """

    asked: AskedWindows | AskedSpans
    columns: Sequence[str]
    keeper: Keeper
    rows: StructType
    names: Sequence[str]
    settings: StreamSettings
    about: dict[str, Any]
    missed: bool = False

    @property
    def frame(self) -> Frame:
        return self.asked.frame

    @property
    def by(self) -> tuple[str, ...]:
        return self.asked.query.by

    @property
    def time(self) -> str:
        return self.asked.query.time

    @cached_property
    def metrics(self) -> str:
        """The name under which the stream reports.

        Without the check of Spark for what it is not sure to support, several streams may be in one
        query, and then none reports under the name of another: names follow from what is asked.
        """
        if self.settings.metrics is not None:
            return self.settings.metrics
        if compat.checks_streams(self.frame.rows.sparkSession):
            return OBSERVED
        labels = [window.name for window in self.asked.query.windows]
        asked = [self.about, self.by, self.time, labels, self.rows.jsonValue()]
        return f"{OBSERVED}_{crc32(json.dumps(asked).encode()):08x}"

    def run(self) -> DataFrame:
        """The rows that come out, when the stream is started."""
        from pyspark.sql import functions as F

        keep_late = self.settings.keep_late
        if keep_late and LATE in self.names:
            raise ColumnError(
                f"With `keep_late=True` events that are left out come in a column {LATE!r}, and "
                "there is another of that name. Rename that one, or give the aggregate another "
                "name with `.alias(...)`."
            )
        kept = (
            self._packed()
            .groupBy("bucket")
            .applyInPandasWithState(self._keep(), MADE, STATE, "append", "NoTimeout")
        )
        totals = [
            # The aggregates are the same in all buckets.
            (F.max if f.name == "interpreted" else F.sum)(f.name).alias(f.name)
            for f in fields(Metrics)
        ]
        out = self._schema()
        unpack = Unpack(arrow_schema(out), arrow_schema(self.rows), self._events(), self.by)
        made = self._observed(kept, totals).select("kind", "made")
        rows = map_in_arrow(made, unpack, out)
        return compat.appended(rows.toDF(*self.names, *([LATE] if keep_late else [])))

    def _observed(self, kept: DataFrame, totals: Sequence[Column]) -> DataFrame:
        """The rows that buckets hand on, with their metrics reported under the stream's name."""
        from pyspark.errors import AnalysisException

        try:
            return kept.observe(self.metrics, *totals)
        except AnalysisException as error:
            if "DUPLICATED_METRICS_NAME" not in str(error):
                raise
            raise CapabilityError(
                f"The stream holds results of another one that reports under {self.metrics!r} too. "
                "Write those to a table and read that as a stream, since Spark allows one such "
                "stream in a query. It runs several if you set "
                "`spark.sql.streaming.unsupportedOperationCheck` to false before they are made; "
                "two that ask the same need names of their own then: give `metrics=...`."
            ) from error

    def _buckets(self) -> Buckets:
        partitions = compat.shuffle_partitions(self.frame.rows.sparkSession)
        return Buckets(self.settings.buckets if self.by else 1, partitions)

    def _types(self) -> dict[str, str]:
        """Those of the key columns and the time column, as Spark writes them."""
        schema = self.frame.schema
        return {name: schema[name].dataType.simpleString() for name in (*self.by, self.time)}

    def _events(self) -> pa.Schema:
        return arrow_schema(self._event())

    def _packed(self) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import DateType, TimestampNTZType

        keys = self.frame.all_at(self.by)
        hashed = F.xxhash64(*keys) if keys else F.lit(0).cast("bigint")
        columns = [*self.frame.all_at(self.columns), hashed.alias(HASH)]
        ahead = self.settings.max_ahead
        if ahead is not None:
            columns.append(batch_time().alias(NOW))
            kind = self.frame.schema[self.time].dataType
            if isinstance(kind, TimestampNTZType | DateType):
                ahead += FIRST_CLOCK
        sayable, unit = self.keeper.sayable, self.asked.query.unit
        pack = Pack(self._events(), self.time, self._buckets(), ahead, sayable, unit)
        return map_in_arrow(self.frame.rows.select(*columns), pack, PACKED)

    def _keep(self) -> Any:
        about = {
            "format": FORMAT,
            **self.about,
            "by": list(self.by),
            "time": self.time,
            "types": self._types(),
            "schema": self.rows.json(),
            "late": self._late().json() if self.settings.keep_late else None,
            "metrics": self.metrics,
        }
        settings = self.settings
        assert settings.delay is not None
        keep = KeepBuckets(
            self.keeper,
            about,
            self._events(),
            settings.delay,
            settings.keep_late,
            self._buckets(),
        )
        return sent(self.frame.rows, keep)

    def _event(self) -> StructType:
        """The columns of an event that the buckets need."""
        from pyspark.sql.types import StructType

        return StructType([self.frame.schema[name] for name in self.columns])

    def _schema(self) -> StructType:
        """The rows, and the late output if it is wanted."""
        from pyspark.sql.types import StructField, StructType

        found = [StructField(f.name, f.dataType) for f in self.rows.fields]
        if self.settings.keep_late:
            found.append(StructField(LATE, self._late()))
        return StructType(found)

    def _late(self) -> StructType:
        """The columns of an event, and the names of the windows that missed it."""
        from pyspark.sql.types import ArrayType, StringType, StructField, StructType

        event = self._event()
        if not self.missed:
            return event
        names = StructField(missed_name(event.names), ArrayType(StringType()))
        return StructType([*event.fields, names])


def batch_time() -> Column:
    """The time of the micro-batch, which is the same when it is replayed.

    Spark writes it as a number into the code that it generates, and would compile that anew for
    each micro-batch. It generates no code for `array_sort`, which leaves one element as it is.
    """
    from pyspark.sql import functions as F

    return F.array_sort(F.array(F.unix_micros(F.current_timestamp())))[0]


@dataclass(frozen=True)
class Unpack:
    """From what buckets hand on to rows of the result and events that were dropped."""

    schema: pa.Schema
    made: pa.Schema
    events: pa.Schema
    by: tuple[str, ...]

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kinds, pieces = batch.column("kind").to_pylist(), batch.column("made")
            for kind, piece in zip(kinds, pieces, strict=True):
                if kind != METRICS:
                    yield from conformed(self._columns(kind, piece.as_py()), self.schema)

    def _columns(self, kind: int, piece: bytes) -> dict[str, Any]:
        import pyarrow as pa

        if kind == RESULTS:
            table = to_table([piece], self.made)
            known = dict(zip(table.column_names, table.columns, strict=True))
        else:
            assert kind in (DROPPED, PARTLY)
            late = pa.schema(self.schema.field(LATE).type.fields)
            table = to_table([piece], late if kind == PARTLY else self.events)
            for field in list(late)[table.num_columns :]:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            known = {name: table.column(name) for name in self.by}
            known[LATE] = table.to_struct_array().combine_chunks()
        missing = (f for f in self.schema if f.name not in known)
        return known | {field.name: pa.nulls(table.num_rows, field.type) for field in missing}
