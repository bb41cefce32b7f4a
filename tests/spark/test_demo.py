"""The demo runs as a stranger would run it, on fewer events."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
HEADINGS = ["sensor", "start", "end", "reports", "mean m/s", "top m/s", "least m/s", "spread m/s"]


def test_the_demo_shows_its_tables_that_batch_and_stream_agree_and_its_time(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--events", "60000", "--files", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "A football match of 60,000 events from 27 sensors." in said
    assert "20 % of them arrive up to 2 s late; none is dropped." in said
    parts = re.split(
        r"(run|last minute|2000 reports|minute so far): where the speed varied most", said
    )
    assert parts[1::2] == ["run", "last minute", "2000 reports", "minute so far"]
    for table in parts[2::2]:
        assert [name for name in HEADINGS if name not in table] == []
        assert len(re.findall(r"^│.*│$", table, re.MULTILINE)) == 3
    (rows,) = re.findall(r"the batch run of the same definition has the same ([\d,]+) rows", said)
    assert int(rows.replace(",", "")) > 1000
    assert re.search(r"[\d.]+ s against [\d.]+ s of Spark's window\(\): [\d.]+ x\.", said)
    printed = iter(map(shape, said.splitlines()))
    # All lines of the readme, in their order.
    assert [line for line in excerpt() if shape(line) not in printed] == []


def excerpt() -> list[str]:
    """What the readme shows of the demo."""
    readme = (DEMO.parents[1] / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(A football match.*?)\n```", readme, re.DOTALL)
    return [line for line in shown.splitlines() if line != "..."]


def shape(line: str) -> str:
    """A line without its figures and widths."""
    line = re.sub(r"\d[\d.,:]*\d|\d", "0", line.strip())
    return re.sub(r"([ ━─])+", r"\1", line)


def test_a_value_that_only_stream_or_batch_has_is_a_difference(spark: Any) -> None:
    agreed = runpy.run_path(str(DEMO))["agreed"]
    bounds = "start bigint, end bigint, start_position bigint, end_position bigint"
    values = "count bigint, mean double, top double, spread double, metres double, least double"
    schema = f"sensor bigint, window string, {bounds}, {values}"

    def answer(spread: float | None) -> Any:
        row = (1, "run", 0, 5, None, None, 1, 2.0, 2.0, spread, 0.1, 2.0)
        return spark.createDataFrame([row], schema)

    assert agreed(answer(None), answer(None)) == 1
    assert agreed(answer(0.5), answer(0.5 + 1e-12)) == 1
    for ours, theirs in ((None, 0.5), (0.5, None), (0.5, 0.6)):
        with pytest.raises(AssertionError, match="1 rows differ between stream and batch"):
            agreed(answer(ours), answer(theirs))
