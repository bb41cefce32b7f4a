"""Every aggregate of the registry on every type that Spark has: it answers as in process."""

from __future__ import annotations

import copy
import re
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import ColumnTypeError
from slicewise.spark.batch.native import computes
from slicewise.testing.oracle import alike
from slicewise.tuning import tuned
from tests.support.columns import COLUMNS, aggregates_on, columns_of, refused

# Spark has no such types, or takes moments without a zone for those of its own.
KINDS = [kind for kind in COLUMNS if kind not in ("uint64", "float16", "time", "timestamp")]
WINDOWS = [sw.sliding(10, every=5), sw.tumbling(100)]


def wide() -> pa.Table:
    """The columns of all types beside each other."""
    table = pa.table({"t": columns_of(KINDS[0])["t"]})
    for number, kind in enumerate(KINDS):
        for name in "xy":
            table = table.append_column(f"{name}{number}", columns_of(kind)[name])
    return table


def on(agg: sw.Aggregate, number: int) -> sw.Aggregate:
    """The aggregate on the columns of a type."""
    made = copy.copy(agg)
    made.columns = tuple(f"{name}{number}" for name in agg.columns)
    return made.alias(f"{agg.name}_{number}_{len(agg.columns)}")


def is_native(agg: sw.Aggregate, table: pa.Table) -> bool:
    bound = agg.bind([table[name].type for name in agg.columns] or [pa.int64()])
    return (
        computes(bound.components) and bound.finish is not None and bound.finish.spark is not None
    )


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(wide()).cache()


def answers(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {(row["window"], row["start"]): row for row in rows}


@pytest.mark.parametrize("native", [True, False], ids=["native", "combined"])
def test_all_forms_in_spark_give_the_answers_in_process(frame: Any, native: bool) -> None:
    table = wide()
    aggs = [on(agg, number) for number, kind in enumerate(KINDS) for agg in aggregates_on(kind)]
    chosen = [agg for agg in aggs if is_native(agg, table)] if native else aggs
    assert len(chosen) > (50 if native else 400)
    with tuned(kernels="by work"):  # what they compile to is compared without Spark
        expected = answers(sw.windowed(table, time="t", windows=WINDOWS, aggs=chosen).to_pylist())
    made = sw.windowed(frame, time="t", windows=WINDOWS, aggs=chosen)
    found = answers(made.toArrow().to_pylist())
    assert found.keys() == expected.keys()
    for instance, row in expected.items():
        for name, value in row.items():
            answer = found[instance][name]
            assert alike(answer, value), (instance, name, answer, value)


def test_what_is_refused_in_process_is_refused_by_spark_alike(frame: Any) -> None:
    table = wide()
    for number, kind in enumerate(KINDS):
        for agg in (on(agg, number) for agg in refused(kind)):
            messages = set()
            for data in (table, frame):
                with pytest.raises(ColumnTypeError, match=f"^`{agg.name}` ") as error:
                    sw.windowed(data, time="t", windows=WINDOWS, aggs=agg)
                # Moments of Spark are in the zone of its session, and items are called elements.
                said = re.sub("tz=[^]]*", "tz", str(error.value))
                messages.add(said.replace("<element:", "<item:"))
            assert len(messages) == 1, messages
