"""The query on Spark, as a stream and as a batch, and Spark's own windows beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import slicewise as sw
from examples.demo.match import DELAY, EVERY, LENGTH, QUERY, SCHEMA


@dataclass(frozen=True, slots=True)
class Run:
    """How a stream ran: its seconds, events, micro-batches, and the most state that it kept."""

    name: str
    seconds: float
    events: int
    micro_batches: int
    state_bytes: int


def open_stream(spark: SparkSession, folder: Path, *, at_once: int = 1) -> DataFrame:
    """The match as a stream whose micro-batches have `at_once` files each."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", at_once)
    return reader.parquet(str(folder))


def run(frame: DataFrame, work: Path, name: str, events: int, console: Console) -> Run:
    """Run a stream to its end and show its progress."""
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
        bar = progress.add_task(f"{name:>10}", total=events, seen="")
        while query.isActive:
            show(query, progress, bar)
            time.sleep(0.2)
        show(query, progress, bar)
    query.awaitTermination()
    took = time.perf_counter() - begin
    steps = [step for step in query.recentProgress if step["numInputRows"]]
    return Run(name, took, events, len(steps), max(map(state_bytes, steps)))


def show(query: Any, progress: Progress, bar: Any) -> None:
    """Move the bar of a query to where it is."""
    steps = [step for step in query.recentProgress if step["numInputRows"]]
    if not steps:
        return
    done = sum(step["numInputRows"] for step in steps)
    seen = f"{done:>9,} events"
    found = steps[-1]["observedMetrics"].get("slicewise")
    if found:
        seen += f", {found['slices']:,} slices in {found['state_bytes'] / 1024:,.0f} KiB of state"
    progress.update(bar, completed=done, seen=seen)


def state_bytes(step: Any) -> int:
    """The bytes of the current version of all state after a micro-batch, as Spark reports them."""
    operators = step["stateOperators"]
    return sum(one["customMetrics"]["stateOnCurrentVersionSizeBytes"] for one in operators)


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


def race(stream: DataFrame, work: Path, events: int, console: Console) -> list[Run]:
    """Run the sliding window alone, and the same by Spark's own `window()`."""
    sliding = sw.sliding(f"{LENGTH}s", every=f"{EVERY}s")
    ours = sw.windowed(stream, **{**QUERY, "windows": sliding})
    theirs = (
        stream.withWatermark("t", f"{DELAY} seconds")
        .groupBy("sensor", F.window("t", f"{LENGTH} seconds", f"{EVERY} seconds"))
        .agg(
            F.count("*").alias("count"),
            F.mean("speed").alias("mean"),
            F.max("speed").alias("top"),
            F.stddev("speed").alias("spread"),
            F.sum("distance").alias("metres"),
            F.min("speed").alias("least"),
        )
    )
    both = (("Slicewise", ours), ("window()", theirs))
    return [run(frame, work, name, events, console) for name, frame in both]
