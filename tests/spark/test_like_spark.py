"""Where Spark has the same windows, the rows are the same as Spark's own."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

import slicewise as sw
from slicewise.testing.oracle import alike

# Around changes to and from summer time in the session's zone, before and after the epoch.
MOMENTS = (-1_000, -86_400 * 400, 1_710_054_000, 1_730_613_600, 0)
AGGS = [sw.agg.sum("x"), sw.agg.max("y"), sw.agg.min("y"), sw.agg.mean("x"), sw.agg.count()]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    """Events in microseconds near special moments: many keys, nulls, ties, NaN."""
    draw = random.Random(1)
    rows = []
    for _ in range(600):
        micros = draw.choice(MOMENTS) * 1_000_000 + draw.randrange(0, 9_000_000_000, 500_000)
        rows.append(
            (
                draw.choice([None, *range(25)]),
                None if draw.random() < 0.05 else micros,
                draw.choice([None, *range(-9, 99)]),
                draw.choice([None, float("nan"), draw.gauss(0, 10)]),
            )
        )
    made = spark.createDataFrame(rows, "k int, u bigint, x bigint, y double")
    return made.withColumn("t", F.timestamp_micros("u")).repartition(4).cache()


def partials() -> list[Any]:
    return [
        F.sum("x").alias("x_sum"),
        F.max("y").alias("y_max"),
        F.min("y").alias("y_min"),
        F.avg("x").alias("x_mean"),
        F.count(F.lit(1)).alias("count"),
    ]


def assert_same_rows(ours: Any, theirs: Any, by: list[str]) -> None:
    names = theirs.columns
    found = {tuple(row[b] for b in by): row.asDict() for row in ours.select(names).collect()}
    wanted = {tuple(row[b] for b in by): row.asDict() for row in theirs.collect()}
    assert found.keys() == wanted.keys()
    for identity, row in wanted.items():
        assert alike(found[identity], row), f"{found[identity]}, Spark has {row}"
    assert found


@pytest.mark.parametrize(
    ("length", "every", "start"),
    [
        ("10 minutes", "10 minutes", 0),
        ("10 minutes", "1 minute", 0),
        ("1 hour", "25 minutes", 7),
        ("1 day", "1 day", 0),
    ],
)
def test_tumbling_and_sliding_windows_are_those_of_window(
    frame: Any, length: str, every: str, start: int
) -> None:
    units = {"minutes": "m", "minute": "m", "hour": "h", "day": "d"}
    short = ["".join((n, units[unit])) for n, unit in (length.split(), every.split())]
    ours = sw.windowed(
        frame,
        by="k",
        time="t",
        windows=sw.sliding(short[0], every=short[1], origin=f"{start}s" if start else 0),
        aggs=AGGS,
    )
    bounds = F.window("t", length, every, f"{start} seconds")
    theirs = frame.groupBy("k", bounds.alias("w")).agg(*partials())
    theirs = theirs.select("k", "w.start", "w.end", *(a.output for a in AGGS))
    assert_same_rows(ours, theirs, ["k", "start", "end"])
    assert ours.schema["start"].dataType == theirs.schema["start"].dataType


@pytest.mark.parametrize("gap", [30, 120])
def test_sessions_are_those_of_session_window(frame: Any, gap: int) -> None:
    # Spark ends a session before an event exactly a gap later; so the gap is a microsecond less,
    # and the end, last + gap, differs by as much.
    ours = sw.windowed(
        frame, by="k", time="t", windows=sw.session(f"{gap * 1_000_000 - 1}us"), aggs=AGGS
    ).withColumn("end", F.timestamp_micros(F.unix_micros("end") + 1))
    bounds = F.session_window("t", f"{gap} seconds")
    theirs = frame.where("t is not null").groupBy("k", bounds.alias("w")).agg(*partials())
    theirs = theirs.select("k", "w.start", "w.end", *(a.output for a in AGGS))
    assert_same_rows(ours, theirs, ["k", "start", "end"])


def test_rolling_is_range_between_with_the_oldest_moment_left_out(frame: Any) -> None:
    data = frame.where("t is not null").withColumn("id", F.monotonically_increasing_id()).cache()
    aggs = [sw.agg.max("y"), sw.agg.sum("x"), sw.agg.std("x"), sw.agg.count()]
    ours = sw.rolling(data, by="k", time="t", over=["1m", "10m"], aggs=aggs)
    columns: list[Any] = ["id"]
    for function, made in (
        ("y_max", F.max("y")),
        ("x_sum", F.sum("x")),
        ("x_std", F.stddev_samp("x")),
        ("count", F.count(F.lit(1))),
    ):
        for text, length in (("1m", 60), ("10m", 600)):
            over = Window.partitionBy("k").orderBy("u").rangeBetween(1 - length * 1_000_000, 0)
            columns.append(made.over(over).alias(f"{function}_{text}"))
    assert_same_rows(ours, data.select(*columns), ["id"])


def test_rolling_over_rows_is_rows_between(frame: Any) -> None:
    # Distinct times: among rows of one time neither says which comes first.
    data = frame.where("t is not null").groupBy("k", "t").agg(F.sum("x").alias("x")).cache()
    ours = sw.rolling(data, by="k", time="t", over=sw.rows(4), aggs=[sw.agg.sum("x")])
    over = Window.partitionBy("k").orderBy("t").rowsBetween(-3, 0)
    theirs = data.select("k", "t", F.sum("x").over(over).alias("x_sum_4rows"))
    assert_same_rows(ours, theirs, ["k", "t"])


DEVIATIONS = [
    (sw.agg.var("x"), "var_samp(x)"),
    (sw.agg.std("x"), "stddev_samp(x)"),
    (sw.agg.var("x", ddof=0).alias("var_pop"), "var_pop(x)"),
    (sw.agg.std("x", ddof=0).alias("std_pop"), "stddev_pop(x)"),
]


def test_deviations_of_values_of_which_some_are_infinite_are_those_of_spark(spark: Any) -> None:
    inf, nan = float("inf"), float("nan")
    groups: list[list[float | None]] = [[inf, -inf, 3.0], [None, None], [None, inf], [5.0]]
    for odd in (inf, -inf, nan):
        groups += [[odd], [1.0, odd, 2.0], [odd, odd, 1.0], [odd, None, 2.0]]
    rows = [(k, t, x) for k, values in enumerate(groups) for t, x in enumerate(values)]
    frame = spark.createDataFrame(rows, "k long, t long, x double")
    theirs = frame.groupBy("k").agg(*(F.expr(f"{made} as {a.output}") for a, made in DEVIATIONS))
    aggs = [agg for agg, _ in DEVIATIONS]
    # Without Python, and merged from slices and sessions of one value each.
    for windows, wanted in (
        (sw.tumbling(10), [("tumbling_10", 0)]),
        ([sw.sliding(10, every=1), sw.session(1)], [("sliding_10_1", 0), ("session_1", 0)]),
    ):
        ours = sw.windowed(frame, by="k", time="t", windows=windows, aggs=aggs)
        for window, start in wanted:
            one = ours.where(f"window = '{window}' and start = {start}")
            assert_same_rows(one, theirs, ["k"])
