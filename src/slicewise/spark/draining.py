"""What a stopped stream still holds, read from its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.errors import SnapshotError
from slicewise.slicing.blob import BlobReader, distrusted
from slicewise.slicing.describe import (
    aggregate_described,
    aggregate_of,
    chosen,
    window_described,
    window_of,
)
from slicewise.slicing.triggers import INFINITY
from slicewise.spark.compat import check_spark
from slicewise.spark.frames import arrow_schema, conformed
from slicewise.spark.keeping import FORMAT
from slicewise.spark.sending import map_in_arrow
from slicewise.spark.stream import LATE

if TYPE_CHECKING:
    import pyarrow as pa

DESCRIBED = "windows string, aggs string, pickled string"


def drain(
    checkpoint: Any,
    *,
    windows: Any = None,
    aggs: Any = None,
    spark: Any = None,
    trusted: bool = False,
) -> Any:
    """The window instances that are still open in a stopped stream, as a batch DataFrame.

    They are answered as if the watermark went to infinity, and the rows are those that the stream
    would emit then, so the rows of the stream and these together are the answer of the batch run.
    Of `sw.rolling` they are the events that still wait for the watermark. A stream with `keep_late`
    has a column `late`, which is null here. Nothing in the checkpoint changes: a stream can go on
    from it afterwards.

    Aggregates and windows of one's own are found by the name of their class if that is imported
    here. The others, and windows with a function as condition, are given again with `aggs` and
    `windows`, all of them as they were. A checkpoint runs no code unless it is `trusted`: then
    functions are found by their names as well, modules are imported, and pickled states are read.
    A checkpoint has pickled states only where states are more than plain values. Spark's active
    session reads it unless another is given.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    session = spark or _session()
    check_spark(session)
    try:
        states = session.read.format("statestore").load(str(checkpoint))
    except PySparkException as error:
        raise SnapshotError(f"{_strange(checkpoint)} Spark says: {error}") from error
    # Spark's own operators keep no `groupState`, and other Python functions another one.
    state = states.schema["value"].dataType
    group = state["groupState"].dataType if "groupState" in state.fieldNames() else None
    if not isinstance(group, StructType) or group.fieldNames() != ["about", "kept"]:
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
    said: Any = map_in_arrow(kept.select("kept"), described, DESCRIBED).first()
    windows = chosen(
        "windows",
        json.loads(said.windows),
        windows,
        window_described,
        window_of,
        lambda window: window.name,
        "drain",
        trusted=trusted,
    )
    aggs = chosen(
        "aggs",
        json.loads(said.aggs),
        aggs,
        aggregate_described,
        aggregate_of,
        lambda aggregate: aggregate.output,
        "drain",
        trusted=trusted,
    )
    if said.pickled and not trusted:
        raise distrusted([said.pickled])
    made = StructType.fromJson(json.loads(about["schema"]))
    schema = StructType([*made.fields])
    if about.get("late"):
        schema.add(LATE, StructType.fromJson(json.loads(about["late"])))
    task = DrainBuckets(about, arrow_schema(made), arrow_schema(schema), windows, aggs, trusted)
    return map_in_arrow(kept.select("kept"), task, schema)


def described(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What states say of themselves, so that the driver need not load them."""
    import pyarrow as pa

    for batch in batches:
        headers = [BlobReader(blob.as_py()).header for blob in batch.column("kept")]
        windows = [json.dumps([w["window"] for w in h.get("windows", ())]) for h in headers]
        aggs = [json.dumps(header["aggs"]) for header in headers]
        pickled = [", ".join(header["pickled"]) for header in headers]
        columns = [pa.array(texts, pa.string()) for texts in (windows, aggs, pickled)]
        yield pa.RecordBatch.from_arrays(columns, ["windows", "aggs", "pickled"])


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
    """From the states of buckets to the rows that are still due.

    `made` is the schema of results; `schema` has the late output too, where there is one.
    """

    about: dict[str, Any]
    made: pa.Schema
    schema: pa.Schema
    windows: Any
    aggs: Any
    trusted: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for blob in batch.column("kept"):
                for table in self._due(blob.as_py()):
                    columns = dict(zip(table.column_names, table.columns, strict=True))
                    for field in list(self.schema)[len(self.made) :]:
                        columns[field.name] = pa.nulls(table.num_rows, field.type)
                    yield from conformed(columns, self.schema)

    def _due(self, blob: bytes) -> Iterator[pa.Table]:
        from slicewise.slicing.operator import Operator

        if self.about["verb"] == "rolling":
            from slicewise.spark.rolling_stream import restored

            yield from restored(blob, self.made, self.about, self.aggs).advance(INFINITY)
            return
        operator = Operator.restore(
            blob, windows=self.windows, aggs=self.aggs, trusted=self.trusted
        )
        table = operator.advance_arrow(INFINITY)
        if table.num_rows:
            yield table
