"""Fast paths switched off: what each of them saves in the case that it is for.

A fast path stays if it pays twofold for a case that users meet; `docs/architecture.md` has the
judgement. Each is timed beside the general way that takes its place, on the same events, after
both gave the same answer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import slicewise as sw
from benchmarks.common import DOCS, Report, best, cores, machine
from slicewise.tuning import tuned

NEVER = 1 << 60
SECOND = 1_000_000
Run = Callable[[], Any]


@dataclass(frozen=True)
class Path:
    """A fast path: what it is called, the case that it is for, how to switch it off, a run."""

    name: str
    case: str
    off: Callable[[], AbstractContextManager[Any]]
    make: Callable[[], Run]
    threads: int = 1


def keyed(rows: int, keys: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Events of many keys, in the order of time."""
    random = np.random.default_rng(seed)
    return {
        "k": random.integers(0, keys, rows),
        "t": np.sort(random.integers(0, 3600 * SECOND, rows)),
        "x": random.random(rows),
    }


def fed(events: Mapping[str, np.ndarray], pieces: int, **options: Any) -> Run:
    """An operator that takes the events in pieces and closes what it can after each."""
    size = len(events["t"])
    cuts = np.linspace(0, size, pieces + 1).astype(int)
    parts = [
        pa.table({name: column[low:high] for name, column in events.items()})
        for low, high in pairwise(cuts)
    ]

    def run() -> pa.Table:
        op = sw.Operator(time="t", aggs=[sw.agg.sum("x"), sw.agg.max("x")], **options)
        found = []
        for part in parts:
            op.process(part)
            if "by" in options:
                found.append(op.advance_arrow(int(part["t"][-1].as_py())))
        return pa.concat_tables([*found, op.advance_arrow(float("inf"))])

    return run


def by_time(keys: int) -> Callable[[], Run]:
    windows = [sw.sliding(600 * SECOND, every=60 * SECOND)]
    return lambda: fed(keyed(4_000_000, keys), 8, by="k", windows=windows, emit="final")


def rolled() -> Run:
    keys, rounds = 1000, 2000
    table = pa.table(
        {
            "k": np.tile(np.arange(keys), rounds),
            "t": np.repeat(np.arange(rounds) * SECOND, keys),
            "x": np.random.default_rng(3).random(keys * rounds),
        }
    )
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x")]
    over = [600 * SECOND]
    return lambda: sw.rolling(table, by="k", time="t", over=over, aggs=aggs)


def moments() -> Any:
    from benchmarks.mergers import Merged

    values = np.random.default_rng(2).gamma(2.0, 1.0, 1_000_000)
    return sw.slide(values, Merged("x", 10), 100_000)


def texts() -> Run:
    random = np.random.default_rng(5)
    names = np.array([f"device-{k:07}" for k in range(50_000)])
    events = keyed(2_000_000, 50_000)
    events["k"] = names[random.integers(0, len(names), len(events["t"]))]
    return fed(events, 8, by="k", windows=[sw.tumbling(600 * SECOND)], emit="final")


def numbers(keys: int) -> Callable[[], Run]:
    windows = [sw.tumbling(600 * SECOND)]
    return lambda: fed(keyed(2_000_000, keys), 8, by="k", windows=windows, emit="final")


def without_table() -> AbstractContextManager[Any]:
    return mock.patch("slicewise.arrays.keys.table_for", return_value=None)


PATHS = (
    Path(
        "slices by time (`slicing/store`)",
        "10 min every 1 min, 20,000 keys, final results",
        lambda: tuned(keys_by_time=NEVER),
        by_time(20_000),
    ),
    Path(
        "slices by time (`slicing/store`)",
        "10 min every 1 min, 4,000 keys, final results",
        lambda: tuned(keys_by_time=NEVER),
        by_time(4_000),
    ),
    Path(
        "rounds (`frames/rounds.py`)",
        "`rolling`: 1000 sensors that are read each second",
        lambda: tuned(rounds_rows=NEVER),
        rolled,
    ),
    Path(
        "two threads (`PBA` over arrays)",
        "`slide`: ten moments of the last 100,000",
        lambda: tuned(threads_length=NEVER),
        lambda: moments,
        threads=2,
    ),
    Path(
        "text table (`arrays/text_table.py`)",
        "50,000 keys that are texts, micro-batches",
        without_table,
        texts,
    ),
    Path(
        "whole-number table (`arrays/key_tables.py`)",
        "20,000 keys that are numbers, micro-batches",
        without_table,
        numbers(20_000),
    ),
    Path(
        "whole-number table (`arrays/key_tables.py`)",
        "200,000 keys that are numbers, micro-batches",
        without_table,
        numbers(200_000),
    ),
)


def same(one: Any, other: Any) -> bool:
    """Compare two answers, whatever the order of their rows, up to rounding."""
    if isinstance(one, np.ndarray):
        return bool(np.allclose(one, other, equal_nan=True))
    keys = [(name, "ascending") for name in one.column_names if name not in ("x_sum", "x_max")]
    one, other = one.sort_by(keys), other.sort_by(keys)
    for name in one.column_names:
        a, b = (table[name].combine_chunks() for table in (one, other))
        close = pa.types.is_floating(a.type)
        if not (np.allclose(a, b, equal_nan=True) if close else a.equals(b)):
            return False
    return True


def measure(path: Path, report: Report, rounds: int) -> None:
    run = path.make()

    def without() -> Any:
        with path.off():
            return run()

    what = f"{path.name}: {path.case}"
    # Processor time, where one thread does all: other work on the machine does not count.
    clock = time.perf_counter if path.threads > 1 else time.process_time
    with cores(path.threads):
        report.right(what, correct=same(run(), without()))
        found = best({"with": run, "without": without}, rounds, clock)
    report(what, found["with"], found["without"], 2.0)


TEXT = """# Fast paths

Written by `./run bench paths`. {machine}. Processor time on one core, and time that passes on two
for what takes two threads; best of {rounds} rounds taken in turns. *rival* is the general way with
the fast path switched off. Answers are compared before anything is timed. The judgement of each is
in [architecture](../architecture.md).

{table}
"""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench paths", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all paths without any")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    report = Report("Fast paths: with, and switched off")
    where = machine()  # first: the load is that of others
    begun = time.perf_counter()
    for path in PATHS:
        if not options.names or any(part in path.name for part in options.names):
            measure(path, report, options.rounds)
    if not options.names:
        text = TEXT.format(machine=where, rounds=options.rounds, table=report.markdown())
        (DOCS / "paths.md").write_text(text, encoding="utf-8")
    report.show()
    print(f"{time.perf_counter() - begun:.0f} s in all")
    return 1 if report.wrong else 0
