"""Machine code on disk stays right when several processes compile at the same time."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.arrays.grouping import pick
from slicewise.codegen import named
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.jit import HELPERS, OwnNames, without_cycles
from slicewise.codegen.kernel import algebra_module


def test_two_processes_that_save_at_once_do_not_mix_their_code(tmp_path: Path) -> None:
    one, other = (files(tmp_path) for _ in range(2))
    write = one._save_data

    def interrupted(name: str, data: str) -> None:
        other.save("float64", "code for floats")
        write(name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other, "_load_index", dict)  # both have read it before either wrote
        patch.setattr(one, "_save_data", interrupted)
        one.save("int64", "code for integers")

    assert files(tmp_path).load("float64") == "code for floats"
    # The other may have to be compiled again; it is never the wrong one.
    assert files(tmp_path).load("int64") in (None, "code for integers")


def test_nobody_looks_for_cycles_of_objects_while_code_is_made() -> None:
    compiled: Any = pick.specialise(NOTHING)
    assert hasattr(compiled.compile, "__wrapped__")
    seen = []

    def failing() -> None:
        seen.append(gc.isenabled())
        raise ValueError

    assert gc.isenabled()
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        without_cycles(failing)()
    assert gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(ValueError):  # noqa: PT011
            without_cycles(failing)()
        assert not gc.isenabled()  # who turned it off keeps it off
    finally:
        gc.enable()
    assert seen == [False, False]


def files(folder: Path) -> Any:
    return OwnNames(str(folder), "function", (0.0, 1))  # type: ignore[no-untyped-call]


def test_states_with_named_fields_are_found_again_by_name() -> None:
    made = named.named_tuple("Middle", "size", "total")
    assert named.named_tuple("Middle", "size", "total") is made
    assert pickle.loads(pickle.dumps(made)) is made
    assert named.named_tuple("Middle", "size") is not made
    with pytest.raises(AttributeError, match="no attribute 'Middle'"):
        _ = named.Middle


PROGRAM = """
import sys
from typing import NamedTuple
import numpy as np
import slicewise as sw

class Middle(NamedTuple):
    size: int
    total: float

class {name}(sw.Aggregate):
    def identity(self): return Middle(0, 0.0)
    def lift(self, value): return Middle(1, value)
    def combine(self, a, b): return Middle(a.size + b.size, a.total + b.total)
    def lower(self, s): return s.total / s.size

data = {{"t": np.arange(4), "x": np.arange(4.0)}}
import pyarrow as pa
from slicewise.tuning import tuned
with tuned(kernels="compiled"):
    found = sw.rolling(pa.table(data), time="t", over=sw.rows(2), aggs={name}("x"))
print(found.column(2).to_pylist())
"""


def test_aggregates_that_differ_by_name_alone_share_code(tmp_path: Path) -> None:
    """The second process knows nothing of the first one's classes."""
    for name in ("Centre", "Average"):
        program = tmp_path / f"{name}.py"
        program.write_text(PROGRAM.format(name=name))
        surroundings = {**os.environ, "SLICEWISE_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, program], env=surroundings, capture_output=True, text=True, check=False
        )
        assert done.stdout == "[0.0, 0.5, 1.5, 2.5]\n", done.stderr


THREADS = """
import threading
from typing import NamedTuple
import slicewise as sw

class Middle(NamedTuple):
    size: int
    total: float

class Average(sw.Aggregate):
    def identity(self): return Middle(0, 0.0)
    def lift(self, value): return Middle(1, value)
    def combine(self, a, b): return Middle(a.size + b.size, a.total + b.total)
    def lower(self, s): return s.total / s.size

together, found = threading.Barrier(6), []

def work():
    together.wait()
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[Average("x")], time="t", by="k")
    op.process({"k": ["a", "b", "a"], "t": [1, 2, 3], "x": [1.0, 5.0, 2.0]})
    found.append([(result.key, *result.values.values()) for result in op.advance(10)])

threads = [threading.Thread(target=work) for _ in range(6)]
from slicewise.tuning import tuned
with tuned(kernels="compiled"):
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert found == [[("a", 1.5), ("b", 5.0)]] * 6, found
"""


def test_six_threads_of_a_fresh_process_make_their_kernels_at_once(tmp_path: Path) -> None:
    """None of them finds a module that another one has not finished."""
    program = tmp_path / "threads.py"
    program.write_text(THREADS)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Pair(NamedTuple):
    """A state with names."""

    size: int
    total: int


class Total(sw.Aggregate):
    """The sum of whole numbers."""

    def identity(self) -> Pair:
        return Pair(0, 0)

    def lift(self, x: int) -> Pair:
        return Pair(1, x)

    def combine(self, older: Pair, newer: Pair) -> Pair:
        return Pair(older.size + newer.size, older.total + newer.total)

    def lower(self, state: Pair) -> int:
        return state.total


def test_generated_modules_import_no_helper_that_the_names_of_machine_code_leave_out() -> None:
    """Machine code is filed under the text of its module and of these helpers."""
    aggs = [Total("x"), *(agg for agg in sw.agg.REGISTRY if agg.arity == 1 and agg.columns)]
    for agg in aggs:
        for component in agg.bind([pa.string() if agg.name == "concat" else pa.int64()]).components:
            if component.algebra.compiled:
                algebra_module(component.algebra)
    made = [module for name, module in sys.modules.items() if name.startswith("_slicewise_")]
    lines = [line for module in made for line in inspect.getsource(module).splitlines()]
    taken = {line.split()[1] for line in lines if re.match("(from|import) slicewise", line)}
    assert taken == {f"slicewise.codegen.{name.removesuffix('.py')}" for name in HELPERS}
