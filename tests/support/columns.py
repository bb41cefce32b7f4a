"""Columns of every type that aggregates may take, small, with all that is special about a type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

import slicewise as sw
from slicewise.errors import ColumnTypeError

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)
UTC = NOON.replace(tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def small(low: int, high: int) -> list[Any]:
    """Whole numbers whose product fits 64 bits, the limits of a narrow type among them."""
    return [3, None, low, 1, 3, None, high, 2, 3, 2, 1]


FLOATS = [1.5, None, math.nan, 2.0, -0.0, None, 0.0, 8.25, math.inf, 2.0, 1.5]
TEXTS = ["b", None, "a", "", "ab", None, "b", "Z", "é", "a", "b"]
MOMENTS = [1, None, 5, -3, 5, None, 0, 7, 1, 1, 2]

# For each type its values, one for each row.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), small(-128, 127)),
    "int32": (pa.int32(), small(-(2**31), 2**20)),
    "int64": (pa.int64(), small(-(2**40), 2**10)),
    "uint64": (pa.uint64(), small(1, 2**40)),
    "float16": (pa.float16(), FLOATS),
    "float32": (pa.float32(), FLOATS),
    "float64": (pa.float64(), FLOATS),
    "finite": (pa.float64(), [1.5, None, 4.0, 2.0, -0.5, None, 3.0, 8.25, 2.0, 2.0, 1.5]),
    "bool": (pa.bool_(), [True, None, False, True, True, None, False, True, True, False, True]),
    "decimal": (pa.decimal128(9, 2), [None if x is None else Decimal(x) / 4 for x in MOMENTS]),
    "wide decimal": (
        pa.decimal128(38, 18),
        [None if x is None else Decimal(x * 10**18 + 1).scaleb(-18) for x in MOMENTS],
    ),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), [None if x is None else x.encode() for x in TEXTS]),
    "date": (pa.date32(), [None if x is None else DAY + x * dt.timedelta(1) for x in MOMENTS]),
    "timestamp": (pa.timestamp("us"), [None if x is None else NOON + x * HOUR for x in MOMENTS]),
    "utc": (pa.timestamp("us", "UTC"), [None if x is None else UTC + x * HOUR for x in MOMENTS]),
    "duration": (pa.duration("us"), [None if x is None else x * HOUR for x in MOMENTS]),
    "time": (pa.time64("us"), [None if x is None else dt.time(x + 3) for x in MOMENTS]),
    "list": (pa.list_(pa.int64()), [None if x is None else [x, 1] for x in MOMENTS]),
    "struct": (
        pa.struct([("a", pa.int64())]),
        [None if x is None else {"a": x} for x in MOMENTS],
    ),
}
TIMES = [1, 2, 4, 5, 6, 9, 10, 11, 14, 22, 23]


@cache
def columns_of(kind: str) -> pa.Table:
    """Times `t`, and the columns `x` and `y` of the type, `y` in another order."""
    dtype, values = COLUMNS[kind]
    if dtype == pa.float16():
        import numpy as np

        filled = [0.0 if value is None else value for value in values]
        arrays = [
            pa.array(np.array(some, np.float16), mask=np.array([v is None for v in given]))
            for some, given in ((filled, values), (filled[::-1], values[::-1]))
        ]
    else:
        arrays = [pa.array(values, dtype), pa.array(values[::-1], dtype)]
    return pa.table({"t": TIMES, "x": arrays[0], "y": arrays[1]})


def _takes(agg: sw.Aggregate, kind: str) -> bool:
    table = columns_of(kind)
    try:
        agg.bind([table[name].type for name in agg.columns] or [pa.int64()])
    except ColumnTypeError:
        return False
    return True


@cache
def aggregates_on(kind: str) -> list[sw.Aggregate]:
    """The aggregates of the registry that take columns of the type."""
    return [agg for agg in sw.agg.REGISTRY if _takes(agg, kind)]


@cache
def refused(kind: str) -> list[sw.Aggregate]:
    """The aggregates of the registry that refuse columns of the type."""
    return [agg for agg in sw.agg.REGISTRY if not _takes(agg, kind)]
