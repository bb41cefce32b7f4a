"""What the verbs ask of a DataFrame: checked, with the schema of the answer, without a job.

Batch and stream begin with the same, so that both refuse the same and answer in the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound
from slicewise.arguments import check_outputs, checked_aggregates, listed
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.frames.trailing import length_of
from slicewise.names import column_name, column_names
from slicewise.slicing.families.window_set import WindowSet
from slicewise.slicing.ingest.measures import check_window_columns
from slicewise.slicing.settings import CHOSEN, Merging, Settings, check_measured
from slicewise.spans import Duration, Rows, Span, Ticks
from slicewise.spans import span as as_span
from slicewise.spark.frames import (
    Frame,
    arrow_types,
    bounds_types,
    check_keys,
    check_time,
    checked,
    spark_type,
    tie_breakers,
)
from slicewise.spark.options import StreamOptions
from slicewise.spark.query import Query, result_types
from slicewise.times import Times, times_of

if TYPE_CHECKING:
    from typing import Self

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# A bounded DataFrame is a stream of which every window has closed.
BOUNDED = StreamOptions(emit="final")


def definitions(
    by: Any,
    time: str,
    windows: Any,
    aggs: Any,
    unit: str | None = None,
    options: StreamOptions = BOUNDED,
    merging: Merging = CHOSEN,
) -> WindowSet:
    """The windows and settings of an operator that would be given these; refuses what it would."""
    settings = Settings.of(
        aggs=checked_aggregates("windowed", aggs),
        time=time,
        by=by,
        lateness=options.lateness,
        emit=options.emission,
        ordered=False,
        order=None,
        unit=unit,
        clock=None,
        **merging.arguments,
    )
    taken = WindowSet(settings)
    taken.begin(windows)
    return taken


@dataclass(frozen=True)
class AskedWindows:
    """Windows and aggregates of a DataFrame; `columns` are those that the query reads."""

    frame: Frame
    query: Query
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls, given: DataFrame, taken: WindowSet, order: str | Sequence[str] | None = None
    ) -> Self:
        """The query that these definitions make of a DataFrame, checked without a job."""
        settings, defined = taken.settings, taken.defined
        keys, chosen, time, unit = settings.by, settings.aggs, settings.time, settings.unit
        assert time is not None  # on Spark no clock tells it
        read = [window.reads for window in defined]
        needed = [*keys, time, *(c for a in chosen for c in a.columns)]
        needed += [column for columns in read for column in columns or ()]
        frame = Frame(given)
        decides = column_names("order", order)
        checked(frame, decides)
        depends = any(window.traits.needs_rows for window in defined)
        depends |= not all(agg.commutative for agg in chosen)
        needed += decides if depends else ()
        checked(frame, needed)
        check_time(frame, time)
        check_keys(frame, keys)
        # A condition that is a function may look at any column.
        every = frame.columns if None in read else needed
        columns = tuple(dict.fromkeys(every))
        types = arrow_types(frame, columns)
        check_window_columns(defined, types.__getitem__)
        ties = tie_breakers(frame, decides, columns, {*keys, time}) if depends else ()
        query = Query.of(defined, chosen, time, keys, types, ties, unit)
        query = replace(query, merging=settings.merging)
        check_measured(query.measure, query.windows)
        return cls(frame, query, columns)

    @cached_property
    def bounds(self) -> list[Bound]:
        return self.query.bounds()

    @cached_property
    def schema(self) -> StructType:
        """The schema of the result."""
        from pyspark.sql.types import StringType, StructField, StructType

        query = self.query
        bounds = bounds_types(query.time, query.windows, query.types)
        mixed = len(bounds) > 2  # then each row says only what its window measures
        fields = [StructField(name, self.frame.schema[name].dataType) for name in query.by]
        # Spark looks for nulls, row by row, in every column that may have some.
        fields.append(StructField("window", StringType(), nullable=False))
        fields += [StructField(n, spark_type(n, kind), mixed) for n, kind in bounds.items()]
        kinds = result_types(self.bounds, query.types)
        fields += [
            StructField(agg.output, spark_type(agg.output, kind), self._nullable(made))
            for agg, made, kind in zip(query.aggs, self.bounds, kinds, strict=True)
        ]
        return StructType(fields)

    def _nullable(self, bound: Bound) -> bool:
        """Results may be null, except states that are results as they are, such as counts.

        Where a stream retracts an instance there is no result at all.
        """
        finish = bound.finish
        plain = finish is not None and finish == parts.finish(parts.Itself, finish.type)
        return self.frame.is_streaming or not plain


@dataclass(frozen=True)
class AskedSpans:
    """Trailing aggregates of each row of a DataFrame over some spans."""

    frame: Frame
    query: Query
    spans: tuple[Span, ...]

    @classmethod
    def of(
        cls,
        given: DataFrame,
        by: str | Sequence[str] | None,
        time: str,
        over: Any,
        aggs: Any,
        order: str | Sequence[str] | None = None,
        unit: str | None = None,
    ) -> Self:
        """The query, checked as far as it can be without a job."""
        spans = [as_span(one) for one in listed(over)]
        chosen = checked_aggregates("rolling", aggs)
        if not spans:
            raise SpanError("`rolling` needs at least one span in `over`; given: none.")
        keys, time = column_names("by", by), column_name("time", time)
        used = [column for agg in chosen for column in agg.columns]
        frame = Frame(given)
        decides = column_names("order", order)
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
        return cls(frame, query, tuple(spans))

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


def no_times(query: Query) -> Times:
    """No times of the type of the time column: they know the unit of its spans."""
    import pyarrow as pa

    nothing = Column.from_arrow(pa.array([], query.types[query.time]))
    return times_of(nothing, query.time, query.unit)


def outputs(aggs: Sequence[Aggregate], spans: Sequence[Span]) -> list[str]:
    """The names of the new columns."""
    return [f"{agg.output}_{span}" for agg in aggs for span in spans]
