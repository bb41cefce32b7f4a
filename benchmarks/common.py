"""What benchmarks share: fair timing, one core or two, and a report with targets."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Keep this process on `count` processors, or on all it may use when those are fewer."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    call()
    return clock() - start


def best(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The least time of each, taken in turns so that noise meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call, clock))
    return {name: min(found) for name, found in times.items()}


@dataclass
class Report:
    """Ratios with their targets, facts, and whether every answer was right."""

    title: str
    rows: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __call__(self, what: str, ours: float, rival: float, target: float) -> None:
        """Add a ratio of throughputs: `ours` and `rival` are seconds for the same work."""
        self.ratio(what, rival / ours, target, f"{ours * 1e3:.1f} ms", f"{rival * 1e3:.1f} ms")

    def ratio(self, what: str, value: float, target: float, ours: str, rival: str) -> None:
        mark = "ok" if value >= target else "MISS"
        self._add(what, ours, rival, f"{value:.2f} x", f">= {target:g} x {mark}")

    def limit(self, what: str, value: float, target: float, unit: str) -> None:
        """Add a number that should stay at or below `target`."""
        mark = "ok" if value <= target else "MISS"
        self._add(what, f"{value:.3g} {unit}", "", "", f"<= {target:g} {unit} {mark}")

    def fact(self, what: str, ours: str, rival: str = "") -> None:
        self._add(what, ours, rival, "", "")

    def right(self, what: str, *, correct: bool) -> None:
        """Note that an answer was compared."""
        if not correct:
            self.wrong.append(what)
            print(f"WRONG: {what}", flush=True)

    def _add(self, *row: str) -> None:
        self.rows.append(row)  # type: ignore[arg-type]  # five strings, by the callers above
        print("  ".join(part for part in row if part), flush=True)

    def show(self) -> None:
        from rich.console import Console
        from rich.table import Table

        table = Table(title=self.title)
        for name in ("measured", "slicewise", "rival", "ratio", "target"):
            table.add_column(name)
        for row in self.rows:
            table.add_row(*row, style="red" if row[-1].endswith("MISS") else None)
        Console().print(table)

    def markdown(self) -> str:
        head = "| measured | slicewise | rival | ratio | target |\n|---|---|---|---|---|\n"
        body = "\n".join("| " + " | ".join(row) + " |" for row in self.rows)
        return head + body + "\n"


def machine() -> str:
    """The processor, how busy it was, and the versions that the figures belong to."""
    import numba
    import numpy

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        model = lines[0].split(":")[1].strip() if lines else model
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, load average "
        f"{os.getloadavg()[0]:.1f} at the start, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, numba {numba.__version__}"
    )
