"""`sw.windowed` on DataFrames answers what the definitions say, whichever way it takes."""

from __future__ import annotations

import linecache
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import slicewise as sw
from slicewise.spark.asked import definitions
from slicewise.spark.batch.native import few_edges
from slicewise.spark.batch.windowed import Windowed
from slicewise.testing import paths_taken, windowed_rows
from slicewise.windows import Window
from tests.support.queries import FREE, ROWS
from tests.support.spark import (
    SCHEMA,
    answers,
    assert_same,
    by_id,
    events,
    every_aggregate,
    frame_of,
)
from tests.support.texts import Text

WAYS: dict[str, list[sw.Aggregate]] = {
    "native": [sw.agg.sum("x"), sw.agg.max("y"), sw.agg.count(), sw.agg.std("x")],
    "combined": [sw.agg.median("x"), sw.agg.geomean("x"), sw.agg.sum("x"), sw.agg.count("y")],
    "sliced": [sw.agg.collect("s"), sw.agg.first("x"), sw.agg.mean("x")],
    "ordered": [sw.agg.collect("s"), sw.agg.first("x"), sw.agg.mean("x")],
}


def windows_of(way: str, free: list[Window]) -> list[Window]:
    """Windows that lead a query to a way: the free ones alone never need all rows of a key."""
    return [*free, *(ROWS[:3] if way == "ordered" else [])]


def check(frame: Any, rows: list[Any], windows: list[Window], aggs: Any, by: Any = "k") -> None:
    found = sw.windowed(frame, by=by, time="t", windows=windows, aggs=aggs)
    expected = windowed_rows(rows, windows=windows, aggs=aggs, time="t", by=by)
    assert_same(answers(found, by), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.smoke
def test_context_free_windows_are_answered_by_each_way(spark: Any, way: str) -> None:
    rows = events(150, seed=1)
    frame, windows = frame_of(spark, rows), windows_of(way, FREE)
    assert Windowed.of(frame, definitions("k", "t", windows, WAYS[way])).way == way
    check(frame, rows, windows, WAYS[way])


@pytest.mark.parametrize("by", [None, ["k", "s"], ["x"]])
@pytest.mark.parametrize("way", WAYS)
def test_there_may_be_no_key_or_several(spark: Any, way: str, by: Any) -> None:
    rows = events(60, seed=2)
    check(frame_of(spark, rows), rows, windows_of(way, FREE[:2]), WAYS[way], by)


@pytest.mark.parametrize("way", WAYS)
def test_a_row_without_a_usable_time_is_in_no_window(spark: Any, way: str) -> None:
    rows = events(60, seed=14)
    bad = "explode(array(null, double('NaN'), 2.5D, 1e19D, -double('infinity')))"
    for kind, wrong in (("double", bad), ("bigint", "explode(array(null, 1L << 61, -1L << 61))")):
        usable = frame_of(spark, rows).selectExpr("* except (t)", f"cast(t as {kind}) as t")
        unusable = usable.selectExpr("* except (t)", f"{wrong} as t")
        check(usable.unionByName(unusable), rows, windows_of(way, FREE), WAYS[way])


@pytest.mark.parametrize("way", ["combined", "sliced"])
@pytest.mark.parametrize(
    "free",
    [
        [sw.sliding(30 + k, 20 + k) for k in range(18)],
        [sw.cumulate(80, every=2 + k) for k in (1, 5)],
        [sw.fixed(7 * k, 5) for k in range(-3, 17)],
        [sw.tumbling(40), *(sw.fixed(7 * k, 5) for k in range(17))],
    ],
    ids=["sliding", "cumulate", "fixed", "both"],
)
def test_edges_that_make_no_short_expression(spark: Any, way: str, free: list[Window]) -> None:
    assert not few_edges(free)
    rows = events(120, seed=15)
    check(frame_of(spark, rows), rows, free, WAYS[way])


@pytest.mark.parametrize("by", [None, "k", ["k", "s"]])
@pytest.mark.parametrize(
    "aggs",
    [WAYS["native"], WAYS["combined"], [sw.agg.first("x"), sw.agg.count("y")]],
    ids=["native", "combined", "sliced"],
)
def test_results_of_windows_that_overlap_come_in_series(spark: Any, aggs: Any, by: Any) -> None:
    rows = events(120, seed=16)
    frame = frame_of(spark, rows)
    windows = [sw.sliding(30, 2), sw.sliding(2, 5, name="gaps"), sw.sliding(3000, 4), FREE[1]]
    query: dict[str, Any] = {"by": by, "time": "t", "windows": windows, "aggs": aggs}
    with paths_taken() as taken:
        found = sw.windowed(frame, **query)
    assert taken["series"] == 1
    made = Windowed.of(frame, definitions(by, "t", windows, aggs))
    assert found.schema == made.schema
    check(frame, rows, windows, aggs, by)
    timed = frame.withColumn("t", F.timestamp_micros("t"))
    durations: list[Any] = list(windows)
    query["windows"] = [replace(window, unit="us") for window in durations]
    moments = sw.windowed(timed, **query).withColumns(
        {name: F.unix_micros(name) for name in ("start", "end")}
    )
    assert_same(answers(moments, by), answers(found, by))


@pytest.mark.smoke
def test_every_other_kind_of_window_is_answered_in_one_pass_with_the_free_ones(spark: Any) -> None:
    rows = events(150, seed=3)
    aggs = [sw.agg.sum("x"), sw.agg.last("s"), sw.agg.count()]
    check(frame_of(spark, rows), rows, [*ROWS, *FREE], aggs)


def test_sessions_of_aggregates_that_commute(spark: Any) -> None:
    rows = events(150, seed=4, ties=True)
    windows = [sw.session(2), sw.session(5), sw.tumbling(9)]
    check(frame_of(spark, rows), rows, windows, [sw.agg.sum("x"), sw.agg.median("x")])


def test_a_condition_may_be_a_function_of_any_column(spark: Any) -> None:
    rows = events(80, seed=5)
    windows = [
        sw.punctuated(lambda event: event["s"] == "p" and (event["x"] or 0) > 0),
        sw.threshold(lambda event: event["flag"], name="flagged"),
    ]
    check(frame_of(spark, rows), rows, windows, [sw.agg.count()], None)


@pytest.mark.smoke
def test_every_aggregate_is_the_same_as_its_slow_twin(spark: Any) -> None:
    rows = events(90, seed=6)
    frame = frame_of(spark, rows)
    aggs = every_aggregate()
    for some in ([a for a in aggs if a.commutative], [a for a in aggs if not a.commutative]):
        check(frame, rows, [sw.sliding(30, 20)], some)


def test_one_tumbling_window_needs_no_second_shuffle(spark: Any) -> None:
    rows = events(100, seed=7)
    frame = frame_of(spark, rows)
    for window in (sw.tumbling(7), sw.sliding(2, every=5), sw.fixed(5, 20)):
        assert Windowed.of(frame, definitions("k", "t", window, WAYS["native"])).apart
        check(frame, rows, [window], WAYS["native"])


def test_tumbling_windows_of_common_aggregates_need_no_python(spark: Any) -> None:
    rows = events(150, seed=10)
    frame = frame_of(spark, rows)
    numbers = [sw.agg.sum("y"), sw.agg.mean("y"), sw.agg.std("y"), sw.agg.var("x", ddof=0)]
    aggs = [*numbers, sw.agg.min("x"), sw.agg.max("y"), sw.agg.count("y"), sw.agg.count()]
    for by in ("k", None):
        windows = [sw.tumbling(7, origin=2)]
        assert Windowed.of(frame, definitions(by, "t", windows, aggs)).finished is not None
        check(frame, rows, windows, aggs, by)
    times: dict[str, Any] = {"by": "k", "time": "at", "windows": sw.tumbling("1h"), "aggs": aggs}
    stamped = frame.selectExpr("*", "timestamp_micros(t * 600000000) AS at")
    found = sw.windowed(stamped, **times)
    assert "nothing crosses to Python" in sw.explain(stamped, **times)
    # An aggregate more, whose results Spark has no expression for.
    times["aggs"] = [*aggs, sw.agg.sum("x")]
    assert "cross to Python" in sw.explain(stamped, **times)
    other = sw.windowed(stamped, **times).drop("x_sum")
    assert [(f.name, f.dataType) for f in found.schema] == [
        (f.name, f.dataType) for f in other.schema
    ]
    assert_same(answers(found), answers(other))


@pytest.mark.parametrize("way", WAYS)
def test_neither_partitions_nor_batches_nor_adaptive_execution_change_the_answer(
    spark: Any, settings: Any, way: str
) -> None:
    rows = events(120, seed=8)
    windows = windows_of(way, FREE[:3])
    expected = windowed_rows(rows, windows=windows, aggs=WAYS[way], time="t", by="k")
    for partitions, shuffled, batch, adaptive in (
        (1, 1, 1, "true"),
        (4, 3, 7, "false"),
        (2, 5, 10_000, "true"),
        (7, 2, 100_000, "false"),
    ):
        frame = frame_of(spark, rows, partitions)
        with settings(
            spark__sql__shuffle__partitions=shuffled,
            spark__sql__execution__arrow__maxRecordsPerBatch=batch,
            spark__sql__adaptive__enabled=adaptive,
        ):
            found = sw.windowed(frame, by="k", time="t", windows=windows, aggs=WAYS[way])
            assert_same(answers(found), expected)


@pytest.mark.parametrize("way", ["sliced", "ordered"])
def test_events_of_one_time_are_ordered_by_their_values(
    spark: Any, settings: Any, way: str
) -> None:
    # A DataFrame has no order of its own, so it cannot be the order of arrival.
    rows = [{**row, "t": row["t"] // 20} for row in events(100, seed=9)]
    windows = windows_of(way, [sw.tumbling(3), sw.sliding(5, 2)])
    aggs = [agg for agg in every_aggregate() if not agg.commutative]
    assert Windowed.of(frame_of(spark, rows), definitions("k", "t", windows, aggs)).way == way
    read = dict.fromkeys(["t", *(column for agg in aggs for column in agg.columns)])
    by_values = sorted(rows, key=lambda row: [(row[c] is not None, row[c] or 0) for c in read])
    expected = windowed_rows(by_values, windows=windows, aggs=aggs, time="t", by="k")
    for given, partitions, batch, adaptive in (
        (rows, 1, 10_000, "true"),
        (rows[::-1], 4, 7, "false"),
        (rows[::2] + rows[1::2], 3, 1, "true"),
    ):
        with settings(
            spark__sql__execution__arrow__maxRecordsPerBatch=batch,
            spark__sql__adaptive__enabled=adaptive,
        ):
            frame = frame_of(spark, given, partitions)
            found = sw.windowed(frame, by="k", time="t", windows=windows, aggs=aggs)
            assert_same(answers(found), expected)


ANY_SETTINGS = (
    {"partitions": 1, "shuffle": 1, "batch": 10_000, "adaptive": "true"},
    {"partitions": 5, "shuffle": 4, "batch": 100_000, "adaptive": "false"},
)


@pytest.mark.parametrize("way", [*WAYS, "rolling"])
def test_batches_of_any_size_are_cut_without_a_change(spark: Any, settings: Any, way: str) -> None:
    # More rows than the largest batch that is cut, so that there are several of them.
    given = spark.range(25_000).selectExpr(
        "id % 7 as k", "(id * 7919) % 50000 as t", "nullif(id % 11, 3) as x", "id"
    )
    aggs = {
        "native": [sw.agg.sum("x"), sw.agg.max("x"), sw.agg.count()],
        "combined": [sw.agg.median("x"), sw.agg.sum("x")],
        "sliced": [sw.agg.last("x"), sw.agg.first("id")],
        "ordered": [sw.agg.last("x"), sw.agg.first("id")],
        "rolling": [sw.agg.sum("x"), sw.agg.last("id")],
    }[way]
    query: Any = {"by": "k", "time": "t", "aggs": aggs}
    verb: Any = sw.windowed
    if way == "rolling":
        verb, query["over"], order = sw.rolling, [50, 500, sw.rows(9)], ["id"]
    else:
        query["windows"] = [sw.sliding(500, 150), sw.tumbling(70)]
        query["windows"] += [sw.session(20), sw.tumbling(sw.rows(9))] if way == "ordered" else []
        order = ["k", "window", "start", "end"]
    by = [(name, "ascending") for name in order]
    wanted = verb(given.toArrow(), **query).sort_by(by)
    for one in ANY_SETTINGS:
        with settings(
            spark__sql__shuffle__partitions=one["shuffle"],
            spark__sql__execution__arrow__maxRecordsPerBatch=one["batch"],
            spark__sql__adaptive__enabled=one["adaptive"],
        ):
            found = verb(given.repartition(one["partitions"]), **query).toArrow()
        assert found.select(wanted.column_names).cast(wanted.schema).sort_by(by).equals(wanted)


@pytest.mark.smoke
def test_rolling_does_not_depend_on_partitions_or_small_batches(spark: Any, settings: Any) -> None:
    rows = events(60, seed=11, ties=True)
    aggs = [sw.agg.sum("x"), sw.agg.median("x"), sw.agg.count()]
    for over in ([3, 40], [40, sw.rows(1)]):
        wanted = sw.rolling(pa.Table.from_pylist(rows), by="k", time="t", over=over, aggs=aggs)
        for partitions, shuffled, batch, adaptive in ((4, 3, 1, "false"), (1, 2, 7, "true")):
            with settings(
                spark__sql__shuffle__partitions=shuffled,
                spark__sql__execution__arrow__maxRecordsPerBatch=batch,
                spark__sql__adaptive__enabled=adaptive,
            ):
                found = sw.rolling(
                    frame_of(spark, rows, partitions), by="k", time="t", over=over, aggs=aggs
                )
                assert_same(by_id(found.collect()), by_id(wanted.to_pylist()))


class Letters(sw.Aggregate):
    """The different texts, in order; its states are sets."""

    commutative = True

    def identity(self) -> frozenset[str]:
        return frozenset()

    def lift(self, value: str) -> frozenset[str]:
        return frozenset([value])

    def combine(self, older: frozenset[str], newer: frozenset[str]) -> frozenset[str]:
        return older | newer

    def lower(self, state: frozenset[str]) -> list[str]:
        return sorted(state)


def test_interpreted_aggregates_of_users_are_the_same_as_their_slow_twins(spark: Any) -> None:
    rows = events(90, seed=12)
    frame = frame_of(spark, rows)
    for way, aggs, windows in (
        ("combined", [Letters("s")], FREE[:2]),
        ("sliced", [Letters("s"), Text("s")], FREE[:2]),
        ("sliced", [Text("s")], FREE[1:2]),
        ("ordered", [Letters("s"), Text("s")], [FREE[0], ROWS[0], ROWS[2]]),
    ):
        assert Windowed.of(frame, definitions("k", "t", windows, aggs)).way == way
        check(frame, rows, windows, aggs)


CELL = """
class Shift(sw.Aggregate):
    commutative = {commutative}

    def identity(self):
        return 0.0

    def lift(self, value):
        return value * FACTOR

    def combine(self, older, newer):
        return older + newer

    def lower(self, state):
        return state + 0.5
"""


@pytest.mark.parametrize("known", [True, False])
def test_an_aggregate_of_a_notebook_cell_reaches_the_workers(spark: Any, known: bool) -> None:
    # A notebook runs cells as the module `__main__` and lets `linecache` know their source.
    rows = events(90, seed=13)
    frame = frame_of(spark, rows)
    for commutative, windows in (
        (True, FREE[:1]),
        (False, FREE[:1]),
        (False, [*FREE[:1], *ROWS[:1]]),
    ):
        source, name = CELL.format(commutative=commutative), f"<ipython-input-{commutative}>"
        if known:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        cell: dict[str, Any] = {"__name__": "__main__", "sw": sw, "FACTOR": 4.0}
        exec(compile(source, name, "exec"), cell)
        try:
            agg = cell["Shift"]("x")
            assert agg.how(pa.int64()).startswith("compiled" if known else "interpreted")
            check(frame, rows, windows, [agg])
        finally:
            linecache.cache.pop(name, None)


BOXES = """
class Box:
    def __init__(self, *values):
        self.values = values
        self.{lock}


class Boxed(sw.Aggregate):
    commutative = {commutative}

    def identity(self):
        return Box()

    def lift(self, value):
        return Box(value)

    def combine(self, older, newer):
        assert isinstance(older, Box) and isinstance(newer, Box)
        return Box(*older.values, *newer.values)

    def lower(self, state):
        return sum(value * n for n, value in enumerate({order}(state.values)))
"""


@pytest.mark.parametrize("commutative", [True, False])
def test_states_may_be_of_a_class_of_a_notebook_cell(spark: Any, commutative: bool) -> None:
    rows = events(60, seed=16)
    frame = frame_of(spark, rows)
    order = "sorted" if commutative else "list"
    for lock in ("lock = None", "lock = Lock()"):
        cell: dict[str, Any] = {"__name__": "__main__", "sw": sw, "Lock": Lock}
        exec(BOXES.format(lock=lock, commutative=commutative, order=order), cell)
        if lock == "lock = None":
            check(frame, rows, FREE[:1], [cell["Boxed"]("x")])
            continue
        with pytest.raises(PySparkException, match="States go from one task of Spark to another"):
            check(frame, rows, FREE[:1], [cell["Boxed"]("x")])


def test_no_operator_is_built_on_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: sw.Operator, **given: Any) -> None:
        raise AssertionError("an operator on the driver")

    monkeypatch.setattr(sw.Operator, "__init__", refuse)
    bounded = frame_of(spark, events(10, seed=1))
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    for frame in (bounded, stream):
        for windows, aggs in (
            (FREE[0], sw.agg.count()),
            (FREE[0], sw.agg.median("x")),
            (FREE[0], sw.agg.last("x")),
            (ROWS[0], sw.agg.count()),
        ):
            query: dict[str, Any] = {"by": "k", "time": "t", "aggs": aggs}
            assert sw.windowed(frame, **query, windows=windows, watermark=1).columns
            assert sw.explain(frame, **query, windows=windows)
            assert sw.rolling(frame, **query, over=5, watermark=1).columns
            assert sw.explain(frame, **query, over=5)
