"""Events of one key and time on Spark: batch, stream and replay give the same rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import ColumnTypeError
from slicewise.testing import fold
from tests.support.spark import SCHEMA, Row, answers, assert_same, by_id, events
from tests.support.streaming import Source, drained, emitted, run

WINDOWS = [
    sw.tumbling(8),
    sw.session(2),
    sw.tumbling(sw.rows(3)),
    sw.sliding(sw.rows(4), every=5),
    sw.threshold("flag"),
]
AGGS = [sw.agg.first("x"), sw.agg.last("y"), sw.agg.collect("s"), sw.agg.argmin("x", "s")]
QUERY: Any = {"by": "k", "time": "t"}
ORDERS: Any = [None, ["y", "id"]]


def tied(seed: int) -> list[Row]:
    """Events of which several have one key and time."""
    rows = events(90, seed)
    return [{**row, "t": row["t"] % 31, "km": row["t"] % 31 // 2} for row in rows]


def shuffled(rows: list[Row], seed: int) -> list[Row]:
    return random.Random(seed).sample(rows, len(rows))


def frame_of(spark: Any, rows: list[Row], partitions: int) -> Any:
    made = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    return made.repartition(partitions)


def parts_of(rows: list[Row], seed: int, count: int) -> list[list[Row]]:
    """Files whose events are at most 10 behind, those of one time in several of them."""
    draw = random.Random(seed)
    late = sorted(rows, key=lambda row: row["t"] + draw.uniform(0, 10))
    size = -(-len(late) // count)
    return [shuffled(late[a : a + size], seed) for a in range(0, len(late), size)]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_rule_13_ties_are_the_same_in_batch_and_stream_and_on_a_replay(
    spark: Any, tmp_path: Path, order: Any
) -> None:
    rows = tied(seed=41)
    # One way for windows that depend on events, one for aggregates that do, over slices.
    for windows in (WINDOWS, [sw.sliding(9, every=3), sw.tumbling(5)]):
        query = {**QUERY, "windows": windows, "aggs": AGGS, "order": order}
        found = [
            answers(sw.windowed(frame_of(spark, shuffled(rows, n), n), **query)) for n in (1, 3, 7)
        ]
        expected = found[0]
        assert_same(found[1], expected)
        assert_same(found[2], expected)
        if order:
            # In process arrival decides between the rest, and there is none: `id` differs.
            table = pa.Table.from_pylist(shuffled(rows, 9))
            names = (*(agg.output for agg in AGGS),)
            alone = sw.windowed(table, **query).to_pylist()
            head = ("k", "window", "start", "end")
            in_process = {tuple(r[n] for n in head): {n: r[n] for n in names} for r in alone}
            assert_same(in_process, expected)
        if windows is not WINDOWS:
            continue
        late = {"emit": "on_close", "lateness": 20}
        modes: Any = [{"emit": "on_update"}] if order else [{"emit": "final"}, late]
        for number, mode in enumerate(modes):
            folder = tmp_path / f"{len(windows)}{number}"
            source = Source(folder.with_suffix(".in"))
            source.add(*parts_of(rows, number, 3))
            stream = sw.windowed(source.stream(spark), **query, **mode, watermark=10, buckets=2)
            ran = run(stream, folder)
            assert not any(m["late"] for m in ran.metrics)
            assert_same(fold(emitted([*ran.rows, *drained(folder)])), expected)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_rule_13_ties_are_the_same_for_rows_that_roll(
    spark: Any, tmp_path: Path, order: Any
) -> None:
    rows = tied(seed=42)
    for over in ([6, sw.rows(3)], [6]):
        query = {**QUERY, "over": over, "aggs": AGGS[:3], "order": order}
        found = [
            by_id(sw.rolling(frame_of(spark, shuffled(rows, n), n), **query).collect())
            for n in (1, 5)
        ]
        assert_same(found[1], found[0])
    if order:
        return
    query["over"] = [6, sw.rows(3)]
    expected = by_id(sw.rolling(frame_of(spark, rows, 1), **query).collect())
    source = Source(tmp_path / "in")
    source.add(*parts_of(rows, 3, 3))
    ran = run(sw.rolling(source.stream(spark), **query, watermark=10, buckets=2), tmp_path / "out")
    assert_same(by_id([*ran.rows, *drained(tmp_path / "out")]), expected)


def test_rule_13_texts_that_a_collation_takes_for_the_same_are_ordered_too(spark: Any) -> None:
    texts = spark.createDataFrame([(1, text) for text in "bAaB"], "t int, s string")
    collated = texts.selectExpr("t", "s collate UTF8_LCASE as s")
    for partitions in (1, 4):
        query: Any = {"time": "t", "aggs": sw.agg.collect("s")}
        found = sw.windowed(collated.repartition(partitions), windows=sw.tumbling(5), **query)
        assert [row["s_collect"] for row in found.collect()] == [["A", "B", "a", "b"]]


def test_columns_that_cannot_be_sorted_do_not_order(spark: Any) -> None:
    frame = spark.sql("select 1 as t, 2 as x, map('a', 1) as m")
    query: Any = {"time": "t", "aggs": sw.agg.first("x"), "order": ["x", "m"]}
    with pytest.raises(
        ColumnTypeError, match=r"`order` takes columns that can be sorted.*'m' holds"
    ):
        sw.windowed(frame, windows=sw.tumbling(5), **query)
    with pytest.raises(
        ColumnTypeError, match=r"`order` takes columns that can be sorted.*'m' holds"
    ):
        sw.rolling(frame, over=5, **query)
