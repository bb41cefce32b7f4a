"""Small inputs run kernels as plain Python; large ones, and many small ones, have them compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slicewise.arrays.grouping import pick
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.tiered import Tiered
from slicewise.tuning import active, tuned

PROGRAM = """
import json, os, sys
import numpy as np, pyarrow as pa
import slicewise as sw

rows = int(sys.argv[1])
t = np.arange(rows)
table = pa.table({"t": t, "k": [f"k{i % 3}" for i in t.tolist()], "x": t * 0.5})
made = {"by": "k", "time": "t", "aggs": [sw.agg.count(), sw.agg.mean("x"), sw.agg.max("x")]}
windows = [sw.tumbling(10), sw.sliding(20, every=10), sw.session(5)]
first = sw.windowed(table, windows=windows, **made)
second = sw.rolling(table, over=[5, sw.rows(3)], **made)
sw.slide([1.0, 2.0, 3.0], sw.agg.sum(), 2)
files = [name for name in os.listdir(os.environ["SLICEWISE_CACHE_DIR"]) if name.endswith(".nbc")]
print(json.dumps(["numba" in sys.modules, len(files), first.num_rows, second.num_rows]))
"""


def run(rows: int, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(rows)],
        env={**os.environ, "SLICEWISE_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def test_six_rows_load_no_numba_and_compile_nothing(tmp_path: Path) -> None:
    assert run(6, tmp_path) == [False, 0, 12, 6]


def test_a_million_rows_are_compiled(tmp_path: Path) -> None:
    loaded, files, _, rows = run(1_000_000, tmp_path)
    assert loaded
    assert files > 20
    assert rows == 1_000_000


def kernel() -> tuple[Tiered, list[str]]:
    """A kernel whose ways note that they were taken."""
    taken: list[str] = []

    def way(name: str) -> Any:
        return lambda: lambda *_: taken.append(name)

    return Tiered(way("plain"), way("compiled")), taken


def test_a_call_with_large_arrays_is_compiled_at_once() -> None:
    with tuned(kernels="by work", plain_places=100):
        made, taken = kernel()
        made((np.zeros(100), None), 7)
        made((np.zeros(100), (np.zeros(101),)))
        made(np.zeros(3))  # it is there, so it is taken
        assert taken == ["plain", "compiled", "compiled"]


def test_a_kernel_that_took_its_time_is_compiled() -> None:
    with tuned(kernels="by work", plain_seconds=0.0, plain_seconds_loaded=0.0):
        made, taken = kernel()
        made(np.zeros(3))
        made(np.zeros(3))
        assert taken == ["plain", "compiled"]


def test_work_that_arrays_do_not_show_is_said() -> None:
    with tuned(kernels="by work"):
        made, taken = kernel()
        made.prepared(active().plain_places)(np.zeros(3))
        made.prepared(active().plain_places + 1)(np.zeros(3))
        assert taken == ["plain", "compiled"]


def test_what_cannot_run_as_python_is_compiled() -> None:
    made = Tiered(None, lambda: lambda *_: "compiled")
    for kernels in ("plain", "by work", "compiled"):
        with tuned(kernels=kernels):
            assert made(np.zeros(3)) == "compiled"


def test_whole_numbers_have_64_bits_and_results_are_of_python() -> None:
    taken = []

    def plain(number: Any, pair: Any) -> Any:
        taken.append(number + 1)
        return number + 1, pair[0] * 2.0

    with tuned(kernels="plain"):
        made = Tiered(lambda: plain, lambda: None)(2**63 - 1, (0.5, np.zeros(1)))
    assert made == (-(2**63), 1.0)
    assert list(map(type, made)) == [int, float]
    assert type(taken[0]) is np.int64


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
def test_each_way_can_be_asked_for(kernels: str) -> None:
    with tuned(kernels=kernels):
        assert isinstance(pick.specialise(NOTHING), Tiered) == (kernels == "plain")
