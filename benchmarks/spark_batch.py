"""`sw.windowed` and `sw.rolling` on Spark DataFrames against Spark's own windows, on two cores."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import slicewise as sw
from benchmarks.common import DOCS, Report, machine

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

KEYS, SECONDS = 1000, 10_000
SECTIONS = ("sliding", "many", "rolling", "holistic", "keys", "hot", "memory")
SEGMENT_TREE = "spark.sql.window.segmentTree.enabled"
AGGS = [sw.agg.max("x"), sw.agg.sum("x"), sw.agg.count()]
ENDS = [sw.agg.first("x"), sw.agg.last("x")]


class Bench:
    """A session, the data, and the report."""

    def __init__(self, rows: int, rounds: int) -> None:
        from pyspark.sql import SparkSession

        self.spark = (
            SparkSession.builder.master("local[2]")
            .appName("spark-batch")
            .config("spark.driver.memory", "6g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "8")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
            # Or else Spark adds up the bytes of a batch again for every row.
            .config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("ERROR")
        self.rows, self.rounds = rows, rounds
        self.report = Report("Spark batch")
        self.ratios: dict[str, float] = {}  # of sliding windows, for the plot
        self.workers = Workers()

    def events(self, rows: int | None = None, keys: int = KEYS) -> Any:
        """One event per key and second, from parquet files written once, in the order of time."""
        from pyspark.sql import functions as F

        rows = self.rows if rows is None else rows
        folder = Path(tempfile.gettempdir()) / "slicewise-bench" / f"events-{rows}-{keys}"
        if not (folder / "_SUCCESS").exists():
            made = self.spark.range(0, rows, 1, 8).select(
                (F.col("id") % keys).alias("k"),
                F.timestamp_micros(
                    (F.floor(F.col("id") / keys) * 1_000_000 + 1_700_000_000_000_000).cast("bigint")
                ).alias("t"),
                (F.hash("id") / 2.0**31 * 100).alias("x"),
            )
            made.write.mode("overwrite").parquet(str(folder))
        return self.spark.read.parquet(str(folder))

    def seconds(self, frame: Callable[[], Any]) -> float:
        """The time to compute a DataFrame and throw it away."""
        start = time.perf_counter()
        frame().write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    def best(self, frame: Callable[[], Any], rounds: int | None = None) -> float:
        return min(self.seconds(frame) for _ in range(rounds or self.rounds))

    def turns(self, *frames: Callable[[], Any]) -> list[float]:
        """The best times of queries that take seconds, in turns: all meet the same noise."""
        found = [[self.seconds(frame) for frame in frames] for _ in range(2 * self.rounds)]
        return [min(times) for times in zip(*found, strict=True)]

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        before = self.spark.conf.get(name)
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.set(name, before)


class Workers:
    """The most memory that a Python worker of this process's Spark has used."""

    def __init__(self) -> None:
        self.peak = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.2)

    def _look(self) -> int:
        """The most that a worker that runs now has used since it began, or since `during`."""
        found = 0
        for status in workers("status"):
            with suppress(OSError):
                lines = status.read_text().splitlines()
                found = max([found, *(kibibytes(x) for x in lines if x.startswith("VmHWM"))])
        self.peak = max(self.peak, found * 1024)
        return found * 1024

    def during(self, call: Callable[[], Any]) -> int:
        """The most while `call` runs."""
        self._look()
        for marks in workers("clear_refs"):
            with suppress(OSError):
                marks.write_text("5")  # begins the count of the most memory anew
        call()
        return self._look()


def kibibytes(line: str) -> int:
    return int(line.split()[1])


def workers(file: str) -> list[Path]:
    """That file of `/proc` for each Python worker of this process's Spark."""
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"pyspark" in command and b"java" not in command:
                found.append(Path(f"/proc/{pid}/{file}"))
    return found


def descendants(root: int) -> list[int]:
    """All processes below a process."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [root]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found


def spark_windows(frame: Any, length: str, every: str) -> Any:
    from pyspark.sql import functions as F

    return (
        frame.groupBy("k", F.window("t", length, every))
        .agg(F.max("x").alias("x_max"), F.sum("x").alias("x_sum"), F.count(F.lit(1)).alias("count"))
        .select("k", "window.start", "window.end", "x_max", "x_sum", "count")
    )


def ours_windows(frame: Any, length: str, every: str, aggs: Any = AGGS) -> Any:
    return sw.windowed(frame, by="k", time="t", windows=sw.sliding(length, every=every), aggs=aggs)


def same(ours: Any, theirs: Any, keys: list[str], values: list[str]) -> bool:
    """Whether two DataFrames have the same rows; floats may differ in their last digits."""
    from pyspark.sql import functions as F

    left = ours.select(*keys, *(F.col(v).alias(f"l_{v}") for v in values), F.lit(1).alias("l"))
    right = theirs.select(*keys, *(F.col(v).alias(f"r_{v}") for v in values), F.lit(1).alias("r"))
    both = left.join(right, keys, "full")
    differs = F.col("l").isNull() | F.col("r").isNull()
    for v in values:
        one, other = F.col(f"l_{v}").cast("double"), F.col(f"r_{v}").cast("double")
        close = F.abs(one - other) <= 1e-6 * (1 + F.abs(other))
        differs = differs | ~F.coalesce(close, one.isNull() & other.isNull())
    return bool(both.where(differs).limit(1).count() == 0)


def sliding(bench: Bench) -> None:
    few = bench.events(bench.rows // 100)
    # Spark copies each row into every window that holds it, so the widest take fewer rows.
    for length, every, target, share in (
        ("10 seconds", "10 seconds", 0.8, 1),
        ("60 seconds", "1 second", 1.0, 1),
        ("600 seconds", "10 seconds", 20.0, 1),
        ("3600 seconds", "10 seconds", 20.0, 10),
    ):
        short = length.split()[0] + "s", every.split()[0] + "s"
        found, expected = ours_windows(few, *short), spark_windows(few, length, every)
        correct = same(found, expected, ["k", "start", "end"], ["x_max", "x_sum", "count"])
        bench.report.right(f"sliding {length} every {every}", correct=correct)
        frame = bench.events(bench.rows // share)
        mine = partial(ours_windows, frame, *short)
        theirs = partial(spark_windows, frame, length, every)
        if length == every:
            ours, rival = bench.turns(mine, theirs)
        else:
            ours, rival = bench.best(mine), bench.best(theirs, 1)
        note = "" if share == 1 else f", 1/{share} of the rows"
        what = f"max, sum, count over {length} every {every}{note}; Spark's window()"
        bench.report(what, ours, rival, target)
        bench.ratios[f"{short[0]} every {short[1]}"] = rival / ours


def many(bench: Bench) -> None:
    frame, few = bench.events(), bench.events(bench.rows // 100)
    lengths = [30 * (k + 1) for k in range(20)]
    windows = [sw.sliding(f"{n}s", every=f"{10 * (1 + k % 3)}s") for k, n in enumerate(lengths)]
    found = sw.windowed(few, by="k", time="t", windows=windows, aggs=AGGS)
    for window in (windows[0], windows[-1]):
        alone = sw.windowed(few, by="k", time="t", windows=window, aggs=AGGS)
        keys, values = ["k", "window", "start", "end"], ["x_max", "x_sum", "count"]
        correct = same(found.where(f"window = '{window.name}'"), alone, keys, values)
        bench.report.right(f"{window.name} among twenty", correct=correct)
    widest, twenty = bench.turns(
        lambda: sw.windowed(frame, by="k", time="t", windows=windows[-1], aggs=AGGS),
        lambda: sw.windowed(frame, by="k", time="t", windows=windows, aggs=AGGS),
    )
    bench.report.fact("the widest of twenty windows alone", f"{widest:.2f} s")
    bench.report.limit("twenty windows over the widest alone", twenty / widest, 2, "x")


def spark_rolling(frame: Any, spans: tuple[int, ...], functions: tuple[str, ...]) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    micros = frame.withColumn("u", F.unix_micros("t"))
    columns = []
    for function in functions:
        for span in spans:
            over = Window.partitionBy("k").orderBy("u").rangeBetween(1 - span * 1_000_000, 0)
            made = getattr(F, {"mean": "avg", "std": "stddev_samp"}.get(function, function))("x")
            columns.append(made.over(over).alias(f"x_{function}_{span}s"))
    return micros.select("k", "t", "x", *columns)


def ours_rolling(frame: Any, spans: tuple[int, ...], functions: tuple[str, ...]) -> Any:
    aggs = [getattr(sw.agg, function)("x") for function in functions]
    return sw.rolling(frame, by="k", time="t", over=[f"{s}s" for s in spans], aggs=aggs)


def rolling(bench: Bench) -> None:
    frame, few = bench.events(), bench.events(bench.rows // 20)
    for spans, functions, targets in (
        ((600,), ("max", "sum"), (1.5, 8.0)),
        ((60, 600, 3600, 14_400), ("max", "mean", "std"), (4.0, None)),
    ):
        names = [f"x_{f}_{s}s" for f in functions for s in spans]
        correct = same(
            ours_rolling(few, spans, functions), spark_rolling(few, spans, functions),
            ["k", "t"], names,
        )  # fmt: skip
        bench.report.right(f"rolling over {spans}", correct=correct)
        ours = bench.best(lambda s=spans, f=functions: ours_rolling(frame, s, f))
        what = f"rolling {', '.join(functions)} over {', '.join(map(str, spans))} s"
        with bench.setting(SEGMENT_TREE, "true"):
            tree = bench.best(lambda s=spans, f=functions: spark_rolling(frame, s, f), 1)
        bench.report(f"{what}; Spark with its segment tree", ours, tree, targets[0])
        if targets[1] is not None:
            plain = bench.best(lambda s=spans, f=functions: spark_rolling(frame, s, f), 1)
            bench.report(f"{what}; Spark without", ours, plain, targets[1])


class Vwap(sw.Aggregate):
    """A mean weighted by the size of the value itself."""

    commutative = True

    def identity(self) -> Any:
        return (0.0, 0.0)

    def lift(self, x: Any) -> Any:
        return (x * abs(x), abs(x))

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None


def pandas_vwap(pdf: Any) -> Any:
    import pandas as pd

    seconds = (
        pdf["t"].astype("int64") // 10**9
        if pdf["t"].dtype == "M8[ns]"
        else (pdf["t"].astype("int64") // 10**6)
    )
    weight = pdf["x"].abs()
    slices = pd.DataFrame({"s": seconds // 10, "a": pdf["x"] * weight, "w": weight})
    slices = slices.groupby("s").sum()
    full = slices.reindex(range(slices.index.min(), slices.index.max() + 60), fill_value=0.0)
    rolled = full.rolling(60, min_periods=1).sum()
    end = pd.to_datetime((rolled.index + 1) * 10, unit="s", utc=True).tz_localize(None)
    return pd.DataFrame({"k": pdf["k"].iloc[0], "end": end, "v": rolled["a"] / rolled["w"]})


def holistic(bench: Bench) -> None:
    from pyspark.sql import functions as F

    few, tenth = bench.events(bench.rows // 100), bench.events(bench.rows // 10)

    def medians(frame: Any) -> Any:
        windows = F.window("t", "600 seconds", "10 seconds")
        made = frame.groupBy("k", windows).agg(F.percentile("x", 0.5).alias("x_median"))
        return made.select("k", "window.start", "window.end", "x_median")

    def ours(frame: Any) -> Any:
        return ours_windows(frame, "600s", "10s", sw.agg.median("x"))

    correct = same(ours(few), medians(few), ["k", "start", "end"], ["x_median"])
    bench.report.right("median over 600 s every 10 s", correct=correct)
    mine, theirs = bench.best(lambda: ours(tenth), 1), bench.best(lambda: medians(tenth), 1)
    what = "exact median over 600 s every 10 s, 1/10 of the rows; Spark's percentile in window()"
    bench.report(what, mine, theirs, 1.0)

    def own(frame: Any) -> Any:
        return ours_windows(frame, "600s", "10s", Vwap("x").alias("v"))

    def grouped(frame: Any) -> Any:
        return frame.groupBy("k").applyInPandas(pandas_vwap, "k bigint, end timestamp, v double")

    correct = same(own(few).select("k", "end", "v"), grouped(few), ["k", "end"], ["v"])
    bench.report.right("user-defined aggregate", correct=correct)
    mine, theirs = bench.best(lambda: own(tenth)), bench.best(lambda: grouped(tenth), 1)
    what = (
        "user-defined aggregate over 600 s every 10 s, 1/10 of the rows; a grouped pandas function"
    )
    bench.report(what, mine, theirs, 1.0)


def keys(bench: Bench) -> None:
    # With a million keys each row is in nearly sixty windows of 600 s of its own, so there are far
    # more results than rows; windows of 20 s make about as many results for any number of keys.
    for name, run, target in (
        ("windowed 20 s every 10 s", lambda frame: ours_windows(frame, "20s", "10s"), 3),
        ("windowed 600 s every 10 s", lambda frame: ours_windows(frame, "600s", "10s"), None),
        ("rolling", lambda frame: ours_rolling(frame, (600,), ("max", "sum")), 3),
    ):
        speeds = {}
        for count in (1, 1000, 1_000_000):
            frame = bench.events(keys=count)
            speeds[count] = bench.rows / bench.best(lambda f=frame, r=run: r(f)) / 1e6
        shown = ", ".join(f"{count:,} keys: {speed:.2f}" for count, speed in speeds.items())
        bench.report.fact(f"{name}, million rows/s", shown)
        spread = max(speeds.values()) / min(speeds.values())
        if target is None:
            bench.report.fact(f"{name}: fastest over slowest number of keys", f"{spread:.2f} x")
        else:
            bench.report.limit(f"{name}: fastest over slowest number of keys", spread, target, "x")


def hot(bench: Bench) -> None:
    from pyspark.sql import functions as F

    frame = bench.events()
    skewed = frame.withColumn("k", F.when(F.col("k") < 0.9 * KEYS, 0).otherwise(F.col("k")))
    for name, run in (
        ("windowed", lambda data: ours_windows(data, "600s", "10s")),
        ("windowed, first and last", lambda data: ours_windows(data, "600s", "10s", ENDS)),
        ("rolling", lambda data: ours_rolling(data, (60,), ("max", "sum"))),
    ):
        even = bench.best(lambda r=run: r(frame), 1)
        skew = bench.best(lambda r=run: r(skewed), 1)
        what = f"{name}: a key with 90 % of the rows over even keys"
        bench.report.limit(what, skew / even, 1.5, "x")


def memory(bench: Bench) -> None:
    counted = sw.sliding(sw.rows(600), every=sw.rows(10))
    for name, run in (
        ("windowed 600 s every 10 s", lambda frame: ours_windows(frame, "600s", "10s")),
        (
            "windowed 600 rows every 10",
            lambda frame: sw.windowed(frame, by="k", time="t", windows=counted, aggs=AGGS),
        ),
        ("rolling", lambda frame: ours_rolling(frame, (600,), ("max", "sum"))),
    ):
        peaks = {}
        for rows in (bench.rows // 10, bench.rows):
            frame = bench.events(rows)
            peaks[rows] = bench.workers.during(lambda f=frame, r=run: bench.seconds(lambda: r(f)))
        shown = ", ".join(f"{rows:,} rows: {peak / 2**20:.0f} MiB" for rows, peak in peaks.items())
        bench.report.fact(f"{name}: peak memory of a Python worker", shown)
        growth = peaks[bench.rows] / peaks[bench.rows // 10]
        bench.report.limit(f"{name}: peak memory with ten times the rows", growth, 1.2, "x")
    peak = bench.workers.peak / 2**20
    bench.report.limit("peak memory of a Python worker in all of these", peak, 1024, "MiB")


def plot(bench: Bench) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3))
    axes.barh(list(bench.ratios), list(bench.ratios.values()))
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="times as fast as Spark's window(): max, sum, count")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(DOCS / "spark-batch.png", dpi=110)


TEXT = """# Spark batch

Written by `./run bench spark-batch`. {machine}, PySpark {pyspark}; `local[2]`, {rows:,} rows from
parquet, {keys:,} keys, one event per key and second, results thrown away; best of {rounds} rounds,
one round for rivals that take minutes, medians and hot keys, twice as many in turns for tumbling
and for twenty windows. Answers are compared before anything is timed. A million keys have ten
events each: 600 s every 10 s then makes 61 results of ten rows, sixty times as many as with a
thousand keys, so the target stands at windows that make about as many results for any number of
keys.

{table}
![How many times as fast as Spark's own window()](spark-batch.png)
"""


def main(argv: list[str]) -> int:
    import pyspark

    parser = argparse.ArgumentParser(prog="./run bench spark-batch", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="some sections only")
    parser.add_argument("--rows", type=int, default=KEYS * SECONDS)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args(argv)
    bench = Bench(options.rows, options.rounds)
    for name in options.sections or SECTIONS:
        globals()[name](bench)
    if not options.sections:
        text = TEXT.format(
            machine=machine(),
            pyspark=pyspark.__version__,
            rows=options.rows,
            keys=KEYS,
            rounds=options.rounds,
            table=bench.report.markdown(),
        )
        DOCS.mkdir(parents=True, exist_ok=True)
        (DOCS / "spark-batch.md").write_text(text, encoding="utf-8")
        plot(bench)
    bench.report.show()
    bench.spark.stop()
    return 1 if bench.report.wrong else 0
