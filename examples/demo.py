"""One pass over a football match: four kinds of windows, six aggregates, late events and all."""

import argparse
import math
import time

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import slicewise as sw
from slicewise.samples import football

WINDOWS = [
    sw.session("3s", name="run"),
    sw.sliding("10s", every="1s", name="last 10 s"),
    sw.tumbling(sw.rows(2000), name="2000 reports"),
    sw.cumulate("1m", every="10s", name="minute so far"),
]
AGGREGATES = [
    sw.agg.count(),
    sw.agg.mean("speed").alias("mean"),
    sw.agg.max("speed").alias("top"),
    sw.agg.std("speed").alias("spread"),
    sw.agg.sum("distance").alias("metres"),
    sw.agg.min("speed").alias("least"),
]
BATCH = 20_000
LATEST = 2_000_000  # events are at most 2 s late


def stream(match: dict[str, np.ndarray], console: Console) -> tuple[list[sw.Result], sw.Operator]:
    """Feed the match in micro-batches; each moves the watermark to 2 s behind its newest event."""
    op = sw.Operator(windows=WINDOWS, aggs=AGGREGATES, time="t", by="sensor")
    results: list[sw.Result] = []
    newest = 0
    starts = range(0, len(match["t"]), BATCH)
    for start in track(starts, description="micro-batches", console=console):
        batch = {name: column[start : start + BATCH] for name, column in match.items()}
        op.process(batch)
        newest = max(newest, int(batch["t"].max()))
        results += op.advance(newest - LATEST)
    results += op.advance(math.inf)
    return results, op


def show(results: list[sw.Result], console: Console) -> None:
    """The fastest instance of each window."""
    table = Table(title="The fastest player of each window")
    for name in ("window", "sensor", "start", "end", "reports", "mean m/s", "top m/s", "metres"):
        table.add_column(name, justify="left" if name == "window" else "right", no_wrap=True)
    for window in WINDOWS:
        best = max((r for r in results if r.window == window.name), key=lambda r: r.values["top"])
        rows = window.name == "2000 reports"
        bounds = [f"{x:,}" if rows else f"{x / 1e6:.2f} s" for x in (best.start, best.end)]
        values = best.values
        table.add_row(
            window.name, str(best.key), *bounds, f"{values['count']:,}", f"{values['mean']:.2f}",
            f"{values['top']:.2f}", f"{values['metres']:.1f}",
        )  # fmt: skip
    console.print(table)


def compare(results: list[sw.Result], match: dict[str, np.ndarray], console: Console) -> None:
    """The whole match as one table gives the same rows as the stream of it."""
    import pyarrow as pa

    table = sw.windowed(pa.table(match), by="sensor", time="t", windows=WINDOWS, aggs=AGGREGATES)
    batch = {
        (r["sensor"], r["window"], r["start"], r["end"]): (r["count"], r["top"], r["least"])
        for r in table.to_pylist()
    }
    streamed = {
        (r.key, r.window, r.start, r.end): tuple(r.values[n] for n in ("count", "top", "least"))
        for r in results
    }
    assert streamed == batch, "stream and batch differ"
    console.print(f"Batch = stream: the same {len(batch):,} rows from the whole match at once.")


def race(match: dict[str, np.ndarray], console: Console) -> None:
    """`sw.slide` beside the obvious way: every window on its own."""
    speed, length = match["speed"][:200_000], 1000
    sw.slide(speed, sw.agg.max(), length)  # compiles once, or loads what was compiled before
    begin = time.perf_counter()
    ours = sw.slide(speed, sw.agg.max(), length)
    middle = time.perf_counter()
    views = np.lib.stride_tricks.sliding_window_view(speed, length)
    theirs = views.max(axis=1)
    end = time.perf_counter()
    assert np.array_equal(ours[length - 1 :], theirs)
    ratio = (end - middle) / (middle - begin)
    console.print(f"A sliding maximum over {length:,} values: {ratio:,.0f} x a numpy window each.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="how many events to make")
    events = parser.parse_args().events
    console = Console(width=max(Console().width, 100))
    console.print(f"A football match of {events:,} events from 27 sensors, 20 % of them late.")
    match = football(events, seed=2013)
    begin = time.perf_counter()
    results, op = stream(match, console)
    seconds = time.perf_counter() - begin
    stats = op.stats
    console.print(
        f"{stats.events:,} events, {len(results):,} results of {len(WINDOWS)} windows in one pass "
        f"of {seconds:.1f} s; {stats.late_dropped} dropped as late, {stats.bad} bad."
    )
    show(results, console)
    console.print("What the operator does:", style="bold")
    console.print(op.explain(), highlight=False)
    compare(results, match, console)
    race(match, console)


if __name__ == "__main__":
    main()
