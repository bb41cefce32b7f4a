"""Window operator: slicing against buckets, tuple buffers, trees over events and numpy.cumsum."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slicewise as sw
from benchmarks import slicing_figures as figures
from benchmarks.common import DOCS, Report, cores, machine
from benchmarks.slicing_figures import save, shown, tumblings
from benchmarks.slicing_rivals import Buckets, EventTree, TupleBuffer
from benchmarks.slicing_start import start
from benchmarks.slicing_streams import (
    EVENTS,
    FOREVER,
    SECOND,
    Stream,
    disordered,
    feed,
    feed_rival,
    in_order,
    lengths,
    operator,
    rate,
    rates,
    results,
    rows_of,
    rows_of_rival,
    same,
)

ROUNDS = 5
BUDGET = 0.3  # seconds for a rival that would take long; its rate is used
RIVALS = {"buckets": Buckets, "tuple buffer": TupleBuffer, "tree over events": EventTree}
SUM = sw.agg.sum("x")


def cumsum(stream: Stream) -> Callable[[], float]:
    """How many values per second `numpy.cumsum` adds up."""

    def run() -> float:
        begin = time.perf_counter()
        np.cumsum(stream.values)
        return len(stream) / (time.perf_counter() - begin)

    return run


def agree(report: Report, what: str, windows: Sequence[Any], rival: Any, short: Stream) -> None:
    """Compare the answers on a short stream, which also compiles what is timed later."""
    names = [w.name for w in windows if w.name.isdigit()]
    op = operator(windows)
    ours = rows_of(results(feed(op, short)), names)
    theirs = rows_of_rival(results(feed_rival(rival, short)))
    correct = same(ours, theirs)
    if getattr(rival, "gap", None):
        # The stream has no gap, so the session is open until the end of time.
        table = op.advance_arrow(FOREVER).filter(pc.field("window") == "session")
        total = table["x_sum"].to_numpy()
        sessions = rival.session_states[0][: int(rival.sessions[0][0])]
        correct &= len(total) == len(sessions) and np.allclose(total, sessions)
    report.right(what, correct=bool(correct))


def versus(
    report: Report, what: str, stream: Stream, count: int, gap: int | None = None
) -> dict[str, float]:
    """Rates of an operator with `count` tumbling windows and perhaps a session, and of others."""
    windows = tumblings(count)
    if gap is not None:
        windows.append(sw.session(gap, name="session"))

    def rival(name: str) -> Any:
        make: Any = RIVALS[name]
        # Buckets have the session as well; the other two would only be slower with it.
        more = {"gap": gap} if name == "buckets" else {}
        return make(lengths(count), SUM, span=stream.delay + 2 * SECOND, **more)

    short = stream.first(4_500_000 if count < 1000 else 1_500_000 + stream.delay // 10)
    systems: dict[str, Callable[[], float]] = {
        "slicewise": lambda: rate(feed(operator(windows), stream)),
        "cumsum": cumsum(stream),
    }
    for name in RIVALS:
        agree(report, f"{what}, {name}", windows, rival(name), short)
        systems[name] = lambda name=name: rate(feed_rival(rival(name), stream), BUDGET)
    return rates(systems, ROUNDS)


def against(report: Report, what: str, found: dict[str, float], rival: str, target: float) -> None:
    ours, theirs = found["slicewise"], found[rival]
    report.ratio(f"{what}, against {rival}", ours / theirs, target, shown(ours), shown(theirs))


def order(report: Report) -> None:
    stream = in_order()
    found = {}
    for count in (1, 20, 1000):
        what = f"in order, {count:,} window{'s' * (count > 1)}"
        found[count] = versus(report, what, stream, count)
        against(report, what, found[count], "cumsum", 0.7 if count == 1 else 0.35)
        for rival in RIVALS:
            target = {20: 10.0, 1000: 100.0}.get(count, 1.0) if rival == "buckets" else 1.0
            against(report, what, found[count], rival, target)
    one, many = found[1]["slicewise"], found[1000]["slicewise"]
    report.ratio("in order, 1,000 windows against 1", many / one, 0.5, shown(many), shown(one))
    plot(found, "In order", "in-order")


def plot(found: dict[int, dict[str, float]], title: str, name: str) -> None:
    """Throughput over the number of windows (Scotty, Figures 13 and 14)."""
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5))
    for system in next(iter(found.values())):
        speeds = [rates_of[system] / 1e6 for rates_of in found.values()]
        axis.plot(
            list(found), speeds, "--" if system == "cumsum" else "-", marker="o", label=system
        )
    axis.set(xlabel="concurrent tumbling windows", ylabel="million events per second")
    axis.set(xscale="log", yscale="log", title=f"{title}, sum, one core")
    axis.legend()
    save(figure, name)


def disorder(report: Report) -> None:
    stream = disordered(0.2, 2 * SECOND)
    found = {}
    for count in (1, 20, 1000):
        what = f"20 % disorder up to 2 s and a session, {count:,} window{'s' * (count > 1)}"
        found[count] = versus(report, what, stream, count, SECOND)
        against(report, what, found[count], "cumsum", 0.25)
        for rival in RIVALS:
            against(report, what, found[count], rival, 1.0)
    plot(found, "20 % up to 2 s late, with a session", "late")
    speeds = [rates_of["slicewise"] for rates_of in found.values()]
    spread = max(speeds) / min(speeds)
    report.limit("20 % disorder: fastest over slowest from 1 to 1,000 windows", spread, 2, "x")


def numbered(table: pa.Table) -> pa.Table:
    """Results with the numbers that the texts of keys were made of."""
    place = table.column_names.index("key")
    return table.set_column(place, "key", pc.utf8_slice_codeunits(table["key"], 4).cast("int64"))


def keys(report: Report) -> None:
    windows = tumblings(20)
    random = np.random.default_rng(3)
    for count, target in ((1000, 0.1), (1_000_000, 0.02)):
        codes = random.integers(0, count, EVENTS)
        stream = disordered(0.2, 2 * SECOND, keys=codes)
        # A shorter stream closes fewer windows, and buckets of a million keys fill the memory.
        events, closing = (4_000_000, 20) if count == 1000 else (400_000, 2)
        short, names = stream.first(events), [window.name for window in windows[:closing]]
        rival = Buckets(lengths(20)[:closing], SUM, keys=count, span=4 * SECOND)
        ours = rows_of(results(feed(operator(windows, by="key"), short)), names)
        theirs = rows_of_rival(results(feed_rival(rival, short)))
        report.right(f"{count:,} keys, buckets", correct=same(ours, theirs))
        texts = pa.array([f"key {code:07d}" for code in range(count)]).take(pa.array(codes))
        named = replace(stream, keys=texts)
        found = results(feed(operator(windows, by="key"), named.first(events)))
        theirs = rows_of([numbered(table) for table in found], names)
        report.right(f"{count:,} keys, texts", correct=same(ours, theirs))
        systems = {
            "slicewise": lambda s=stream: rate(feed(operator(windows, by="key"), s), 4),
            "strings": lambda s=named: rate(feed(operator(windows, by="key"), s), 4),
            "cumsum": cumsum(stream),
        }
        rate_of = rates(systems, ROUNDS)
        against(report, f"{count:,} keys, 20 windows, 20 % disorder", rate_of, "cumsum", target)
        report.ratio(
            f"{count:,} keys: strings against integers",
            rate_of["strings"] / rate_of["slicewise"],
            0.5,
            shown(rate_of["strings"]),
            shown(rate_of["slicewise"]),
        )


SECTIONS: dict[str, Callable[[Report], None]] = {
    "order": order,
    "disorder": disorder,
    "sweeps": figures.sweeps,
    "aggregates": figures.aggregates,
    "rows": figures.row_counts,
    "medians": figures.medians,
    "keys": keys,
    "partials": figures.partials,
    "memory": figures.memory,
    "start": start,
}

TEXT = """# Slicing

Written by `./run bench slicing`. {machine}.
One core; {events:,} events 10 microseconds apart in micro-batches of 100,000; concurrent tumbling
windows of 1 to 20 s; best of {rounds} rounds taken in turns. Sweeps of disorder and of delays, and
aggregates, have {swept:,} events, row counts {counted:,}, medians and aggregates that run
interpreted {slow:,}; reduce calls are counted over {partials:,}. Answers are compared before
anything is timed. Rivals are those of Scotty, Section 3, on the kernels of the library: one bucket
per window instance (a ring of buckets, no hashing), a tuple buffer in the order of time, and
FlatFAT over the events. One that would take long is fed for a part of a second and its rate is
used. Aggregates that run interpreted get events 1 ms apart. Those that do not commute, and row
counts, have buckets behind a sorter as rival.

{table}
![In order](slicing-in-order.png)

![With disorder and a session](slicing-late.png)

![Fractions of disorder and delays](slicing-disorder.png)

![Aggregates](slicing-aggregates.png)

![Row counts](slicing-rows.png)

![Medians](slicing-medians.png)

![Partials of the Cutty paper's workload](slicing-partials.png)

![Memory](slicing-memory.png)
"""


def main(argv: list[str]) -> int:
    import matplotlib

    matplotlib.use("Agg")
    parser = argparse.ArgumentParser(prog="./run bench slicing", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    options = parser.parse_args(argv)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(SECTIONS)}")
    report = Report("Window operator")
    where = machine()  # first: the load is that of others
    with cores(1):
        for name, section in SECTIONS.items():
            if name in (options.sections or SECTIONS):
                section(report)
    if not options.sections:
        sizes = {"swept": figures.SWEPT, "counted": figures.COUNTED, "slow": figures.SLOW}
        sizes |= {"events": EVENTS, "partials": figures.PARTIALS}
        text = TEXT.format(machine=where, rounds=ROUNDS, table=report.markdown(), **sizes)
        (DOCS / "slicing.md").write_text(text, encoding="utf-8")
    report.show()
    return 1 if report.wrong else 0
