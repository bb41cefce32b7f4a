"""Units of times and the bounds of windows on DataFrames: what holds in process holds here."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import SpanError
from tests.support.streaming import Source, drained, late, run

SUM = sw.agg.sum("x")
MINUTES = [sw.tumbling("1m"), sw.session("5s"), sw.tumbling(60, name="plain")]
# Seconds; one event has half of one, and one has no time that fits.
SECONDS = [(0.0, 1), (59.0, 2), (60.0, 4), (0.5, 8), (math.inf, 16), (61.0, 32), (200.0, 64)]
TYPES = pa.schema([("t", pa.float64()), ("x", pa.int64()), ("id", pa.int64())])
SCHEMA = "t double, x bigint, id bigint"


def rows_of(answer: Any) -> list[tuple[Any, ...]]:
    names = ("window", "start", "end", "x_sum")
    found = [tuple(row[name] for name in names) for row in answer]
    return sorted(found, key=str)


def test_rule_01_a_unit_says_what_numbers_are_in_batch_and_stream(
    spark: Any, tmp_path: Path
) -> None:
    events = [{"t": t, "x": x, "id": n} for n, (t, x) in enumerate(SECONDS)]
    table = pa.Table.from_pylist(events, TYPES)
    query: dict[str, Any] = {"time": "t", "windows": MINUTES, "aggs": SUM, "unit": "s"}
    with pytest.warns(sw.errors.BadRowsWarning, match="2 rows are in no window"):
        expected = sw.windowed(table, **query).to_pylist()
    frame = spark.createDataFrame(table.to_pandas())
    assert rows_of(r.asDict() for r in sw.windowed(frame, **query).collect()) == rows_of(expected)
    # The other way of Spark, and one more that needs no Python.
    ordered = {**query, "windows": [*MINUTES, sw.sliding("1m", every=sw.rows(2))]}
    with pytest.warns(sw.errors.BadRowsWarning):
        again = sw.windowed(table, **ordered).to_pylist()
    assert rows_of(r.asDict() for r in sw.windowed(frame, **ordered).collect()) == rows_of(again)
    alone = {**query, "windows": sw.tumbling("1m"), "aggs": sw.agg.count()}
    assert "nothing crosses to Python" in sw.explain(frame, **alone)
    assert len(sw.windowed(frame, **alone).collect()) == 3
    # Rolling has nulls where there is no usable time.
    rolled: dict[str, Any] = {"time": "t", "over": ["1m", 2], "aggs": SUM, "unit": "s"}
    with pytest.warns(sw.errors.BadRowsWarning, match="2 rows have a time in 't'"):
        wanted = {row["id"]: row for row in sw.rolling(table, **rolled).to_pylist()}
    for row in sw.rolling(frame, **rolled).collect():
        assert {**row.asDict(), "t": None} == {**wanted[row["id"]], "t": None}
    # The stream says the same, and counts and hands out the bad rows.
    source = Source(tmp_path / "in", TYPES)
    source.add(events[:4], events[4:])
    streamed = sw.windowed(
        source.stream(spark, schema=SCHEMA), **query,
        watermark="10s", lateness="1m", max_ahead="2d", keep_late=True, buckets=1,
    )  # fmt: skip
    ran = run(streamed, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [3, 4]
    assert sum(m["bad"] for m in ran.metrics) == 2
    left = drained(tmp_path / "state", windows=MINUTES)
    assert rows_of(r for r in (*ran.rows, *left) if r["window"]) == rows_of(expected)
    # A restart with another unit is refused.
    source.add(events[:1])
    other = sw.windowed(
        source.stream(spark, schema=SCHEMA), **{**query, "unit": "ms"}, watermark="10s",
        lateness="1m", keep_late=True, buckets=1,
    )  # fmt: skip
    with pytest.raises(Exception, match="`unit` was 's' and is 'ms'"):
        run(other, tmp_path / "state")


@pytest.mark.parametrize(
    ("time", "more", "message"),
    [
        ("n", {}, "'tumbling_1m' is measured in durations .* 'n' holds int64. Say what"),
        ("n", {"windows": sw.tumbling(5), "lateness": "1s"}, "`lateness` is measured in duration"),
        ("n", {"windows": sw.tumbling(5), "watermark": "1s"}, "`watermark` is measured in durat"),
        ("at", {"windows": sw.tumbling(5)}, "'tumbling_5' is measured in plain .* 'at' holds time"),
        ("at", {"watermark": 5}, "`watermark` is measured in plain numbers"),
        ("at", {"max_ahead": 5}, "`max_ahead` is measured in plain numbers"),
        ("at", {"unit": "s"}, "'at' holds timestamp.* Leave `unit` out"),
        ("day", {"windows": sw.session(5)}, "'session_5' is measured in plain numbers"),
    ],
)
def test_rule_01_what_does_not_belong_together_is_refused_when_the_query_is_made(
    spark: Any, time: str, more: dict[str, Any], message: str
) -> None:
    frame = spark.range(1).selectExpr(
        "id AS n", "id AS x", "timestamp_seconds(id) AS at", "date_from_unix_date(1) AS day"
    )
    query: dict[str, Any] = {"time": time, "windows": sw.tumbling("1m"), "aggs": SUM} | more
    with pytest.raises(SpanError, match=message):
        sw.windowed(frame, **query)
    windows = query.pop("windows")
    if "lateness" in more or not hasattr(windows, "length"):
        return
    query.update(over="1m" if windows.durations else 5)
    with pytest.raises(SpanError, match=message.replace(r"'tumbling_1m'", "").split(" is ")[-1]):
        sw.rolling(frame, **query)


def test_no_clock_loses_its_events_and_rows_keep_the_bounds_of_their_windows(
    spark: Any, tmp_path: Path
) -> None:
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    hours = [0, 9, 14, 40]  # UTC, Tokyo, the first clock on earth, and none at all
    times = [now + dt.timedelta(hours=h) for h in hours]
    types = pa.schema([("t", pa.timestamp("us")), ("x", pa.int64()), ("id", pa.int64())])
    events = [{"t": t, "x": 2**n, "id": n} for n, t in enumerate(times)]
    source = Source(tmp_path / "in", types)
    source.add(events)
    windows = [
        sw.tumbling("1h"),
        sw.tumbling(sw.rows(2)),
        sw.sliding(sw.rows(2), every="5h", name="last"),
        sw.tumbling(sw.units(4, on="x")),
    ]
    query: dict[str, Any] = {"time": "t", "windows": windows, "aggs": SUM}
    schema = "t timestamp_ntz, x bigint, id bigint"
    streamed = sw.windowed(
        source.stream(spark, schema=schema), **query, emit="final",
        watermark="1h", max_ahead="1h", keep_late=True, buckets=1,
    )  # fmt: skip
    ran = run(streamed, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [3]
    whole = [r for r in (*ran.rows, *drained(tmp_path / "state")) if r["window"]]

    names = ["window", "start", "end", "start_position", "end_position", "x_sum"]
    expected = sw.windowed(pa.Table.from_pylist(events[:3], types), **query)
    assert expected.column_names == names
    wanted = sorted(([row[name] for name in names] for row in expected.to_pylist()), key=str)
    assert sorted(([row[name] for name in names] for row in whole), key=str) == wanted
    assert streamed.columns == [*names, "late"]
    frame = spark.read.schema(schema).parquet(str(source.folder)).where("id < 3")
    batch = sw.windowed(frame, **query)
    assert batch.dtypes == [
        ("window", "string"),
        ("start", "timestamp_ntz"),
        ("end", "timestamp_ntz"),
        ("start_position", "bigint"),
        ("end_position", "bigint"),
        ("x_sum", "bigint"),
    ]
    assert sorted(([*row] for row in batch.collect()), key=str) == wanted
    folded = sw.fold(batch.selectExpr("*", "0 AS revision", "false AS retracted"))
    assert sorted(([*row] for row in folded.collect()), key=str) == wanted
    keep = sw.upsert(tmp_path / "table")
    for number in range(2):
        keep(batch, number)
    stored = keep.read(spark).select(*names)
    assert sorted(([*row] for row in stored.collect()), key=str) == wanted
