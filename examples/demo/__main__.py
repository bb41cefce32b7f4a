"""A football match as a Spark stream: four kinds of windows, six aggregates, events out of order.

One streaming query answers a session, a sliding, a row-count and a cumulating window at once. The
batch run of the same definition agrees, and Spark's own `window()` takes the sliding one beside it.
The last line printed is the path of a report with charts of all this.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

import slicewise as sw
from examples.demo import findings, page
from examples.demo.match import DELAY, QUERY, SCHEMA, make_match, write_match
from examples.demo.runs import agreed, open_stream, race, run
from examples.demo.tables import show_results
from slicewise.spark.local import start_spark


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__)
    parser.add_argument("--events", type=int, default=600_000, help="how many events to make")
    parser.add_argument("--files", type=int, default=4, help="how many files they come in")
    parser.add_argument(
        "--report", type=Path, default=Path("slicewise-demo.html"), help="where the report goes"
    )
    arguments = parser.parse_args()
    console = Console(width=max(Console().width, 100))
    console.print(f"A football match of {arguments.events:,} events from 27 sensors.")
    console.print(f"20 % of them arrive up to {DELAY} s late; none is dropped.")
    match = make_match(arguments.events)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_match(match, work / "match", arguments.files)
        with console.status("starting Spark ..."):
            spark = start_spark()
        found = compare(spark, match, work, console)
        spark.stop()
    report = arguments.report.absolute()
    page.write(found, report)
    console.print("The report, with charts of all this:")
    console.print(str(report), soft_wrap=True, highlight=False)


def compare(
    spark: SparkSession, match: pa.Table, work: Path, console: Console
) -> findings.Findings:
    """Run the stream, the batch run of the same definition, and Spark's own windows."""
    events = match.num_rows
    console.print("One streaming query: 4 windows of different kinds, 6 aggregates each.")
    stream = open_stream(spark, work / "match")
    whole = run(sw.windowed(stream, **QUERY), work, "slicewise", events, console)
    emitted = spark.read.parquet(str(work / "slicewise")).cache()
    left = sw.drain(work / "slicewise-checkpoint").cache()
    answer = sw.fold(emitted.union(left)).cache()
    console.print(
        f"{emitted.count():,} results while it ran; {left.count():,} more from the windows that "
        "were still open at its end."
    )
    sensor = show_results(answer, console)
    bounded = spark.read.schema(SCHEMA).parquet(str(work / "match"))
    rows = agreed(answer, sw.windowed(bounded, **QUERY))
    console.print(
        f"Batch = stream: the batch run of the same definition has the same {rows:,} rows."
    )
    console.print("The sliding window alone, beside Spark's own window():")
    both = race(open_stream(spark, work / "match", at_once=2), work, events, console)
    ours, theirs = (one.seconds for one in both)
    console.print(
        f"{ours:.1f} s against {theirs:.1f} s of Spark's window(): {theirs / ours:.1f} x."
    )
    with console.status("drawing the report ..."):
        return findings.collect(spark, match, sensor, answer, [whole, *both])


if __name__ == "__main__":
    main()
