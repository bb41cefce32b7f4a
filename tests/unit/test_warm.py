"""Compiling ahead, and a word to whoever waits for the compiler."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.codegen.progress import PATIENCE, WORDS, Compiling
from slicewise.errors import AggregateError, ColumnTypeError
from tests.support.documents import ROOT

QUERY = """
import json, sys
import numpy as np, pyarrow as pa
import slicewise as sw
from slicewise.codegen.progress import COMPILING

aggs = [sw.agg.count(), sw.agg.max("price")]
windows = [sw.tumbling("5m"), sw.session("1m")]
"""
WARM = """
made = sw.warm(windows=windows, aggs=aggs, types={"price": "float64"}, by="user", time="at")
print(json.dumps([made.functions, COMPILING.functions]))
"""
RUN = """
rows = 100_000
random = np.random.default_rng(1)
made = {"by": "user", "time": "at", "aggs": aggs}
table = pa.table({
    "user": [f"user {k}" for k in random.integers(0, 20, rows)],
    "at": pa.array(random.integers(0, 10**11, rows), pa.timestamp("us")),
    "price": random.random(rows),
})
sw.windowed(table, windows=windows, **made)
sw.rolling(table, over=["10m", "2h", sw.rows(9)], **made)
op = sw.Operator(windows=windows, **made)
op.process(table)
op.advance(10**10)
print(json.dumps([COMPILING.functions, "numba" in sys.modules]))
"""


def run(program: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", QUERY + program],
        env={**os.environ, "SLICEWISE_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def test_a_process_after_it_compiles_nothing(tmp_path: Path) -> None:
    warmed, functions = run(WARM, tmp_path)
    assert warmed == functions > 30
    assert run(RUN, tmp_path) == [0, True]
    assert run(WARM, tmp_path) == [0, 0]


def test_a_type_that_is_none_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match=r"given for 'x': 'floaty'"):
        sw.warm(windows=sw.tumbling(5), aggs=sw.agg.max("x"), types={"x": "floaty"})
    with pytest.raises(AggregateError, match="`warm` needs at least one aggregate"):
        sw.warm(windows=sw.tumbling(5), aggs=[])


def test_the_lines_for_images_and_clusters_are_programs() -> None:
    page = (ROOT / "docs" / "first_result.md").read_text(encoding="utf-8")
    programs = re.findall(r'python -c "(.*)"', page)
    assert len(programs) == 2
    for program in programs:
        # With types that no column has, so that nothing is compiled.
        asked = program.replace("aggs=", "types={'x': 'none such'}, aggs=")
        with pytest.raises(ColumnTypeError, match="none such"):
            exec(asked, {})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def waiting(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float, misses: int
) -> Compiling:
    """Two calls that compile, after a number of seconds."""
    times = iter([0.0, seconds, 10.0, 10.0 + seconds])
    monkeypatch.setattr("slicewise.codegen.progress.time.perf_counter", lambda: next(times))
    monkeypatch.setattr(sys, "stderr", stream)
    compiling, count = Compiling(), [0]

    def compile_it() -> None:
        count[0] += misses

    watched = compiling.watched(compile_it, lambda: count[0])
    watched()
    watched()
    return compiling


def test_who_waits_at_a_terminal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    made = waiting(monkeypatch, stream, PATIENCE, 2)
    assert stream.getvalue() == WORDS
    assert "once" in WORDS
    assert made.functions == 4
    assert made.seconds == 2 * PATIENCE


@pytest.mark.parametrize(
    ("stream", "seconds", "misses"),
    [(io.StringIO(), 9.0, 1), (Terminal(), PATIENCE / 4, 1), (Terminal(), 9.0, 0)],
    ids=["no terminal", "a moment", "machine code is found"],
)
def test_nobody_else_is_told(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float, misses: int
) -> None:
    waiting(monkeypatch, stream, seconds, misses)
    assert stream.getvalue() == ""


def test_a_terminal_shows_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", QUERY + WARM],
            env={**os.environ, "SLICEWISE_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            check=True,
            timeout=600,
        )
        os.close(theirs)
        shown = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
    assert shown == WORDS
