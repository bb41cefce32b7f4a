"""Keys get codes in the order of their first event, whatever their type and however they come."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.arrays.grouping import frozen
from slicewise.arrays.keys import Keys
from slicewise.arrays.text_table import TextTable
from slicewise.errors import ColumnTypeError
from slicewise.testing import fold

WHOLE = st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text("ab\u00e9\U0001f600", max_size=4) | st.text(max_size=12)
DAYS = st.none() | st.dates()
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), WHOLE),
    (pa.int8(), st.none() | st.integers(-128, 127)),
    (pa.date32(), DAYS),
    (pa.timestamp("us", "UTC"), st.none() | st.datetimes().map(lambda t: t.replace(tzinfo=None))),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.none() | st.binary(max_size=5)),
    (pa.large_binary(), st.none() | st.binary(max_size=5)),
    (pa.float64(), st.none() | st.floats(allow_nan=False)),
    (pa.bool_(), st.none() | st.booleans()),
]


def coded(keys: Keys, batches: list[pa.Array]) -> None:
    """Hold the codes of batches against those of a dict."""
    known: dict[Any, int] = {}
    for batch in batches:
        codes = keys.codes([batch], len(batch))
        values = batch.to_pylist()
        for code, value in zip(codes.tolist(), values, strict=True):
            assert known.setdefault(value, code) == code
        assert sorted(known.values()) == list(range(len(known))) == list(range(len(keys)))
        (array,) = keys.arrays()
        assert array.to_pylist() == sorted(known, key=known.__getitem__)
        array.validate(full=True)
        (taken,) = keys.take(codes)
        assert taken.to_pylist() == values
        assert taken.type == array.type
        taken.validate(full=True)
    fresh = Keys(["k"])
    fresh.load(keys.arrays())
    for batch in batches:
        assert fresh.codes([batch], len(batch)).tolist() == [known[v] for v in batch.to_pylist()]
    assert len(fresh) == len(known)


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_equal_keys_have_one_code_and_different_ones_have_two(
    kind: pa.DataType, values: st.SearchStrategy[Any]
) -> None:
    @given(st.lists(st.lists(values, min_size=1, max_size=40), min_size=1, max_size=4))
    def check(batches: list[list[Any]]) -> None:
        # Each is a part of a longer array, so that it begins in the middle of buffers.
        arrays = [pa.array([None, *batch, None], kind)[1:-1] for batch in batches]
        coded(Keys(["k"]), arrays)

    check()


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=60), min_size=1, max_size=4))
def test_texts_whose_marks_are_equal_are_told_apart(batches: list[list[Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextTable, "spread", 3 << 40)  # four marks for all texts
        coded(Keys(["k"]), [pa.array(batch, pa.string()) for batch in batches])


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_table_grows_with_its_keys(kind: pa.DataType) -> None:
    random = np.random.default_rng(1)
    keys = Keys(["k"])
    numbers = [random.integers(0, 5000 * 4**k, 3000) for k in range(5)]
    coded(keys, [pa.array(some).cast(kind) for some in numbers])


def test_numbers_that_lie_close_together_may_come_apart() -> None:
    # The range grows to both sides, up to the least and the greatest number.
    near, below, above = range(100, 180), range(-900, 110), [None, *range(170, 4000)]
    far = [-(2**63), 2**63 - 1, 120, 55, None]
    coded(Keys(["k"]), [pa.array(some, pa.int64()) for some in (near, below, above, far, near)])


def test_texts_of_any_length_are_taken_whole() -> None:
    texts = ["", "a" * 70_000, "b", "", "c" * 33]
    coded(Keys(["k"]), [pa.array(texts), pa.array(texts[::-1])])


@pytest.mark.parametrize("spread", [-1, 3 << 40])
def test_texts_that_differ_in_one_byte_are_different(
    monkeypatch: pytest.MonkeyPatch, spread: int
) -> None:
    monkeypatch.setattr(TextTable, "spread", spread)
    texts = [
        "a" * place + "b" + "a" * (length - place - 1)
        for length in range(27)
        for place in range(max(length, 1))
    ]
    coded(Keys(["k"]), [pa.array(texts), pa.array([*texts[::-1], *("a" * n for n in range(27))])])


@pytest.mark.parametrize("values", [["b", None, "a"], [5, None, 7]])
def test_keys_with_and_without_a_dictionary_are_the_same(values: list[Any]) -> None:
    plain = pa.array(values)
    spare = pa.array([*values[:1], *values])  # the dictionary has more than occurs
    coded(Keys(["k"]), [spare.dictionary_encode()[2:], plain, plain.dictionary_encode()])
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.count()], time="t", by="k")
    op.process({"t": [1, 2, 3], "k": plain})
    op.process({"t": [1, 2, 3], "k": plain.dictionary_encode()})
    assert {r.key: r.values["count"] for r in op.advance(20)} == dict.fromkeys(values, 2)


def test_arrays_that_were_handed_out_stay_as_they_are() -> None:
    keys = Keys(["k"])
    keys.codes([pa.array(["x", "yy"])], 2)
    (before,) = keys.arrays()
    keys.codes([pa.array([f"more {k}" for k in range(5000)])], 5000)
    assert before.to_pylist() == ["x", "yy"]


def test_texts_that_are_too_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(["k"])
    keys.codes([pa.array(["x"])], 1)
    assert isinstance(keys._table, TextTable)
    keys._table.ends[1] = 2**31 - 5
    with pytest.raises(pa.ArrowCapacityError, match="too many for string"):
        keys.codes([pa.array(["some more"])], 1)


UUIDS = [uuid.UUID(int=number) for number in (7, 5, 7)]
# Of each type three keys, the first and the last of which are equal.
SUPPORTED: dict[str, Any] = {
    "decimal": pa.array([Decimal("1.10"), Decimal("-2"), Decimal("1.10")]),
    "date": pa.array([dt.date(2024, 2, 1), dt.date(2024, 1, 1), dt.date(2024, 2, 1)]),
    "time": pa.array([dt.time(2), dt.time(1), dt.time(2)]),
    "duration": pa.array([dt.timedelta(2), dt.timedelta(1), dt.timedelta(2)]),
    "timestamp": pa.array([dt.datetime(2024, 2, 1), dt.datetime(2024, 1, 1)] * 2)[:3],
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([u.bytes for u in UUIDS], pa.binary(16))
    ),
    "fixed-size binary": pa.array([u.bytes for u in UUIDS], pa.binary(16)),
    "binary": pa.array([b"b", b"a", b"b"]),
    "boolean": pa.array([True, False, True]),
    "float": pa.array([1.5, -1.5, 1.5]),
    "nan": pa.array([math.nan, 2.0, math.nan]),
    "zero": pa.array([-0.0, -1.0, 0.0]),
    "null": pa.array([5, None, 5]),
    "category": pa.array(["b", "a", "b"]).dictionary_encode(),
    "text": pa.array(["b", "a", "b"]),
    "list": pa.array([[1, math.nan], [1, None], [1, math.nan]]),
    "longer": pa.array([["a", "b"], ["a"], ["a", "b"]]),
    "struct": pa.array([{"a": 1, "b": [2]}, {"a": 1, "b": [1, 3]}, {"a": 1, "b": [2]}]),
    "no struct": pa.array([{"a": 0.0}, None, {"a": -0.0}]),
    "map": pa.array([[("a", 2)], [("a", 1)], [("a", 2)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", SUPPORTED)
def test_keys_of_any_hashable_type_are_grouped_and_handed_out_again(
    kind: str, several: bool
) -> None:
    column = SUPPORTED[kind]
    table = pa.table({"k": column, "j": [1, 1, 1], "t": [1, 2, 3], "x": [1, 2, 4]})
    by: Any = ["k", "j"] if several else "k"
    made: Any = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.sum("x")], "time": "t", "by": by}
    # Compared as texts, since NaN equals nothing and -0.0 equals 0.0.
    first, second = (0.0, -1.0) if kind == "zero" else column.to_pylist()[:2]
    op = sw.Operator(**made)
    op.process(table)
    op.process(table)
    again = sw.Operator.restore(op.snapshot())
    again.process(table)
    keys = (frozen(first), 15), (frozen(second), 6)
    expected = {repr((key, 1) if several else key): x for key, x in keys}
    assert {repr(r.key): r.values["x_sum"] for r in again.advance(math.inf)} == expected
    # In a table null is the least and NaN the greatest.
    answer = sw.windowed(table, **made)
    assert answer.schema.field("k").type in (column.type, getattr(column.type, "value_type", None))
    assert list(map(repr, answer["k"].to_pylist())) == [repr(second), repr(first)]
    assert answer["x_sum"].to_pylist() == [2, 5]


def test_tuples_are_keys() -> None:
    """Also in pandas; they come back as tuples from `advance` and fold like any key."""
    made: Any = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.sum("x")], "time": "t", "by": "k"}
    pairs = [("a", "b"), ("a",), ("a", "b")]
    op = sw.Operator(**made)
    op.process([{"t": t, "k": k, "x": 1} for t, k in enumerate(pairs)])
    found = op.advance(math.inf)
    assert {r.key: r.values["x_sum"] for r in found} == {("a", "b"): 2, ("a",): 1}
    assert (("a", "b"), "tumbling_10", 0, 10) in fold(found)
    numbers = [(2, 1), (1, 5), (2, 1)]
    frame = pd.DataFrame({"t": [1, 2, 3], "x": [1, 2, 4], "k": pd.Series(numbers, dtype=object)})
    answer = sw.windowed(frame, **made)
    assert list(map(tuple, answer["k"])) == [(1, 5), (2, 1)]
    assert answer["x_sum"].tolist() == [2, 5]
    rolled = sw.rolling(frame, by="k", time="t", over=10, aggs=sw.agg.sum("x"))
    assert rolled["x_sum_10"].tolist() == [1, 2, 5]


REFUSED: dict[str, tuple[Any, str]] = {
    "set": ([frozenset([1]), frozenset([2])], r"values of one type.*frozenset"),
    "mixed": ([1, "a"], r"values of one type.*'a'"),
    "complex": ([1j, 2j], r"values of one type.*complex"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_keys_that_arrow_has_no_type_for_are_refused(kind: str) -> None:
    values, message = REFUSED[kind]
    made: Any = {"windows": [sw.tumbling(10)], "aggs": [sw.agg.count()], "time": "t", "by": "k"}
    rows = [{"t": 1, "k": values[0]}, {"t": 2, "k": values[1]}]
    frame = pd.DataFrame({"t": [1, 2], "k": pd.Series(values, dtype=object)})
    for batch in (rows, {"t": [1, 2], "k": values}, frame):
        with pytest.raises(ColumnTypeError, match=message):
            sw.Operator(**made).process(batch)
    with pytest.raises(ColumnTypeError, match=message.replace("one type", "mixed types")):
        sw.windowed(frame, **made)
