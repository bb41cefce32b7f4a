"""`sw.windowed` on Spark streams against Spark's own `window()` with RocksDB, on two cores."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import shutil
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slicewise as sw
from benchmarks.common import DOCS, Report, machine

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

SECTIONS = {
    "sliding": "Sliding windows",
    "wide": "Sliding windows of many keys",
    "tumbling": "Tumbling windows",
    "ten": "Ten windows in one query",
    "million": "A million keys",
    "small": "An almost empty micro-batch",
}
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COMPACT = "spark.sql.streaming.stateStore.rocksdb.compactOnCommit"
AGGS = [sw.agg.max("x"), sw.agg.sum("x"), sw.agg.count()]
SCHEMA = "k bigint, t timestamp, x double"
BEGIN = 1_700_000_000
DELAY = "10 seconds"
WARM = 2  # micro-batches that do not count
PATIENCE = 240  # seconds after which a stream is stopped, once so many micro-batches have counted
LEAST = 3
PAGE = DOCS / "spark-stream.md"


@dataclass(frozen=True)
class Run:
    """What a stream took: seconds of each micro-batch after the first ones, and its state.

    `begins` are the moments at which all of its micro-batches began.
    """

    seconds: list[float]
    rows: int
    state_bytes: int
    stopped: bool
    begins: list[float]

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.rows / sum(self.seconds)

    @property
    def middle(self) -> float:
        """Seconds of a micro-batch."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        """The rate, with how little it rests on when the stream was stopped early."""
        few = f" (stopped; {len(self.seconds)} counted)" if self.stopped else ""
        return f"{self.rate:,.0f}/s{few}"


class Bench:
    """A session, the data, and the report."""

    def __init__(self, events: int, batches: int) -> None:
        from pyspark.sql import SparkSession

        self.spark = (
            SparkSession.builder.master("local[2]")
            .appName("spark-stream")
            .config("spark.driver.memory", "6g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
            # Or else Spark adds up the bytes of a batch again for every row.
            .config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
            # Or else small packets to and from Python wait for each other.
            .config("spark.python.unix.domain.socket.enabled", "true")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")
        self.events, self.batches = events, batches
        self.report = Report("Spark streaming")

    def folder(
        self, keys: int, events: int, batches: int, files: int = 2, apart: int = 1000
    ) -> Path:
        """Files for each micro-batch: events of random keys in order, so many microseconds apart.

        Two of them, so that two tasks read a micro-batch.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        name = f"stream-random-{keys}-{events}-{batches}-{files}-{apart}"
        folder = Path(tempfile.gettempdir()) / "slicewise-bench" / name
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "data").mkdir(parents=True)
            draw = np.random.default_rng(7)
            rows = events // files
            for number in range(batches * files):
                ids = np.arange(number * rows, (number + 1) * rows)
                columns = {
                    "k": pa.array(draw.integers(keys, size=rows)),
                    "t": pa.array(BEGIN * 1_000_000 + ids * apart).cast(pa.timestamp("us", "UTC")),
                    "x": pa.array(draw.random(rows) * 100),
                }
                file = folder / "data" / f"{number:05}.parquet"
                pq.write_table(pa.table(columns), file)
                os.utime(file, (BEGIN + number, BEGIN + number))
            (folder / "done").touch()
        return folder / "data"

    def stream(self, folder: Path, files: int = 2) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
        return reader.parquet(str(folder))

    def run(self, frame: Any, sink: Callable[[Any], Any] | None = None) -> Run:
        """Run a stream to its end, or until it has taken long enough."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            writer = frame.writeStream.option("checkpointLocation", checkpoint)
            writer = sink(writer) if sink else writer.format("noop")
            begin = time.perf_counter()
            query = writer.trigger(availableNow=True).start()
            stopped = False
            while not stopped and not query.awaitTermination(1):
                late = time.perf_counter() - begin > PATIENCE
                stopped = late and len(steps_of(query)) >= WARM + LEAST
            query.stop()
            steps = steps_of(query)
        counted = steps[WARM:] or steps
        seconds = [p["durationMs"]["triggerExecution"] / 1e3 for p in counted]
        custom = steps[-1]["stateOperators"][0]["customMetrics"]
        state = custom.get("rocksdbSstFileSize", 0)
        rows = sum(p["numInputRows"] for p in counted)
        begins = [dt.datetime.fromisoformat(p["timestamp"]).timestamp() for p in steps]
        return Run(seconds, rows, state, stopped, begins)

    def turns(self, frames: list[Callable[[], Any]], rounds: int) -> list[Run]:
        """The best run of each stream, taken in turns: the later the round, the warmer Spark is."""
        runs = [[self.run(frame()) for frame in frames] for _ in range(rounds)]
        return [min(found, key=lambda run: run.middle) for found in zip(*runs, strict=True)]


def steps_of(query: Any) -> list[Any]:
    """The micro-batches with events that a stream has finished."""
    return [step for step in query.recentProgress if step["numInputRows"]]


def windows(stream: Any, length: str, every: str, aggs: Any = AGGS) -> Any:
    return sw.windowed(
        stream,
        by="k",
        time="t",
        windows=sw.sliding(length, every=every),
        aggs=aggs,
        watermark="10s",
    )


def spark_windows(stream: Any, length: str, every: str) -> Any:
    from pyspark.sql import functions as F

    return (
        stream.withWatermark("t", DELAY)
        .groupBy("k", F.window("t", length, every))
        .agg(F.max("x").alias("x_max"), F.sum("x").alias("x_sum"), F.count(F.lit(1)).alias("count"))
        .select("k", "window.start", "window.end", "x_max", "x_sum", "count")
    )


def check(bench: Bench, length: str, every: str) -> None:
    """Ours and Spark's answer for a small stream are the same, as far as Spark has one.

    It closes windows one micro-batch later, so ours has those of the last one more.
    """
    folder = bench.folder(50, 20_000, 4, apart=10_000)
    names = ["k", "start", "end", "x_max", "x_sum", "count"]
    found: dict[str, list[Any]] = {"ours": [], "spark": []}
    for who, made in (
        ("ours", windows(bench.stream(folder), f"{length}s", f"{every}s")),
        ("spark", spark_windows(bench.stream(folder), f"{length} seconds", f"{every} seconds")),
    ):

        def take(rows: Any, _: int, into: list[Any] = found[who]) -> None:
            into += rows.select(*names).collect()

        bench.run(made, lambda writer, take=take: writer.foreachBatch(take))
    last = max((row["end"] for row in found["spark"]), default=None)
    ours = sorted(tuple(row) for row in found["ours"] if last and row["end"] <= last)
    theirs = sorted(tuple(row) for row in found["spark"])
    same = [row[:3] for row in ours] == [row[:3] for row in theirs] and all(
        abs(a - b) <= 1e-6 * (1 + abs(b))
        for mine, other in zip(ours, theirs, strict=True)
        for a, b in zip(mine[3:], other[3:], strict=True)
    )
    bench.report.right(f"{length} s every {every} s", correct=bool(theirs) and same)


def compare(
    bench: Bench,
    what: str,
    length: int,
    every: int,
    keys: int,
    target: float | None,
    events: int = 0,
    rounds: int = 1,
) -> None:
    """Ours against Spark's own on the same files."""
    events = events or bench.events
    folder = bench.folder(keys, events, bench.batches)
    ours, rival = bench.turns(
        [
            lambda: windows(bench.stream(folder), f"{length}s", f"{every}s"),
            lambda: spark_windows(bench.stream(folder), f"{length} seconds", f"{every} seconds"),
        ],
        rounds,
    )
    label = f"{what}, {keys:,} keys, micro-batches of {events:,}"
    if target is None:
        bench.report.fact(label, str(ours), str(rival))
    else:
        bench.report.ratio(label, ours.rate / rival.rate, target, str(ours), str(rival))


def states(bench: Bench, what: str, length: int, every: int, keys: int) -> None:
    """The state of ours against that of Spark's own after three micro-batches.

    Files of RocksDB also hold what was replaced, until they are compacted now and then; here that
    happens in every micro-batch, so that they hold the state alone.
    """
    stream = bench.stream(bench.folder(keys, bench.events, 3))
    bench.spark.conf.set(COMPACT, "true")
    ours = bench.run(windows(stream, f"{length}s", f"{every}s")).state_bytes
    rival = bench.run(spark_windows(stream, f"{length} seconds", f"{every} seconds")).state_bytes
    bench.spark.conf.set(COMPACT, "false")
    sizes = f"{ours / 2**20:.1f} MiB", f"{rival / 2**20:.1f} MiB"
    bench.report.fact(f"state of {what}, {keys:,} keys", *sizes)
    bench.report.limit("that over Spark's", ours / max(1, rival), 1 / 3, "x")


def sliding(bench: Bench) -> None:
    check(bench, "600", "10")
    what = "max, sum, count over 600 s every 10 s"
    compare(bench, what, 600, 10, 1000, 5, rounds=2)
    states(bench, what, 600, 10, 1000)
    compare(bench, what, 600, 10, 1000, 8, 4 * bench.events)


def wide(bench: Bench) -> None:
    check(bench, "600", "10")
    compare(bench, "max, sum, count over 600 s every 10 s", 600, 10, 100_000, 10)


def tumbling(bench: Bench) -> None:
    check(bench, "10", "10")
    what = "max, sum, count over 10 s"
    compare(bench, what, 10, 10, 1000, 1, rounds=2)
    compare(bench, what, 10, 10, 100_000, 4)


def ten(bench: Bench) -> None:
    """Ten windows of four kinds in one query against one."""
    folder = bench.folder(1000, bench.events, bench.batches)
    many = [
        *(sw.tumbling(f"{n}s") for n in (10, 30, 60)),
        *(sw.sliding(f"{n}s", every="10s") for n in (60, 120, 300)),
        *(sw.session(f"{n}s") for n in (2, 5)),
        *(sw.tumbling(sw.rows(n)) for n in (50, 100)),
    ]
    query = {"by": "k", "time": "t", "aggs": AGGS, "watermark": "10s"}
    one, ten = bench.turns(
        [
            lambda: sw.windowed(bench.stream(folder), windows=many[0], **query),
            lambda: sw.windowed(bench.stream(folder), windows=many, **query),
        ],
        2,
    )
    bench.report.fact("tumbling 10 s alone", str(one))
    bench.report.limit("ten windows of four kinds over that", one.rate / ten.rate, 2.5, "x")


def million(bench: Bench) -> None:
    check(bench, "10", "10")
    compare(bench, "max, sum, count over 10 s", 10, 10, 1_000_000, None)
    # No window closes, so that the state comes to hold almost every key.
    compare(bench, "max, sum, count over 3,600 s", 3600, 3600, 1_000_000, None)


def small(bench: Bench) -> None:
    """The price of a micro-batch that has almost nothing in it, and how soon windows are out."""
    check(bench, "10", "10")
    folder = bench.folder(10, 10, 12, files=1, apart=1_000_000)
    frames: list[Callable[[], Any]] = [
        lambda: windows(bench.stream(folder, 1), "10s", "10s"),
        lambda: spark_windows(bench.stream(folder, 1), "10 seconds", "10 seconds"),
    ]
    ours, rival = bench.turns(frames, 4)
    least, theirs = ours.middle, rival.middle
    bench.report.fact("an almost empty micro-batch", f"{least:.2f} s", f"{theirs:.2f} s")
    bench.report.limit("that over Spark's", least / theirs, 1.5, "x")
    waits = [f"{min(out_after(bench, frame()) for _ in range(2)):.2f} s" for frame in frames]
    bench.report.fact(
        "from the begin of the micro-batch whose event closes a window to its row on the sink",
        *waits,
    )


def out_after(bench: Bench, frame: Any) -> float:
    """Seconds from the begin of the micro-batch that moves the watermark past the end of a window
    until its row is on the sink: the median of all windows.

    Micro-batch n has the ten seconds from 10 n on, one event in each.
    """  # noqa: D205 - one sentence
    arrived: dict[float, float] = {}

    def take(rows: Any, _: int) -> None:
        ends = {row["end"].timestamp() for row in rows.select("end").collect()}
        arrived.update(dict.fromkeys(ends, time.time()))

    ran = bench.run(frame, lambda writer: writer.foreachBatch(take))
    waits = []
    for end, moment in arrived.items():
        number = int(end - BEGIN) // 10 + 1  # the first event at `end` and the delay, or later
        waits.append(moment - ran.begins[number])
    return statistics.median(waits)


def main(argv: list[str]) -> int:
    """Run the sections named, or all of them, and write their tables and the plot."""
    parser = argparse.ArgumentParser(prog="bench spark-stream", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; else all")
    parser.add_argument("--events", type=int, default=500_000, help="events in a micro-batch")
    parser.add_argument("--batches", type=int, default=6)
    arguments = parser.parse_args(argv)
    sections = arguments.sections or list(SECTIONS)
    if not set(sections) <= set(SECTIONS):
        parser.error(f"sections are {', '.join(SECTIONS)}; given: {', '.join(sections)}")
    bench = Bench(arguments.events, arguments.batches)
    for name in sections:
        where, before = machine(), len(bench.report.rows)
        globals()[name](bench)
        if arguments.events >= 500_000 and not bench.report.wrong:
            write(name, f"{where}; `--batches {arguments.batches}`", bench.report, before)
    bench.report.show()
    bench.spark.stop()
    return 1 if bench.report.wrong else 0


TEXT = """# Spark streaming

Written by `./run bench spark-stream`, each section when it was run last. `local[2]`,
`availableNow`, RocksDB state, noop sink, files of a thousand events a second with random keys,
without the first {warm} micro-batches, with the two settings of [streaming](../streaming.md); the
rival is Spark's own `window()`. A stream that runs for
more than {patience} seconds is stopped once {least} micro-batches have counted, and its figure
says how many did. Short streams run several times, in turns with the rival, and the best run of
each counts. State is the size of RocksDB's files when they have been compacted. Answers are
compared first.

![Events per second, times those of Spark's window()](spark-stream.png)
"""


def write(name: str, where: str, report: Report, begin: int) -> None:
    """Put the rows of a section from `begin` on into the page, and draw what the page says."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    title = SECTIONS[name]
    parts = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    table = Report(report.title, report.rows[begin:]).markdown()
    parts[title] = f"\n{textwrap.fill(where + '.', 100)}\n\n{table}"
    known = [f"## {title}\n{parts[title]}" for title in SECTIONS.values() if title in parts]
    text = TEXT.format(warm=WARM, patience=PATIENCE, least=LEAST) + "\n" + "\n".join(known)
    DOCS.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    plot(text)


def plot(page: str) -> None:
    """The ratios of throughputs in the tables of the page."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = re.findall(r"^\| (.+) \| .+/s.* \| .+/s.* \| ([\d.]+) x \|", page, re.MULTILINE)
    labels = [textwrap.fill(label, 40) for label, _ in found]
    figure, axes = plt.subplots(figsize=(8, 1 + 0.6 * len(found)))
    axes.barh(labels, [float(ratio) for _, ratio in found])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="events per second, times those of Spark's window()")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(PAGE.with_suffix(".png"), dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
