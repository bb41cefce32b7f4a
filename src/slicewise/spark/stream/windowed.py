"""`sw.windowed` on streams: an operator per bucket of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.policy import ErrorPolicy
from slicewise.slicing.ingest.reach import Reach, reach_of
from slicewise.slicing.operator import Operator
from slicewise.slicing.settings import Merging
from slicewise.slicing.state.resume import resume
from slicewise.spark.asked import AskedWindows, definitions
from slicewise.spark.blame import is_about_events
from slicewise.spark.frames import arrow_schema, fitted
from slicewise.spark.options import StreamOptions
from slicewise.spark.query import Query
from slicewise.spark.stream.keeping import Keeper, Kept, Metrics
from slicewise.spark.stream.sifting import try_lifts
from slicewise.spark.stream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KeepWindows(Keeper):
    """Windows and aggregates, with how results are emitted."""

    query: Query
    made: pa.Schema
    lateness: Any
    emit: Any

    @property
    def sayable(self) -> Reach:
        return reach_of(self.query.windows, self.query.types[self.query.time])

    def fresh(self) -> Kept:
        return WindowsKept(self._operator(), self)

    def resumed(self, snapshot: bytes) -> Kept:
        return WindowsKept(resume(self._operator(), snapshot, self.query.types), self)

    def is_about(self, error: Exception, events: pa.Table) -> bool:
        return is_about_events(error, self.query.aggs, self.query.by, events)

    def _operator(self) -> Operator:
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        query = self.query
        operator = Operator(
            windows=query.windows,
            aggs=query.aggs,
            time=query.time,
            by=query.by,
            lateness=self.lateness,
            emit=self.emit,
            order=query.order,
            unit=query.unit,
            max_late=None,  # they are taken in every micro-batch
            **query.merging.arguments,
        )
        operator.errors = ErrorPolicy(raises=False)
        return operator


class WindowsKept(Kept):
    """An operator for the keys of a bucket."""

    def __init__(self, operator: Operator, keeper: KeepWindows) -> None:
        self.operator = operator
        self.keeper = keeper
        stats = operator.stats
        self.late, self.late_partly, self.bad = stats.late_dropped, stats.late_partly, stats.bad
        self.failed = 0
        self.columns: set[str] = set()

    def take(self, events: pa.Table) -> None:
        table = self.keeper.query.read(events)
        self.columns = set(table.column_names)
        self.operator.process(table)
        if self.operator.parts.slices.waiters:
            # They are lifted when the watermark passes them, and by then it is too late to sift.
            try_lifts(self.operator.parts.schema.bounds, table)

    def advance(self, watermark: int) -> Iterator[pa.Table]:
        table = self.operator.advance_arrow(watermark)
        self.failed = self.operator.errors.lost
        if table.num_rows:
            yield fitted(
                dict(zip(table.column_names, table.columns, strict=True)), self.keeper.made
            )

    def dropped(self) -> Iterator[pa.Table]:
        import pyarrow.compute as pc

        table = self.operator.take_late()
        if table is None:
            return
        # The names of windows that missed an event are behind its own columns.
        own = [name for name in table.column_names if name in self.columns]
        if len(own) == table.num_columns:
            yield table
            return
        partly = table.column(table.num_columns - 1).is_valid()
        yield from (table.filter(partly), table.filter(pc.invert(partly)).select(own))

    def snapshot(self) -> bytes:
        return self.operator.snapshot()

    def measured(self, metrics: Metrics) -> None:
        stats = self.operator.stats
        metrics.late += stats.late_dropped - self.late
        metrics.late_partly += stats.late_partly - self.late_partly
        metrics.bad += stats.bad - self.bad
        metrics.slices = self.operator.parts.slices.live()
        metrics.failed = self.failed
        metrics.interpreted = sum(not bound.compiled for bound in self.operator.parts.schema.bounds)


def windowed_stream(
    frame: Any,
    *,
    by: str | Sequence[str] | None,
    time: str,
    windows: Any,
    aggs: Any,
    order: str | Sequence[str] | None,
    unit: str | None,
    options: StreamOptions,
    merging: Merging,
) -> Any:
    """The windows of a stream; see `sw.windowed`."""
    taken = definitions(by, time, windows, aggs, unit, options, merging)
    asked = AskedWindows.of(frame, taken, order)
    settings = options.checked(asked.query.measure).behind(asked.frame.schema[time])
    emit = options.emission
    rows = emitted(asked.schema, emit)
    keeper = KeepWindows(asked.query, arrow_schema(rows), options.lateness, emit)
    columns = asked.frame.columns if settings.keep_late else asked.columns
    about = {"verb": "windowed", "emit": emit, "unit": unit}
    return Stream(asked, columns, keeper, rows, rows.names, settings, about, missed=True).run()


def emitted(schema: StructType, emit: str) -> StructType:
    """The schema of emitted rows: final ones are never revised."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    if emit == "final":
        return schema
    more = [StructField("revision", LongType()), StructField("retracted", BooleanType())]
    return StructType([*schema.fields, *more])
