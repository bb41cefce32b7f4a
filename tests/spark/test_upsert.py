"""Tables that `sw.upsert` keeps from a stream."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import functions as F

import slicewise as sw
from slicewise.errors import CapabilityError, TargetError
from slicewise.spark.sinks.parquet_store import KEPT, ParquetUpsert
from tests.support.folded import CURRENT, EMITTED
from tests.support.folded_frames import EMITTED_SCHEMA, expected, frame, rows_of
from tests.support.spark import SCHEMA, assert_same, events
from tests.support.spark import answers as by_instance


def some(spark: Any, *places: int) -> Any:
    """Some of the emitted rows."""
    chosen = {name: [values[place] for place in places] for name, values in EMITTED.items()}
    return spark.createDataFrame([*zip(*chosen.values(), strict=True)], EMITTED_SCHEMA)


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("version-*"))


@pytest.fixture
def keep(tmp_path: Path) -> Any:
    return sw.upsert(tmp_path / "answers")


def test_a_folder_holds_the_current_answer_whatever_is_repeated_or_late(
    spark: Any, keep: Any
) -> None:
    for number, places in enumerate([(3, 1), (0, 6), (2, 4), (1, 5), (0, 6, 2), (4,)]):
        keep(some(spark, *places), number)
    found = keep.read(spark)
    assert found.columns == list(CURRENT)
    assert rows_of(found) == expected(CURRENT)


def test_what_was_retracted_is_remembered(spark: Any, keep: Any) -> None:
    for places in ([2], [6], [2]):
        keep(some(spark, *places), 0)
    assert keep.read(spark).collect() == []


def test_final_rows_and_dropped_events(spark: Any, keep: Any) -> None:
    late = {name: [*values, None] for name, values in CURRENT.items()}
    late["late"] = [None, None, (3, "a")]
    schema = EMITTED_SCHEMA.partition(", revision")[0] + ", late struct<t bigint, k string>"
    emitted = frame(spark, late, schema)
    keep(emitted, 0)
    keep(emitted, 0)
    assert rows_of(keep.read(spark)) == expected(CURRENT)


def test_a_batch_without_rows_writes_nothing_but_the_first(spark: Any, keep: ParquetUpsert) -> None:
    for number in range(3):
        keep(some(spark, 0).limit(0), number)
    assert versions(keep.folder) == ["version-000001"]
    assert keep.read(spark).columns == list(CURRENT)
    assert keep.read(spark).collect() == []


def test_a_version_that_was_not_finished_is_never_seen(
    spark: Any, keep: ParquetUpsert, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(some(spark, 0), 0)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    newer = some(spark, 3)
    for name in ("rmtree", "rename"):  # as if killed, and as if stopped
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", interrupted)
            if name == "rmtree":
                patched.setattr("slicewise.spark.sinks.parquet_store.shutil.rmtree", interrupted)
            with pytest.raises(KeyboardInterrupt):
                keep(newer, 1)
        assert versions(keep.folder) == ["version-000001"]
        assert [row.n for row in keep.read(spark).collect()] == [1]
    assert len([*keep.folder.glob("writing-*")]) == 1
    keep(some(spark, 3, 5), 1)
    assert rows_of(keep.read(spark)) == expected(CURRENT)
    for number in range(KEPT):
        keep(some(spark, 3, 5), 2 + number)
    assert [*keep.folder.glob("writing-*")] == []  # what was left behind is gone


def test_a_reader_can_finish_while_newer_versions_are_written(
    spark: Any, keep: ParquetUpsert
) -> None:
    keep(some(spark, 0), 0)
    before = keep.read(spark)
    for number in range(1, KEPT):
        keep(some(spark, 3), number)
    assert [row.n for row in before.collect()] == [1]
    keep(some(spark, 3), KEPT)
    assert len(versions(keep.folder)) == KEPT
    assert [row.n for row in keep.read(spark).collect()] == [4]


def test_any_other_tool_finds_the_current_files(spark: Any, keep: ParquetUpsert) -> None:
    import pandas as pd

    keep(some(spark, *range(7)), 0)
    current = json.loads((keep.folder / "current").read_text())
    found = pd.read_parquet(keep.folder / current["folder"] / "retracted=false")
    assert sorted(found["n"]) == [4, 6]


def test_aggregates_may_come_and_go(spark: Any, keep: Any) -> None:
    keep(some(spark, 0, 1, 2), 0)
    keep(some(spark, 3, 4).withColumnRenamed("n", "m"), 1)
    found = {row.start: (row.n, row.m) for row in keep.read(spark).collect()}
    assert found == {0: (None, 4), 5: (3, None)}


def test_other_keys_are_refused(spark: Any, keep: Any) -> None:
    keep(some(spark, 0), 0)
    with pytest.raises(TargetError, match=r"has the keys \['k'\]; this stream has \['j', 'k'\]"):
        keep(some(spark, 0).selectExpr("1 as j", "*"), 1)


def test_a_folder_without_a_table_or_of_a_newer_version_is_refused(
    spark: Any, keep: ParquetUpsert
) -> None:
    with pytest.raises(TargetError, match=r"There is no table in .* yet"):
        keep.read(spark)
    keep.folder.mkdir()
    (keep.folder / "current").write_text(json.dumps({"format": 3}))
    with pytest.raises(TargetError, match="was written in format 3"):
        keep.read(spark)


def test_writers_of_one_folder_lose_nothing(
    spark: Any, keep: ParquetUpsert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three writers begin at the same version, one falls far behind, and one is behind forever."""
    batches = [
        some(spark, 0).selectExpr("k", "window", f"{n} start", "end", "n", "revision", "retracted")
        for n in range(6)
    ]
    keep(batches[5], 0)
    barrier, publish = Barrier(3), ParquetUpsert._publish
    waiting = [0, 1, 2]

    def together(self: ParquetUpsert, written: Path, number: int) -> bool:
        if waiting:
            waiting.pop()
            barrier.wait(120)  # all have written, from the same version
        return publish(self, written, number)

    monkeypatch.setattr(ParquetUpsert, "_publish", together)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: keep(batches[n], 0), range(3)))
    assert {row.start for row in keep.read(spark).collect()} == {0, 1, 2, 5}
    monkeypatch.setattr(ParquetUpsert, "_publish", publish)
    others = [3, 0, 1, 2]

    def overtaken(self: ParquetUpsert, written: Path, number: int) -> bool:
        while others:  # so many versions come in between that its own number is gone
            keep(batches[others.pop()], 0)
        return publish(self, written, number)

    with monkeypatch.context() as patched:
        patched.setattr(ParquetUpsert, "_publish", overtaken)
        keep(batches[4], 0)
    assert {row.start for row in keep.read(spark).collect()} == set(range(6))
    assert json.loads((keep.folder / "current").read_text())["folder"] == versions(keep.folder)[-1]
    assert len(versions(keep.folder)) == KEPT
    assert {path.name.split("-")[0] for path in keep.folder.iterdir()} == {"current", "version"}


@pytest.mark.parametrize("name", ["a[b]c", "{a,b}?*\\x%41 #é", "a:b"])
def test_a_folder_may_have_any_name(spark: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "abc" / "version-000001" / "retracted=false").mkdir(parents=True)
    keep = sw.upsert(tmp_path / name)
    keep(some(spark, 0, 1, 2), 0)
    keep(some(spark, 3, 4, 5, 6), 1)
    assert rows_of(keep.read(spark)) == expected(CURRENT)


def test_a_column_that_changes_its_type_is_widened_or_refused(spark: Any, keep: Any) -> None:
    def typed(**kinds: str) -> Any:
        columns = [f"cast({n} as {kinds.get(n, kind)}) {n}" for n, kind in some(spark).dtypes]
        return some(spark, 0, 1).selectExpr(*columns)

    keep(typed(n="int"), 0)
    before = rows_of(keep.read(spark))
    for name, kind in (
        ("n", "double"),
        ("n", "string"),
        ("n", "decimal(10,2)"),
        ("n", "boolean"),
        ("start", "double"),
        ("k", "binary"),
    ):
        message = rf"holds \w+ in the column '{name}'; this stream brings {kind[:6]}.*Nothing was w"
        with pytest.raises(TargetError, match=message):
            keep(typed(**{"n": "int", name: kind}).selectExpr("*", "1 m"), 1)
        assert rows_of(keep.read(spark)) == before
    large = 2**62 + 1
    keep(some(spark, 3).withColumn("n", F.lit(large)), 1)
    assert dict(keep.read(spark).dtypes)["n"] == "bigint"
    assert large in [row.n for row in keep.read(spark).collect()]
    keep(typed(n="smallint"), 1)
    assert dict(keep.read(spark).dtypes)["n"] == "bigint"


def test_columns_whose_names_differ_in_case_are_refused(spark: Any, keep: Any) -> None:
    message = "Spark takes the columns 'n' and 'N' for one"
    with pytest.raises(TargetError, match=message):
        keep(some(spark, 0).selectExpr("*", "1 N"), 0)
    keep(some(spark, 0), 0)
    with pytest.raises(TargetError, match=message):
        keep(some(spark, 0).withColumnRenamed("n", "N"), 0)


def test_a_stream_is_refused(spark: Any, keep: Any) -> None:
    with pytest.raises(CapabilityError, match="this is the stream itself"):
        keep(spark.readStream.format("rate").load(), 0)


@pytest.mark.smoke
def test_the_tables_of_a_stream_are_the_fold_of_what_it_emitted(spark: Any, tmp_path: Path) -> None:
    rows = sorted(events(240, seed=12), key=lambda row: row["t"] + 11 * (row["id"] % 7))
    for begin in range(0, 240, 60):
        part = [tuple(row.values()) for row in rows[begin : begin + 60]]
        made = spark.createDataFrame(part, SCHEMA).coalesce(1)
        made.write.mode("append").parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    windows = [sw.session(3), sw.sliding(20, every=5)]
    emitted = sw.windowed(
        stream.parquet(str(tmp_path / "events")),
        by="k",
        time="t",
        windows=windows,
        aggs=[sw.agg.sum("x"), sw.agg.collect("s")],
        watermark=10,
        lateness=40,
        buckets=2,
        keep_late=True,
    )
    folder = sw.upsert(tmp_path / "answers")
    database = sw.upsert(f"sqlite:///{tmp_path}/answers.db", table="answers")

    def each(batch: Any, number: int) -> None:
        batch.persist()
        for keep in (folder, database, folder, database):
            keep(batch, number)
        batch.write.mode("append").parquet(str(tmp_path / "emitted"))
        batch.unpersist()

    query = emitted.writeStream.foreachBatch(each).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(300)

    log = spark.read.parquet(str(tmp_path / "emitted"))
    assert log.where("retracted").count() > 0
    assert log.where("late is not null").count() > 0
    folded = by_instance(sw.fold(log))
    assert len(folded) > 50
    assert_same(by_instance(folder.read(spark)), folded)
    with closing(sqlite3.connect(tmp_path / "answers.db")) as connection:
        stored = connection.execute("select * from answers").fetchall()
    assert_same(
        {row[:4]: {"x_sum": row[4], "s_collect": json.loads(row[5])} for row in stored}, folded
    )
