"""The watermark of a stream: said once, by `watermark=` or by Spark's `withWatermark`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import SpanError
from tests.support.streaming import Source, run

MINUTE = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def at(second: int, number: int) -> dict[str, Any]:
    return {"t": MINUTE + dt.timedelta(seconds=second), "id": number}


def test_rule_05_the_watermark_of_spark_is_taken(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "in", pa.schema({"t": pa.timestamp("us", "UTC"), "id": pa.int64()}))
    # With a delay of 0 the second file would be late.
    source.add([at(3, 0), at(13, 1)], [at(7, 2)], [at(25, 3)])
    events = source.stream(spark, schema="t timestamp, id bigint").withWatermark("t", "10 seconds")
    events = events.withColumnRenamed("t", "moment")
    query: Any = {"time": "moment", "aggs": sw.agg.count(), "keep_late": True, "max_ahead": None}
    windows = sw.windowed(events, windows=sw.tumbling("10s"), emit="final", **query)
    ran = run(windows, tmp_path / "windows")
    assert [row["count"] for row in ran.rows] == [2]
    assert sum(m["late"] for m in ran.metrics) == 0
    assert sw.drain(tmp_path / "windows").count() == 2
    # Said twice, the same: and what comes out has no watermark of Spark's.
    rolled = sw.rolling(events, over="10s", watermark="10s", **query)
    assert rolled.schema["moment"].metadata == {}
    ran = run(rolled, tmp_path / "rolled")
    assert {row["id"]: row["count_10s"] for row in ran.rows} == {0: 1, 2: 2, 1: 2}


def test_rule_05_a_stream_without_a_watermark_is_refused(spark: Any) -> None:
    ticks = spark.readStream.format("rate").load()
    timed = ticks.withWatermark("timestamp", "10 seconds")
    elsewhere = ticks.selectExpr("*", "timestamp as other").withWatermark("other", "10 seconds")
    query: Any = {"time": "timestamp", "aggs": sw.agg.count()}
    verbs: Any = (
        lambda frame, **given: sw.windowed(frame, windows=sw.tumbling("1m"), **query, **given),
        lambda frame, **given: sw.rolling(frame, over="1m", **query, **given),
    )
    for verb in verbs:
        for frame in (ticks, elsewhere):
            with pytest.raises(SpanError, match=r"needs a watermark: .*`watermark='0s'`.*`withWa"):
                verb(frame)
        with pytest.raises(
            SpanError, match=r"given twice: .* 10000000 micro.*'timestamp'.* 5000000"
        ):
            verb(timed, watermark="5s")
        assert verb(ticks, watermark="0s").isStreaming
