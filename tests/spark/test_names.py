"""No name of a user's meets one of ours: columns travel by position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import ColumnError
from tests.support.spark import answers, assert_same, by_id, events
from tests.support.streaming import Source, drained, run

# Names that are written otherwise in SQL, and all that are used on the way.
KEYS = ["a.b", "__part"]
NAMES = {"k": KEYS[0], "s": KEYS[1], "t": "x`y", "x": "__slice", "y": "c0", "km": "key_0"}
ALIASES = ["__state_0_0", "value_0", "__step", "bucket", "__place", "packed", "late", "C0"]
TYPES = [("k", pa.string()), ("s", pa.string()), ("t", pa.int64()), ("x", pa.int64())]
TYPES += [("y", pa.float64()), ("km", pa.int64()), ("id", pa.int64())]
SCHEMA = pa.schema([(NAMES.get(name, name), kind) for name, kind in TYPES])
SQL = "`a.b` string, `__part` string, `x``y` bigint, `__slice` bigint, c0 double, key_0 bigint"
QUERY: Any = {"by": KEYS, "time": NAMES["t"]}


def table_of(count: int, seed: int) -> pa.Table:
    rows = events(count, seed)
    return pa.Table.from_pylist(
        [{NAMES.get(name, name): row[name] for name, _ in TYPES} for row in rows], SCHEMA
    )


def aliased(*aggs: Any) -> list[Any]:
    return [agg.alias(name) for agg, name in zip(aggs, ALIASES, strict=False)]


@pytest.mark.parametrize(
    ("windows", "aggs"),
    [
        (sw.tumbling(9), (sw.agg.sum("__slice"), sw.agg.count())),
        (sw.sliding(30, every=3), (sw.agg.sum("__slice"), sw.agg.max("c0"), sw.agg.count())),
        ([sw.sliding(9, every=3), sw.tumbling(5)], (sw.agg.median("__slice"), sw.agg.std("c0"))),
        (sw.sliding(9, every=3), (sw.agg.collect("__slice"), sw.agg.sum("key_0"))),
        (
            [sw.session(4), sw.threshold(lambda event: event["__slice"] == 5, name="fives")],
            (sw.agg.last("c0"), sw.agg.sum("key_0"), sw.agg.concat("__part")),
        ),
    ],
    ids=["native", "series", "combined", "sliced", "ordered"],
)
def test_windows_over_columns_of_any_name(spark: Any, windows: Any, aggs: Any) -> None:
    table = table_of(120, seed=31)
    query = {**QUERY, "windows": windows, "aggs": aliased(*aggs)}
    found = sw.windowed(spark.createDataFrame(table), **query)
    expected = sw.windowed(table, **query)
    assert found.columns == expected.column_names
    rows = {tuple(row[name] for name in (*KEYS, "window", "start", "end")): row
            for row in expected.to_pylist()}  # fmt: skip
    values = [agg.output for agg in query["aggs"]]
    assert_same(
        answers(found, KEYS),
        {(key[:2], *key[2:]): {n: row[n] for n in values} for key, row in rows.items()},
    )


@pytest.mark.parametrize("over", [[7, 20], [7, sw.rows(3)]], ids=["cut", "whole"])
def test_rolling_over_columns_of_any_name_some_of_them_twice(spark: Any, over: Any) -> None:
    table = table_of(120, seed=32).append_column("__place", pa.array(range(120)))
    aggs = aliased(sw.agg.sum("__slice"), sw.agg.first("c0"))
    given = spark.createDataFrame(table)
    labels = spark.createDataFrame([(k, k * 2) for k in range(-30, 130)], "key_0 bigint, C0 bigint")
    # A join leaves two columns of one name, and two that differ in case only.
    both = given.join(labels, given["key_0"] == labels["key_0"], "left")
    assert both.columns.count("key_0") == 2
    found = sw.rolling(both, over=over, aggs=aggs, **QUERY)
    expected = sw.rolling(table, over=over, aggs=aggs, **QUERY)
    new = expected.column_names[len(table.column_names) :]
    assert found.columns == [*both.columns, *new]
    assert found.select("id", "__place", *new).count() == 120
    assert_same(
        by_id(found.select("id", *new).collect()),
        by_id(expected.select(["id", *new]).to_pylist()),
    )


def test_rows_with_columns_of_any_name_are_folded(spark: Any) -> None:
    table = table_of(60, seed=34)
    names = ["Retracted", "c0", "C0", "rest", "v`0"]
    aggs = [sw.agg.count().alias(name) for name in names]
    op = sw.Operator(windows=[sw.session(4)], aggs=aggs, lateness=500, **QUERY)
    parts = []
    for part in (table.slice(0, 30), table.slice(30)):
        op.process(part)
        parts.append(op.advance_arrow(200))
    rows = pa.concat_tables(parts)
    found = sw.fold(spark.createDataFrame(rows))
    expected = sw.fold(rows)
    assert found.columns == expected.column_names
    assert sorted(map(repr, map(tuple, found.collect()))) == sorted(
        repr(tuple(row.values())) for row in expected.to_pylist()
    )


def test_streams_over_columns_of_any_name(spark: Any, tmp_path: Path) -> None:
    table = table_of(80, seed=33).sort_by(NAMES["t"])
    source = Source(tmp_path / "in", SCHEMA)
    source.add(table.slice(0, 40).to_pylist(), table.slice(40).to_pylist())
    stream = source.stream(spark, schema=f"{SQL}, id bigint")
    aggs = aliased(*[sw.agg.sum("__slice"), sw.agg.collect("c0")] * 3)
    windows = [sw.sliding(9, every=3), sw.session(3)]
    settings: Any = {"watermark": 5, "buckets": 2, "keep_late": True}
    # Two columns have one name, and one of the events has that of the late output.
    events = stream.selectExpr("*", "id as late", "id as twice", "id + 1 as twice")
    emitted = sw.windowed(events, windows=windows, aggs=aggs, emit="final", **QUERY, **settings)
    ran = run(emitted, tmp_path / "windows")
    rest = drained(tmp_path / "windows")
    expected = sw.windowed(table, windows=windows, aggs=aggs, **QUERY).to_pylist()
    rows = [{name: row[name] for name in expected[0]} for row in [*ran.rows, *rest]]
    identity = [*KEYS, "window", "start", "end"]
    assert_same(
        {tuple(row[name] for name in identity): row for row in rows},
        {tuple(row[name] for name in identity): row for row in expected},
    )
    assert ran.rows
    rolled = sw.rolling(events.drop("late"), over=[7, sw.rows(3)], aggs=aggs, **QUERY, **settings)
    assert rolled.columns.count("twice") == 2
    ran = run(rolled, tmp_path / "rolled")
    rest = drained(tmp_path / "rolled")
    expected = sw.rolling(table, over=[7, sw.rows(3)], aggs=aggs, **QUERY).to_pylist()
    rows = [{name: row[name] for name in expected[0]} for row in [*ran.rows, *rest]]
    assert_same({row["id"]: row for row in rows}, {row["id"]: row for row in expected})
    for verb, given in ((sw.windowed, {"windows": windows}), (sw.rolling, {"over": 7})):
        named = aggs[0].alias("late") if verb is sw.windowed else aggs[0]
        with pytest.raises(ColumnError, match="column 'late', and there is another of that name"):
            verb(events, aggs=named, **given, **QUERY, **settings)
