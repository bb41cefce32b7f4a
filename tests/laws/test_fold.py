"""Folding what was emitted gives the answer of the whole table, in whatever order it arrives."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.spark.sinks.sql_stores import SqliteUpsert
from slicewise.testing import Oracle, fold, windowed_rows
from slicewise.testing.oracle import alike
from slicewise.testing.strategies import Step, steps, windows
from slicewise.windows import Window

AGGS = [sw.agg.sum("x"), sw.agg.count(), sw.agg.last("s")]
modes = st.sampled_from(["on_close", "on_update", "final"])
KEYS = ("a", None)
# A batch whose keys are all null would have no type otherwise.
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("k", "s"), pa.string()),
        **dict.fromkeys(("t", "x", "km"), pa.int64()),
        "flag": pa.bool_(),
    }
)


def emitted(op: sw.Operator, script: list[Step]) -> list[pa.Table]:
    tables = []
    for verb, given_ in script:
        if verb == "process":
            op.process(pa.Table.from_pylist(given_, SCHEMA))
        else:
            tables.append(op.advance_arrow(given_))
    return tables


def together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def by_instance(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    found = {}
    for row in rows:
        identity = tuple(row.pop(name) for name in ("k", "window", "start", "end"))
        assert identity not in found, f"{identity} came twice"
        found[identity] = row
    return found


def the_answer(made: dict[str, Any], script: list[Step]) -> dict[Any, dict[str, Any]]:
    """The definition's answer: that of the whole table, where no event came below the horizon."""
    oracle = Oracle(**made)
    emissions: list[Any] = []
    rows: list[Any] = []
    in_time = True
    for step in script:
        if step[0] == "advance":
            emissions += oracle.advance(step[1])
            continue
        given_ = step[1]
        rows += given_
        in_time &= all(row["t"] >= oracle.watermark - made["lateness"] for row in given_)
        emissions += oracle.process(given_)
    if not in_time:
        return fold(emissions)
    return windowed_rows(rows, windows=made["windows"], aggs=AGGS, time="t", by="k")


def query(defined: list[Window], emit: str, lateness: int) -> dict[str, Any]:
    """User windows see each event once, so they cannot be revised."""
    kept = [window for window in defined if not isinstance(window, sw.UserWindow)]
    made: dict[str, Any] = {"windows": kept or [sw.session(4)], "aggs": AGGS, "time": "t"}
    return {**made, "by": "k", "emit": emit, "lateness": lateness}


@given(windows(), modes, steps(keys=KEYS), st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_fold_of_what_was_emitted_is_the_answer_of_the_whole_table(
    defined: list[Window], emit: str, script: list[Step], lateness: int, random: Any
) -> None:
    made = query(defined, emit, lateness)
    table = together(emitted(sw.Operator(**made), script))
    # Rows that come in another order, and some of them twice.
    order = random.sample(range(table.num_rows), table.num_rows)
    rows = table.take(pa.array([*order, *order[::2]], pa.int64()))
    folded = sw.fold(rows)
    assert folded.column_names == ["k", "window", "start", "end", *(a.output for a in AGGS)]
    found, expected = by_instance(folded.to_pylist()), the_answer(made, script)
    assert found.keys() == expected.keys()
    for identity, values in expected.items():
        assert alike(found[identity], values)


@given(windows(), st.sampled_from(["on_close", "on_update"]), steps(keys=KEYS), st.integers(0, 30))
def test_every_emission_of_an_instance_has_a_revision_of_its_own(
    defined: list[Window], emit: str, script: list[Step], lateness: int
) -> None:
    table = together(emitted(sw.Operator(**query(defined, emit, lateness)), script))
    names = [table[name].to_pylist() for name in ("k", "window", "start", "end", "revision")]
    emissions = list(zip(*names, strict=True))
    assert len(set(emissions)) == len(emissions)


@given(
    windows(),
    st.sampled_from(["on_close", "on_update"]),
    steps(keys=KEYS),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_a_table_kept_by_upserts_is_the_fold_whatever_is_repeated_or_late(
    defined: list[Window], emit: str, script: list[Step], lateness: int, random: Any
) -> None:
    tables = emitted(sw.Operator(**query(defined, emit, lateness)), script)
    expected = sw.fold(together(tables)).to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers.db")
        keep = SqliteUpsert(f"sqlite:///{path}", "answers", None)
        for table in random.sample([*tables, *tables], 2 * len(tables)):
            keep.take(table)
        with closing(sqlite3.connect(path)) as connection:
            cursor = connection.execute("select * from answers")
            names = [entry[0] for entry in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert by_instance(found) == by_instance(expected)
