"""Delta windows: a new instance whenever a column has moved far enough."""

import math
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import ColumnTypeError, WindowError
from slicewise.testing.definitions import Event, instances

PRICES = [100, 103, 105, 101, 99, None, 94, 95]
# opens:    0         2        4         6     and the last instance waits for its end


def rows(prices: list[Any] = PRICES) -> dict[str, list[Any]]:
    return {"t": list(range(len(prices))), "price": prices}


def by_row(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def test_an_event_that_has_moved_by_as_much_opens_the_next_instance() -> None:
    table = sw.windowed(
        rows(),
        time="t",
        windows=sw.delta("price", by=5),
        aggs=[sw.agg.count(), sw.agg.sum("price")],
    )
    found = [(r["start"], r["end"], r["count"], r["price_sum"]) for r in by_row(table)]
    assert found == [(0, 2, 2, 203), (2, 4, 2, 206), (4, 6, 2, 99)]


def test_the_definition_its_arithmetic_and_its_slow_twin_agree() -> None:
    window = sw.delta("price", by=5, name="w")
    events = [Event(t, t, {"price": price}) for t, price in enumerate(PRICES)]
    slow = [(i.start, i.end) for i in instances(window, events)]
    assert window.runs(PRICES) == slow == [(0, 2), (2, 4), (4, 6)]  # type: ignore[attr-defined]


def test_nulls_and_nan_open_nothing_and_the_first_value_counts() -> None:
    table = sw.windowed(
        rows([None, math.nan, 7.0, 8.0, None, 12.0, 0.0]),
        time="t",
        windows=sw.delta("price", by=5),
        aggs=sw.agg.count(),
    )
    assert [(r["start"], r["end"]) for r in by_row(table)] == [(0, 5), (5, 6)]


def test_a_late_event_opens_an_instance_and_what_was_emitted_is_retracted() -> None:
    op = sw.Operator(
        windows=[sw.delta("price", by=5)], aggs=[sw.agg.count()], time="t", lateness=10
    )
    op.process(rows())
    assert [(r.start, r.end) for r in op.advance(7)] == [(0, 2), (2, 4), (4, 6)]
    op = sw.Operator.restore(op.snapshot())
    op.process({"t": [1], "price": [110]})
    found = [(r.start, r.end, r.retracted) for r in op.advance(7)]
    assert found == [(0, 2, True), (0, 1, False), (1, 2, False)]


def test_an_instance_goes_on_in_the_next_batch_and_after_a_snapshot() -> None:
    op = sw.Operator(windows=[sw.delta("price", by=5)], aggs=[sw.agg.count()], time="t")
    found = []
    for t, price in enumerate(PRICES):
        op.process({"t": [t], "price": [price]})
        found += [(r.start, r.end, r.values["count"]) for r in op.advance(t + 1)]
        op = sw.Operator.restore(op.snapshot())
    assert found == [(0, 2, 2), (2, 4, 2), (4, 6, 2)]


@pytest.mark.parametrize("by", [0, -1, math.inf, "5", None])
def test_a_distance_that_is_no_number_above_zero_is_refused(by: Any) -> None:
    with pytest.raises(WindowError, match="`by` of a delta window"):
        sw.delta("price", by=by)


@pytest.mark.parametrize("on", ["", None, 3])
def test_a_column_that_is_no_name_is_refused(on: Any) -> None:
    with pytest.raises(WindowError, match="`on` of a delta window is the name of a column"):
        sw.delta(on, by=5, name="w")


def test_a_column_that_holds_no_numbers_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match="'price'"):
        sw.windowed(rows(["a"]), time="t", windows=sw.delta("price", by=5), aggs=sw.agg.count())
