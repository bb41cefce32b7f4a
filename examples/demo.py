"""A football match as a Spark stream: four kinds of windows, six aggregates, events out of order.

One streaming query answers a session, a sliding, a row-count and a cumulating window at once. The
batch run of the same definition agrees, and Spark's own `window()` takes the sliding one beside it.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import slicewise as sw
from slicewise.samples import football

KICK_OFF = datetime(2013, 6, 29, 15, 0, tzinfo=UTC)
DELAY = 2  # seconds; no event is later than the watermark
SCHEMA = "t timestamp, sensor bigint, speed double, distance double, kick boolean"
QUERY: dict[str, Any] = {
    "by": "sensor",
    "time": "t",
    "windows": [
        sw.session("3s", name="run"),
        sw.sliding("1m", every="1s", name="last minute"),
        sw.tumbling(sw.rows(2000), name="2000 reports"),
        sw.cumulate("1m", every="10s", name="minute so far"),
    ],
    "aggs": [
        sw.agg.count(),
        sw.agg.mean("speed").alias("mean"),
        sw.agg.max("speed").alias("top"),
        sw.agg.std("speed").alias("spread"),
        sw.agg.sum("distance").alias("metres"),
        sw.agg.min("speed").alias("least"),
    ],
    "watermark": f"{DELAY}s",
}
# Headings of the tables: the aggregate, and how it is written.
HEADINGS = {
    "reports": ("count", "{:,}"),
    "mean m/s": ("mean", "{:.2f}"),
    "top m/s": ("top", "{:.2f}"),
    "least m/s": ("least", "{:.2f}"),
    "spread m/s": ("spread", "{:.2f}"),
    "metres": ("metres", "{:.1f}"),
}
SHOWN = 3


def start_spark() -> SparkSession:
    """A session that keeps its own log to itself."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.simplefilter("ignore")
    shown = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # Java inherits it
    try:
        return make_session()
    finally:
        os.dup2(shown, 2)


def make_session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .appName("slicewise demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.daemon.module", "slicewise.spark.daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def write_match(folder: Path, events: int, files: int) -> None:
    """Files in the order of arrival; each becomes a micro-batch."""
    match = football(events, seed=2013, delay=DELAY * 1_000_000)
    start = int(KICK_OFF.timestamp() * 1_000_000)
    moments = pa.array(match["t"] + start).cast(pa.timestamp("us", "UTC"))
    table = pa.table({**match, "t": moments})
    folder.mkdir()
    bounds = np.linspace(0, events, files + 1).astype(int)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        path = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(begin, end - begin), path)
        # The order of files is that of their dates.
        os.utime(path, (start / 1e6 + number, start / 1e6 + number))


def run(frame: DataFrame, work: Path, name: str, files: int, console: Console) -> float:
    """Run a stream to its end, with its progress; the seconds that it took."""
    begin = time.perf_counter()
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(work / name))
        .option("checkpointLocation", str(work / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[seen]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task(f"{name:>10}", total=files, seen="")
        while query.isActive:
            show(query, progress, bar)
            time.sleep(0.2)
        show(query, progress, bar)
    query.awaitTermination()
    return time.perf_counter() - begin


def show(query: Any, progress: Progress, bar: Any) -> None:
    steps = [step for step in query.recentProgress if step["numInputRows"]]
    if not steps:
        return
    seen = f"{sum(step['numInputRows'] for step in steps):>9,} events"
    found = steps[-1]["observedMetrics"].get("slicewise")
    if found:
        seen += f", {found['slices']:,} slices in {found['state_bytes'] / 1024:,.0f} KiB of state"
    progress.update(bar, completed=len(steps), seen=seen)


def show_results(results: DataFrame, console: Console) -> None:
    """The instances of each window in which the speed varied most, a table each."""
    liveliest = Window.partitionBy("window").orderBy(
        F.desc("spread"), "sensor", "start", "start_position"
    )
    ranked = results.withColumn("rank", F.row_number().over(liveliest))
    rows = ranked.where(f"rank <= {SHOWN}").orderBy("rank").collect()
    for window in QUERY["windows"]:
        found = [row for row in rows if row.window == window.name]
        timed = window.name != "2000 reports"  # whose bounds are positions
        table = Table(title=f"{window.name}: where the speed varied most")
        for name in ("sensor", "start", "end", *HEADINGS):
            table.add_column(name, justify="right", no_wrap=True)
        for row in found:
            if timed:
                bounds = [clock(row.start), clock(row.end)]
            else:
                bounds = [f"{x:,}" for x in (row.start_position, row.end_position)]
            values = [
                "-" if row[agg] is None else form.format(row[agg])
                for agg, form in HEADINGS.values()
            ]
            table.add_row(str(row.sensor), *bounds, *values)
        console.print(table if found else f"{window.name}: no instance is complete yet.")


def clock(moment: datetime) -> str:
    """Minutes and seconds since the kick-off; Spark gives moments on the clock of this machine."""
    since = moment.astimezone(UTC) - KICK_OFF
    minutes, seconds = divmod(since.total_seconds(), 60)
    return f"{minutes:.0f}:{seconds:05.2f}"


def agreed(streamed: DataFrame, batch: DataFrame) -> int:
    """How many rows both have; sums of floats may differ in their last digits."""
    keys = ["sensor", "window", "start", "end", "start_position", "end_position"]
    equal = [F.col(f"s.{key}").eqNullSafe(F.col(f"b.{key}")) for key in keys]
    values = [agg.output for agg in QUERY["aggs"]]
    both = streamed.alias("s").join(batch.alias("b"), equal, "full").cache()
    same = F.col("s.count").isNotNull() & F.col("b.count").isNotNull()
    for ours, theirs in ((F.col(f"s.{value}"), F.col(f"b.{value}")) for value in values):
        near = F.abs(ours - theirs) <= 1e-9 * (1 + F.abs(theirs))
        same &= ours.eqNullSafe(theirs) | F.coalesce(near, F.lit(False))
    differing = both.where(~same).count()
    assert not differing, f"{differing} rows differ between stream and batch"
    return both.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=600_000, help="how many events to make")
    parser.add_argument("--files", type=int, default=6, help="how many micro-batches to make")
    arguments = parser.parse_args()
    events, files = arguments.events, arguments.files
    console = Console(width=max(Console().width, 100))
    console.print(f"A football match of {events:,} events from 27 sensors.")
    console.print(f"20 % of them arrive up to {DELAY} s late; none is dropped.")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_match(work / "match", events, files)
        with console.status("starting Spark ..."):
            spark = start_spark()
        compare(spark, work, files, console)
        spark.stop()


def compare(spark: SparkSession, work: Path, files: int, console: Console) -> None:
    """The stream, the batch run of the same definition, and Spark's own windows."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(work / "match"))
    console.print("One streaming query: 4 windows of different kinds, 6 aggregates each.")
    run(sw.windowed(stream, **QUERY), work, "slicewise", files, console)
    emitted = spark.read.parquet(str(work / "slicewise"))
    left = sw.drain(work / "slicewise-checkpoint")
    answer = sw.fold(emitted.union(left)).cache()
    console.print(
        f"{emitted.count():,} results while it ran; {left.count():,} more from the windows that "
        "were still open at its end."
    )
    show_results(answer, console)
    bounded = spark.read.schema(SCHEMA).parquet(str(work / "match"))
    rows = agreed(answer, sw.windowed(bounded, **QUERY))
    console.print(
        f"Batch = stream: the batch run of the same definition has the same {rows:,} rows."
    )
    race(stream, work, files, console)


def race(stream: DataFrame, work: Path, files: int, console: Console) -> None:
    """The sliding window alone, and the same by Spark's own `window()`."""
    console.print("The sliding window alone, beside Spark's own window():")
    sliding = sw.sliding("1m", every="1s")
    ours = sw.windowed(stream, **{**QUERY, "windows": sliding})
    theirs = (
        stream.withWatermark("t", f"{DELAY} seconds")
        .groupBy("sensor", F.window("t", "1 minute", "1 second"))
        .agg(
            F.count("*").alias("count"),
            F.mean("speed").alias("mean"),
            F.max("speed").alias("top"),
            F.stddev("speed").alias("spread"),
            F.sum("distance").alias("metres"),
            F.min("speed").alias("least"),
        )
    )
    seconds = [
        run(frame, work, name, files, console)
        for name, frame in (("Slicewise", ours), ("window()", theirs))
    ]
    console.print(
        f"{seconds[0]:.1f} s against {seconds[1]:.1f} s of Spark's window(): "
        f"{seconds[1] / seconds[0]:.1f} x."
    )


if __name__ == "__main__":
    main()
