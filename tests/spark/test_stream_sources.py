"""Streams from sources of several kinds, with rows that no source should have let through."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.testing import fold
from tests.support.poison import Poison
from tests.support.streaming import Source, drained, emitted, late, run

WINDOWS = [sw.tumbling(10)]
COUNTS = [sw.agg.sum("x"), sw.agg.count()]


def test_lines_that_cannot_be_parsed_are_handed_out_and_the_stream_goes_on(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(
        '{"k": "a", "t": 3, "x": 1, "id": 0}\n'
        "not a line of JSON\n"
        '{"k": "a", "t": "soon", "x": 2, "id": 2}\n'
        '{"k": "a", "t": 4, "x": 5, "id": 3}\n'
    )
    lines = spark.readStream.schema("k string, t bigint, x bigint, id bigint")
    stream = sw.windowed(
        lines.json(str(tmp_path / "in")), by="k", time="t", windows=WINDOWS, aggs=COUNTS,
        watermark=0, keep_late=True, buckets=2,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    dropped = [row["late"] for row in ran.rows if row["window"] is None]
    assert sorted(dropped, key=lambda row: row["id"] or 0) == [
        {"k": None, "t": None, "x": None, "id": None, "missed": None},
        {"k": "a", "t": None, "x": 2, "id": 2, "missed": None},
    ]
    assert [m["bad"] for m in ran.metrics] == [2]
    assert fold(emitted(drained(tmp_path / "state"))) == {
        ("a", "tumbling_10", 0, 10): {"x_sum": 6, "count": 2}
    }


def test_an_aggregate_that_raises_for_one_key_stops_nothing(spark: Any, tmp_path: Path) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [{"k": "a", "t": 1, "x": 1, "id": 0}, {"k": "b", "t": 2, "x": 666, "id": 1}],
        [{"k": "b", "t": 3, "x": 2, "id": 2}, {"k": "a", "t": 30, "x": 4, "id": 3}],
    )
    stream = sw.windowed(
        source.stream(spark), by="k", time="t", windows=WINDOWS,
        aggs=[Poison("x").alias("sum"), sw.agg.count()], watermark=0, keep_late=True, buckets=2,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [1]
    assert [m["bad"] for m in ran.metrics] == [1, 0]
    assert fold(emitted(ran.rows)) == {
        ("a", "tumbling_10", 0, 10): {"sum": 1.0, "count": 1},
        ("b", "tumbling_10", 0, 10): {"sum": 2.0, "count": 1},
    }


class Inverse(sw.Aggregate):
    """A sum of inverses, compiled, which zero has none of."""

    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, x: int) -> float:
        return 1.0 / x

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Ratio(Inverse):
    """One over the sum, compiled, which a sum of zero has none of."""

    def lift(self, x: int) -> float:
        return 1.0 * x

    def lower(self, state: float) -> float:
        return 1.0 / state


class Slow(Poison):
    """Another interpreted sum."""


def test_compiled_code_that_raises_for_one_key_stops_nothing_and_metrics_say_what_happened(
    spark: Any, tmp_path: Path
) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [
            {"k": "a", "t": 1, "x": 2, "id": 0},
            {"k": "b", "t": 2, "x": 0, "id": 1},
            {"k": "b", "t": 3, "x": 4, "id": 2},
            {"k": "c", "t": 4, "x": 3, "id": 3},
            {"k": "c", "t": 5, "x": -3, "id": 4},
        ],
        [{"k": "a", "t": 30, "x": 4, "id": 5}],
    )
    aggs = [Inverse("x"), Ratio("x"), Poison("x"), Slow("x")]
    stream = sw.windowed(
        source.stream(spark), by="k", time="t", windows=WINDOWS, aggs=aggs, keep_late=True,
        watermark=0, buckets=3,
    )  # fmt: skip
    ran = run(stream, tmp_path / "state")
    assert [row["id"] for row in late(ran.rows)] == [1]
    found = {
        key: (values["x_inverse"], values["x_ratio"], values["x_slow"])
        for (key, *_), values in fold(emitted(ran.rows)).items()
    }
    assert found == {"a": (0.5, 0.5, 2.0), "b": (0.25, 0.25, 4.0), "c": (0.0, None, 0.0)}
    # Two aggregates are interpreted, however many buckets there are.
    assert ran.metrics == [
        {**counts, "interpreted": 2, "state_bytes": metrics["state_bytes"]}
        for metrics, counts in zip(
            ran.metrics,
            (
                {"events": 5, "late": 0, "late_partly": 0, "bad": 1, "failed": 0, "slices": 3},
                {"events": 1, "late": 0, "late_partly": 0, "bad": 0, "failed": 1, "slices": 1},
            ),
            strict=True,
        )
    ]


class Limited(Ratio):
    """A sum, compiled, that does not go beyond a hundred."""

    def combine(self, older: float, newer: float) -> float:
        if older + newer > 100.0:
            raise ValueError("more than a hundred")
        return older + newer


def test_a_compiled_combine_that_raises_while_slices_merge_stops_the_stream_and_says_why(
    spark: Any, tmp_path: Path
) -> None:
    source = Source(tmp_path / "in")
    source.add(
        [{"k": "a", "t": 1, "x": 60, "id": 0}, {"k": "a", "t": 12, "x": 60, "id": 1}],
        [{"k": "a", "t": 60, "x": 1, "id": 2}],
    )
    stream = sw.windowed(
        source.stream(spark), by="k", time="t", windows=sw.sliding(20, every=10),
        aggs=Limited("x"), watermark=0, buckets=2,
    )  # fmt: skip
    with pytest.raises(Exception, match="ValueError: more than a hundred"):
        run(stream, tmp_path / "state")


def test_a_source_written_in_python_streams_too(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Steps(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
            end = min(start["at"] + 4, 12)
            return iter([("a", n, n) for n in range(start["at"], end)]), {"at": end}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Any]:
            return iter([("a", n, n) for n in range(start["at"], end["at"])])

    class Stepping(DataSource):
        @classmethod
        def name(cls) -> str:
            return "stepping"

        def schema(self) -> str:
            return "k string, t bigint, x bigint"

        def simpleStreamReader(self, schema: Any) -> Steps:
            return Steps()

    spark.dataSource.register(Stepping)
    steps = spark.readStream.format("stepping").load()
    frame = sw.windowed(
        steps, by="k", time="t", windows=WINDOWS, aggs=COUNTS, watermark=0, buckets=2
    )
    table = frame.writeStream.format("memory").queryName("steps")
    query = table.option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        query.processAllAvailable()
        found = spark.table("steps").collect()
    finally:
        query.stop()
    assert [(row["start"], row["x_sum"], row["count"]) for row in found] == [(0, 45, 10)]
    open_ = fold(emitted(drained(tmp_path / "state")))
    assert open_ == {("a", "tumbling_10", 10, 20): {"x_sum": 21, "count": 2}}


@pytest.mark.parametrize(
    ("source", "options", "counts"),
    [
        ("rate-micro-batch", {"rowsPerBatch": 7, "advanceMillisPerBatch": 1000}, {7}),
        # Its seconds are those of the clock.
        ("rate", {"rowsPerSecond": 7}, {1, 2, 3, 4, 5, 6, 7, 8}),
    ],
)
def test_the_rate_sources_stream_without_a_key(
    spark: Any, tmp_path: Path, source: str, options: dict[str, int], counts: set[int]
) -> None:
    moments = spark.readStream.format(source).options(**options).load()
    values = [sw.agg.count("value"), sw.agg.min("value"), sw.agg.max("value")]
    frame = sw.windowed(
        moments, time="timestamp", windows=[sw.tumbling("1s")], aggs=values, watermark="0s"
    )
    name = source.replace("-", "_")
    table = frame.writeStream.format("memory").queryName(name)
    query = table.option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        while len([p for p in query.recentProgress if p["numInputRows"]]) < 3:
            assert query.exception() is None
            query.awaitTermination(0.2)
        found = spark.table(name).orderBy("start").collect()
    finally:
        query.stop()
    assert len(found) >= 1
    assert {row["value_count"] for row in found} <= counts
    starts = [0, *(row["value_max"] + 1 for row in found)]
    assert [row["value_min"] for row in found] == starts[:-1]
    assert [row["value_count"] for row in found] == [b - a for a, b in pairwise(starts)]
