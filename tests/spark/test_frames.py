"""Types of columns, schemas without a job, hot keys, and errors that come early and say enough."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

import slicewise as sw
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnError,
    ColumnTypeError,
    SpanError,
)
from slicewise.spark.frames import NTZ_MICROSECONDS
from tests.support.spark import Touchy, assert_same, by_id, events, frame_of

DAY = 86_400_000_000


class Longest(sw.Aggregate):
    """The longest text, the last in the alphabet of several; interpreted: texts are no numbers."""

    commutative = True

    def identity(self) -> str:
        return ""

    def lift(self, value: str) -> str:
        return value

    def combine(self, older: str, newer: str) -> str:
        return max(older, newer, key=lambda text: (len(text), text))

    def lower(self, state: str) -> str:
        return state


@pytest.fixture
def frame(spark: Any) -> Any:
    return frame_of(spark, events(40, seed=1))


TIMES = {
    "timestamp_micros(t * 1000000)": T.TimestampType(),
    "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, t)": T.TimestampNTZType(),
    "date_add(date'1970-01-01', cast(t as int))": T.TimestampNTZType(),
    "cast(t as int)": T.LongType(),
    "cast(t as double)": T.LongType(),
}


@pytest.mark.parametrize(("time", "kind"), TIMES.items())
@pytest.mark.parametrize("agg", [sw.agg.sum("x"), sw.agg.median("x"), sw.agg.last("x")])
def test_times_may_be_of_any_type(frame: Any, time: str, kind: Any, agg: Any) -> None:
    unit = 1_000_000 if time.startswith("timestamp") else DAY if time.startswith("date") else 1
    given = frame.withColumn("t", F.expr(time))
    length = 10 if unit == 1 else f"{10 * unit}us"
    found = sw.windowed(given, by="k", time="t", windows=sw.tumbling(length), aggs=agg)
    assert found.schema["start"].dataType == kind
    micros = {
        T.TimestampType(): "unix_micros(start)",
        T.TimestampNTZType(): NTZ_MICROSECONDS.format("start"),
    }.get(kind, "start")
    # The same windows as those of plain numbers, in other units.
    found = found.select(
        "k", F.expr(f"{micros} / {unit}").cast("bigint").alias("start"), agg.output
    )
    plain = sw.windowed(frame, by="k", time="t", windows=sw.tumbling(10), aggs=agg)
    same = plain.select("k", "start", agg.output)
    assert sorted(map(str, found.collect())) == sorted(map(str, same.collect()))


@pytest.mark.parametrize("time", TIMES)
def test_rolling_takes_times_of_any_type(frame: Any, time: str) -> None:
    unit = 1_000_000 if time.startswith("timestamp") else DAY if time.startswith("date") else 1
    aggs = [sw.agg.sum("x"), sw.agg.last("s")]
    given = frame.withColumn("t", F.expr(time))
    length = 10 if unit == 1 else f"{10 * unit}us"
    found = sw.rolling(given, by="k", time="t", over=[length, sw.rows(3)], aggs=aggs)
    assert found.schema["t"].dataType == given.schema["t"].dataType
    names = found.columns[len(frame.columns) :]
    rows = pa.Table.from_pylist(events(40, seed=1))
    same = sw.rolling(rows, by="k", time="t", over=[10, sw.rows(3)], aggs=aggs)
    wanted = {row["id"]: [*row.values()][len(frame.columns) :] for row in same.to_pylist()}
    assert {row["id"]: [row[name] for name in names] for row in found.collect()} == wanted


KEYS = {
    "date": "date_add(date'2024-03-09', n)",
    "timestamp": "timestamp_seconds(1710054000 + n)",
    "timestamp_ntz": "timestamp_ntz'2024-03-10 02:30:00' + make_dt_interval(0, 0, 0, n)",
    "decimal": "cast(n / 4 as decimal(20, 2))",
    "boolean": "n = 1",
    "binary": "cast(cast(n as string) as binary)",
    "array": "array(double(n), if(n = 0, null, 1))",
    "struct": "named_struct('a', n, 'b', array('x', if(n = 0, 'y', null)))",
    "double": "case n when 0 then double('NaN') when 1 then if(id % 2 = 0, -0.0D, 0D) else 5D end",
}


def numbered(frame: Any) -> Any:
    """The events with a key `n`: 0, 1 and null."""
    number = F.when(F.col("s") == "p", 0).when(F.col("s") == "q", 1)
    return frame.withColumn("n", number.cast("int"))


def answers_by(given: Any, by: str) -> dict[str, list[str]]:
    """The answers of each way to compute them, without their keys and in an order of their own."""
    made = {
        f"{window.name}: {agg!r}": sw.windowed(given, by=by, time="t", windows=window, aggs=agg)
        for window, agg in (
            (sw.sliding(20, 10), sw.agg.sum("x")),
            (sw.sliding(20, 10), sw.agg.median("x")),
            (sw.sliding(20, 10), sw.agg.collect("x")),
            (sw.session(6), sw.agg.sum("x")),
        )
    }
    for windowed in made.values():
        assert windowed.schema[by].dataType == given.schema[by].dataType
    rolled = sw.rolling(given, by=by, time="t", over=[20], aggs=sw.agg.sum("x"))
    made["rolling"] = rolled.select("n", "id", "x_sum_20")
    return {way: sorted(str(tuple(row)[1:]) for row in f.collect()) for way, f in made.items()}


@pytest.fixture(scope="module")
def by_number(spark: Any) -> dict[str, list[str]]:
    """What keys of any type are compared with."""
    return answers_by(numbered(frame_of(spark, events(40, seed=1))), "n")


@pytest.mark.parametrize("kind", KEYS)
def test_keys_may_be_of_any_type(frame: Any, kind: str, by_number: dict[str, list[str]]) -> None:
    given = numbered(frame).withColumn("key", F.expr(KEYS[kind]))
    if kind != "double":
        given = given.withColumn("key", F.expr("if(n is null, null, key)"))
    assert answers_by(given, "key") == by_number


def test_decimals_and_integers_are_exact(spark: Any) -> None:
    big = 2**62
    rows = [("a", 1, big, Decimal("0.10")), ("a", 2, big - 1, Decimal("0.20")), ("a", 3, -7, None)]
    frame = spark.createDataFrame(rows, "k string, t int, n bigint, d decimal(20, 2)")
    found = sw.windowed(
        frame, by="k", time="t", windows=sw.sliding(10, 5), aggs=[sw.agg.sum("n"), sw.agg.sum("d")]
    )
    for row in found.collect():
        assert row["n_sum"] == 2 * big - 8
        assert row["d_sum"] == Decimal("0.30")
    assert found.schema["d_sum"].dataType == T.DecimalType(38, 2)


def test_decimals_and_integers_of_rolling_are_exact(spark: Any) -> None:
    big, cent = 2**62, Decimal("123456789012345678.01")
    rows = [("a", 1, big, cent), ("a", 2, big - 1, cent), ("a", 3, -7, None), ("a", 99, 1, cent)]
    frame = spark.createDataFrame(rows, "k string, t int, n bigint, d decimal(20, 2)")
    found = sw.rolling(
        frame, by="k", time="t", over=[2, 10], aggs=[sw.agg.sum("n"), sw.agg.sum("d")]
    )
    assert found.schema["d_sum_2"].dataType == T.DecimalType(38, 2)
    got = {row["t"]: tuple(row)[4:] for row in found.collect()}
    assert got == {
        1: (big, big, cent, cent),
        2: (2 * big - 1, 2 * big - 1, 2 * cent, 2 * cent),
        3: (big - 8, 2 * big - 8, cent, 2 * cent),
        99: (1, 1, cent, cent),
    }


def test_a_sum_of_integers_that_does_not_fit_is_an_error_and_never_wraps(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2**62), (2, 2**62)], "t int, n bigint")
    found = sw.windowed(frame, time="t", windows=sw.sliding(10, 5), aggs=sw.agg.sum("n"))
    with pytest.raises(PySparkException, match="does not fit 64 bits"):
        found.collect()


def test_the_schema_is_known_without_a_job(frame: Any) -> None:
    # Any job on this would fail.
    broken = frame.withColumn("x", F.raise_error(F.lit("a job was started")).cast("bigint"))
    for aggs in ([sw.agg.sum("x")], [sw.agg.median("x")], [sw.agg.collect("x"), Longest("s")]):
        found = sw.windowed(broken, by=["k"], time="t", windows=sw.tumbling(10), aggs=aggs)
        assert found.columns[:4] == ["k", "window", "start", "end"]
        assert "Python" in sw.explain(broken, by="k", time="t", windows=sw.tumbling(10), aggs=aggs)
        counted = [*aggs, sw.agg.count(), sw.agg.count("x")]
        for windows in (sw.tumbling(10), sw.sliding(10, 5), sw.session(5)):
            found = sw.windowed(broken, by="k", time="t", windows=windows, aggs=counted)
            never = [field.name for field in found.schema if not field.nullable]
            assert {"count", "x_count"} <= set(never)
            assert not {"x_sum", "x_median", "x_collect", "s_longest"} & set(never)
    rolled = sw.rolling(broken, by="k", time="t", over=10, aggs=sw.agg.max("x"))
    assert rolled.columns == [*frame.columns, "x_max_10"]
    assert rolled.schema["x_max_10"].dataType == T.LongType()


@pytest.mark.smoke
def test_rolling_leaves_other_columns_as_they_are(spark: Any, settings: Any) -> None:
    rows = events(60, seed=2, ties=True)
    frame = (
        frame_of(spark, rows)
        .withColumn("pairs", F.create_map(F.col("s"), F.col("x")))
        .withColumn("inner", F.struct(F.timestamp_micros(F.col("t")).alias("at"), F.array("s")))
        .withColumn("money", F.col("t").cast("decimal(20, 3)"))
    )
    aggs = [sw.agg.sum("x"), sw.agg.median("x")]
    expected = sw.rolling(pa.Table.from_pylist(rows), by="k", time="t", over=[3, 40], aggs=aggs)
    for batch in (1, 10_000):
        with settings(spark__sql__execution__arrow__maxRecordsPerBatch=batch):
            found = sw.rolling(frame, by="k", time="t", over=[3, 40], aggs=aggs)
            answered, given = by_id(found.collect()), by_id(frame.collect())
            assert found.schema.fields[: len(frame.columns)] == frame.schema.fields
        for row in expected.to_pylist():
            mine = answered[row["id"]]
            assert [mine[n] for n in ("x_sum_3", "x_sum_40", "x_median_3")] == [
                row[n] for n in ("x_sum_3", "x_sum_40", "x_median_3")
            ]
            for name in ("pairs", "inner", "money", "s"):
                assert mine[name] == given[row["id"]][name]


def test_one_key_of_rolling_is_spread_over_partitions(spark: Any, settings: Any) -> None:
    frame = spark.range(2000).select(F.col("id").alias("t"), (F.col("id") % 7).alias("x"))
    with settings(spark__sql__adaptive__enabled="false"):
        found = sw.rolling(frame, time="t", over=5, aggs=sw.agg.sum("x"))
        rows = found.select("*", F.spark_partition_id().alias("p")).collect()
    assert len({row["p"] for row in rows}) > 1
    assert len(rows) == 2000
    for row in rows:
        assert row["x_sum_5"] == sum(n % 7 for n in range(max(0, row["t"] - 4), row["t"] + 1))


def test_a_hot_key_is_combined_before_the_shuffle(frame: Any, capsys: Any) -> None:
    def plan(agg: sw.Aggregate) -> str:
        hot = frame.withColumn("k", F.lit("a"))
        sw.windowed(hot, by="k", time="t", windows=sw.sliding(10, 5), aggs=agg).explain()
        return str(capsys.readouterr().out)

    # Plans are read upwards: what is further down runs earlier.
    native = plan(sw.agg.sum("x"))
    assert native.index("partial_sum") > native.rindex("Exchange hashpartitioning(")
    combined = plan(sw.agg.median("x"))
    assert combined.rindex("MapInArrow") > combined.rindex("Exchange hashpartitioning(")


class Tasks(sw.Aggregate):
    """The partitions in which states are made of events, in the order of their first event."""

    returns = pa.list_(pa.int64())

    def identity(self) -> tuple[int, ...]:
        return ()

    def lift(self, value: Any) -> tuple[int, ...]:
        context = TaskContext.get()
        return (context.partitionId() if context else 0,)

    def combine(self, older: tuple[int, ...], newer: tuple[int, ...]) -> tuple[int, ...]:
        return (*older, *(task for task in newer if task not in older))

    def lower(self, state: tuple[int, ...]) -> list[int]:
        return list(state)


@pytest.mark.parametrize("by", ["k", None])
@pytest.mark.parametrize(
    "windows",
    [sw.tumbling(50), sw.sliding(100, 10), [sw.sliding(90 + k, 30 + k) for k in range(20)]],
    ids=["tumbling", "sliding", "many"],
)
def test_a_hot_key_is_many_tasks_also_where_order_matters(
    spark: Any, settings: Any, windows: Any, by: Any
) -> None:
    frame = spark.range(2000).selectExpr("if(id % 10 < 9, 0, id) as k", "id as t", "id as x")
    with settings(spark__sql__adaptive__enabled="false"):
        found = sw.windowed(frame, by=by, time="t", windows=windows, aggs=Tasks("x"))
        rows = found.where("k = 0" if by else "true").collect()
    assert {task for row in rows for task in row["x_tasks"]} == {0, 1, 2}


def test_verbs_are_steps_of_a_chain(frame: Any) -> None:
    found = frame.transform(
        sw.rolling_by(by="k", time="t", over=10, aggs=sw.agg.max("x"))
    ).transform(
        sw.windowed_by(by="k", time="t", windows=sw.tumbling(20), aggs=sw.agg.max("x_max_10"))
    )
    assert "x_max_10_max" in found.columns
    assert found.count() > 0


def test_explain_says_what_runs_where(frame: Any) -> None:
    def text(**query: Any) -> str:
        return sw.explain(frame, by="k", time="t", **query)

    native = text(windows=sw.sliding(10, 5), aggs=sw.agg.sum("x"))
    assert "Spark cuts time into slices" in native
    assert "x_sum: compiled." in native
    apart = text(windows=sw.tumbling(10), aggs=sw.agg.sum("x"))
    assert "not shuffled again" in apart
    combined = text(windows=sw.sliding(10, 5), aggs=sw.agg.median("x"))
    assert "combiner" in combined
    assert "x_median: interpreted: it keeps every value" in combined
    sliced = text(windows=sw.sliding(10, 5), aggs=[sw.agg.first("x"), sw.agg.sum("x")])
    assert "x_first depend on the order of events" in sliced
    assert "the rows of each slice of each key (k) to one partition" in sliced
    assert "combiner" in sliced
    alone = text(windows=sw.tumbling(10), aggs=sw.agg.first("x"))
    assert "each instance is one slice" in alone
    assert "combiner" not in alone
    ordered = text(windows=sw.session(5), aggs=[sw.agg.first("x"), sw.agg.sum("x")])
    assert "the edges of session_5 depend on the events" in ordered
    assert "no merger runs" in apart
    rolled = text(over=10, aggs=sw.agg.sum("x"))
    for said in (native, combined, sliced, ordered, rolled):
        assert "boundary aggregator (SBA)" in said
    assert "ranges of 160" in text(over=10, aggs=sw.agg.sum("x"))
    assert "not cut" in text(over=sw.rows(3), aggs=sw.agg.sum("x"))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"time": "tt"}, ColumnError, "no column 'tt'.*Did you mean 't'"),
        ({"by": "kk"}, ColumnError, "no column 'kk'"),
        ({"time": "s"}, ColumnTypeError, "timestamps, dates or whole numbers; 's' holds string"),
        ({"aggs": sw.agg.sum("s")}, ColumnTypeError, "`sum` needs a column of numbers"),
        ({"aggs": []}, AggregateError, "at least one|takes aggregates"),
        ({"by": "map"}, ColumnTypeError, "cannot do with maps.*'map' holds array<map<string,int>>"),
    ],
)
def test_mistakes_are_found_on_the_driver(frame: Any, change: Any, error: Any, match: str) -> None:
    given = frame.withColumn("map", F.expr("array(map('a', 1))"))
    query: Any = {"by": "k", "time": "t", "aggs": sw.agg.sum("x"), **change}
    with pytest.raises(error, match=match):
        sw.windowed(given, windows=sw.tumbling(5), **query)
    with pytest.raises(error, match=match):
        sw.rolling(given, over=5, **query)


def test_keys_whose_collation_takes_different_texts_for_the_same_are_refused(spark: Any) -> None:
    rows = "values (1, 'a', 1), (2, 'A', 2), (3, 'b', 4) as rows(t, k, x)"
    plain = spark.sql(f"select * from {rows}")
    query: Any = {"by": "k", "time": "t", "aggs": sw.agg.sum("x")}
    verbs: Any = (
        lambda frame: sw.windowed(frame, windows=sw.tumbling(5), **query),
        lambda frame: sw.windowed(frame, windows=sw.session(5), **query),
        lambda frame: sw.rolling(frame, over=5, **query),
    )
    for made in ("k collate UTF8_LCASE", "array(k collate UTF8_LCASE)"):
        collated = plain.withColumn("k", F.expr(made))
        for verb in verbs:
            with pytest.raises(ColumnTypeError, match=r"collation UTF8_LCASE .*`F.collate\('k', "):
                verb(collated)
    collated = plain.withColumn("k", F.expr("k collate UTF8_LCASE"))
    for advice, sums in (
        (F.collate("k", "UTF8_BINARY"), {"a": 1, "A": 2, "b": 4}),
        (F.lower(F.collate("k", "UTF8_BINARY")), {"a": 3, "b": 4}),
    ):
        found = verbs[1](collated.withColumn("k", advice)).collect()
        assert {row["k"]: row["x_sum"] for row in found} == sums


@pytest.mark.parametrize(
    ("window", "match"),
    [
        (sw.tumbling(sw.units(5, on="s")), "needs integers or floats; 's', which"),
        (sw.threshold("s"), "A condition is a boolean column, and null is false; 's', the cond"),
        (sw.punctuated("x"), "'x', the condition of 'punctuated_x', holds"),
    ],
    ids=["units", "threshold", "punctuated"],
)
def test_columns_of_windows_are_checked_on_the_driver(frame: Any, window: Any, match: str) -> None:
    with pytest.raises(ColumnTypeError, match=match):
        sw.windowed(frame, by="k", time="t", windows=window, aggs=sw.agg.count())


def test_fractions_over_a_column_of_integers_are_not_cut_off(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 0), (2, 2), (3, 3)], "t int, km int")
    window = sw.tumbling(sw.units(2.5, on="km"))
    found = sw.windowed(frame, time="t", windows=window, aggs=sw.agg.count())
    rows = sorted((r["start"], r["end"], r["count"]) for r in found.collect())
    assert rows == [(0.0, 2.5, 2), (2.5, 5.0, 1)]


def test_a_key_cannot_have_the_name_of_a_result_column(frame: Any) -> None:
    renamed = frame.withColumnRenamed("k", "window")
    with pytest.raises(ColumnError, match="Rename that column first"):
        sw.windowed(renamed, by="window", time="t", windows=sw.tumbling(5), aggs=sw.agg.count())


def test_a_name_that_means_two_columns_is_refused(frame: Any) -> None:
    twice = frame.select("*", F.col("x"))
    with pytest.raises(ColumnError, match="2 columns named 'x'"):
        sw.windowed(twice, time="t", windows=sw.tumbling(5), aggs=sw.agg.sum("x"))


def test_an_aggregate_that_cannot_be_sent_is_named(frame: Any) -> None:
    class Locked(Longest):
        def __init__(self, *columns: str) -> None:
            super().__init__(*columns)
            self.lock = threading.Lock()

    with pytest.raises(CapabilityError, match="The aggregate 's_locked' cannot be sent"):
        sw.windowed(frame, by="k", time="t", windows=sw.tumbling(5), aggs=Locked("s"))
    with pytest.raises(CapabilityError, match="The aggregate 's_locked' cannot be sent"):
        sw.rolling(frame, by="k", time="t", over=5, aggs=Locked("s"))


def test_a_result_whose_type_cannot_be_told_must_be_declared(frame: Any) -> None:
    class Nothing(Longest):
        def lower(self, state: str) -> Any:
            return None

    class Declared(Nothing):
        returns = pa.string()

    with pytest.raises(AggregateError, match=r"returns = pa\.float64"):
        sw.windowed(frame, by="k", time="t", windows=sw.tumbling(5), aggs=Nothing("s"))
    found = sw.windowed(frame, by="k", time="t", windows=sw.tumbling(5), aggs=Declared("s"))
    assert found.schema["s_declared"].dataType == T.StringType()
    assert {row["s_declared"] for row in found.collect()} == {None}


@pytest.mark.parametrize("window", [sw.tumbling(5), sw.session(5)])
def test_an_error_in_an_aggregate_tells_its_message_name_and_key(frame: Any, window: Any) -> None:
    class Touchy(sw.Aggregate):
        commutative = True

        def identity(self) -> float:
            return 0.0

        def lift(self, value: Any) -> float:
            if value == 7:
                raise ValueError("seven is too much")
            return float(value)

        def combine(self, older: float, newer: float) -> float:
            return older + newer

        def lower(self, state: float) -> float:
            return state

    data = frame.withColumn("x", F.when(F.col("id") == 3, 7).otherwise(1).cast("bigint"))
    key = data.where("id = 3").first()["k"]
    found = sw.windowed(data, by="k", time="t", windows=window, aggs=Touchy("x"))
    with pytest.raises(PySparkException, match="seven is too much") as caught:
        found.collect()
    assert "'x_touchy'" in str(caught.value)
    assert f"key {key!r}" in str(caught.value)


@pytest.mark.parametrize("method", ["lift", "combine", "lower"])
def test_an_error_in_any_method_reaches_the_user_on_every_way(frame: Any, method: str) -> None:
    key = F.when(F.col("k") == "b", 99 if method == "lift" else 9).otherwise(0)
    data = frame.withColumn("x", key.cast("bigint"))
    for made in (
        sw.windowed(data, by="k", time="t", windows=sw.sliding(80, 8), aggs=Touchy("x", method)),
        sw.windowed(data, by="k", time="t", windows=sw.session(90), aggs=Touchy("x", method)),
        sw.rolling(data, by="k", time="t", over=90, aggs=Touchy("x", method)),
    ):
        with pytest.raises(PySparkException, match=f"too much for {method}") as caught:
            made.collect()
        assert "The aggregate 'x_touchy' failed for the key 'b'" in str(caught.value)


def test_options_of_streams_are_checked_on_a_bounded_frame_and_change_nothing(frame: Any) -> None:
    query: Any = {"by": "k", "time": "t", "aggs": sw.agg.sum("x")}
    options: Any = {"watermark": 5, "buckets": 3, "max_ahead": None}
    found, plain = (
        sw.rolling(frame, over=10, **query, **options),
        sw.rolling(frame, over=10, **query),
    )
    assert_same(by_id(found.collect()), by_id(plain.collect()))
    for wrong, match in (
        ({"watermark": "soon"}, "`watermark` is a length of time such as '10s'"),
        ({"buckets": 0}, "`buckets` is a number of groups of keys, from 1 to 32768"),
        ({"max_ahead": "far"}, "`max_ahead` is a length of time such as '10s'"),
    ):
        with pytest.raises(SpanError, match=match):
            sw.rolling(frame, over=10, **query, **wrong)
        with pytest.raises(SpanError, match=match):
            sw.windowed(frame, windows=sw.tumbling(10), **query, **wrong)


def test_mixed_windows_and_aggregates_scan_the_input_once(spark: Any, tmp_path: Any) -> None:
    frame_of(spark, events(40, seed=1)).write.parquet(str(tmp_path / "events"))
    stored = spark.read.parquet(str(tmp_path / "events"))
    free, session = [sw.sliding(10, 5), sw.tumbling(7)], sw.session(4)
    for windows, aggs in (
        (free, [sw.agg.sum("x"), sw.agg.max("y")]),
        (free, [sw.agg.sum("x"), sw.agg.median("x"), Longest("s")]),
        ([*free, session], [sw.agg.sum("x"), sw.agg.median("x"), sw.agg.last("s")]),
    ):
        found = sw.windowed(stored, by="k", time="t", windows=windows, aggs=aggs)
        assert found.count()
        plan = found._jdf.queryExecution().executedPlan().toString()
        # With adaptive execution a plan may be shown twice, as it was and as it is.
        assert plan.split("== Initial Plan ==")[0].count("FileScan parquet") == 1
