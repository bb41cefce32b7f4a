"""Mergers that are fed by hand in compiled code give what those of Python objects give."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, ColumnTypeError, EmptyWindowError
from slicewise.mergers import CATALOGUE
from slicewise.mergers.base import FlatMerger

FLAT = [entry.cls for entry in CATALOGUE.values() if issubclass(entry.cls, FlatMerger)]


@pytest.mark.parametrize("cls", FLAT, ids=lambda cls: cls.name)
@pytest.mark.parametrize("aggregate", [sw.agg.sum(), sw.agg.max(), sw.agg.count("x")], ids=repr)
def test_compiled_and_plain_windows_answer_alike(
    cls: type[FlatMerger], aggregate: sw.Aggregate
) -> None:
    if cls.properties.needs == "invertible" and not aggregate.invertible:
        with pytest.raises(CapabilityError, match="needs an aggregate with `invert`"):
            cls.compiled(aggregate, pa.int64())
        return
    random = np.random.default_rng(3)
    fast, plain = cls.compiled(aggregate, pa.int64()), cls(aggregate)
    for _ in range(60):
        values = random.integers(-99, 99, random.integers(0, 12)).tolist()
        values += [None] * int(random.integers(0, 2))
        fast.insert_many(pa.array(values, pa.int64()))
        plain.insert_many(values)
        assert fast.query() == plain.query()
        count = int(random.integers(0, len(plain) + 1))
        fast.evict_many(count)
        plain.evict_many(count)
        assert (fast.query(), len(fast)) == (plain.query(), len(plain))


@pytest.mark.parametrize("length", [1, 2, 9, 64])
@pytest.mark.parametrize("aggregate", [sw.agg.max(), sw.agg.var()], ids=repr)
def test_pba_slides_by_hand_in_compiled_code(length: int, aggregate: sw.Aggregate) -> None:
    values = np.random.default_rng(length).integers(0, 99, 500).astype(float)
    expected = sw.slide(values, aggregate, length, algorithm="recalc")
    window = sw.mergers.PBA.compiled(aggregate, pa.float64(), length=length)
    found = []
    for value in values:
        if len(window) == length:
            window.evict()
        window.insert(value)
        found.append(window.query())
    np.testing.assert_allclose(np.array(found, float), expected, atol=1e-9)


def test_the_suffixes_of_a_compiled_pba_are_made_by_another_thread() -> None:
    window = sw.mergers.PBA.compiled(sw.agg.max(), pa.float64(), length=1000)
    window.insert_many(np.arange(1000.0))
    window.evict_many(3)
    assert window.query() == 999.0
    names = [thread.name for thread in threading.enumerate()]
    assert any(name.startswith("slicewise-pba") for name in names)


def test_two_columns_come_as_a_tuple() -> None:
    window = sw.mergers.TwoStacks.compiled(sw.agg.weighted_mean(), pa.float64(), pa.float64())
    window.insert((10.0, 1.0))
    window.insert_many(([20.0], [3.0]))
    assert window.query() == 17.5


def test_what_a_compiled_merger_cannot_take_is_told() -> None:
    with pytest.raises(
        CapabilityError, match=r"`concat` is not compiled here: .*`TwoStacks` itself"
    ):
        sw.mergers.TwoStacks.compiled(sw.agg.concat(), pa.string())
    window: Any = sw.mergers.PBA.compiled(sw.agg.sum(), pa.int64(), length=4)
    with pytest.raises(ColumnTypeError, match="takes values of int64; given: double"):
        window.insert(2.5)
    window.insert_many([1, 2])
    for count in (-1, 3, 1.5):
        with pytest.raises(EmptyWindowError, match="between 0 and all 2 events of the window"):
            window.evict_many(count)
    assert (window.query(), len(window)) == (3, 2)
