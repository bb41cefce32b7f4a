"""Keys get codes in the order of their first event, whatever their type and however they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.slicing.keys import Keys
from slicewise.slicing.text_table import TextTable

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
        patch.setattr(TextTable, "spread", 3 << 20)  # four marks for all texts
        coded(Keys(["k"]), [pa.array(batch, pa.string()) for batch in batches])


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_table_grows_with_its_keys(kind: pa.DataType) -> None:
    random = np.random.default_rng(1)
    keys = Keys(["k"])
    numbers = [random.integers(0, 5000 * 4**k, 3000) for k in range(5)]
    coded(keys, [pa.array(some).cast(kind) for some in numbers])


def test_numbers_that_lie_close_together_may_come_apart() -> None:
    # The range grows to both sides, then the numbers are too far apart to be counted.
    near, below, above = range(100, 180), range(-900, 110), [None, *range(170, 4000)]
    far = [-(2**63), 2**63 - 1, 120, 55, None]
    coded(Keys(["k"]), [pa.array(some, pa.int64()) for some in (near, below, above, far, near)])


def test_texts_of_any_length_are_taken_whole() -> None:
    texts = ["", "a" * 70_000, "b", "", "c" * 33]
    coded(Keys(["k"]), [pa.array(texts), pa.array(texts[::-1])])


@pytest.mark.parametrize("spread", [-1, 3 << 20])
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
