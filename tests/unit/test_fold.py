"""`sw.fold` on tables of every kind in this process."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import ColumnError, ColumnTypeError
from tests.support.folded import CURRENT, EMITTED

pytestmark = pytest.mark.smoke


def test_a_dict_of_lists() -> None:
    assert sw.fold(EMITTED) == CURRENT


def test_a_dict_of_arrays() -> None:
    found = sw.fold({**EMITTED, "n": np.arange(7), "end": pa.array(EMITTED["end"])})
    assert found["n"].tolist() == [3, 5]
    assert found["end"].to_pylist() == [5, 5]


def test_an_arrow_table_and_a_record_batch() -> None:
    assert sw.fold(pa.table(EMITTED)).to_pydict() == CURRENT
    found = sw.fold(pa.RecordBatch.from_pydict(EMITTED))
    assert isinstance(found, pa.RecordBatch)
    assert found.to_pydict() == CURRENT


def test_a_pandas_table_keeps_its_types_and_index() -> None:
    frame = pd.DataFrame(EMITTED).astype({"n": "Int64"})
    found = sw.fold(frame)
    expected = frame.loc[[3, 5], list(CURRENT)]
    pd.testing.assert_frame_equal(found, expected)


def test_a_pandas_table_with_its_keys_in_the_index() -> None:
    found = sw.fold(pd.DataFrame(EMITTED).set_index("k"), by="k")
    assert found["n"].tolist() == [4, 6]
    assert [None if pd.isna(key) else key for key in found.index] == ["a", None]


def test_polars_tables_eager_and_lazy() -> None:
    frame = pl.DataFrame(EMITTED)
    assert sw.fold(frame).to_dict(as_series=False) == CURRENT
    lazy = sw.fold(frame.lazy())
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().to_dict(as_series=False) == CURRENT


def test_rows_in_any_order_and_twice_give_the_same() -> None:
    table = pa.table(EMITTED)
    found = sw.fold(table.take([6, 5, 4, 3, 2, 1, 0, 5, 3, 0]))
    assert found.to_pydict() == {name: values[::-1] for name, values in CURRENT.items()}


def test_no_rows_fold_to_none() -> None:
    assert sw.fold(pa.table(EMITTED).slice(0, 0)).num_rows == 0


def test_without_a_key_and_with_several() -> None:
    alone = {name: values for name, values in EMITTED.items() if name != "k"}
    assert sw.fold(alone) == {"window": ["w"], "start": [0], "end": [5], "n": [6]}
    both = {"j": [1] * 6 + [2], **EMITTED}
    assert sw.fold(both)["start"] == [5, 0, 0]


def test_keys_that_do_not_stand_before_the_window_are_named() -> None:
    moved = {name: EMITTED[name] for name in [*list(EMITTED)[1:], "k"]}
    assert sw.fold(moved, by="k") == CURRENT
    assert sw.fold(moved, by=["k"]) == CURRENT


def test_nan_is_one_key_and_minus_zero_is_zero() -> None:
    keys = {"k": [math.nan, math.nan, 0.0, -0.0], "window": ["w"] * 4, "start": [0] * 4}
    rest = {"end": [5] * 4, "n": [1, 2, 3, 4], "revision": [0, 1, 0, 1], "retracted": [False] * 4}
    assert sw.fold(pa.table(keys | rest))["n"].to_pylist() == [2, 4]


def test_dropped_events_are_no_results() -> None:
    late = {name: [*values, None] for name, values in EMITTED.items()}
    late["late"] = [None] * 7 + [{"k": "a", "t": -90}]
    assert sw.fold(late) == CURRENT
    assert sw.fold(pa.table(late)).to_pydict() == CURRENT
    none = pa.table(EMITTED).append_column("late", pa.nulls(7))
    assert sw.fold(none).to_pydict() == CURRENT


def test_rows_that_are_final_stay_as_they_are_but_for_dropped_events() -> None:
    final = pa.table(CURRENT)
    assert sw.fold(final) is final
    late = {name: [*values, None] for name, values in CURRENT.items()}
    late["late"] = [None, None, {"k": "a", "t": -90}]
    assert sw.fold(late) == CURRENT


def test_a_key_or_aggregate_may_be_called_late() -> None:
    renamed = {"late" if name == "n" else name: values for name, values in EMITTED.items()}
    assert sw.fold(renamed)["late"] == [4, 6]
    key = {"late" if name == "k" else name: values for name, values in EMITTED.items()}
    assert sw.fold(key)["late"] == ["a", None]


@pytest.mark.parametrize("missing", ["window", "start", "end", "revision", "retracted"])
def test_a_table_that_lacks_a_column_is_refused(missing: str) -> None:
    rest = {name: values for name, values in EMITTED.items() if name != missing}
    with pytest.raises(ColumnError, match=f"There is no column '{missing}'"):
        sw.fold(rest)


def test_a_key_that_is_not_there_is_refused() -> None:
    with pytest.raises(ColumnError, match="There is no column 'key'"):
        sw.fold(EMITTED, by="key")


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match="A table is"):
        sw.fold([1, 2])
