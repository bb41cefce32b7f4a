"""What differs between the releases of Spark that Slicewise runs on: 4.0 and newer.

Differences are told by what is there, not by a number: Spark's Python comes under other numbers
too, such as those of Databricks Connect.
"""

from __future__ import annotations

from functools import cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from slicewise.errors import CapabilityError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

OLDEST = 4
# Spark's own default. Databricks may choose the number itself (`auto`) and tells nobody which.
SHUFFLE_PARTITIONS = 200
STATE_PARTITIONS = (
    "spark.sql.streaming.internal.stateStore.partitions",
    "spark.sql.shuffle.partitions",
)


def check_installed(verb: str) -> None:
    """Refuse a call that needs Spark where PySpark is not installed."""
    try:
        import pyspark.sql  # noqa: F401 - only whether it is there matters
    except ImportError as error:
        raise MissingDependencyError(
            f"`{verb}` needs PySpark: pip install 'slicewise[spark]'."
        ) from error


def check_spark(session: Any) -> None:
    """Refuse a session whose Spark is too old, on either side of Spark Connect."""
    import pyspark

    for version in (pyspark.__version__, session.version):
        major = version.partition(".")[0]
        if major.isdigit() and int(major) < OLDEST:
            raise CapabilityError(
                f"Slicewise runs on Spark {OLDEST}.0 and newer; this DataFrame is one of Spark "
                f"{version}. Use a newer Spark, or hand over `frame.toPandas()`."
            )


def shuffle_partitions(session: SparkSession) -> int:
    """The number of shuffle partitions; Spark's default where the setting is no number."""
    found = session.conf.get("spark.sql.shuffle.partitions") or ""
    return int(found) if found.isdigit() else SHUFFLE_PARTITIONS


def checks_streams(session: SparkSession) -> bool:
    """Tells if Spark refuses queries that it is not sure to run right, as it does by default."""
    try:
        found = session.conf.get("spark.sql.streaming.unsupportedOperationCheck")
    except Exception:  # some platforms do not tell their settings
        return True
    return found != "false"


def state_partitions(otherwise: int) -> int:
    """The number of partitions of a stream's state, asked in one of its tasks.

    It is the one that the checkpoint was started with, whatever the session says now. Spark tells
    its tasks: in a setting of its own since 4.1, before that in the one of the session.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    for name in STATE_PARTITIONS:
        found = context.getLocalProperty(name) if context is not None else None
        if found is not None and found.isdigit():
            return int(found)
    return otherwise


@cache
def _in_utc() -> dict[str, Any]:
    """The argument that says that timestamps are in UTC: `timezone` since 4.2."""
    from pyspark.sql.pandas.types import to_arrow_type

    known = signature(to_arrow_type).parameters
    return {"timezone": "UTC"} if "timezone" in known else {"timestamp_utc": True}


def appended(rows: DataFrame) -> DataFrame:
    """The rows of a stream, which refuse to be written in another output mode than append.

    Spark would say so of an operator that nobody has written.
    """
    kind = type(rows)

    def output_mode(writer: Any, mode: Any) -> Any:
        if str(mode).lower() != "append":
            raise CapabilityError(
                f"Rows of `sw.windowed` and `sw.rolling` on a stream are written in append mode; "
                f"given: outputMode({mode!r}). Leave it out. A result that changes comes as a row "
                "with a higher `revision`, of which `sw.upsert` and `sw.fold` keep the last; "
                'for results before their windows close there is `emit="on_update"`.'
            )
        return writer

    def write_stream(self: Any) -> Any:
        writer = kind.writeStream.fget(self)  # type: ignore[attr-defined]  # it is a property
        writer.outputMode = partial(output_mode, writer)
        return writer

    rows.__class__ = type(kind.__name__, (kind,), {"writeStream": property(write_stream)})
    return rows


def to_arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type with which Spark sends a column to Python."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, **_in_utc())


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark sends rows to Python and takes them back."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, **_in_utc())


def is_datetime(kind: DataType) -> bool:
    """Tells whether a column holds dates or timestamps: `DatetimeType` is there since 4.1."""
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    return isinstance(kind, DateType | TimestampType | TimestampNTZType)
