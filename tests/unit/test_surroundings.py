"""Machine code of an aggregate of one's own does what its Python does, also after a change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw

MODULES = {
    "config.py": """
        import math
        FACTOR = {number}.0
        DEFAULT = {number}.0
        def scaled(x, by=DEFAULT):
            return x * by
        """,
    "helpers.py": """
        from numba import njit
        import config
        OFFSET = {number}.0
        FACTOR = 100.0
        @njit
        def jitted(x):
            return x * {number}.0
        @njit(fastmath=True)
        def reading(x):
            return inner(x) + OFFSET + config.FACTOR
        @njit
        def inner(x, by=OFFSET):
            return x * by
        def plain(x):
            return x + OFFSET + FACTOR
        """,
    "main.py": """
        import config
        import config as other
        import helpers
        import slicewise as sw
        from helpers import jitted, plain
        FACTOR = 1000.0
        class Sum(sw.Aggregate):
            def identity(self): return 0.0
            def combine(self, a, b): return a + b
            def lower(self, s): return s
        class Attribute(Sum):
            def lift(self, x): return x * config.FACTOR
        class Nested(Sum):
            def lift(self, x): return x * other.math.sqrt(4.0) * helpers.config.FACTOR
        class Jitted(Sum):
            def lift(self, x): return jitted(x)
        class Reading(Sum):
            def lift(self, x): return helpers.reading(x)
        class Plain(Sum):
            def lift(self, x): return plain(x) * FACTOR
        class Default(Sum):
            def lift(self, x): return config.scaled(x)
        class Member(Sum):
            module, function = config, staticmethod(jitted)
            def lift(self, x): return self.function(x) + self.module.FACTOR
        import pyarrow as pa
        from slicewise.tuning import tuned
        for kind in (Attribute, Nested, Jitted, Reading, Plain, Default, Member):
            agg = kind("x")
            with tuned(kernels="compiled"):  # a single value would be left to Python
                (compiled,) = sw.slide([2.0], agg, 1)
            print(kind.__name__, agg.how(pa.float64()), compiled, agg.fold([2.0]))
        """,
}


def test_what_an_aggregate_uses_may_change_between_processes(tmp_path: Path) -> None:
    from textwrap import dedent

    expected = {
        3: {"Attribute": 6.0, "Nested": 12.0, "Jitted": 6.0, "Reading": 12.0, "Plain": 105_000.0,
            "Default": 6.0, "Member": 9.0},
        9: {"Attribute": 18.0, "Nested": 36.0, "Jitted": 18.0, "Reading": 36.0,
            "Plain": 111_000.0, "Default": 18.0, "Member": 27.0},
    }  # fmt: skip
    surroundings = {**os.environ, "SLICEWISE_CACHE_DIR": str(tmp_path / "cache")}
    for number, answers in expected.items():
        for name, text in MODULES.items():
            (tmp_path / name).write_text(dedent(text.replace("{number}", str(number))))
        done = subprocess.run(
            [sys.executable, "-B", tmp_path / "main.py"],
            env=surroundings, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        wanted = [f"{name} compiled {found} {found}" for name, found in answers.items()]
        assert done.stdout.splitlines() == wanted


LIMIT = (10.0, 20.0, 30.0)
FACTOR = 2.0


class Total(sw.Aggregate):
    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        return x

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Looked(Total):
    """The value at a place that comes from the data."""

    def lift(self, x: float) -> float:
        table = np.zeros(3)
        table[2] = 7.0
        return float(table[int(x)])


class Written(Total):
    """The same where it is written to."""

    def lift(self, x: float) -> float:
        table = np.zeros(3)
        table[int(x)] = 7.0
        return float(table.sum())


@pytest.mark.parametrize("kind", [Looked, Written])
def test_an_index_out_of_bounds_is_an_error_in_compiled_code_too(kind: Any) -> None:
    assert kind("x").how(pa.float64()) == "compiled"
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[kind("x")], time="t")
    with pytest.raises(IndexError, match="out of bounds"):
        op.process({"t": [1, 2, 3], "x": [2.0, 3e6, -1.0]})
    assert [event["x"] for event in op.late] == [3e6]
    (result,) = op.advance(10)
    assert list(result.values.values()) == [14.0]


class Odd:
    factor = 3.0

    def method(self, x: float) -> float:
        return x * self.factor


class Foreign(Total):
    """Calls a method that is bound to something else."""

    def __init__(self, *columns: str) -> None:
        super().__init__(*columns)
        self.method = Odd().method

    def lift(self, x: float) -> float:
        return self.method(x)


class Shadowing(Total):
    """Names that others have too: a local one, that of a builtin, numpy scalars and infinities."""

    low, high, limits = np.float64(1.5), np.int64(4), (-float("inf"), float("inf"))

    def lift(self, x: float) -> float:
        FACTOR = 3.0
        inside = self.limits[0] < x < self.limits[1]
        return round(x) * FACTOR + self.low + self.high if inside else 0.0


def round(x: float) -> float:
    """Not what Python calls so."""
    return x * FACTOR


def test_what_cannot_be_written_out_is_interpreted() -> None:
    assert "method of another object" in Foreign("x").how(pa.float64())
    assert sw.slide([2.0], Foreign(), 1) == [6.0]


def test_names_mean_what_they_mean_in_python() -> None:
    agg = Shadowing("x")
    assert agg.how(pa.float64()) == "compiled"
    assert sw.slide([2.0, float("inf")], agg, 2) == [agg.fold([2.0])] * 2 == [17.5] * 2


# A first run.


class Growing(sw.Aggregate):
    """Changes the list that it is given."""

    compile = False

    def identity(self) -> list[Any]:
        return []

    def lift(self, x: Any) -> list[Any]:
        return [x]

    def combine(self, older: list[Any], newer: list[Any]) -> list[Any]:
        older += newer
        return older

    def lower(self, state: list[Any]) -> int:
        return len(state)


TABLE = pa.table({"t": [1, 2, 3, 12, 13], "x": [1.0, 5.0, 5.0, None, 2.0]})


@pytest.fixture
def fresh() -> Callable[..., Any]:
    """Makes a class that no run has seen."""

    def made(kind: Any, **more: Any) -> Any:
        return type(kind.__name__, (kind,), {"name": kind.name, **more})

    return made


def test_a_first_run_finds_a_combine_that_changes_its_arguments(fresh: Any) -> None:
    said = "`combine` of `growing` changes its arguments"
    kind = fresh(Growing)
    query: Any = {"time": "t", "aggs": kind("x")}
    for _ in range(2):  # it is not let through the second time
        with pytest.raises(sw.errors.LawError, match=said):
            sw.windowed(TABLE, windows=sw.sliding(10, 5), **query)
        with pytest.raises(sw.errors.LawError, match=said):
            sw.rolling(TABLE, over=10, **query)
        with pytest.raises(sw.errors.LawError, match=said):
            sw.slide(TABLE["x"], kind(), 3)
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[kind("x")], time="t")
    op.process({"t": [1], "x": [1.0]})  # one event alone says nothing
    with pytest.raises(sw.errors.LawError, match=said) as raised:
        op.process(TABLE)
    assert "laws = False" in raised.value.__notes__[0]
    assert op.stats.events == 1
    with pytest.raises(sw.errors.LawError, match=said):
        sw.testing.check_aggregate(kind, [1.0, 2.0])
    trusting = fresh(Growing, laws=False)
    assert sw.slide([1.0, 2.0], trusting(), 1) == [1, 1]


class Average(Total):
    def combine(self, older: float, newer: float) -> float:
        return (older + newer) / 2


def test_a_first_run_of_compiled_code_finds_broken_laws(fresh: Any) -> None:
    kind = fresh(Average)
    with pytest.raises(sw.errors.LawError, match="is not neutral"):
        sw.rolling(TABLE, time="t", over=10, aggs=kind("x"))


class Picky(Total):
    """Raises errors on purpose, and counts."""

    compile = False
    calls = 0

    def __init__(self, *columns: str) -> None:
        super().__init__(*columns)
        self.seen: list[float] = []

    def lift(self, x: float) -> float:
        type(self).calls += 1
        self.seen.append(x)
        if x == 5.0:
            raise ValueError("five")
        return x


class Numbering(Total):
    """Gives another answer each time."""

    compile = False
    count = 0

    def lift(self, x: float) -> float:
        type(self).count += 1
        return float(self.count)


class Correlation(sw.Aggregate):
    """By raw sums: of values that are all equal nothing but rounding is left."""

    commutative = True

    def identity(self) -> Any:
        return (0.0, 0.0, 0.0)

    def lift(self, x: float) -> Any:
        return (1.0, x, x * x)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1], older[2] + newer[2])

    def invert(self, total: Any, oldest: Any) -> Any:
        return (total[0] - oldest[0], total[1] - oldest[1], total[2] - oldest[2])

    def lower(self, state: Any) -> Any:
        spread = state[2] - state[1] * state[1] / state[0] if state[0] else 0.0
        return None if spread == 0.0 else state[1] / spread


def test_a_first_run_lets_pass_what_keeps_the_laws_or_has_none(fresh: Any) -> None:
    unchecked, picky = fresh(Picky, laws=False)("x"), fresh(Picky)("x")
    for one in (unchecked, picky):
        op = sw.Operator(windows=[sw.tumbling(100)], aggs=[one], time="t")
        with pytest.raises(ValueError, match="five"):
            op.process(TABLE)
        assert [list(result.values.values()) for result in op.advance(100)] == [[3.0]]
    assert picky.seen == unchecked.seen  # the laws are tried on a copy
    calls = type(picky).calls
    sw.slide([1.0, 2.0, 3.0], type(picky)(), 1)
    assert type(picky).calls == calls + 3  # once in a process
    assert len(sw.slide([1.0, 2.0], fresh(Numbering)(), 1)) == 2
    for values in ([20.1] * 5, [1e16, 1.0, -1e16], [1e200, -1e200, 3.0], [float("inf"), 1.0, 2.0]):
        assert len(sw.slide(np.array(values), fresh(Correlation)(), 2)) == len(values)
        assert len(sw.slide(np.array(values), fresh(Total)(), 2)) == len(values)
