"""Events of one key and time: `order=` decides, and then arrival."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.arrays.ranks import ranks
from slicewise.errors import CapabilityError, ColumnError
from slicewise.testing import fold
from slicewise.testing.oracle import alike

SCHEMA = pa.schema(
    {"k": pa.string(), "t": pa.int64(), "x": pa.float64(), "s": pa.string(), "flag": pa.bool_(),
     "km": pa.int64(), "id": pa.int64()}
)  # fmt: skip
WINDOWS = [
    sw.tumbling(8),
    sw.sliding(9, every=3),
    sw.session(2),
    sw.session(2, max_length=6, name="short"),
    sw.tumbling(sw.rows(3)),
    sw.sliding(5, every=sw.rows(2)),
    sw.sliding(sw.rows(4), every=5),
    sw.punctuated("flag"),
    sw.threshold("flag"),
    sw.tumbling(sw.units(4, on="km")),
]
AGGS = [
    sw.agg.collect("id"),
    sw.agg.first("x"),
    sw.agg.last("s"),
    sw.agg.argmax("t", "id"),
    sw.agg.count(),
]


def events(seed: int, count: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "k": draw.choice(["a", "b", None]),
            "t": time,
            "x": draw.choice([None, math.nan, -0.5, 1.0, 2.0]),
            "s": draw.choice(["p", "q", None]),
            "flag": draw.random() < 0.3,
            "km": time // 2,
            "id": number,
        }
        for number, time in enumerate(draw.choices(range(25), k=count))
    ]


def key_of(row: dict[str, Any]) -> Any:
    """The order of (x, s, id): null is the least, NaN the greatest."""
    x, s = row["x"], row["s"]
    place = (0, 0.0) if x is None else (2, 0.0) if x != x else (1, x)
    return place, (s is not None, s or ""), row["id"]


@pytest.mark.parametrize(
    "mode",
    [
        {"emit": "final"},
        {"emit": "final", "lateness": 10},
        {"emit": "on_close"},
        {"emit": "on_close", "lateness": 30},
        {"emit": "on_update", "lateness": 30},
    ],
    ids=str,
)
def test_rule_13_order_decides_between_events_of_one_time(mode: Any) -> None:
    for seed in range(4):
        given = events(seed)
        # What comes in this order by arrival is in it without `order=` too.
        table = pa.Table.from_pylist(sorted(given, key=key_of), SCHEMA)
        query: Any = {"by": "k", "time": "t", "aggs": AGGS}
        expected = sw.windowed(table, windows=WINDOWS, **query).to_pylist()
        order = ["x", "s", "id"]
        shuffled = pa.Table.from_pylist(given, SCHEMA)
        found = sw.windowed(shuffled, windows=WINDOWS, order=order, **query)
        assert alike(found.to_pylist(), expected)
        op = sw.Operator(windows=WINDOWS, order=order, **query, **mode)
        # No event is too late, and those of one time come in several batches.
        by_time = sorted(given, key=lambda row: row["t"] + random.Random(row["id"]).randrange(6))
        emitted: list[Any] = []
        for begin in range(0, len(by_time), 7):
            op.process(pa.Table.from_pylist(by_time[begin : begin + 7], SCHEMA))
            newest = max(row["t"] for row in by_time[: begin + 7])
            emitted += op.advance(newest - 7)
            if begin == 21:
                op = sw.Operator.restore(op.snapshot())
        emitted += op.advance(math.inf)
        assert not op.late
        answers = [
            ((row.pop("k"), row.pop("window"), row.pop("start"), row.pop("end")), row)
            for row in expected
        ]
        assert alike(fold(emitted), dict(answers))


def test_rule_13_order_decides_between_rows_that_roll() -> None:
    given = events(7, 40)
    shuffled = pa.Table.from_pylist(given, SCHEMA)
    table = pa.Table.from_pylist(sorted(given, key=key_of), SCHEMA)
    query: Any = {"by": "k", "time": "t", "over": [6, sw.rows(3)], "aggs": AGGS[:3]}
    found = sw.rolling(shuffled, order=["x", "s", "id"], **query).sort_by("id")
    expected = sw.rolling(table, **query).sort_by("id")
    assert alike(found.to_pylist(), expected.to_pylist())
    # Where the order agrees, arrival decides.
    same = sw.rolling(shuffled.append_column("one", pa.array([1] * 40)), order="one", **query)
    assert alike(same.drop_columns("one").to_pylist(), sw.rolling(shuffled, **query).to_pylist())


def test_order_takes_columns_that_there_are_and_not_a_promise_of_order() -> None:
    query: Any = {"time": "t", "aggs": sw.agg.count()}
    table = {"t": [1], "x": [2]}
    with pytest.raises(ColumnError, match="There is no column 'y'"):
        sw.windowed(table, windows=sw.tumbling(5), order="y", **query)
    with pytest.raises(ColumnError, match="There is no column 'y'"):
        sw.rolling(table, over=5, order="y", **query)
    with pytest.raises(CapabilityError, match=r"`ordered=True` promises .*Leave one"):
        sw.Operator(windows=[sw.tumbling(5)], order="x", ordered=True, **query)


def test_ranks_are_in_the_order_of_spark() -> None:
    structs = [{"a": 1, "b": None}, {"a": 1, "b": "x"}, None, {"a": 0, "b": "z"}]
    for values, expected in (
        ([3, None, 1], [2, 0, 1]),
        ([math.nan, None, math.inf, -0.0, 0.0], [3, 0, 2, 1, 1]),
        (["b", "", None, "ä", "z"], [2, 1, 0, 4, 3]),
        ([b"\xff", b"a", b""], [2, 1, 0]),
        ([True, None, False], [2, 0, 1]),
        ([[1, 2], [1], None, [], [1, None]], [4, 2, 0, 1, 3]),
        (structs, [2, 3, 0, 1]),
    ):
        assert ranks([pa.array(values)]).tolist() == expected
    assert ranks([pa.nulls(2), pa.chunked_array([[2], [1]])]).tolist() == [1, 0]
