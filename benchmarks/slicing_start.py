"""Time to the first result of a fresh process; run as a module it is that process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import Report, seconds

PROGRAM = """
import numpy as np
import slicewise as sw

agg = sw.agg
op = sw.Operator(
    windows=[
        sw.tumbling("1s"),
        sw.sliding("10s", every="2s"),
        sw.cumulate("1m", every="10s"),
        sw.session("1s"),
        sw.tumbling(sw.rows(100)),
    ],
    aggs=[
        agg.count(), agg.sum("x"), agg.mean("x"), agg.min("x"), agg.max("x"),
        agg.std("x"), agg.median("x"), agg.first("x"), agg.last("x"), agg.argmax("x", "y"),
    ],
    time="t",
    by="key",
    unit="us",
)
n = 1000
t = np.arange(n) * 100_000
op.process({"t": t, "x": np.arange(n) * 1.0, "y": np.arange(n), "key": np.arange(n) % 3})
assert len(op.advance_arrow(int(t[-1]))) > 100
"""


def run(**environment: str) -> float:
    """Seconds of a fresh process from its start to its end."""
    keep = {k: v for k, v in os.environ.items() if k != "SLICEWISE_CACHE_DIR"}
    call = [sys.executable, "-c", PROGRAM]
    return seconds(lambda: subprocess.run(call, env={**keep, **environment}, check=True))


def start(report: Report) -> None:
    what = "first result, ten aggregates and five windows"
    with tempfile.TemporaryDirectory() as place:
        report.limit(f"{what}: very first run", run(SLICEWISE_CACHE_DIR=place), 40, "s")
        again = min(run(SLICEWISE_CACHE_DIR=place) for _ in range(3))
        report.limit(f"{what}: second run", again, 3, "s")
    with tempfile.TemporaryDirectory() as place:
        read_only(report, what, Path(place))


def read_only(report: Report, what: str, place: Path) -> None:
    """The same from an installation that nobody writes to, for a user without a home."""
    import slicewise

    source = Path(slicewise.__file__).parent
    installed = place / "site" / "slicewise"
    shutil.copytree(source, installed, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*installed.rglob("*"), installed]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(installed.rglob("*"))
    temporary = place / "tmp"
    temporary.mkdir()
    # Below a file no folder can be made, not even by the superuser.
    environment = {
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null/cache",
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(installed.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    report.limit(f"{what}: read-only installation, no home, first run", run(**environment), 40, "s")
    again = min(run(**environment) for _ in range(3))
    report.limit(f"{what}: read-only installation, no home, second run", again, 3, "s")
    untouched = sorted(installed.rglob("*")) == before
    report.right("nothing is written to the installation", correct=untouched)
    for path in [installed, *installed.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
