"""What a stopped stream still holds, read from its checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.errors import SnapshotError
from slicewise.limits import INFINITY
from slicewise.slicing.settings import POSITIONS, TIMES
from slicewise.slicing.state.blob import BlobReader, distrusted
from slicewise.slicing.state.describe import (
    aggregate_described,
    aggregate_of,
    chosen,
    window_described,
    window_of,
)
from slicewise.slicing.state.resume import counted_in
from slicewise.spark.compat import check_installed, check_spark
from slicewise.spark.frames import arrow_schema, conformed
from slicewise.spark.sending import map_in_arrow
from slicewise.spark.stream.keeping import FORMAT
from slicewise.spark.stream.stream import LATE, OBSERVED
from slicewise.suggestions import taking_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Spark's name of the operator that keeps the buckets.
OPERATOR = "applyInPandasWithState"
DESCRIBED = "about string, windows string, aggs string, pickled string"
NOTHING: dict[str, Any] = {"aggs": [], "pickled": []}


@taking_names
def drain(
    checkpoint: Any,
    *,
    windows: Any = None,
    aggs: Any = None,
    spark: Any = None,
    trusted: bool = False,
    metrics: str | None = None,
) -> Any:
    """Returns the window instances that are still open in a stopped stream, as a batch DataFrame.

    The rows are those that the stream would emit if its watermark went to infinity. Together with
    the rows that it has emitted they are the answer of the batch run. For `sw.rolling` they are
    the events that still wait for the watermark. If the stream had `keep_late`, there is a column
    `late`, which is null here. Nothing in the checkpoint changes, so the stream can go on from it.

    Aggregates and windows of your own are found by the name of their class if it is imported here.
    If one of them is not, or a window has a function as its condition, pass all of them again with
    `aggs` and `windows`, as they were. A checkpoint runs no code unless it is `trusted`: then
    functions are found by their names as well, modules are imported, and pickled states are read.
    A checkpoint has pickled states only where states are more than plain values.

    Spark's active session reads the checkpoint unless `spark` gives another one. If the query has
    several streams of Slicewise, `metrics` names the one to read.

    Args:
        checkpoint: The folder of the stopped stream's checkpoint.
        windows: The windows, all as they were, where they cannot be found by name.
        aggs: The aggregates, likewise.
        spark: The session that reads; the active one unless given.
        trusted: Lets names of functions be looked up and pickled states be read.
        metrics: The name under which the stream reports, where a query has several.

    >>> import slicewise as sw
    >>> open_windows = sw.drain("/data/checkpoint")  # doctest: +SKIP
    """
    check_installed("sw.drain")
    from pyspark.sql.types import StructType

    session = spark or _session()
    check_spark(session)
    kept, said = chosen_stream(stored_states(session, checkpoint), metrics)
    about = json.loads(said.about)
    if about["format"] > FORMAT:
        raise SnapshotError(
            f"The checkpoint has format {about['format']}; this release of Slicewise reads formats "
            f"up to {FORMAT}. Drain it with the release that wrote it, or a later one."
        )
    windows = drained_windows(said, counted_in(about.get("unit"), windows), trusted=trusted)
    aggs = drained_aggregates(said, aggs, trusted=trusted)
    if said.pickled and not trusted:
        raise distrusted([said.pickled])
    made = StructType.fromJson(json.loads(about["schema"]))
    schema = StructType([*made.fields])
    if about.get("late"):
        schema.add(LATE, StructType.fromJson(json.loads(about["late"])))
    task = DrainBuckets(about, arrow_schema(made), arrow_schema(schema), windows, aggs, trusted)
    return map_in_arrow(kept.select("kept"), task, schema)


def drained_windows(said: Any, given: Any, *, trusted: bool) -> Any:
    """The windows of a checkpoint, those of one's own as they are given again."""
    return chosen(
        "windows",
        json.loads(said.windows),
        given,
        window_described,
        window_of,
        lambda window: window.name,
        "drain",
        trusted=trusted,
    )


def drained_aggregates(said: Any, given: Any, *, trusted: bool) -> Any:
    """The aggregates of a checkpoint, those of one's own as they are given again."""
    return chosen(
        "aggs",
        json.loads(said.aggs),
        given,
        aggregate_described,
        aggregate_of,
        lambda aggregate: aggregate.output,
        "drain",
        trusted=trusted,
    )


def chosen_stream(
    streams: Sequence[tuple[DataFrame, Any]], metrics: str | None
) -> tuple[DataFrame, Any]:
    """The only stream of a checkpoint, or the one that reports under a name."""
    names = [json.loads(said.about).get("metrics", OBSERVED) for _, said in streams]
    found = [s for s, name in zip(streams, names, strict=True) if metrics in (None, name)]
    if len(found) != 1:
        raise SnapshotError(
            f"The checkpoint holds the streams {', '.join(map(repr, names))}. Say which one to "
            f"drain with `metrics=...`; given: {metrics!r}."
        )
    return found[0]


def described(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The definitions that states hold, so that the driver need not load the states."""
    import pyarrow as pa

    for batch in batches:
        headers = [
            # States of a later release are not looked into.
            BlobReader(blob).header if json.loads(about)["format"] <= FORMAT else NOTHING
            for about, blob in zip(*(batch.column(n).to_pylist() for n in ("about", "kept")))
        ]
        windows = [json.dumps([w["window"] for w in h.get("windows", ())]) for h in headers]
        aggs = [json.dumps(header["aggs"]) for header in headers]
        pickled = [", ".join(header["pickled"]) for header in headers]
        columns = [pa.array(texts, pa.string()) for texts in (windows, aggs, pickled)]
        yield pa.RecordBatch.from_arrays(
            [batch.column("about"), *columns], ["about", "windows", "aggs", "pickled"]
        )


def _session() -> Any:
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        raise SnapshotError(
            "`drain` reads a checkpoint with Spark, and there is no active session. Start one, or "
            "give it with `spark=...`."
        )
    return found


def stored_states(session: SparkSession, checkpoint: Any) -> list[tuple[DataFrame, Any]]:
    """The states of each stream of Slicewise in a checkpoint, and what they say of themselves.

    All states are read once, because a file that is missing would be noticed in the middle of the
    answer otherwise, or not at all.
    """
    from pyspark.sql import functions as F

    numbers = _operators(session, checkpoint)
    found = []
    for number in numbers or [0]:
        reader = session.read.format("statestore").option("operatorId", number)
        try:
            states = reader.load(str(checkpoint))
            if not _is_ours(states.schema):
                continue
            kept = states.select("value.groupState.about", "value.groupState.kept")
            told = map_in_arrow(kept, described, DESCRIBED)
            # Not all buckets need to have pickled states.
            one = (F.max(name).alias(name) for name in told.columns)
            said: Any = told.agg(F.count("*").alias("states"), *one).first()
        except Exception as error:  # Spark does not translate all of its errors
            raise _unreadable(checkpoint, str(error), known=bool(numbers)) from error
        if not said.states:
            raise _nothing(checkpoint)
        buckets = json.loads(said.about).get("buckets", said.states)
        if said.states != buckets:
            raise _unreadable(
                checkpoint, f"{said.states} of {buckets} buckets are there", known=True
            )
        found.append((kept, said))
    if not found:
        raise SnapshotError(f"{_strange(checkpoint)}. Give the `checkpointLocation` of one.")
    return found


def _operators(session: SparkSession, checkpoint: Any) -> list[int]:
    """The numbers of the operators that may be ours, as far as the checkpoint tells."""
    try:
        operators = session.read.format("state-metadata").load(str(checkpoint))
        known = operators.select("operatorId", "operatorName").distinct().collect()
    except Exception:  # there is no such folder, or nothing in it
        return []
    return sorted(row.operatorId for row in known if row.operatorName == OPERATOR)


def _is_ours(schema: StructType) -> bool:
    from pyspark.sql.types import StructType

    # Spark's own operators keep no `groupState`, and other Python functions another one.
    state = schema["value"].dataType
    assert isinstance(state, StructType)
    group = state["groupState"].dataType if "groupState" in state.fieldNames() else None
    return isinstance(group, StructType) and group.fieldNames() == ["about", "kept"]


def _unreadable(checkpoint: Any, reason: str, *, known: bool) -> SnapshotError:
    """The error for states that Spark cannot read, with Spark's reason in one line."""
    unfinished = "STDS_COMMITTED_BATCH_UNAVAILABLE" in reason
    if unfinished and re.search(r"location: \S*%", reason):
        # Its reader of states quotes the path and then looks for a folder of the quoted name.
        return SnapshotError(
            "Spark cannot read state from a folder whose path has a space, a bracket or another "
            f"character that is quoted in addresses, and this one has: {str(checkpoint)!r}. Copy "
            "the checkpoint to a folder without them, or give a link to it."
        )
    line = re.search(r"\[[A-Z][A-Z_.0-9]+\][^\n]*", reason)
    shown = line[0] if line else reason.strip().partition("\n")[0]
    if unfinished or not known:
        otherwise = "no micro-batch has finished" if unfinished else "its `state` was deleted"
        return SnapshotError(
            f"{_strange(checkpoint)}, or {otherwise}. Give the `checkpointLocation` of one, as it "
            f"was when the stream stopped. Spark says: {shown}"
        )
    return SnapshotError(
        f"The state in the checkpoint {str(checkpoint)!r} cannot be read: files in its folder "
        "`state` are missing or damaged. Bring them back from a copy; without them the open "
        f"windows can only be computed from the events again. The reason: {shown}"
    )


def _nothing(checkpoint: Any) -> SnapshotError:
    return SnapshotError(
        f"The checkpoint {str(checkpoint)!r} holds no state: no micro-batch of the stream has "
        "finished."
    )


def _strange(checkpoint: Any) -> str:
    return (
        f"The checkpoint {str(checkpoint)!r} was not written by a stream of `sw.windowed` or "
        "`sw.rolling`"
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
                    columns |= joined_bounds(columns, self.made)
                    for field in list(self.schema)[len(self.made) :]:
                        columns[field.name] = pa.nulls(table.num_rows, field.type)
                    yield from conformed(columns, self.schema)

    def _due(self, blob: bytes) -> Iterator[pa.Table]:
        from slicewise.slicing.operator import Operator

        if self.about["verb"] == "rolling":
            from slicewise.spark.stream.rolling import restored

            yield from restored(blob, self.made, self.about, self.aggs).advance(INFINITY)
            return
        operator = Operator.restore(
            blob, windows=self.windows, aggs=self.aggs, trusted=self.trusted
        )
        table = operator.advance_arrow(INFINITY)
        if table.num_rows:
            yield table


def joined_bounds(columns: dict[str, Any], made: pa.Schema) -> dict[str, Any]:
    """Bounds as numbers, as earlier releases wrote those of all windows if some were positions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if POSITIONS[0] not in columns or POSITIONS[0] in made.names:
        return {}
    numbers = {
        name: columns[name].cast(pa.timestamp("us")).cast(pa.int64()).cast(columns[apart].type)
        for name, apart in zip(TIMES, POSITIONS, strict=True)
    }
    both = zip(TIMES, POSITIONS, strict=True)
    return {name: pc.coalesce(numbers[name], columns[apart]) for name, apart in both}
