"""Streams: packed by bucket, kept in Spark's checkpoint, and unpacked to rows.

    events -> mapInArrow (Pack) -> groupBy(bucket).applyInPandasWithState (KeepBuckets)
           -> mapInArrow (Unpack) -> rows

Only the DataFrame API is used. The watermark is the stream's own, see `keeping`; how far it is
behind is said by `watermark=` or by Spark's `withWatermark`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from slicewise.errors import CapabilityError, ColumnError, SpanError
from slicewise.names import missed_name
from slicewise.spark import compat
from slicewise.spark.frames import Frame, arrow_schema, conformed
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
from slicewise.times import Measure, as_length

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

LATE = "late"
OBSERVED = "slicewise"
# What Spark notes at a column for `withWatermark`, in milliseconds.
WATERMARK = "spark.watermarkDelayMs"
# The default of `max_ahead`, which numbers as times do without.
MAX_AHEAD = "1d"
# How far the first clock on earth is ahead of UTC. A time without a zone may be that of any clock,
# so it is too far ahead only if it is by this one.
FIRST_CLOCK = 14 * 3_600_000_000


@dataclass(frozen=True)
class Settings:
    """What is asked of a stream beside windows and aggregates.

    Lengths are in units of the time column. `delay` is `None` when nobody said it yet. `max_ahead`
    is `None` when no event is too far ahead. `unit` says what the numbers of the time column mean.
    """

    delay: int | None
    max_ahead: int | None
    buckets: int | None
    keep_late: bool
    metrics: str
    unit: str | None

    @staticmethod
    def of(
        watermark: Any,
        max_ahead: Any,
        buckets: Any,
        keep_late: bool,
        metrics: Any = OBSERVED,
        *,
        measure: Measure,
    ) -> Settings:
        if buckets is not None and (type(buckets) is not int or not 0 < buckets <= 1 << 15):
            raise SpanError(
                f"`buckets` is a number of groups of keys, from 1 to 32768; given: {buckets!r}."
            )
        delay = None
        if watermark is not None:
            delay = measure.length("`watermark`", as_length("watermark", watermark))
        ahead = ahead_of(max_ahead, measure)
        if not isinstance(metrics, str) or not metrics:
            raise CapabilityError(
                f"`metrics` is the name under which a stream reports; given: {metrics!r}."
            )
        return Settings(delay, ahead, buckets, keep_late, metrics, measure.unit)

    def behind(self, time: StructField) -> Settings:
        """The settings with a delay of the watermark, given here or by Spark's `withWatermark`."""
        noted = time.metadata.get(WATERMARK)
        delay = self.delay if noted is None else 1000 * int(noted)  # it is about timestamps
        if delay is None:
            raise SpanError(
                "A stream needs a watermark: how far behind the newest event others may still "
                "come. Give it, such as `watermark='10 minutes'` (`watermark='0s'` if no event is "
                f"ever behind), or call `withWatermark({time.name!r}, '10 minutes')` before."
            )
        if self.delay not in (None, delay):
            raise SpanError(
                f"The watermark is said twice: `withWatermark` has it {delay} microseconds behind "
                f"in {time.name!r}, and `watermark=` {self.delay}. Leave one of them out."
            )
        return replace(self, delay=delay)


def check_settings(measure: Measure, more: tuple[Any, ...], lateness: Any = 0) -> None:
    """Refuse for a bounded DataFrame what no stream takes: one definition runs on both."""
    Settings.of(*more, measure=measure)
    measure.length("`lateness`", as_length("lateness", lateness))


def ahead_of(given: Any, measure: Measure) -> int | None:
    """How far ahead of the clock an event may be, in units of the time column; `None`: any way."""
    if given is None:
        return None
    length = as_length("max_ahead", given)
    if measure.moments or measure.unit is not None:
        return measure.length("`max_ahead`", length)
    if given != MAX_AHEAD:
        raise SpanError(
            "`max_ahead` says how far ahead of the clock an event may be, and numbers of no unit "
            f"have nothing to do with it: the time column {measure.name!r} holds {measure.holds}. "
            "Leave `max_ahead` out, say with `unit` what the numbers mean, or make the column a "
            "timestamp."
        )
    return None


@dataclass(frozen=True)
class Stream:
    """A streaming DataFrame on its way through the buckets.

    `rows` is the schema of what comes out, without the late output, and `names` are the names that
    it has; `columns` are those that the buckets need of the events. With `missed` the late output
    has the names of the windows that missed an event.
    """

    frame: Frame
    by: tuple[str, ...]
    time: str
    columns: Sequence[str]
    keeper: Keeper
    rows: StructType
    names: Sequence[str]
    settings: Settings
    about: dict[str, Any]
    missed: bool = False

    def run(self) -> DataFrame:
        """What comes out, when the stream is started."""
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
        return rows.toDF(*self.names, *([LATE] if keep_late else []))

    def _observed(self, kept: DataFrame, totals: Sequence[Column]) -> DataFrame:
        """What buckets hand on, with its metrics reported under the name of the stream."""
        from pyspark.errors import AnalysisException

        name = self.settings.metrics
        try:
            return kept.observe(name, *totals)
        except AnalysisException as error:
            if "DUPLICATED_METRICS_NAME" not in str(error):
                raise
            raise CapabilityError(
                f"The stream holds results of another one that reports under {name!r} too. Write "
                "those to a table and read that as a stream, since Spark allows one such stream in "
                "a query. If you have set `spark.sql.streaming.unsupportedOperationCheck` to "
                "false, it runs several, each with a name of its own: give `metrics=...`."
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
        sayable, unit = self.keeper.sayable, self.settings.unit
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
            "metrics": self.settings.metrics,
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
        """What the buckets need of an event."""
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
