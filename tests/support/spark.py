"""Events for the tests of Spark, and results in a form that can be compared."""

from __future__ import annotations

import copy
import math
import os
import random
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import slicewise as sw
from slicewise.testing.oracle import alike

Row = dict[str, Any]
SCHEMA = "k string, t bigint, x bigint, y double, s string, km bigint, flag boolean, id bigint"


def events(count: int, seed: int, *, ties: bool = False) -> list[Row]:
    """Random events of a few keys; some values are null or NaN. `km` advances with time."""
    draw = random.Random(seed)
    times = (
        [draw.randrange(-60, 2 * count) for _ in range(count)]
        if ties
        else draw.sample(range(-60, 2 * count), count)
    )
    return [
        {
            "k": draw.choice(["a", "b", "c", None]),
            "t": time,
            "x": draw.choice([None, *range(-5, 9)]),
            "y": draw.choice([None, math.nan, 1.5, 2.5, -3.0, 0.25]),
            "s": draw.choice("pqr"),
            "km": time // 2,
            "flag": draw.random() < 0.3,
            "id": number,
        }
        for number, time in enumerate(times)
    ]


def every_aggregate() -> list[sw.Aggregate]:
    """One of each aggregate of the library, over columns of `events`."""
    found = []
    for number, registered in enumerate(sw.agg.REGISTRY):
        agg = copy.copy(registered)
        names = {"x": "s" if agg.name == "concat" else "x", "y": "km"}
        agg.columns = tuple(names[column] for column in agg.columns)
        found.append(agg.alias(f"a{number}"))
    return found


def frame_of(spark: Any, rows: Iterable[Row], partitions: int = 3) -> Any:
    """The events as a DataFrame, in no particular order."""
    made = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    return made.repartition(partitions)


def plain(value: Any) -> Any:
    """A value of Spark as one of Python."""
    if hasattr(value, "asDict"):
        return {name: plain(v) for name, v in value.asDict().items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def answers(frame: Any, by: Any = "k") -> dict[Any, Row]:
    """The rows of `sw.windowed` by (key, window, start, end); no row may come twice."""
    found = {}
    for row in map(plain, frame.collect()):
        key = row[by] if isinstance(by, str) else tuple(row[name] for name in by or ())
        identity = (key if by else None, row["window"], row["start"], row["end"])
        assert identity not in found, f"{identity} came twice"
        known = {"window", "start", "end", *([by] if isinstance(by, str) else by or ())}
        found[identity] = {name: value for name, value in row.items() if name not in known}
    return found


def assert_same(got: Mapping[Any, Row], expected: Mapping[Any, Row]) -> None:
    """The same instances, and the same values up to the last digits of floats."""
    missing, extra = expected.keys() - got.keys(), got.keys() - expected.keys()
    assert not missing, f"missing, among others: {list(missing)[:3]}"
    assert not extra, f"not expected, among others: {list(extra)[:3]}"
    for identity, values in expected.items():
        assert alike(got[identity], values), f"{identity}: {got[identity]}, expected {values}"


def own_spark(folder: Path) -> dict[str, str]:
    """The environment of a process with a Spark of its own, whose executors write into a folder."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder),
    }


def by_id(rows: Iterable[Any]) -> dict[int, Row]:
    """Rows by their column `id`."""
    return {row["id"]: row for row in map(plain, rows)}


class Touchy(sw.Aggregate):
    """A sum of which one method fails when numbers are too large."""

    commutative = True

    def __init__(self, column: str, method: str) -> None:
        super().__init__(column)
        self.lifted = 50.0 if method == "lift" else 1e9
        self.combined = 30.0 if method == "combine" else 1e9
        self.lowered = 30.0 if method == "lower" else 1e9

    def identity(self) -> float:
        return 0.0

    def lift(self, value: Any) -> Any:
        if value > self.lifted:
            raise ValueError("too much for lift")
        return value + 0.0

    def combine(self, older: float, newer: float) -> float:
        if older + newer > self.combined:
            raise ValueError("too much for combine")
        return older + newer

    def lower(self, state: float) -> float:
        if state > self.lowered:
            raise ValueError("too much for lower")
        return state


class Slow(Touchy):
    compile = False
