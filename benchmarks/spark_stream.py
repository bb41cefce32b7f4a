"""`sw.windowed` on Spark streams against Spark's own `window()` with RocksDB, on two cores."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slicewise as sw
from benchmarks.common import DOCS, Report, machine

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

SECTIONS = ("sliding", "tumbling", "ten", "million", "small")
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
AGGS = [sw.agg.max("x"), sw.agg.sum("x"), sw.agg.count()]
SCHEMA = "k bigint, t timestamp, x double"
BEGIN = 1_700_000_000
DELAY = "10 seconds"
WARM = 2  # micro-batches that do not count


@dataclass(frozen=True)
class Run:
    """What a stream took: seconds of each micro-batch after the first ones, and its state."""

    seconds: list[float]
    rows: int
    state_bytes: int
    lag: float

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.rows / sum(self.seconds)


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
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")
        self.events, self.batches = events, batches
        self.report = Report("Spark streaming")
        self.ratios: dict[str, float] = {}

    def folder(self, keys: int, events: int, batches: int) -> Path:
        """A file for each micro-batch: a thousand events a second of random keys, in order."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        name = f"stream-random-{keys}-{events}-{batches}"
        folder = Path(tempfile.gettempdir()) / "slicewise-bench" / name
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "data").mkdir(parents=True)
            draw = np.random.default_rng(7)
            for number in range(batches):
                ids = np.arange(number * events, (number + 1) * events)
                columns = {
                    "k": pa.array(draw.integers(keys, size=events)),
                    "t": pa.array(BEGIN * 1_000_000 + ids * 1000).cast(pa.timestamp("us", "UTC")),
                    "x": pa.array(draw.random(events) * 100),
                }
                file = folder / "data" / f"{number:05}.parquet"
                # Two row groups, so that two tasks read a file.
                pq.write_table(pa.table(columns), file, row_group_size=events // 2)
                os.utime(file, (BEGIN + number, BEGIN + number))
            (folder / "done").touch()
        return folder / "data"

    def stream(self, folder: Path) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder))

    def run(self, frame: Any, sink: Callable[[Any], Any] | None = None) -> Run:
        """Run a stream to its end."""
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.option("checkpointLocation", checkpoint)
            writer = sink(writer) if sink else writer.format("noop")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            steps = [p for p in query.recentProgress if p["numInputRows"]]
        counted = steps[WARM:] or steps
        seconds = [p["durationMs"]["triggerExecution"] / 1e3 for p in counted]
        custom = steps[-1]["stateOperators"][0]["customMetrics"]
        state = custom.get("rocksdbSstFileSize", 0)
        return Run(seconds, sum(p["numInputRows"] for p in counted), state, seconds[-1])


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
    """Ours and Spark's answer for a small stream are the same, as far as Spark has one."""
    folder = bench.folder(50, 20_000, 4)
    names = ["k", "start", "end", "x_max", "x_sum", "count"]
    found: dict[str, dict[Any, Any]] = {"ours": {}, "spark": {}}
    for who, made in (
        ("ours", windows(bench.stream(folder), f"{length}s", f"{every}s")),
        ("spark", spark_windows(bench.stream(folder), f"{length} seconds", f"{every} seconds")),
    ):

        def take(rows: Any, _: int, into: dict[Any, Any] = found[who]) -> None:
            for row in rows.select(*names).collect():
                into[tuple(row[:3])] = row[3:]

        bench.run(made, lambda writer, take=take: writer.foreachBatch(take))
    ours, theirs = found["ours"], found["spark"]
    same = all(
        key in ours and all(abs(a - b) <= 1e-6 * (1 + abs(b)) for a, b in zip(ours[key], row))
        for key, row in theirs.items()
    )
    bench.report.right(f"{length} s every {every} s", correct=bool(theirs) and same)


def compare(
    bench: Bench, what: str, length: int, every: int, keys: int, target: float, events: int = 0
) -> Run:
    """Ours against Spark's own on the same files."""
    events = events or bench.events
    folder = bench.folder(keys, events, bench.batches)
    ours = bench.run(windows(bench.stream(folder), f"{length}s", f"{every}s"))
    rival = bench.run(spark_windows(bench.stream(folder), f"{length} seconds", f"{every} seconds"))
    label = f"{what}, {keys:,} keys, micro-batches of {events:,}"
    bench.report.ratio(
        label, ours.rate / rival.rate, target, f"{ours.rate:,.0f}/s", f"{rival.rate:,.0f}/s"
    )
    bench.ratios[f"{what}\n{keys:,} keys, {events:,}"] = ours.rate / rival.rate
    share = ours.state_bytes / max(1, rival.state_bytes)
    sizes = f"{ours.state_bytes / 2**20:.1f} MiB", f"{rival.state_bytes / 2**20:.1f} MiB"
    bench.report.fact(f"state of {label}", *sizes)
    bench.report.limit(f"state of {label} over Spark's", share, 1 / 3 if length > every else 1, "x")
    return ours


def sliding(bench: Bench) -> None:
    check(bench, "600", "10")
    what = "max, sum, count over 600 s every 10 s"
    compare(bench, what, 600, 10, 1000, 5)
    compare(bench, what, 600, 10, 1000, 8, 4 * bench.events)
    compare(bench, what, 600, 10, 100_000, 10)


def tumbling(bench: Bench) -> None:
    check(bench, "10", "10")
    what = "max, sum, count over 10 s"
    compare(bench, what, 10, 10, 1000, 1)
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
    one = bench.run(sw.windowed(bench.stream(folder), windows=many[0], **query))
    ten = bench.run(sw.windowed(bench.stream(folder), windows=many, **query))
    bench.report.fact("tumbling 10 s alone", f"{one.rate:,.0f}/s")
    bench.report.limit("ten windows of four kinds over that", one.rate / ten.rate, 2.5, "x")


def million(bench: Bench) -> None:
    folder = bench.folder(1_000_000, bench.events, bench.batches)
    ours = bench.run(windows(bench.stream(folder), "10s", "10s"))
    bench.report.fact("tumbling 10 s, 1,000,000 keys", f"{ours.rate:,.0f}/s")
    bench.report.fact("state of that", f"{ours.state_bytes / 2**20:.1f} MiB")


def small(bench: Bench) -> None:
    """The price of a micro-batch that has almost nothing in it."""
    folder = bench.folder(10, 10, 12)
    ours = bench.run(windows(bench.stream(folder), "10s", "10s"))
    rival = bench.run(spark_windows(bench.stream(folder), "10 seconds", "10 seconds"))
    least, theirs = min(ours.seconds), min(rival.seconds)
    bench.report.fact("an almost empty micro-batch", f"{least:.2f} s", f"{theirs:.2f} s")
    bench.report.limit("an almost empty micro-batch over Spark's", least / theirs, 1.5, "x")
    bench.report.fact(
        "from an event's micro-batch to its closed window on the sink",
        f"{least:.2f} s (the same micro-batch)",
        f"{2 * theirs:.2f} s (the next one)",
    )


def main(argv: list[str]) -> int:
    """Run the sections named, or all of them, and write the table and the plot."""
    parser = argparse.ArgumentParser(prog="bench spark-stream", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; else all")
    parser.add_argument("--events", type=int, default=500_000, help="events in a micro-batch")
    parser.add_argument("--batches", type=int, default=6)
    arguments = parser.parse_args(argv)
    sections = arguments.sections or list(SECTIONS)
    if not set(sections) <= set(SECTIONS):
        parser.error(f"sections are {', '.join(SECTIONS)}; given: {', '.join(sections)}")
    where = machine()
    bench = Bench(arguments.events, arguments.batches)
    for name in sections:
        globals()[name](bench)
    bench.report.show()
    if set(sections) == set(SECTIONS) and arguments.events >= 500_000:
        write(bench, where)
    bench.spark.stop()
    return 1 if bench.report.wrong else 0


def write(bench: Bench, where: str) -> None:
    """The table and the plot for the documents."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.5))
    axes.barh(list(bench.ratios), list(bench.ratios.values()))
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("events per second, times those of Spark's window()")
    figure.tight_layout()
    figure.savefig(DOCS / "spark-stream.svg")
    text = (
        "# Spark streaming\n\n"
        "`./run bench spark-stream`: local[2], `availableNow`, RocksDB state, noop sink, without "
        f"the first {WARM} micro-batches. Answers are compared first. {where}.\n\n"
        f"{bench.report.markdown()}\n![Ratios](spark-stream.svg)\n"
    )
    (DOCS / "spark-stream.md").write_text(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
