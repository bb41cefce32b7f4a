"""Rows for `sw.rolling`, and its slow, obvious twin."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import slicewise as sw
from slicewise.spans import Rows, Ticks

Row = dict[str, Any]


# Few keys and times make ties and full windows common; the far ones make huge gaps.
KEYS = st.sampled_from([None, "a", "b", ""])


TIMES = st.one_of(
    st.none(), st.integers(-8, 8), st.sampled_from([-(2**63), 2**63 - 1, -(2**43), 2**43])
)


# Whole numbers below 2**30 add exactly in float64.
FLOATS = st.one_of(st.none(), st.just(math.nan), st.integers(-(2**30), 2**30).map(float))


LETTERS = st.one_of(st.none(), st.sampled_from("abc"))


ROWS = st.lists(
    st.fixed_dictionaries({"k": KEYS, "t": TIMES, "x": FLOATS, "s": LETTERS}), max_size=24
)


SPANS = st.one_of(
    st.integers(1, 20).map(Ticks), st.integers(1, 6).map(Rows), st.just(Ticks(2**61 - 1))
)


TYPES = {
    "k": pa.string(),
    "t": pa.int64(),
    "n": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "s": pa.string(),
}


class Path(sw.Aggregate):
    """All values in order, as a number: the order matters, and it compiles."""

    def identity(self) -> tuple[float, float]:
        return (1.0, 0.0)

    def lift(self, value: float) -> tuple[float, float]:
        return (2.0, value)

    def combine(
        self, older: tuple[float, float], newer: tuple[float, float]
    ) -> tuple[float, float]:
        return (older[0] * newer[0], older[1] * newer[0] + newer[1])

    def lower(self, state: tuple[float, float]) -> float:
        return state[1]


def window(rows: list[Row], i: int, span: Ticks | Rows) -> list[Row]:
    """The rows that row `i` sees, in the order of (time, arrival)."""
    own = [j for j, row in enumerate(rows) if row["k"] == rows[i]["k"] and row["t"] is not None]
    own.sort(key=lambda j: (rows[j]["t"], j))
    if isinstance(span, Rows):
        seen = own[: own.index(i) + 1][-span.count :]
    else:
        time = rows[i]["t"]
        seen = [j for j in own if time - span.count < rows[j]["t"] <= time]
    return [rows[j] for j in seen]


def twin(rows: list[Row], span: Ticks | Rows, agg: sw.Aggregate) -> list[Any]:
    def events(seen: list[Row]) -> list[Any]:
        if len(agg.columns) > 1:
            return [tuple(row[c] for c in agg.columns) for row in seen]
        return [row[agg.columns[0]] if agg.columns else row for row in seen]

    return [
        None if row["t"] is None else agg.fold(events(window(rows, i, span)))
        for i, row in enumerate(rows)
    ]


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals NaN and floats may differ in the last digits."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        near = math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-5)
        return near or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def table(rows: list[Row]) -> pa.Table:
    names = rows[0] if rows else ["k", "t", "x", "s"]
    return pa.table({n: pa.array([row[n] for row in rows], TYPES[n]) for n in names})


class Middle(NamedTuple):
    size: int
    total: float


class Centre(sw.Aggregate):
    """A mean with states of named fields, null on nothing and on a sum of 0: it compiles."""

    def identity(self) -> Middle:
        return Middle(0, 0.0)

    def lift(self, value: float) -> Middle:
        return Middle(1, value)

    def combine(self, older: Middle, newer: Middle) -> Middle:
        return Middle(older.size + newer.size, older.total + newer.total)

    def lower(self, state: Middle) -> float | None:
        return state.total / state.size if state.total != 0 else None
