"""`sw.windowed` on bounded DataFrames.

Four ways lead from rows to window instances, and a query takes the cheapest that serves all of
it, so that the input is read once:

- *native*: Spark makes the slices of context-free windows with its own aggregates;
- *combined*: Python makes them before the shuffle, for any aggregate that commutes;
- *sliced*: for the others, rows are shuffled by key and slice, and Python makes slices of them in
  the order of time;
- *ordered*: rows are sorted by (key, time) and fed to an operator, for all other windows.

In the first three a key with most of the rows keeps many tasks busy, and not only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from slicewise import tuning
from slicewise.aggregates import components as parts
from slicewise.aggregates.base import Aggregate, Bound, Component, share
from slicewise.slicing.ingest.events import names as names_of
from slicewise.slicing.ingest.measures import check_window_columns
from slicewise.slicing.ingest.reach import reach_of
from slicewise.slicing.operator import Operator
from slicewise.slicing.settings import check_measured
from slicewise.spark.batch import native, series
from slicewise.spark.batch.ordered import FeedOrdered
from slicewise.spark.batch.slices import CombineSlices, MergeSlices
from slicewise.spark.frames import (
    Frame,
    arrow_schema,
    arrow_types,
    bounds_types,
    check_keys,
    check_time,
    checked,
    microseconds,
    spark_type,
    tie_breakers,
    within_reach,
)
from slicewise.spark.query import Query, result_types
from slicewise.spark.sending import map_in_arrow
from slicewise.spark.states import PART, SLICE, key_names, state_names, state_type
from slicewise.spark.stream.stream import check_settings
from slicewise.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Way = Literal["native", "combined", "sliced", "ordered"]


@dataclass(frozen=True)
class Windowed:
    """A query on a DataFrame: what it needs, which way it takes, and what comes out."""

    frame: Frame
    query: Query
    columns: tuple[str, ...]  # the columns that must reach Python, if rows do

    @staticmethod
    def of(
        given: DataFrame,
        by: str | Sequence[str] | None,
        time: str,
        windows: Window | Sequence[Window],
        aggs: Aggregate | Sequence[Aggregate],
        order: str | Sequence[str] | None = None,
        unit: str | None = None,
    ) -> Windowed:
        """The query, checked as far as it can be without a job."""
        # An operator checks windows and aggregates, and has no use for the DataFrame yet.
        operator = Operator(
            windows=windows,  # type: ignore[arg-type]  # one alone is taken too
            aggs=aggs,  # type: ignore[arg-type]
            time=time,
            by=by,
            emit="final",
            unit=unit,
        )
        keys = names_of(by)
        read = [window.reads for window in operator.windows]
        needed = [*keys, time, *(c for a in operator.aggs for c in a.columns)]
        needed += [column for columns in read for column in columns or ()]
        frame = Frame(given)
        decides = names_of(order)
        checked(frame, decides)
        depends = any(window.traits.needs_rows for window in operator.windows)
        depends |= not all(agg.commutative for agg in operator.aggs)
        needed += decides if depends else ()
        checked(frame, needed)
        check_time(frame, time)
        check_keys(frame, keys)
        # A condition that is a function may look at any column.
        every = frame.columns if None in read else needed
        columns = tuple(dict.fromkeys(every))
        types = arrow_types(frame, columns)
        check_window_columns(operator.windows, types.__getitem__)
        ties = tie_breakers(frame, decides, columns, {*keys, time}) if depends else ()
        query = Query.of(operator.windows, operator.aggs, time, keys, types, ties, unit)
        check_measured(query.measure, query.windows)
        return Windowed(frame, query, columns)

    @cached_property
    def bounds(self) -> list[Bound]:
        return self.query.bounds()

    @cached_property
    def components(self) -> list[Component]:
        return share(self.bounds)

    @property
    def way(self) -> Way:
        """The cheapest way that serves every window and every aggregate."""
        if self.dependent_windows:
            return "ordered"
        if self.dependent_aggs:
            return "sliced"
        return "native" if self.is_native else "combined"

    @property
    def dependent_windows(self) -> list[str]:
        """Windows whose edges depend on the events, so that all rows of a key must be in order."""
        return [
            w.name
            for w in self.query.windows
            if not w.traits.context_free or w.traits.axis is not None
        ]

    @property
    def dependent_aggs(self) -> list[str]:
        """Aggregates that depend on the order of events, so that rows of a slice must be in it."""
        return [a.output for a in self.query.aggs if not a.commutative]

    @cached_property
    def is_native(self) -> bool:
        return native.computes(self.components, self.query.types) and native.few_edges(
            self.query.windows
        )

    @property
    def apart(self) -> bool:
        """Whether each window instance is one slice."""
        if len(self.query.windows) > 1:
            return False
        (window,) = self.query.windows
        return window.traits.disjoint

    @cached_property
    def finished(self) -> list[Column] | None:
        """The columns of the result, if each slice is an instance and Spark needs nobody else."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import TimestampNTZType, TimestampType

        window, kind = self.query.windows[0].as_periodic(), self.schema["start"].dataType
        if self.way != "native" or not self.apart or isinstance(kind, TimestampNTZType):
            return None
        if window is None or window.every > window.length:
            return None  # some slices are in no window
        results = [native.result(bound, self.components) for bound in self.bounds]
        ends = [F.col(SLICE), F.col(SLICE) + F.lit(window.length).cast("bigint")]
        if isinstance(kind, TimestampType):
            ends = [F.timestamp_micros(end) for end in ends]
        found = [*map(F.col, key_names(self.query.by)), F.lit(window.name), *ends]
        for result in results:
            if result is None:
                return None
            found.append(result)
        return [
            column.cast(field.dataType).alias(field.name)
            for column, field in zip(found, self.schema.fields, strict=True)
        ]

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

    @cached_property
    def travelling(self) -> StructType:
        """The same schema with names of ours: columns find their own names again at the end."""
        from pyspark.sql.types import StructField, StructType

        results = [f"value_{n}" for n in range(len(self.query.aggs))]
        bounds = bounds_types(self.query.time, self.query.windows, self.query.types)
        names = [*key_names(self.query.by), "window", *bounds, *results]
        return StructType(
            [
                StructField(name, field.dataType, field.nullable)
                for name, field in zip(names, self.schema.fields, strict=True)
            ]
        )

    def _nullable(self, bound: Bound) -> bool:
        """Whether results may be null: not if they are states as they are, such as counts.

        Where a stream retracts an instance there is no result at all.
        """
        finish = bound.finish
        plain = finish is not None and finish == parts.finish(parts.Itself, finish.type)
        return self.frame.is_streaming or not plain

    def run(self) -> DataFrame:
        """The result, which Spark computes when it is asked for."""
        if self.way == "ordered" or (self.way == "sliced" and self.apart):
            task = FeedOrdered(self.query, arrow_schema(self.travelling))
            found = map_in_arrow(self._in_order(), task, self.travelling)
            return found.toDF(*self.schema.names)
        if self.finished is not None:
            return self._native().select(*self.finished)
        results = self.travelling.names[-len(self.query.aggs) :]
        packed = series.pay(self.query.windows, self.travelling, results)
        schema = series.as_series(self.travelling, results) if packed else self.travelling
        apart = self.way == "native" and self.apart
        merge = MergeSlices(self.query, arrow_schema(schema), apart, packed)
        slices = self._native() if self.way == "native" else self._combined()
        if not merge.apart:
            keys = key_names(self.query.by)
            slices = together(slices, keys).sortWithinPartitions(*keys, *self._slice_order)
        found = map_in_arrow(slices, merge, schema)
        if packed:
            tuning.took("series")
            found = series.taken_apart(found, self.travelling, results)
        return found.toDF(*self.schema.names)

    @property
    def _slice_order(self) -> list[str]:
        """The columns by which the slices of a key are sorted."""
        return [SLICE, PART] if self.way == "sliced" else [SLICE]

    def _native(self) -> DataFrame:
        query = self.query
        return native.slices(
            self.frame, query.by, query.time, query.windows, self.components, query.types
        )

    def _combined(self) -> DataFrame:
        from pyspark.sql.types import LongType, StructField, StructType

        by = self.query.by
        fields = [
            StructField(key, self.frame.schema[name].dataType)
            for key, name in zip(key_names(by), by, strict=True)
        ]
        fields += [StructField(name, LongType()) for name in self._slice_order]
        for component, names in zip(self.components, state_names(self.components), strict=True):
            fields += [
                StructField(name, spark_type(name, state_type(dtype)))
                for name, dtype in zip(names, component.algebra.dtypes, strict=True)
            ]
        schema = StructType(fields)
        combine = CombineSlices(self.query, arrow_schema(schema))
        rows = self._in_order() if self.way == "sliced" else self._rows()
        return map_in_arrow(rows, combine, schema)

    def _rows(self) -> DataFrame:
        return self.frame.rows.select(*self.frame.all_at(self.columns))

    def _in_order(self) -> DataFrame:
        """The rows of each key, or of each slice of a key, in one partition and sorted by time."""
        query = self.query
        if self.way == "sliced":
            reach = reach_of(query.windows, query.types[query.time])
            times = within_reach(microseconds(self.frame, query.time), reach)
            begin = native.slice_start(times, query.windows)
            # Rows without a slice are in no window, and would all go to one task.
            keys = self.frame.all_at(query.by)
            rows = self._rows().where(begin.isNotNull()).repartition(*keys, begin)
        else:
            rows = together(self._rows(), self.frame.all_at(query.by))
        order = [*query.by, query.time, *query.order]
        return rows.sortWithinPartitions(*self.frame.sorted_by(order))


def together(frame: DataFrame, keys: Sequence[Any]) -> DataFrame:
    """The rows of each key in one partition."""
    return frame.repartition(*keys) if keys else frame.repartition(1)


def windowed(
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    windows: Any,
    aggs: Any,
    order: str | Sequence[str] | None = None,
    lateness: Any,
    unit: str | None,
    more: tuple[Any, ...],
) -> Any:
    """The aggregates of every window instance of every key; see `sw.windowed`."""
    asked = Windowed.of(frame, by, time, windows, aggs, order, unit)
    check_settings(asked.query.measure, more, lateness)
    return asked.run()
