"""Checkpoints that earlier releases wrote go on with the results that they would have had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.testing import fold, windowed_rows
from tests.support.checkpoints import (
    CASES,
    ROLLING,
    ROWS,
    WINDOWS,
    going_on,
    kept_results,
    unpacked,
)
from tests.support.spark import assert_same
from tests.support.streaming import TYPES, emitted, late

KEPT = Path(__file__).parents[1] / "data" / "checkpoints"
WANTED = kept_results(KEPT)


@pytest.mark.smoke
@pytest.mark.parametrize("name", WANTED)
def test_a_checkpoint_of_an_earlier_release_goes_on(spark: Any, tmp_path: Path, name: str) -> None:
    found = going_on(spark, CASES[name], *unpacked(name, KEPT, tmp_path))
    assert found["after"]
    assert found["open"]
    assert found == {part: WANTED[name][part] for part in ("after", "open")}


@pytest.mark.parametrize("name", WANTED)
def test_the_results_that_are_kept_are_those_of_all_events(name: str) -> None:
    before, after, still_open = (
        [*map(json.loads, WANTED[name][part])] for part in ("before", "after", "open")
    )
    rows = [*before, *after, *still_open]
    if name == "rolling":
        whole = sw.rolling(pa.Table.from_pylist(ROWS, TYPES), **ROLLING).to_pylist()
        expected = {row["id"]: row for row in whole}
        assert_same({row["id"]: row for row in rows}, expected)
        return
    assert not late(row for row in rows if row.get("late"))
    assert name != "revised" or any(row["revision"] for row in after)
    assert_same(fold(emitted(rows)), windowed_rows(ROWS, **WINDOWS))


def test_there_is_a_checkpoint_of_each_stream() -> None:
    assert CASES.keys() == WANTED.keys()
