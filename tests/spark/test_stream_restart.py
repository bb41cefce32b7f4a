"""A stream that goes on from its checkpoint: with the same definition, another, or not at all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import SnapshotError
from slicewise.slicing.state.resume import resume
from slicewise.spark.stream import stream as streams
from slicewise.testing import assert_same_rows, fold, windowed_rows
from tests.support.spark import assert_same, events
from tests.support.streaming import TYPES, Fed, Source, cut, disordered, drained, emitted, run

SHORT = pa.schema([("j", pa.int32()), ("t", pa.int32())])
KINDS = {field.name: field.type for field in TYPES}


class Weighted(sw.Aggregate):
    """A sum whose states are one number."""

    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        return x * 2.0

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Changed(Weighted):
    """The same name, and states of another layout."""

    name = "weighted"

    def identity(self) -> Any:
        return (0.0, 0)

    def lift(self, x: float) -> Any:
        return (x * 2.0, 1)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state: Any) -> float:
        return float(state[0])


@pytest.mark.smoke
def test_windows_aggregates_lateness_and_delay_may_change(spark: Any, tmp_path: Path) -> None:
    rows = disordered(events(160, seed=41), 41, 30)
    parts = cut(rows, 41, 4)
    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    stays = [sw.tumbling(10), sw.session(4), sw.tumbling(sw.rows(3))]
    first: dict[str, Any] = {
        "windows": [*stays, sw.cumulate(12, every=4)],
        "aggs": [sw.agg.sum("x"), sw.agg.count(), Weighted("x")],
        "lateness": 20,
    }
    second: dict[str, Any] = {
        "windows": [*stays, sw.sliding(20, every=5), sw.session(7)],
        "aggs": [sw.agg.count(), sw.agg.max("id"), sw.agg.sum("x")],
        "lateness": 40,
    }
    # One bucket, so that one operator knows the same as it.
    query: dict[str, Any] = {"by": "k", "time": "t"}
    fed = Fed(sw.Operator(**query, **first), delay=15)
    emitted_rows = []
    for definition, given, delay in ((first, parts[:2], 15), (second, parts[2:], 25)):
        source.add(*given)
        stream = sw.windowed(
            source.stream(spark), **query, **definition, watermark=delay, buckets=1
        )
        ran = run(stream, checkpoint)
        if definition is second:
            again = sw.Operator(**query, **second)
            fed = Fed(resume(again, fed.operator.snapshot(), KINDS), delay, fed.newest)
        for batch, part in zip(ran.batches, given, strict=True):
            assert_same_rows(emitted(batch), fed.step(part))
            emitted_rows += emitted(batch)
    left = emitted(drained(checkpoint))
    assert_same_rows(left, fed.operator.advance(math.inf))
    found = fold([*emitted_rows, *left])
    _check_the_rules(found, rows, stays, sum(map(len, parts[:2])))


def _check_the_rules(found: Any, rows: Any, stays: Any, seen: int) -> None:
    old = [sw.agg.sum("x"), sw.agg.count()]
    expected = windowed_rows(rows, windows=stays, aggs=old, time="t", by="k")
    names = {window.name for window in stays}
    kept = {
        identity: {agg.output: values[agg.output] for agg in old}
        for identity, values in found.items()
        if identity[1] in names
    }
    assert_same(kept, expected)  # the old ones go on without a gap
    telling = [sw.agg.max("id"), sw.agg.collect("id")]
    whole = windowed_rows(rows, windows=stays, aggs=telling, time="t", by="k")
    before = {row["id"] for row in rows[:seen]}
    newest = max(row["t"] for row in rows[:seen])
    times = {row["id"]: row["t"] for row in rows}
    for identity, values in whole.items():
        value = found[identity].get("id_max")
        if before & set(values["id_collect"]):
            assert value is None, f"{identity} holds events that the new aggregate never saw"
        elif min(times[number] for number in values["id_collect"]) > newest + 10:
            assert value == values["id_max"]
    assert any(name == "sliding_20_5" for _, name, _, _ in found)
    assert all(start > 0 for _, name, start, _ in found if name == "session_7")


def started(spark: Any, source: Source, **given: Any) -> Any:
    query: dict[str, Any] = {
        "by": "k",
        "time": "t",
        "windows": [sw.tumbling(10), sw.session(4)],
        "aggs": [sw.agg.sum("x"), Weighted("x")],
        "watermark": 30,
        "buckets": 2,
    }
    return sw.windowed(source.stream(spark), **(query | given))


def test_what_cannot_change_is_refused_and_the_stream_goes_on_as_it_was(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    rows = events(80, seed=42)
    source.add(rows[:40])
    before = run(started(spark, source), checkpoint)
    source.add(rows[40:])

    def refused(stream: Any, *texts: str) -> None:
        with pytest.raises(StreamingQueryException) as caught:
            run(stream, checkpoint)
        for text in texts:
            assert text in str(caught.value)

    ours = "The checkpoint was written by another query: "
    done = "Give the same as before, or start with a new checkpoint."
    refused(started(spark, source, by=["k", "s"]), ours, "`by` was ['k'] and is ['k', 's']", done)
    refused(started(spark, source, time="id"), ours, "`time` was 't' and is 'id'")
    refused(started(spark, source, buckets=3), ours, "`buckets` was 2 and is 3", done)
    refused(started(spark, source, emit="final"), ours, "`emit` was 'on_close' and is 'final'")
    rolling = sw.rolling(
        source.stream(spark), by="k", time="t", over=5, aggs=sw.agg.sum("x"), watermark=0
    )
    refused(rolling, ours, "`verb` was 'windowed' and is 'rolling'")
    refused(
        started(spark, source, aggs=[sw.agg.sum("x"), Changed("x")]),
        "The states of weighted were <f8 and are now <f8 <i8: its code or the types of its columns",
        "Give the aggregate another name to begin anew with it, or go on with the old code.",
    )
    after = run(started(spark, source), checkpoint)
    lost = windowed_rows(rows, windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", by="k")
    found = fold([*emitted(before.rows), *emitted(after.rows), *emitted(drained_own(checkpoint))])
    late = after.metrics[-1]["late"]
    assert late > 0
    assert {i for i in found if i[1] == "tumbling_10"} <= lost.keys()
    assert sum(m["events"] for m in [*before.metrics, *after.metrics]) == 80


@pytest.mark.parametrize("buckets", [None, 2])
def test_the_number_of_shuffle_partitions_is_that_of_the_checkpoint(
    spark: Any, settings: Any, tmp_path: Path, buckets: int | None
) -> None:
    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    rows = disordered(events(60, seed=49), 49, 25)
    found = []
    for number, part in enumerate(cut(rows, 49, 3)):
        source.add(part)
        # Both when the query is built and when it runs, and then only when it runs.
        with settings(spark__sql__shuffle__partitions=(3, 5, 3)[number]):
            stream = started(spark, source, buckets=buckets, keep_late=True)
            with settings(spark__sql__shuffle__partitions=(3, 5, 7)[number]):
                ran = run(stream, checkpoint)
        assert [m["late"] for m in ran.metrics] == [0]
        found += emitted(ran.rows)
    found += emitted(drained_own(checkpoint))
    windows, aggs = [sw.tumbling(10), sw.session(4)], [sw.agg.sum("x"), Weighted("x")]
    assert_same(fold(found), windowed_rows(rows, windows=windows, aggs=aggs, time="t", by="k"))


def files_of(folder: Path) -> dict[str, bytes]:
    """What is in a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_without_new_events_a_changed_query_is_not_refused_and_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    rows = disordered(events(80, seed=48), 48, 25)
    source.add(rows[:40])
    before = run(started(spark, source), checkpoint)
    written = files_of(checkpoint)
    final = started(spark, source, emit="final")
    for changed in (
        final,
        started(spark, source, by=["k", "s"]),
        started(spark, source, buckets=3),
        started(spark, source, aggs=[sw.agg.sum("x"), Changed("x")]),
    ):
        # Spark runs no micro-batch, and so nothing that could tell.
        assert run(changed, checkpoint).batches == []
        assert files_of(checkpoint) == written
    source.add(rows[40:])
    with pytest.raises(StreamingQueryException) as caught:
        run(final, checkpoint)
    assert "`emit` was 'on_close' and is 'final'" in str(caught.value)
    after = run(started(spark, source), checkpoint)
    assert [m["late"] for m in [*before.metrics, *after.metrics]] == [0, 0]
    found = fold([*emitted([*before.rows, *after.rows]), *emitted(drained_own(checkpoint))])
    windows, aggs = [sw.tumbling(10), sw.session(4)], [sw.agg.sum("x"), Weighted("x")]
    assert_same(found, windowed_rows(rows, windows=windows, aggs=aggs, time="t", by="k"))


@pytest.mark.parametrize("earlier", [False, True], ids=["this release", "an earlier one"])
def test_key_and_time_columns_keep_their_types(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in", SHORT), tmp_path / "state"

    def typed(key: str, time: str) -> Any:
        stream = source.stream(spark, schema="j int, t int")
        columns = stream.selectExpr(f"cast(j as {key}) j", f"cast(t as {time}) t")
        return sw.windowed(
            columns, by="j", time="t", windows=sw.tumbling(10), aggs=sw.agg.count(), buckets=4,
            watermark=0,
        )  # fmt: skip

    source.add([{"j": key, "t": 3} for key in range(8)])
    with monkeypatch.context() as patch:
        if earlier:
            patch.setattr(streams.Stream, "_types", lambda self: {})
        run(typed("int", "int"), checkpoint)
    source.add([{"j": key, "t": 4} for key in range(8)])
    changes = [("bigint", "int", "'j' was int and is bigint")]
    if not earlier:  # which says nothing of times
        changes.append(("int", "bigint", "'t' was int and is bigint"))
    for key, time, text in changes:
        with pytest.raises(StreamingQueryException) as caught:
            run(typed(key, time), checkpoint)
        assert f"written by another query: the type of the column {text}." in str(caught.value)
        assert "Give the same as before, or start with a new checkpoint." in str(caught.value)
    run(typed("int", "int"), checkpoint)
    found = fold(emitted(drained(checkpoint), by="j"))
    assert found == {(key, "tumbling_10", 0, 10): {"count": 2} for key in range(8)}


def drained_own(checkpoint: Path) -> Any:
    return drained(checkpoint, aggs=[sw.agg.sum("x"), Weighted("x")])


def test_a_checkpoint_of_a_newer_format_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    source.add(events(10, seed=43))
    with monkeypatch.context() as patch:
        patch.setattr(streams, "FORMAT", 99)
        run(started(spark, source, buckets=1), checkpoint)
    source.add(events(10, seed=44))
    message = "The checkpoint has format 99; this release of Slicewise reads formats up to 1."
    with pytest.raises(StreamingQueryException) as caught:
        run(started(spark, source, buckets=1), checkpoint)
    assert message in str(caught.value)
    assert "Go on with the release that wrote it, or a later one." in str(caught.value)
    with pytest.raises(SnapshotError, match=f"{message} Drain it with the release that wrote it"):
        sw.drain(checkpoint)


def counted(key: Any, frames: Any, state: Any) -> Any:
    """A function with a state of its own."""
    import pandas as pd

    count = sum(map(len, frames))
    state.update((count,))
    yield pd.DataFrame({"n": [count]})


def windows_of_spark(stream: Any) -> Any:
    from pyspark.sql import functions as F

    moments = stream.withColumn("moment", F.timestamp_seconds("t"))
    late = moments.withWatermark("moment", "10 seconds")
    return late.groupBy(F.window("moment", "10 seconds"), "k").count()


OTHER = "Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: {})]; "
OURS = "Stateful operators in current batch: [(OperatorId: 0 -> OperatorName: applyInPandasWithSt"
FOREIGN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "its windows": (windows_of_spark, (OTHER.format("stateStoreSave") + OURS,)),
    "no repetitions": (lambda s: s.dropDuplicates(["k"]), (OTHER.format("dedupe") + OURS,)),
    # Older releases of Spark only miss the files, or look at the keys first.
    "no state": (
        lambda s: s.where("x > 0"),
        ("was previously run without stateful operators", "CANNOT_READ_DELTA_FILE_NOT_EXISTS"),
    ),
    "a Python function": (
        lambda s: (
            s.selectExpr("1 bucket", "x")
            .groupBy("bucket")
            .applyInPandasWithState(counted, "n long", "n long", "append", "NoTimeout")
        ),
        tuple(
            f"Provided {part} schema does not match existing state {part} schema"
            for part in ("value", "key")
        ),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_checkpoint_of_another_query_of_spark_is_refused(
    spark: Any, tmp_path: Path, name: str
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    source.add(events(10, seed=45))
    make, messages = FOREIGN[name]
    sink = make(source.stream(spark)).writeStream.format("noop")
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(100)
    with pytest.raises(SnapshotError, match=r"was not written by a stream of `sw\.windowed`"):
        sw.drain(checkpoint)
    written = files_of(checkpoint)
    assert run(started(spark, source), checkpoint).batches == []  # Spark looks at nothing yet
    assert files_of(checkpoint) == written
    source.add(events(10, seed=46))
    with pytest.raises(StreamingQueryException) as caught:
        run(started(spark, source), checkpoint)
    assert any(message in str(caught.value) for message in messages)


def test_rolling_goes_on_with_other_aggregates_and_shorter_spans(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    rows = disordered(events(90, seed=47), 47, 10)
    parts = cut(rows, 47, 3)

    def rolling(over: Any, *aggs: Any) -> Any:
        return sw.rolling(
            source.stream(spark), by="k", time="t", over=over, aggs=[*aggs], watermark=12, buckets=2
        )

    source.add(*parts[:2])
    run(rolling([20, sw.rows(5)], sw.agg.sum("x")), checkpoint)
    source.add(parts[2])
    with pytest.raises(StreamingQueryException) as caught:
        run(rolling([30], sw.agg.sum("x")), checkpoint)
    message = (
        "keeps events for spans up to 20 and 5 rows; the spans of this query reach back over 30"
    )
    assert message in str(caught.value)
    with pytest.raises(StreamingQueryException) as caught:
        run(rolling([20], sw.agg.sum("x"), sw.agg.max("y")), checkpoint)
    assert "The checkpoint keeps nothing of the column 'y'" in str(caught.value)
    query: dict[str, Any] = {"by": "k", "time": "t", "over": [10, sw.rows(4)]}
    aggs = [sw.agg.max("x"), sw.agg.mean("x")]
    ran = run(rolling(query["over"], *aggs), checkpoint)
    found = {row["id"]: row for row in [*ran.rows, *drained(checkpoint)]}
    whole = sw.rolling(pa.Table.from_pylist(rows, TYPES), **query, aggs=aggs).to_pylist()
    expected = {row["id"]: row for row in whole}
    assert sum(m["late"] for m in ran.metrics) == 0
    assert found.keys() >= {row["id"] for row in parts[2]}
    assert_same(found, {number: expected[number] for number in found})


def test_rolling_goes_on_with_columns_added_dropped_or_in_another_order(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    rows = disordered(events(80, seed=50), 50, 10)
    query: dict[str, Any] = {"by": "k", "time": "t", "over": [20, sw.rows(3)]}
    query |= {"aggs": [sw.agg.sum("x"), sw.agg.last("id")]}
    whole = sw.rolling(pa.Table.from_pylist(rows, TYPES), **query).to_pylist()
    expected = {row["id"]: row for row in whole}

    def rolling(*columns: str) -> Any:
        frame = source.stream(spark).selectExpr(*columns)
        return sw.rolling(frame, **query, watermark=15, buckets=2)

    known: dict[int, int] = {}  # in which run an event came
    found: list[Any] = []
    shapes = [
        ["k", "t", "x", "id", "y", "s"],
        ["s", "struct(id, 'new' as name) as extra", "id", "y", "k", "x", "t"],  # one more, moved
        ["cast(t as bigint) t", "k", "id", "x", "km"],  # three less, and one that never was
        ["k", "t", "x", "id", "y", "s"],  # as in the beginning
    ]
    for number, (shape, part) in enumerate(zip(shapes, cut(rows, 50, 4), strict=True)):
        source.add(part)
        known |= {row["id"]: number for row in part}
        ran = run(rolling(*shape), checkpoint)
        assert sum(m["late"] for m in ran.metrics) == 0
        found += ran.rows
        if number == 1:
            waited = [row for row in ran.rows if known[row["id"]] == 0]
            assert waited
            assert all(row["extra"] is None for row in waited)
            new = [row for row in ran.rows if known[row["id"]] == 1]
            assert new
            assert all(row["extra"]["name"] == "new" for row in new)
        if number == 3:
            waited = [row for row in ran.rows if known[row["id"]] == 2]
            assert waited
            assert all(row["y"] is None and row["s"] is None for row in waited)
    found += drained(checkpoint)
    assert len(found) == len(rows)
    answers = ["k", "t", "x", *(name for name in whole[0] if name not in TYPES.names)]
    for row in found:
        assert [row[name] for name in answers] == [expected[row["id"]][name] for name in answers]
    source.add([{**rows[-1], "t": 10_000}])
    with pytest.raises(StreamingQueryException) as caught:
        run(rolling("k", "t", "x", "id", "y", "ascii(s) s"), checkpoint)
    message = "The column 's' was string and is int32, and events that the checkpoint keeps cannot"
    assert message in str(caught.value)
