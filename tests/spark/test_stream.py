"""`sw.windowed` and `sw.rolling` on streams: the answer of the batch run, and how it comes."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.testing import assert_same_rows, fold, windowed_rows
from slicewise.testing.oracle import alike
from tests.support.queries import FREE, ROWS
from tests.support.spark import answers, assert_same, by_id, events, every_aggregate
from tests.support.streaming import (
    TYPES,
    Fed,
    Source,
    cut,
    disordered,
    drained,
    emitted,
    grouped,
    late,
    run,
)


class Spread(sw.Aggregate):
    """How far the values lie apart, compiled from this source."""

    commutative = True

    def identity(self) -> tuple[float, float]:
        return (math.inf, -math.inf)

    def lift(self, x: float) -> tuple[float, float]:
        return (x, x)

    def combine(
        self, older: tuple[float, float], newer: tuple[float, float]
    ) -> tuple[float, float]:
        return (min(older[0], newer[0]), max(older[1], newer[1]))

    def lower(self, state: tuple[float, float]) -> float:
        return state[1] - state[0]


AGGS = [sw.agg.sum("x"), sw.agg.last("s"), sw.agg.count(), sw.agg.median("x"), Spread("id")]
PLAIN = [w for w in [*FREE, *ROWS] if not isinstance(w, sw.UserWindow)]


@pytest.mark.parametrize(
    ("emit", "seed", "parts", "files", "by", "shape"),
    [
        ("final", 31, 7, 2, "k", {"buckets": 5}),
        ("on_close", 32, 9, 2, ["k", "s"], {"buckets": 2}),
        ("on_update", 33, 4, 1, None, {}),
    ],
)
def test_each_micro_batch_gives_what_an_operator_gives_late_events_too(
    spark: Any, settings: Any, tmp_path: Path, emit: Any, seed: int, parts: int, files: int,
    by: Any, shape: Any,
) -> None:  # fmt: skip
    # A user window sees each event once, so only what is final may have one.
    windows = [*FREE, *ROWS] if emit == "final" else PLAIN
    given = cut(disordered(events(160, seed), seed, 90), seed, parts)
    source = Source(tmp_path / "in")
    source.add(*given)
    query: dict[str, Any] = {"by": by, "time": "t", "windows": windows, "aggs": AGGS}
    more = {"lateness": 40, "emit": emit}
    with settings(spark__sql__execution__arrow__maxRecordsPerBatch=7):
        stream = sw.windowed(
            source.stream(spark, files), **query, **more, watermark=20, keep_late=True, **shape
        )
        ran = run(stream, tmp_path / "state")
    fed = Fed(sw.Operator(**query, **more), delay=20)
    handed_out, results = 0, []
    for rows, micro_batch in zip(ran.batches, grouped(given, files), strict=True):
        expected = fed.step(micro_batch)
        assert_same_rows(emitted(rows, by), expected)
        results += expected
        assert alike(late(rows), sorted(fed.operator.late[handed_out:], key=lambda row: row["id"]))
        handed_out = len(fed.operator.late)
    stats = fed.operator.stats
    assert (stats.late_dropped + stats.late_partly, stats.late_partly > 0) == (handed_out, True)
    assert sum(m["late"] for m in ran.metrics) == stats.late_dropped
    assert sum(m["late_partly"] for m in ran.metrics) == stats.late_partly
    assert sum(m["events"] for m in ran.metrics) == 160
    everything = [*ran.rows, *drained(tmp_path / "state", aggs=AGGS)]
    answer = fold([*results, *fed.operator.advance(math.inf)])
    assert_same(fold(emitted(everything, by)), answer)
    if emit == "final":
        assert len(emitted(everything, by)) == len(answer)


@pytest.mark.parametrize("commutative", [True, False])
def test_every_aggregate_keeps_its_state_between_micro_batches(
    spark: Any, tmp_path: Path, commutative: bool
) -> None:
    aggs = [agg for agg in every_aggregate() if agg.commutative == commutative]
    windows = [sw.sliding(60, every=25), sw.session(6), sw.tumbling(sw.rows(7))]
    given = cut(disordered(events(160, seed=36), 36, 30), 36, 5)
    source = Source(tmp_path / "in")
    query: dict[str, Any] = {"by": "k", "time": "t", "windows": windows, "aggs": aggs}
    rows = []
    for parts in (given[:3], given[3:]):  # the second time from what the first left behind
        source.add(*parts)
        stream = sw.windowed(source.stream(spark), **query, watermark=40, emit="final", buckets=3)
        ran = run(stream, tmp_path / "state")
        assert len(ran.metrics) == len(parts)
        assert not any(m["late"] or m["bad"] for m in ran.metrics)
        rows += ran.rows
    assert len(rows) > 20
    rows += drained(tmp_path / "state", aggs=aggs)
    expected = windowed_rows([row for part in given for row in part], **query)
    assert len(rows) == len(expected)
    assert_same(fold(emitted(rows)), expected)


@pytest.mark.smoke
def test_a_file_sink_and_a_drained_checkpoint_fold_to_what_the_batch_dataframe_gives(
    spark: Any, settings: Any, tmp_path: Path
) -> None:
    # Times are moments, several events share one, and there is no order among them.
    schema = "k string, j int, t timestamp, x bigint"
    kinds = pa.schema(
        [("k", pa.string()), ("j", pa.int32()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int64())]
    )
    begin = dt.datetime(2024, 3, 10, 4, 0, tzinfo=dt.UTC)  # summer time begins in that night
    rows = [
        {"k": row["k"], "j": (row["x"] or 0) % 2, "t": row["t"], "x": row["x"]}
        for row in disordered(events(300, seed=34, ties=True), 34, 60)
    ]
    moments = [{**row, "t": begin + dt.timedelta(minutes=row["t"])} for row in rows]
    source = Source(tmp_path / "in", kinds)
    source.add(*cut(moments, 34, 8))
    query: dict[str, Any] = {
        "by": ["k", "j"],
        "time": "t",
        "windows": [
            sw.tumbling("1h"),
            sw.sliding("30m", every="7m"),
            sw.cumulate("1d", every="6h"),
            sw.session("3m"),
            sw.session("2m", max_length="20m"),
        ],
        "aggs": [sw.agg.sum("x"), sw.agg.median("x"), sw.agg.count()],
    }
    found, checkpoint = str(tmp_path / "out"), str(tmp_path / "state")
    rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    with settings(spark__sql__streaming__stateStore__providerClass=rocks):
        stream = sw.windowed(
            source.stream(spark, 3, schema), **query, watermark="20m", lateness="50m", buckets=4
        )
        writer = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        ran = writer.trigger(availableNow=True).start(found)
        assert ran.awaitTermination(200)
        assert sum(p["observedMetrics"]["slicewise"]["late"] for p in ran.recentProgress) == 0
        emitted_rows = spark.read.parquet(found)
        whole = emitted_rows.unionByName(sw.drain(checkpoint))
        assert whole.columns == stream.columns
        batch = sw.windowed(spark.read.schema(schema).parquet(str(source.folder)), **query)
        assert_same(answers(sw.fold(whole), ["k", "j"]), answers(batch, ["k", "j"]))
    assert emitted_rows.where("revision > 0").count()
    assert emitted_rows.where("retracted").count()


def test_windows_close_in_every_bucket_in_the_micro_batch_that_moves_the_watermark(
    spark: Any, tmp_path: Path
) -> None:
    # Nine keys at 3, and then one event of one key: everybody's [0, 10) ends with it.
    first = [{"k": letter, "t": 3, "x": 1, "id": 0} for letter in "abcdefghi"]
    source = Source(tmp_path / "in")
    source.add(first, [{"k": "a", "t": 14, "x": 1, "id": 0}], [{"k": "b", "t": 15, "x": 1}])
    stream = sw.windowed(
        source.stream(spark), by="k", time="t", windows=[sw.tumbling(10), sw.session(4)],
        aggs=sw.agg.count(), watermark=5, buckets=6,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    closed = [{(row["k"], row["window"], row["start"]) for row in batch} for batch in ran.batches]
    assert closed[0] == set()
    assert closed[1] == {(letter, "session_4", 3) for letter in "abcdefghi"}
    assert closed[2] == {(letter, "tumbling_10", 0) for letter in "abcdefghi"}


@pytest.mark.parametrize("by", ["k", None])
@pytest.mark.smoke
def test_rolling_on_a_stream_is_rolling_on_the_table(
    spark: Any, settings: Any, tmp_path: Path, by: Any
) -> None:
    given = cut(disordered(events(150, seed=35), 35, 40), 35, 5)
    source = Source(tmp_path / "in")
    source.add(*given)
    query: dict[str, Any] = {
        "by": by,
        "time": "t",
        "over": [25, 7, sw.rows(4)],
        "aggs": [sw.agg.sum("x"), sw.agg.collect("s"), sw.agg.max("y"), Spread("id")],
    }
    with settings(spark__sql__execution__arrow__maxRecordsPerBatch=7):
        stream = sw.rolling(
            source.stream(spark, 2), **query, watermark=10, buckets=3, keep_late=True
        )
        ran = run(stream, tmp_path / "state")
    dropped = [row["late"] for row in ran.rows if row["late"] is not None]
    assert dropped
    assert sum(m["late"] for m in ran.metrics) == len(dropped)
    watermark, late_ids = -math.inf, set()
    for part in grouped(given, 2):
        late_ids |= {row["id"] for row in part if row["t"] < watermark}
        watermark = max([watermark, *(row["t"] - 10 for row in part)])
    assert {row["id"] for row in dropped} == late_ids
    answered = [row for row in ran.rows if row["late"] is None]
    assert all(row["t"] < watermark for row in answered)
    found = [*answered, *drained(tmp_path / "state", aggs=query["aggs"])]
    assert [row.pop("late") for row in found] == [None] * len(found)
    counted = [row for part in given for row in part if row["id"] not in late_ids]
    expected = sw.rolling(pa.Table.from_pylist(counted, TYPES), **query).to_pylist()
    assert len(found) == len(expected)
    assert_same(by_id(found), by_id(expected))


def test_explain_says_how_a_stream_runs(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    query: dict[str, Any] = {"by": "value", "time": "timestamp", "aggs": sw.agg.max("value")}
    windows = sw.explain(stream, windows=sw.session("3s"), **query)
    assert "packed by bucket of keys" in windows
    assert "cut where events are more than 3s apart" in windows
    assert "above the watermark" in sw.explain(stream, over="1m", **query)
