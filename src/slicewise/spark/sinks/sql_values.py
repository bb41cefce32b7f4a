"""Values of Arrow columns as SQL databases take them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from slicewise.columns import python_values

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
# One encoder for all: `json.dumps` would make a new one for each value.
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def family(kind: pa.DataType) -> str:
    """The kind of SQL type that holds values of an Arrow type; lists, structs and maps are text."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return family(kind.value_type)
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    for name, fits in (
        ("boolean", types.is_boolean),
        ("integer", types.is_integer),
        ("integer", types.is_duration),
        ("float", types.is_floating),
        ("decimal", types.is_decimal),
        ("bytes", lambda k: types.is_binary(k) or types.is_large_binary(k)),
        ("date", types.is_date),
        ("time", types.is_time),
    ):
        if fits(kind):
            return name
    return "text"


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Python values; instants are in UTC, and durations are microseconds."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz and "UTC"))
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    # Spark lets any bytes be a text; databases do not.
    return python_values(column, lambda text: text.decode("utf-8", "replace"))


def digests(identity: Sequence[list[Any]]) -> Iterator[str]:
    """A short text for each row that names its instance, the same in every process."""
    for row in zip(*identity, strict=True):
        text = ENCODE([*map(_canonical, row)])
        yield blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _canonical(value: Any) -> Any:
    """A key or bound such that equal ones give equal text."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # -0.0 is 0.0
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MICROSECOND
    if isinstance(value, decimal.Decimal):
        return str(value.normalize())
    return _json_value(value)


def as_json(value: Any) -> Any:
    """Lists, structs and maps as JSON text; everything else as it is."""
    if isinstance(value, list | dict):
        return ENCODE(_json_value(value))
    return value


def without_nul(value: Any) -> Any:
    """A value for PostgreSQL, whose texts hold no NUL: there the sign U+2400 stands for it."""
    if isinstance(value, str) and "\0" in value:
        return value.replace("\0", "\u2400")
    return value


def as_text(value: Any) -> Any:
    """For a database with few types: also times, dates and decimals are text."""
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else as_json(value)


def _json_value(value: Any) -> Any:
    """A value that JSON has: NaN and infinity as text, as Spark's `to_json` writes them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(name): _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
