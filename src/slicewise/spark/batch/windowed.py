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
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from slicewise import tuning
from slicewise.aggregates.bound import Component, share
from slicewise.errors import CapabilityError
from slicewise.slicing.ingest.reach import reach_of
from slicewise.slicing.settings import Merging
from slicewise.spark.asked import AskedWindows, definitions
from slicewise.spark.batch import native, series
from slicewise.spark.batch.ordered import FeedOrdered
from slicewise.spark.batch.slices import CombineSlices, MergeSlices
from slicewise.spark.batch.states import PART, SLICE, key_names, state_names, state_type
from slicewise.spark.frames import (
    arrow_schema,
    bounds_types,
    microseconds,
    spark_type,
    within_reach,
)
from slicewise.spark.options import StreamOptions
from slicewise.spark.sending import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Way = Literal["native", "combined", "sliced", "ordered"]


class Windowed(AskedWindows):
    """Windows and aggregates of a bounded DataFrame, and the way that leads to them."""

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
        return native.computes(self.components) and native.few_edges(self.query.windows)

    @property
    def apart(self) -> bool:
        """Tells if each window instance is one slice."""
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
    def travelling(self) -> StructType:
        """The schema with names of ours: columns find their own names again at the end."""
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

    def check_merging(self) -> None:
        """Refuse a merger, a store or partials where no operator answers the query."""
        given = self.query.merging.given
        if self.way == "ordered" or not given:
            return
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise CapabilityError(
            "All windows here are made of slices whose edges are known, and a bounded DataFrame "
            "has them merged once, after the shuffle, without an operator that could keep a store "
            f"or a merger; given: {shown}. Leave that out, or use it on a stream, on a table or "
            "with windows that depend on events."
        )

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
    unit: str | None,
    options: StreamOptions,
    merging: Merging,
) -> Any:
    """The aggregates of every window instance of every key; see `sw.windowed`."""
    taken = definitions(by, time, windows, aggs, unit, merging=merging)
    asked = Windowed.of(frame, taken, order)
    asked.check_merging()
    options.checked(asked.query.measure)
    return asked.run()
