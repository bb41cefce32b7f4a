"""What a stopped stream still holds, read from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.errors import SnapshotError
from slicewise.slicing.triggers import INFINITY
from slicewise.spark.frames import arrow_schema, conformed
from slicewise.spark.keeping import FORMAT

if TYPE_CHECKING:
    import pyarrow as pa


def drain(checkpoint: Any, *, windows: Any = None, aggs: Any = None, spark: Any = None) -> Any:
    """The window instances that are still open in a stopped stream, as a batch DataFrame.

    They are answered as if the watermark went to infinity, and the rows are those that the stream
    would emit then, so the rows of the stream and these together are the answer of the batch run.
    Of `sw.rolling` they are the events that still wait for the watermark. Nothing in the checkpoint
    changes: a stream can go on from it afterwards.

    Aggregates and windows of one's own that cannot be imported by name on the workers, such as
    those of a notebook, are given again with `aggs` and `windows`, all of them as they were.
    Spark's active session reads the checkpoint unless another is given.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    session = spark or _session()
    try:
        states = session.read.format("statestore").load(str(checkpoint))
    except PySparkException as error:
        raise SnapshotError(f"{_strange(checkpoint)} Spark says: {error}") from error
    if "groupState" not in states.schema["value"].dataType.fieldNames():
        raise SnapshotError(_strange(checkpoint))
    kept = states.select("value.groupState.about", "value.groupState.kept")
    first = kept.select("about").first()
    if first is None:
        raise SnapshotError(
            f"The checkpoint {str(checkpoint)!r} holds no state: no micro-batch of the stream has "
            "finished."
        )
    about = json.loads(first.about)
    if about["format"] > FORMAT:
        raise SnapshotError(
            f"The checkpoint has format {about['format']}; this release of Slicewise reads formats "
            f"up to {FORMAT}. Drain it with the release that wrote it, or a later one."
        )
    schema = StructType.fromJson(json.loads(about["schema"]))
    task = DrainBuckets(about, arrow_schema(schema), windows, aggs)
    return kept.select("kept").mapInArrow(task, schema)


def _session() -> Any:
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        raise SnapshotError(
            "`drain` reads a checkpoint with Spark, and there is no active session. Start one, or "
            "give it with `spark=...`."
        )
    return found


def _strange(checkpoint: Any) -> str:
    return (
        f"The checkpoint {str(checkpoint)!r} was not written by a stream of `sw.windowed` or "
        "`sw.rolling`. Give the `checkpointLocation` of one."
    )


@dataclass(frozen=True)
class DrainBuckets:
    """From the states of buckets to the rows that are still due."""

    about: dict[str, Any]
    schema: pa.Schema
    windows: Any
    aggs: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("kept"):
                for table in self._due(blob.as_py()):
                    columns = dict(zip(table.column_names, table.columns, strict=True))
                    yield from conformed(columns, self.schema)

    def _due(self, blob: bytes) -> Iterator[pa.Table]:
        from slicewise.slicing.operator import Operator

        if self.about["verb"] == "rolling":
            from slicewise.spark.rolling_stream import restored

            yield from restored(blob, self.schema, self.about, self.aggs).advance(INFINITY)
            return
        operator = Operator.restore(blob, windows=self.windows, aggs=self.aggs)
        table = operator.advance_arrow(INFINITY)
        if table.num_rows:
            yield table
