"""The figures of the slicing benchmark: disorder, aggregates, row counts, partials, memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import slicewise as sw
from benchmarks.common import DOCS, Report
from benchmarks.slicing_rivals import Buckets, Ordered, TupleBuffer
from benchmarks.slicing_streams import (
    SECOND,
    Stream,
    disordered,
    feed,
    feed_rival,
    lengths,
    operator,
    rate,
    rates,
    results,
    rows_of,
    rows_of_rival,
    same,
)
from slicewise.slicing.edges.partial_runs import count_combines, run_partials

BUDGET = 0.3
SWEPT, COUNTED, SLOW = 3_000_000, 5_000_000, 100_000  # events of sweeps, row counts, slow streams
PARTIALS = 400_000  # events of which reduce calls are counted
SUM = sw.agg.sum("x")


def save(figure: Any, name: str) -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(DOCS / f"slicing-{name}.png", dpi=110)


def shown(rate: float) -> str:
    return f"{rate / 1e6:.3g} M/s"


def tumblings(count: int) -> list[Any]:
    return [sw.tumbling(length, name=str(k)) for k, length in enumerate(lengths(count))]


def compared(
    report: Report,
    what: str,
    stream: Stream,
    windows: Sequence[Any],
    rival: Callable[[], Any],
    aggregate: Any = SUM,
    *,
    exact: bool = True,
    budget: float = BUDGET,
) -> tuple[float, float]:
    """Rates of an operator and of a rival; their answers on five seconds are compared first."""
    short = stream.first(5 * stream.batch + stream.delay * stream.batch // SECOND)
    ours = rows_of(results(feed(operator(windows, aggregate), short)), [w.name for w in windows])
    theirs = rows_of_rival(results(feed_rival(rival(), short)))
    report.right(what, correct=same(ours, theirs, exact=exact))
    found = rates(
        {
            "ours": lambda: rate(feed(operator(windows, aggregate), stream), budget),
            "rival": lambda: rate(feed_rival(rival(), stream), budget),
        },
        2,
    )
    return found["ours"], found["rival"]


def least(report: Report, what: str, points: dict[str, tuple[float, float]]) -> None:
    """Report the point that is slowest in comparison with buckets."""
    worst = min(points, key=lambda name: points[name][0] / points[name][1])
    ours, rival = points[worst]
    title = f"{what}: the worst of {len(points)} against buckets ({worst})"
    report.ratio(title, ours / rival, 1.0, shown(ours), shown(rival))


def sweeps(report: Report) -> None:
    """Fractions of disorder and delays, 20 windows."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    windows = tumblings(20)
    fractions = {f: (f / 100, 2 * SECOND) for f in (0, 20, 40, 60, 80, 100)}
    delays = {d: (0.2, d * SECOND) for d in (0, 1, 2, 4, 8)}
    for axis, cases, unit in ((axes[0], fractions, "% late"), (axes[1], delays, "s of delay")):
        points: dict[str, tuple[float, float]] = {}
        for case, (fraction, delay) in cases.items():
            stream = disordered(fraction, delay, SWEPT)
            room = delay + 2 * SECOND
            points[f"{case} {unit}"] = compared(
                report,
                f"{case} {unit}",
                stream,
                windows,
                lambda room=room: Buckets(lengths(20), SUM, span=room),
            )
        least(report, f"disorder, {unit}, 20 windows", points)
        for k, name in enumerate(("slicewise", "buckets")):
            axis.plot(list(cases), [p[k] / 1e6 for p in points.values()], marker="o", label=name)
        axis.set(xlabel=unit, ylabel="million events per second", yscale="log")
        axis.legend()
    figure.suptitle("20 concurrent tumbling windows, sum, one core")
    save(figure, "disorder")


def bars(points: dict[str, tuple[float, float]], title: str, name: str) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 0.3 * len(points) + 1.5))
    places = np.arange(len(points))
    for k, who in enumerate(("slicewise", "buckets")):
        speeds = [p[k] / 1e6 for p in points.values()]
        axis.barh(places + 0.4 * k - 0.2, speeds, 0.4, label=who)
    axis.set(xlabel="million events per second", xscale="log", title=title)
    axis.set_yticks(places, list(points))
    axis.invert_yaxis()
    axis.legend()
    save(figure, name)


def slow_stream() -> Stream:
    """Events a millisecond apart, for aggregates that run interpreted or keep every value."""
    stream = disordered(0.2, 2 * SECOND, SLOW, apart=1000)
    texts = pa.array([f"{x:.2f}" for x in stream.values])
    return replace(stream, texts=texts)


def aggregates(report: Report) -> None:
    """Each aggregate of the registry, 20 windows, 20 % disorder."""
    fast, slow = disordered(0.2, 2 * SECOND, SWEPT), slow_stream()
    windows = tumblings(20)
    points: dict[str, tuple[float, float]] = {}
    for item in sw.agg.REGISTRY:
        aggregate = sw.agg.concat("s", sep=",") if item.name == "concat" else item
        kind = pa.string() if item.name == "concat" else pa.float64()
        compiled = aggregate.bind([kind] * aggregate.arity).compiled
        exact = not aggregate.name.startswith(("approx", "moments"))

        def rival(aggregate: Any = aggregate) -> Any:
            buckets = Buckets(lengths(20), aggregate, span=4 * SECOND)
            return buckets if aggregate.commutative else Ordered(buckets, rows=False)

        stream = fast if compiled else slow
        name = aggregate.output if compiled else f"{aggregate.output} (1 ms apart)"
        found = compared(report, name, stream, windows, rival, aggregate, exact=exact)
        points[name] = found
        report.fact(f"{name}: {found[0] / found[1]:.3g} x buckets", *map(shown, found))
    least(report, "aggregates, 20 windows, 20 % disorder", points)
    bars(points, "20 windows, 20 % of events up to 2 s late", "aggregates")


def row_counts(report: Report) -> None:
    """Row-count windows, in order and with disorder."""
    points: dict[str, tuple[float, float]] = {}
    for count in (1, 20, 100):
        sizes = [length // 10 for length in lengths(count)]
        windows = [sw.tumbling(sw.rows(n), name=str(k)) for k, n in enumerate(sizes)]
        for late in (0, 20):
            stream = disordered(late / 100, 2 * SECOND if late else 0, COUNTED)

            def rival(sizes: list[int] = sizes) -> Any:
                return Ordered(Buckets(sizes, SUM, span=400_000), rows=True)

            name = f"{count} windows, {late} % late"
            points[name] = compared(report, f"rows: {name}", stream, windows, rival, budget=1.0)
    least(report, "row-count windows", points)
    bars(points, "Tumbling windows over row counts, sum", "rows")


def medians(report: Report) -> None:
    """Medians over few and many distinct values (Scotty, Figures 19 to 21)."""
    points: dict[str, tuple[float, float]] = {}
    stream = slow_stream()
    for distinct in (10, 1000, 100_000):
        values = np.random.default_rng(4).integers(0, distinct, len(stream)).astype(float)
        for aggregate in (sw.agg.median("x"), sw.agg.quantile("x", 0.9)):

            def rival(aggregate: Any = aggregate) -> Any:
                return Buckets(lengths(20), aggregate, span=4 * SECOND)

            name = f"{aggregate.name} of {distinct:,} values"
            case = replace(stream, values=values)
            points[name] = compared(report, name, case, tumblings(20), rival, aggregate)
    least(report, "medians, 20 windows, 20 % disorder, events 1 ms apart", points)
    bars(points, "Holistic aggregates, 20 windows, 20 % of events late", "medians")


def random_windows(count: int) -> list[Any]:
    """The queries of the Cutty paper: count windows with random ranges and slides."""
    random = np.random.default_rng(5)
    ranges = random.integers(2000, 8001, 100)[:count] * 10
    slides = random.integers(100, 2001, 100)[:count] * 10
    return [
        sw.sliding(sw.rows(int(r)), every=sw.rows(int(s)), name=str(k))
        for k, (r, s) in enumerate(zip(ranges, slides, strict=True))
    ]


WAYS = {
    "Cutty": ("cutty", "flatfat"),
    "Cutty, lazy": ("cutty", "recalc"),
    "Cutty, FlatFIT": ("cutty", "flatfit"),
    "Pairs+": ("pairs+", "flatfat"),
    "Pairs": ("pairs", "recalc"),
    "Panes": ("panes", "recalc"),
}


def partials(report: Report) -> None:
    """Reduce calls, partials and peak slices of the Cutty paper's workload."""
    from matplotlib import pyplot as plt

    values = np.random.default_rng(6).standard_normal(2_000_000)
    sizes = (1, 10, 20, 40, 70, 100)
    found: dict[str, list[Any]] = {name: [] for name in WAYS}
    for size in sizes:
        windows = random_windows(size)
        expected: Any = None
        for name, (technique, merger) in WAYS.items():
            how: Any = {"technique": technique, "merger": merger}
            answers = run_partials(values, SUM, windows, **how).values.values
            expected = answers if expected is None else expected
            right = np.allclose(answers, expected, rtol=1e-9, atol=1e-6)
            report.right(f"{size} random windows by {name}", correct=bool(right))
            found[name].append(count_combines(windows, PARTIALS, **how))
    for k, size in enumerate(sizes):
        cutty, pairs, lazy, panes = (found[n][k] for n in ("Cutty", "Pairs+", "Pairs", "Panes"))
        title = f"{size} random count windows: partials, peak slices, reduce calls"
        report.fact(
            f"{title} (Cutty; Pairs+)",
            f"{cutty.partials:,}, {cutty.peak:,}, {cutty.combines:,}",
            f"{pairs.partials:,}, {pairs.peak:,}, {pairs.combines:,}",
        )
        report.fact(
            f"{title} (Panes; Pairs)",
            f"{panes.partials:,}, {panes.peak:,}, {panes.combines:,}",
            f"{lazy.partials:,}, {lazy.peak:,}, {lazy.combines:,}",
        )
    cutty, pairs = found["Cutty"][-1], found["Pairs+"][-1]
    share = cutty.partials / pairs.partials
    report.limit(
        "100 random count windows: partials of Cutty over those of Pairs", share, 0.55, "x"
    )
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for axis, part in zip(axes, ("combines", "partials", "peak"), strict=True):
        for name, counts in found.items():
            axis.plot(sizes, [getattr(c, part) for c in counts], marker="o", label=name)
        axis.set(xlabel="windows", ylabel=part, yscale="log")
    axes[0].set_ylabel("reduce calls, without folding events")
    axes[1].set_ylabel(f"partials of {PARTIALS:,} events")
    axes[2].set_ylabel("most slices kept")
    axes[0].legend()
    figure.suptitle("Random count windows (ranges 20,000 to 80,000, slides 1,000 to 20,000)")
    save(figure, "partials")


def held(make: Callable[[], Any]) -> int:
    """The bytes that what `make` returns keeps alive."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size


def fed(slices: int, events: int, keys: int = 1) -> sw.Operator:
    """An operator that keeps `slices` slices of each of `keys` keys, of `events` events in all."""
    op = operator([sw.tumbling(1000), sw.tumbling(2**50)], by="key")
    size = 5000  # small, so that scratch space for a batch does not hide what is kept
    for begin in range(0, events, size):
        rows = np.arange(begin, min(begin + size, events))
        times = rows // keys * slices // max(1, events // keys) * 1000
        op.process({"t": times, "x": np.ones(len(rows)), "key": rows % keys})
    return op


def buffered(events: int) -> TupleBuffer:
    return TupleBuffer([10], SUM, span=events * 10)


def memory(report: Report) -> None:
    """Bytes per slice and per key (Scotty, Figure 15)."""
    from matplotlib import pyplot as plt

    fed(10, 1000)
    slices = (100, 1000, 10_000, 100_000)
    events = (1000, 10_000, 100_000, 1_000_000)
    keys = (1000, 10_000, 100_000, 1_000_000)
    by_slices = [held(lambda n=n: fed(n, 200_000)) for n in slices]
    by_events = [held(lambda n=n: fed(500, n)) for n in events]
    by_keys = [held(lambda n=n: fed(1, n, n)) for n in keys]
    tuples = [held(lambda n=n: buffered(n)) for n in events]
    report.fact(
        f"memory of {slices[-1]:,} slices, sum", f"{by_slices[-1] / slices[-1]:.0f} bytes a slice"
    )
    report.fact(
        f"memory of {keys[-1]:,} keys, one slice each", f"{by_keys[-1] / keys[-1]:.0f} bytes a key"
    )
    report.fact(
        f"memory of 500 slices of {events[-1]:,} events",
        f"{by_events[-1] / 1e3:.0f} kB",
        f"tuple buffer {tuples[-1] / 1e3:.0f} kB",
    )
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    axes[0].plot(slices, by_slices, marker="o")
    axes[0].set_xlabel("slices of 200,000 events")
    axes[1].plot(events, by_events, marker="o", label="slicewise, 500 slices")
    axes[1].plot(events, tuples, marker="o", label="tuple buffer")
    axes[1].set_xlabel("events")
    axes[1].legend()
    axes[2].plot(keys, by_keys, marker="o")
    axes[2].set_xlabel("keys with one slice")
    for axis in axes:
        axis.set(xscale="log", yscale="log", ylabel="bytes")
    figure.suptitle("Memory of an operator with one sum")
    save(figure, "memory")
