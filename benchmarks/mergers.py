"""Final aggregation: `sw.slide`, mergers and `sw.rolling` against polars, bottleneck, pandas."""

from __future__ import annotations

import os

# Rivals get one core as well; polars reads this when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import bottleneck as bn
import numpy as np
import pandas as pd
import polars as pl

import slicewise as sw
from benchmarks.common import DOCS, Report, best, cores, machine, seconds
from slicewise.aggregates.bound import Bound
from slicewise.aggregates.moments import Moments
from slicewise.aggregates.sums import numbers
from slicewise.mergers import CATALOGUE, PBA

VALUES = 5_000_000
WINDOWS = (64, 1024, 32_768)
POWERS = tuple(range(6, 21, 2))


class Pair(sw.Aggregate):
    """A mean as a user writes it."""

    commutative = True

    def identity(self) -> tuple[float, int]:
        return (0.0, 0)

    def lift(self, value: float) -> tuple[float, int]:
        return (value, 1)

    def combine(self, older: tuple[float, int], newer: tuple[float, int]) -> tuple[float, int]:
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state: tuple[float, int]) -> float | None:
        return state[0] / state[1] if state[1] else None


class Merged(Moments):
    """Moments without the estimate, which would hide what merging costs: the sum of squares."""

    def bind(self, types: Any) -> Bound:
        bound = super().bind(types)
        return Bound(self, bound.components, lambda states: numbers(states[0][4]))


class Counted(sw.Aggregate):
    """A maximum that counts its combines in the calling thread."""

    compile = False
    selective = True
    calls: ClassVar[int] = 0

    def identity(self) -> float:
        return -np.inf

    def lift(self, value: float) -> float:
        return value

    def combine(self, older: float, newer: float) -> float:
        if threading.current_thread() is threading.main_thread():
            Counted.calls += 1
        return newer if newer > older else older

    def lower(self, state: float) -> float:
        return state


def rivals(values: np.ndarray, name: str, window: int) -> dict[str, Callable[[], Any]]:
    """The same window by others, at their best settings: no nulls, results from the first on."""
    series, frame = pl.Series(values), pd.Series(values)
    return {
        "polars": lambda: getattr(series, f"rolling_{name}")(window, min_samples=1).to_numpy(),
        "bottleneck": lambda: getattr(bn, f"move_{name}")(values, window, min_count=1),
        "pandas": lambda: getattr(frame.rolling(window, min_periods=1), name)().to_numpy(),
    }


def compare(
    report: Report, values: np.ndarray, name: str, targets: dict[str, float], rounds: int
) -> None:
    aggregate = getattr(sw.agg, name)()
    for window in WINDOWS:
        calls = {
            "slicewise": lambda window=window: sw.slide(values, aggregate, window),
            **rivals(values, name, window),
        }
        expected = calls["slicewise"]()
        for rival, call in calls.items():
            correct = np.allclose(call(), expected, rtol=1e-9, atol=1e-6)
            report.right(f"{name}, window {window}, {rival}", correct=correct)
        pandas = best({"pandas": calls.pop("pandas")}, 1)
        times = {**best(calls, rounds), **pandas}
        for rival, target in targets.items():
            what = f"{name}, window {window:,}, against {rival}"
            report(what, times["slicewise"], times[rival], target)
        speed = f"{len(values) / times['slicewise'] / 1e6:.0f} M/s"
        others = ", ".join(f"{r} {len(values) / times[r] / 1e6:.0f}" for r in times if r in calls)
        report.fact(
            f"{name}, window {window:,}, values per second",
            speed,
            f"{others}, pandas {len(values) / times['pandas'] / 1e6:.0f}",
        )


def traces(report: Report) -> None:
    """What remains of 1e16 after it left a window of 1024 values of 0.1."""
    values = np.full(100_000, 0.1)
    values[5_000] = 1e16
    clean = sw.slide(np.full(100_000, 0.1), sw.agg.sum(), 1024)
    after = slice(5_000 + 1024, None)
    found = sw.slide(values, sw.agg.sum(), 1024)
    report.right("no trace of 1e16", correct=bool((found[after] == clean[after]).all()))
    errors = {
        rival: float(np.abs(call()[after] - clean[after]).max())
        for rival, call in rivals(values, "sum", 1024).items()
    }
    others = ", ".join(f"{rival} {error:.3g}" for rival, error in errors.items())
    report.fact("sum: greatest error after 1e16 left the window", "0", others)


def user_defined(report: Report, values: np.ndarray, rounds: int) -> None:
    for window in WINDOWS:
        calls = {
            "user": lambda window=window: sw.slide(values, Pair(), window),
            "built-in": lambda window=window: sw.slide(values, sw.agg.mean(), window),
        }
        correct = np.allclose(calls["user"](), calls["built-in"](), rtol=1e-12, atol=1e-12)
        report.right(f"user-defined mean, window {window}", correct=correct)
        times = best(calls, rounds)
        what = f"user-defined mean against the built-in one, window {window:,}"
        report(what, times["user"], times["built-in"], 0.5)


def flatness(report: Report, values: np.ndarray, rounds: int) -> None:
    for name in ("max", "sum", "mean", "std"):
        aggregate = getattr(sw.agg, name)()
        calls = {
            str(window): lambda window=window, aggregate=aggregate: sw.slide(
                values, aggregate, window
            )
            for window in (64, 1024, 32_768, 2**20)
        }
        times = best(calls, rounds)
        spread = max(times.values()) / min(times.values())
        report.limit(f"{name}: slowest window from 64 to 2^20 over the fastest", spread, 2, "x")


def two_cores(report: Report, rounds: int) -> None:
    values = np.random.default_rng(2).gamma(2.0, 1.0, 1_000_000)
    aggregate = Merged("x", 10)
    for power in (15, 17):
        calls = {
            name: lambda name=name, power=power: sw.slide(
                values, aggregate, 2**power, algorithm=name
            )
            for name in ("pba", "sba")
        }
        correct = np.allclose(calls["pba"](), calls["sba"](), rtol=1e-9)
        report.right(f"PBA, window 2^{power}", correct=correct)
        times = best(calls, rounds)
        what = f"moments with 10 powers, window 2^{power}: PBA on two cores against SBA"
        report(what, times["pba"], times["sba"], 1.3)


FIRST = "import numpy, slicewise as sw; sw.slide(numpy.arange(1e5), sw.agg.max(), 100)"


def first_result(report: Report) -> None:
    """A fresh process from its start to its first result; the second run finds compiled code."""
    times = [
        seconds(lambda: subprocess.run([sys.executable, "-c", FIRST], check=True)) for _ in range(4)
    ]
    report.limit("first result of a fresh process, second run", min(times[1:]), 1.5, "s")


def most_combines(length: int, algorithm: str, slides: int) -> list[int]:
    """How many combines the calling thread makes in each slide of a full window."""
    merger = (
        PBA(Counted(), length=length) if algorithm == "pba" else CATALOGUE[algorithm].cls(Counted())
    )
    values = np.random.default_rng(4).random(length + slides).tolist()
    merger.insert_many(values[:length])
    merger.query()  # filling may be put off until it is needed, and is no part of a slide
    counts = []
    for value in values[length:]:
        before = Counted.calls
        merger.evict()
        merger.insert(value)
        merger.query()
        counts.append(Counted.calls - before)
    return counts


LATENCY = ("recalc", "flatfat", "flatfit", "two_stacks", "daba", "slick_deque", "sba", "pba")


def latency(report: Report) -> None:
    from matplotlib import pyplot as plt

    length = 256
    for name in ("two_stacks", "sba", "pba"):
        most = max(most_combines(length, name, 4 * length))
        if name == "pba":
            report.limit("PBA: most combines of the caller in one slide", most, 3, "combines")
            report.right("PBA combines at most 3 times a slide", correct=most <= 3)
        else:
            report.fact(f"{name}: most combines in one slide, window {length}", f"{most}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name in ("two_stacks", "sba", "daba", "pba"):
        left.plot(most_combines(length, name, 3 * length), label=name, linewidth=1)
    left.set(xlabel=f"slide (window {length})", ylabel="combines", yscale="log")
    lengths = [2**power for power in range(3, 11)]
    for name in LATENCY:
        most = [max(most_combines(n, name, 2 * n + 8)) for n in lengths]
        right.plot(lengths, most, marker="o", label=name)
    right.set(xlabel="window", ylabel="most combines in a slide", xscale="log", yscale="log")
    left.legend()
    right.legend()
    figure.suptitle("Latency: combines of the calling thread")
    save(figure, "latency")


def throughput(rounds: int) -> None:
    from matplotlib import pyplot as plt

    values = np.random.default_rng(5).random(2**20)
    kernels = [name for name, entry in CATALOGUE.items() if entry.compiled or name == "pba"]
    figure, axes = plt.subplots(figsize=(9, 5.5))
    speeds: dict[str, list[tuple[int, float]]] = {}
    for power in POWERS:
        calls: dict[str, Callable[[], Any]] = {
            "slide": lambda power=power: sw.slide(values, sw.agg.max(), 2**power),
            **rivals(values, "max", 2**power),
        }
        for name in kernels:
            if name == "subtract_on_evict" or (name == "recalc" and power > 8):
                continue
            calls[name] = lambda name=name, power=power: sw.slide(
                values, sw.agg.max(), 2**power, algorithm=name
            )
        for call in calls.values():
            call()
        for name, time in best(calls, rounds).items():
            speeds.setdefault(name, []).append((2**power, len(values) / time / 1e6))
    for name, points in speeds.items():
        style = "--" if name in ("polars", "bottleneck", "pandas") else "-"
        axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=name)
    axes.set(xlabel="window", ylabel="million values per second", xscale="log", yscale="log")
    axes.set_title("max over 2^20 float64, one core (PBA: two)")
    axes.legend(ncols=2, fontsize=8)
    save(figure, "throughput")


def save(figure: Any, name: str) -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(DOCS / f"{name}.png", dpi=110)


TEXT = """# Mergers

Written by `./run bench mergers`. {machine}, polars {polars}, bottleneck {bottleneck}, pandas
{pandas}. One core for everybody, two for PBA; {values:,} float64; best of {rounds} rounds taken in
turns. Answers are compared before anything is timed.

{table}
The rows of moments time the merging of all ten of them, with the sum of squares as the result: the
percentile estimate of `sw.agg.moments` is not in these times, as it would hide what merging costs.

![Throughput over the window size](throughput.png)

![Combines of the calling thread](latency.png)
"""


def main(argv: list[str]) -> int:
    import matplotlib

    matplotlib.use("Agg")
    parser = argparse.ArgumentParser(prog="./run bench mergers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args(argv)
    report = Report("sw.slide, mergers and sw.rolling")
    where = machine()  # first: the load is that of others
    values = np.random.default_rng(0).standard_normal(VALUES)
    with cores(1):
        compare(report, values, "max", {"polars": 6.0, "bottleneck": 3.0}, options.rounds)
        compare(report, values, "sum", {"polars": 2.0}, options.rounds)
        traces(report)
        user_defined(report, values, options.rounds)
        flatness(report, values, max(3, options.rounds // 2))
        first_result(report)
    with cores(2):
        two_cores(report, options.rounds)
    from benchmarks import rolling

    rolling.run(report)
    if not options.no_plots:
        latency(report)
        with cores(2):
            throughput(3)
        text = TEXT.format(
            machine=where,
            polars=pl.__version__,
            bottleneck=bn.__version__,
            pandas=pd.__version__,
            values=VALUES,
            rounds=options.rounds,
            table=report.markdown(),
        )
        (DOCS / "mergers.md").write_text(text, encoding="utf-8")
    report.show()
    return 1 if report.wrong else 0
