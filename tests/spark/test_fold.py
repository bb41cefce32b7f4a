"""`sw.fold` on DataFrames of emitted rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, ColumnError
from slicewise.testing.oracle import alike
from tests.support.folded import CURRENT, EMITTED
from tests.support.folded_frames import EMITTED_SCHEMA, expected, frame, rows_of
from tests.support.spark import events


def test_of_each_instance_the_last_revision_stays(spark: Any) -> None:
    emitted = frame(spark, EMITTED, EMITTED_SCHEMA)
    found = sw.fold(emitted.union(emitted))
    assert found.columns == list(CURRENT)
    assert rows_of(found) == expected(CURRENT)


def test_columns_keep_their_order_and_may_have_any_name(spark: Any) -> None:
    emitted = frame(spark, EMITTED, EMITTED_SCHEMA).selectExpr(
        "window", "start", "end", "n as rest", "n as `a.b`", "map(1, n) as m", "k as `K 1`",
        "revision", "n as k0", "retracted",
    )  # fmt: skip
    found = sw.fold(emitted, by="K 1")
    assert found.columns == ["window", "start", "end", "rest", "a.b", "m", "K 1", "k0"]
    assert rows_of(found.select("K 1", "window", "start", "end", "`a.b`")) == expected(CURRENT)
    with pytest.raises(ColumnError, match="columns named 'rest'"):
        sw.fold(emitted.selectExpr("*", "1 as rest"), by="K 1")


def test_dropped_events_are_no_results(spark: Any) -> None:
    late = {name: [*values, None] for name, values in EMITTED.items()}
    late["late"] = [None] * 7 + [(3, "a")]
    emitted = frame(spark, late, f"{EMITTED_SCHEMA}, late struct<t bigint, k string>")
    assert rows_of(sw.fold(emitted)) == expected(CURRENT)
    final = sw.fold(emitted.drop("revision", "retracted"))
    assert final.columns == list(CURRENT)
    assert final.count() == 7


def test_rows_that_are_final_stay_as_they_are(spark: Any) -> None:
    final = frame(spark, EMITTED, EMITTED_SCHEMA).drop("revision", "retracted")
    assert sw.fold(final) is final


def test_it_agrees_with_the_fold_of_tables_in_this_process(spark: Any) -> None:
    op = sw.Operator(
        windows=[sw.session(3), sw.sliding(10, every=4), sw.tumbling(sw.rows(3))],
        aggs=[sw.agg.sum("x"), sw.agg.collect("s"), sw.agg.max("y")],
        time="t",
        by="k",
        lateness=500,
        emit="on_update",
    )
    tables, rows = [], events(200, seed=11)
    for begin in range(0, 200, 20):
        batch = rows[begin : begin + 20]
        op.process(batch)
        tables.append(op.advance_arrow(max(row["t"] for row in batch) - 30))
    table = pa.concat_tables(tables, promote_options="permissive")
    emitted = spark.createDataFrame(table).repartition(4)
    assert table.filter(pc.field("retracted")).num_rows > 10
    found = sorted(sw.fold(emitted).toArrow().to_pylist(), key=repr)
    assert alike(found, sorted(sw.fold(table).to_pylist(), key=repr))


def test_a_stream_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(CapabilityError, match="this is the stream itself"):
        sw.fold(stream)


def test_a_table_that_was_not_emitted_is_refused(spark: Any) -> None:
    with pytest.raises(ColumnError, match="There is no column 'window'"):
        sw.fold(spark.range(3))
