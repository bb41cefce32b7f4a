"""Emitted rows in a DataFrame folded to the current answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.errors import CapabilityError
from slicewise.folding import INSTANCE, LATE, REVISION, Layout
from slicewise.spark.compat import check_spark
from slicewise.spark.frames import Frame, check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fold(frame: Any, by: str | Sequence[str] | None = None) -> Any:
    """`sw.fold` on a DataFrame: lazily, with one shuffle by instance."""
    layout = layout_of(frame, "fold", by)
    if not layout.revised:
        return results(frame, layout) if layout.late else frame
    current = Frame(latest(results(frame, layout), layout))
    return current.selected(layout.columns, current.rows.where(~current.at("retracted")))


def layout_of(frame: DataFrame, verb: str, by: str | Sequence[str] | None) -> Layout:
    """Which columns say what; refuses streams and what was not emitted by `sw.windowed`."""
    from pyspark.sql.types import NullType, StructType

    check_spark(frame.sparkSession)
    if frame.isStreaming:
        raise CapabilityError(
            f"`{verb}` takes rows that a stream has emitted; this is the stream itself, which does "
            "not end. Write it to a table and fold that, or keep a folded table with "
            "`stream.writeStream.foreachBatch(sw.upsert(...))`."
        )
    names = frame.columns
    behind = names[names.index("window") :] if "window" in names else []
    late = LATE in behind and isinstance(frame.schema[LATE].dataType, StructType | NullType)
    layout = Layout.of(names, by, late=late)
    check_names(names, [*layout.columns, *(REVISION if layout.revised else ())])
    return layout


def results(frame: DataFrame, layout: Layout) -> DataFrame:
    """The rows that are no dropped events, without the column that hands those out."""
    if not layout.late:
        return frame
    given = Frame(frame)
    kept = [name for name in given.columns if name != LATE]
    return given.selected(kept, given.rows.where(given.at(INSTANCE[0]).isNotNull()))


def latest(frame: DataFrame, layout: Layout) -> DataFrame:
    """The last revision of each instance, retractions among them.

    Rows are reduced before the shuffle, so that only one per instance and partition crosses it.
    """
    from pyspark.sql import functions as F

    # Fields are numbered: names that differ only in case would be one to Spark.
    given, rest = Frame(frame), [*layout.values, *REVISION]
    fields = [given.at(name).alias(f"v{k}") for k, name in enumerate(rest)]
    newest = F.max_by(F.struct(*fields), given.at("revision"))
    # Keys are numbered too, so that none has the name of what is kept of the rest.
    named = [given.at(name).alias(f"k{k}") for k, name in enumerate(layout.identity)]
    grouped = given.rows.groupBy(*named).agg(newest.alias("rest"))
    found = {name: F.col(f"k{k}") for k, name in enumerate(layout.identity)}
    found |= {name: F.col("rest").getField(f"v{k}") for k, name in enumerate(rest)}
    return grouped.select(*(found[name].alias(name) for name in (*layout.columns, *REVISION)))
