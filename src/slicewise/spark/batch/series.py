"""Consecutive instances of one window and key as one row of arrays, which Spark takes apart.

Windows that overlap make many results, and what a row that comes from Python costs Spark (0.12 us,
measured with seven columns) is soon more than all the rest of a query. As an element of arrays a
result costs Spark three quarters of that and Python half as much as a row: key and name are sent
once for a series, and start and end follow from those of its first instance. A series costs as
much as two results more, so short ones cost more than rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.grid import PERIODIC, FreeWindows, bounds_at, first_after
from slicewise.slicing.store.runs import Runs
from slicewise.spark.frames import col, fit
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

STEP = "__step"
PLACE, VALUE = "__place", "__value"

# Spark holds all results of a series at a time.
LONGEST = 512


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Series of instances, one array per property.

    Each has a window, a key, the bounds of its first instance and that one's number. Instances,
    all series one after the other, have the places `[left, right)` of their slices in the runs.
    """

    window: np.ndarray
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    first: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def __len__(self) -> int:
        return len(self.window)

    def lists(self, values: pa.Array, kind: pa.DataType) -> pa.Array:
        """A value per instance as a list per series."""
        import pyarrow as pa

        offsets = pa.array(np.append(self.first, len(self.left)), pa.int32())
        return pa.ListArray.from_arrays(offsets, fit(values, kind.value_type), type=kind)


def listed(
    runs: Runs, windows: FreeWindows, keys: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Series:
    """The instances of periodic windows that close in `(low, high]`, bounds of each key.

    Like `collect` of `list_free`, which would list every property of every instance.
    """
    room = runs.listed
    while True:
        series = tuple(np.empty(room, np.int64) for _ in range(5))
        places = np.empty(room, np.int64), np.empty(room, np.int64)
        slices = runs.offset, runs.size, runs.start
        count, found = run(list_series)(windows.arrays(), keys, low, high, slices, series, places)
        if found <= room:
            return Series(*(a[:count] for a in series), *(a[:found] for a in places))
        room = found


@kernel
def list_series(
    windows: Any, keys: Any, low: Any, high: Any, slices: Any, series: Any, places: Any
) -> Any:
    """How many series and instances there are; those that have room are written."""
    numbers, _, origins, everys, lengths, _ = windows
    offset, size, start = slices
    window, key, begins, ends, first = series
    left, right = places
    count, found = 0, 0
    for j in range(keys.shape[0]):
        a = offset[keys[j]]
        z = a + size[keys[j]]
        for w in range(numbers.shape[0]):
            origin, every, length = origins[w], everys[w], lengths[w]
            k = first_after(PERIODIC, origin, every, length, max(low[j], start[a]))
            begin, end = bounds_at(PERIODIC, origin, every, length, k)
            front = first_at_least(start, a, z, begin)
            rear = front
            joined = LONGEST  # how many instances the series has; a full one goes no further
            while front < z and end <= high[j]:
                if start[front] >= end:
                    k = first_after(PERIODIC, origin, every, length, start[front])
                    joined = LONGEST
                else:
                    while rear < z and start[rear] < end:
                        rear += 1
                    if found < left.shape[0]:
                        left[found] = front
                        right[found] = rear
                        if joined == LONGEST:
                            window[count] = numbers[w]
                            key[count] = keys[j]
                            begins[count] = begin
                            ends[count] = end
                            first[count] = found
                            count += 1
                            joined = 0
                    joined += 1
                    found += 1
                    k += 1
                begin, end = bounds_at(PERIODIC, origin, every, length, k)
                while front < z and start[front] < begin:
                    front += 1
                rear = max(rear, front)
    return count, found


def pay(windows: Sequence[Window], schema: StructType, results: Sequence[str]) -> bool:
    """Tells if series serve, and cost less than rows."""
    from pyspark.sql.types import LongType, NumericType, TimestampType

    overlaps = [w.traits.overlap for w in windows if w.as_periodic() is not None]
    return (
        len(overlaps) == len(windows)
        and sum(overlaps) >= tuning.active().series_overlap * len(windows)
        and isinstance(schema["start"].dataType, LongType | TimestampType)
        # Others may be long, and a series of them too long for a row.
        and all(isinstance(schema[name].dataType, NumericType) for name in results)
    )


def as_series(schema: StructType, results: Sequence[str]) -> StructType:
    """The schema of series whose instances have this one."""
    from pyspark.sql.types import ArrayType, LongType, StructField, StructType

    def changed(field: StructField) -> StructField:
        if field.name in ("start", "end"):
            return StructField(field.name, LongType(), nullable=False)
        if field.name in results:
            kind = ArrayType(field.dataType, field.nullable)
            return StructField(field.name, kind, nullable=False)
        return field

    step = StructField(STEP, LongType(), nullable=False)
    return StructType([*map(changed, schema.fields), step])


def taken_apart(series: DataFrame, schema: StructType, results: Sequence[str]) -> DataFrame:
    """The instances of series, with this schema."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampType

    def own(field: StructField) -> Column:
        if field.name in ("start", "end"):
            bound = col(field.name) + F.col(PLACE) * F.col(STEP)
            return F.timestamp_micros(bound) if isinstance(field.dataType, TimestampType) else bound
        if field.name not in results:
            return col(field.name)
        if field.name == results[0]:
            return F.col(VALUE)
        value = F.get(col(field.name), F.col(PLACE))
        # Spark cannot know that the place is there.
        return value if field.nullable else F.coalesce(value, F.lit(0).cast(field.dataType))

    places = series.select("*", F.posexplode(col(results[0])).alias(PLACE, VALUE))
    return places.select(*(own(field).alias(field.name) for field in schema.fields))
