"""Events whose windows cannot be said in results are bad on Spark too, and the rest goes on."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import BadRowsWarning
from slicewise.windows import Window
from tests.support.spark import answers
from tests.support.streaming import Source, run

DAY = 86_400_000_000
NEAR = 1_704_067_200_000_000  # 2024-01-01
LAST = 253_402_214_400_000_000  # 9999-12-31
FAR = [LAST + 20 * 3_600_000_000, 568_971_820_800_000_000, -77_941_699_200_000_000]
WAYS: dict[str, tuple[list[Window], list[sw.Aggregate]]] = {
    "native": ([sw.tumbling("1d")], [sw.agg.sum("x")]),
    "native, merged": ([sw.sliding("2d", every="1d")], [sw.agg.sum("x")]),
    "combined": ([sw.tumbling("1d")], [sw.agg.median("x")]),
    "sliced": ([sw.sliding("2d", every="1d")], [sw.agg.last("x")]),
    "ordered": ([sw.session("2d")], [sw.agg.sum("x")]),
}


def rows() -> list[dict[str, Any]]:
    times = [NEAR, NEAR + DAY, *FAR]
    return [{"k": "a", "t": t, "x": number} for number, t in enumerate(times)]


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *((way, "timestamp") for way in WAYS),
        ("native", "timestamp_ntz"),
        ("native, merged", "date"),
        ("sliced", "timestamp_ntz"),
    ],
)
def test_rule_12_a_far_away_time_is_in_no_window_as_in_process(
    spark: Any, way: str, kind: str
) -> None:
    windows, aggs = WAYS[way]
    query: dict[str, Any] = {"by": "k", "time": "t", "windows": windows, "aggs": aggs}
    frame = spark.createDataFrame(rows(), "k string, t long, x long")
    frame = frame.selectExpr("k", f"cast(timestamp_micros(t) as {kind}) t", "x")
    types = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
    micros = pa.array([row["t"] for row in rows()])
    times = micros.cast(pa.timestamp("us")).cast(types.get(kind, pa.date32()), safe=False)
    table = pa.table({"k": ["a"] * 5, "t": times, "x": [0, 1, 2, 3, 4]})
    with pytest.warns(BadRowsWarning, match="3 rows are in no window"):
        wanted = sw.windowed(table, **query)
    found = [*answers(sw.windowed(frame, **query)).values()]
    assert len(found) == wanted.num_rows
    output = aggs[0].output
    assert sorted(row[output] for row in found) == sorted(wanted[output].to_pylist())


def test_rule_08_a_far_away_time_neither_stops_a_stream_nor_moves_its_watermark(
    spark: Any, tmp_path: Path
) -> None:
    source = Source(
        tmp_path / "in", pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
    )
    source.add(rows())
    source.add(
        [{"k": "a", "t": NEAR + 60_000_000, "x": 7}, {"k": "a", "t": NEAR + 5 * DAY, "x": 9}]
    )
    stream = source.stream(spark, 1, "k string, t long, x long")
    stream = stream.selectExpr("k", "timestamp_micros(t) t", "x")
    windows = [sw.tumbling("1d"), sw.session("1d")]
    answer = sw.windowed(
        stream,
        by="k",
        time="t",
        windows=windows,
        aggs=sw.agg.sum("x"),
        watermark="2d",
        max_ahead=None,
    )
    ran = run(answer, tmp_path / "state")
    assert sum(metrics["bad"] for metrics in ran.metrics) == 3
    assert sum(metrics["late"] for metrics in ran.metrics) == 0
    found = sorted((row["window"], row["start"].date(), row["x_sum"]) for row in ran.rows)
    day = dt.date(2024, 1, 1)
    assert found == [
        ("session_1d", day, 8),
        ("tumbling_1d", day, 7),
        ("tumbling_1d", day + dt.timedelta(days=1), 1),
    ]


def test_rule_12_rows_with_a_text_that_is_no_utf8_are_null_in_batch_and_stream(
    spark: Any, tmp_path: Path
) -> None:
    schema = pa.schema([("t", pa.int64()), ("s", pa.string()), ("x", pa.int64())])
    source, parts = Source(tmp_path / "in", schema), ["a", "b!", "c", "d!", "e!", "f"]
    for at in (0, 3):
        source.add([{"t": t, "s": parts[t], "x": 1 << t} for t in range(at, at + 3)])
    events = source.stream(spark, 1, "t long, s string, x long")
    # What passes through has such texts too, some of them in events that wait.
    passed = "cast(unhex(replace(hex(s), '21', 'FF')) as string)"

    def rolled(frame: Any, **more: Any) -> Any:
        frame = frame.selectExpr("t", f"{passed} s", f"array({passed}) p", "x")
        aggs = [sw.agg.sum("x"), sw.agg.last("s")]
        return sw.rolling(frame, time="t", over=10, aggs=aggs, **more).drop("s", "p")

    batch = rolled(spark.read.schema("t long, s string, x long").parquet(str(tmp_path / "in")))
    wanted = {0: (1, "a"), 1: (None, None), 2: (5, "c"), 3: (None, None), 4: (None, None)}
    assert {row[0]: tuple(row[2:]) for row in batch.collect()} == {**wanted, 5: (37, "f")}
    ran = run(rolled(events, watermark=1), tmp_path / "state")
    assert {row["t"]: (row["x_sum_10"], row["s_last_10"]) for row in ran.rows} == wanted
    assert sum(metrics["bad"] for metrics in ran.metrics) == 3
