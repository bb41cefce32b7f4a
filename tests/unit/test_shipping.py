"""Machine code that goes out with the package is found, and damaged or foreign one is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slicewise.codegen.kernel import header
from slicewise.shipping import is_shipped, ship

QUERIES = """
import numpy as np
from slicewise.times import look_over
from slicewise.codegen.kernel import run
from slicewise.tuning import tuned

with tuned(kernels="compiled"):
    run(look_over)(np.arange(3))
"""
PROGRAM = """
import json, sys
from pathlib import Path
from slicewise.codegen import jit

jit.SHIPPED = Path(sys.argv[1])
from slicewise.codegen.progress import COMPILING
"""
REPORT = """
print(json.dumps(COMPILING.functions))
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package") / "shipped"
    assert ship(folder, QUERIES) == 1
    return folder


def compiled(shipped: Path, cache: Path) -> Any:
    """How many functions a fresh process compiles."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + QUERIES + REPORT, str(shipped)],
        env={**os.environ, "SLICEWISE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def test_what_came_with_the_package_is_not_compiled(shipped: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in shipped.iterdir()}
    assert compiled(shipped, tmp_path / "one") == 0
    assert compiled(tmp_path / "nothing", tmp_path / "two") == 1
    assert {path: path.stat().st_mtime_ns for path in shipped.iterdir()} == before


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_what_was_damaged_on_the_way_is_compiled(shipped: Path, tmp_path: Path, kind: str) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in shipped.iterdir():
        content = path.read_bytes()
        if path.suffix == f".{kind}":
            content = content[:-1] + bytes([content[-1] ^ 1])
        (damaged / path.name).write_bytes(content)
    assert compiled(damaged, tmp_path / "cache") == 1
    assert len(list(damaged.iterdir())) == len(list(shipped.iterdir()))


def test_sweeps_and_what_only_compiled_code_calls_are_left_out() -> None:
    called = "\n\n@kernel\ndef add(S):\n    return S\n"
    assert is_shipped(header("a") + called)
    assert not is_shipped(header("a", kind="inner") + called)
    assert not is_shipped(header("a") + called.replace("add", "tiles"))
    assert not is_shipped(header("an algebra") + "\n@algebra\ndef combine(a, b):\n    return a\n")
