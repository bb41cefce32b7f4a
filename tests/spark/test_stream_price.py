"""What a micro-batch costs beside its events must not be paid again for each of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import slicewise as sw
from tests.support.streaming import Source, run

EVENTS = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int64())])
NOON = datetime(2024, 1, 1, 12)


def test_spark_compiles_its_code_once_and_not_for_each_micro_batch(
    spark: Any, tmp_path: Path
) -> None:
    source = Source(tmp_path / "in", EVENTS)
    for minute in range(4):
        source.add([{"k": "a", "t": NOON + timedelta(minutes=minute), "x": minute}])
    stream = source.stream(spark, schema="k string, t timestamp, x bigint")
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    query = sw.windowed(
        stream, by="k", time="t", windows=sw.tumbling("1m"), aggs=sw.agg.sum("x"), watermark="0s"
    )
    assert run(query, tmp_path / "first").rows
    before = compiled.getCount()
    assert run(query, tmp_path / "second").rows
    assert compiled.getCount() - before < 4  # micro-batches
