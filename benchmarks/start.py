"""The first result of a fresh process, and what compiling it takes.

Every program runs in processes of its own with a folder for machine code of its own. Figures are
seconds of processor time of the whole process, its start, imports and children included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.common import DOCS, Report, machine
from slicewise.shipping import TARGET as SHIPPED
from slicewise.shipping import ship

ROOT = DOCS.parent.parent

# A table of `rows` rows: texts as keys, moments in order, numbers.
TABLE = """
import sys
import numpy as np
import pyarrow as pa
import slicewise as sw

rows, kept = int(sys.argv[1]), sys.argv[2]
random = np.random.default_rng(7)
moments = np.sort(random.integers(0, 10 * 3600 * 1_000_000, rows))
table = pa.table({
    "key": pa.array([f"key {k}" for k in range(10)]).take(pa.array(random.integers(0, 10, rows))),
    "at": pa.array(moments, pa.timestamp("us")),
    "x": random.integers(0, 1000, rows) / 4,
})
agg = sw.agg
windows = [sw.tumbling("5m"), sw.sliding("10m", every="2m"), sw.session("3m")]
made = {"by": "key", "time": "at"}
"""

PROGRAMS = {
    "windowed": """
found = sw.windowed(
    table, windows=windows, aggs=[agg.count(), agg.mean("x"), agg.max("x")], **made
)
""",
    "rolling": """
found = sw.rolling(
    table, over=["10m", "1h", sw.rows(100)], aggs=[agg.count(), agg.mean("x"), agg.max("x")], **made
)
""",
    "mix": """
found = sw.windowed(
    table, windows=windows, aggs=[agg.sum("x"), agg.std("x"), agg.first("x")], **made
)
""",
    "Operator": """
op = sw.Operator(windows=windows, aggs=[agg.count(), agg.mean("x"), agg.max("x")], **made)
parts = []
for first in range(0, rows, 100_000):
    op.process(table.slice(first, 100_000))
    parts.append(op.advance_arrow(int(moments[min(first + 100_000, rows) - 1])))
found = pa.concat_tables([*parts, op.advance_arrow(float("inf"))])
""",
}

KEEP = """
if kept:
    with pa.OSFile(kept, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found)
"""

WHAT = {
    "windowed": "`windowed`, three windows, three aggregates",
    "rolling": "`rolling`, three spans, three aggregates",
    "mix": "`windowed`, a mix of aggregates never seen before",
    "Operator": "`Operator`, batches of 100,000",
}


HEAD = """# The first result

Written by `./run bench start`. {where}.
{doc}
Ten keys that are texts, windows of 5 minutes, of 10 minutes every 2, and sessions; aggregates are
the count, the mean and the greatest. Answers are compared before anything is timed.
"""


class Fresh:
    """A folder for machine code that was empty, and processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "SLICEWISE_CACHE_DIR": str(folder / "slicewise"),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
        }

    def run(self, program: str, *arguments: Any) -> float:
        """Seconds of processor time of a process, its children included."""
        call = [sys.executable, "-c", program, *map(str, arguments)]
        process = subprocess.Popen(call, env=self.environment, cwd=self.folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, call[0])
        return usage.ru_utime + usage.ru_stime

    def compiled(self) -> int:
        """How many functions were compiled so far."""
        return len(list(self.folder.glob("slicewise/*.nbc")))


@contextmanager
def fresh() -> Iterator[Fresh]:
    with tempfile.TemporaryDirectory() as folder:
        yield Fresh(Path(folder))


def program(name: str) -> str:
    return TABLE + PROGRAMS[name] + KEEP


def result(name: str, rows: int, place: Fresh) -> pa.Table:
    path = place.folder / f"{name}.arrow"
    place.run(program(name), rows, path)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def check(report: Report, rows: int) -> None:
    """Compare the answers of all programs with sums over the table itself."""
    import numpy as np
    import pyarrow.compute as pc

    space: dict[str, Any] = {}
    argv, sys.argv = sys.argv, ["", str(rows), ""]
    try:
        exec(TABLE, space)
    finally:
        sys.argv = argv
    table = space["table"]
    period = pc.floor_temporal(table["at"], 5, "minute")
    wanted = (
        table.append_column("start", period)
        .group_by(["key", "start"])
        .aggregate([("x", "count"), ("x", "mean"), ("x", "max"), ("x", "sum")])
        .sort_by([("key", "ascending"), ("start", "ascending")])
    )
    with fresh() as place:
        found = {name: result(name, rows, place) for name in PROGRAMS}
    columns = {"windowed": ["x_mean", "x_max"], "Operator": ["x_mean", "x_max"], "mix": ["x_sum"]}
    for name, compared in columns.items():
        table_of = found[name].filter(pc.equal(found[name]["window"], "tumbling_5m"))
        ours = table_of.sort_by([("key", "ascending"), ("start", "ascending")])
        right = ours["start"].to_pylist() == wanted["start"].to_pylist() and all(
            np.allclose(ours[c], wanted[c], rtol=1e-9) for c in compared
        )
        report.right(f"{name} over {rows} rows", correct=right)
    rolled, hour = found["rolling"], pa.scalar(3_600_000_000, pa.duration("us"))
    report.right(f"rolling over {rows} rows", correct=rolled.num_rows == rows)
    for row in (0, rows // 2, rows - 1):
        of_key = table.filter(pc.equal(table["key"], table["key"][row]))
        distance = pc.subtract(table["at"][row], of_key["at"])
        seen = pc.and_(pc.less(distance, hour), pc.greater_equal(distance, pa.scalar(0, hour.type)))
        greatest = pc.max(of_key["x"].filter(seen)).as_py()
        report.right(
            f"rolling over {rows} rows", correct=rolled["x_max_1h"][row].as_py() == greatest
        )


def first_program() -> str:
    """The first program of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split("```python\n")[1].split("```")[0]


def measure(report: Report, rows: int, aim: float, rounds: int) -> None:
    """The first result over so many rows, then that of a second process."""
    size = f"{rows:,} rows"
    for name in ("windowed", "rolling", "Operator"):
        with fresh() as place:
            report.limit(f"{WHAT[name]}, {size}", place.run(program(name), rows, ""), aim, "s")
            report.fact(f"functions compiled for it, {size}", str(place.compiled()))
            again = min(place.run(program(name), rows, "") for _ in range(rounds))
            report.limit(f"the same in a second process, {size}", again, max(0.7, aim / 2), "s")
            if name == "windowed":
                before = place.compiled()
                mix = place.run(program("mix"), rows, "")
                report.limit(f"{WHAT['mix']}, {size}", mix, aim, "s")
                report.fact(f"functions compiled for it, {size}", str(place.compiled() - before))


def readme(report: Report) -> None:
    with fresh() as place:
        report.limit("the README's first program", place.run(first_program()), 1, "s")


SPARK = """
import os, sys, time
from collections.abc import Iterator
from pathlib import Path
import pyspark.sql
import slicewise as sw
from pyspark.sql import SparkSession, functions as F

rows, folder = int(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
frame = spark.range(0, rows, 1, 1).select(
    (F.col("id") % 10).cast("string").alias("key"),
    F.timestamp_micros(F.col("id") * 1000).alias("at"),
    (F.col("id") % 1000 / 4).alias("x"),
)
plain = type(frame).mapInArrow

def watched(self, task, *more):
    def run(batches):
        yield from task(batches)
        Path(folder, f"worker-{os.getpid()}").write_text(str(time.process_time()))
    return plain(self, run, *more)

type(frame).mapInArrow = watched
agg = sw.agg
windows = [sw.tumbling("5m"), sw.sliding("10m", every="2m"), sw.session("3m")]
found = sw.windowed(
    frame, by="key", time="at", windows=windows,
    aggs=[agg.count(), agg.mean("x"), agg.max("x")],
).collect()
assert sum(row["count"] for row in found if row["window"] == "tumbling_5m") == rows
spark.stop()
"""


def spark_worker(report: Report, rows: int, aim: float) -> None:
    """The processor time of the Python processes that Spark starts for a query."""
    with fresh() as place:
        place.run(SPARK, rows, place.folder)
        spent = [float(path.read_text()) for path in place.folder.glob("worker-*")]
        report.limit(f"the tasks of Spark workers, {rows:,} rows", max(spent), aim, "s")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench start", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[6, 1000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=2, help="runs of a second process")
    parser.add_argument("--no-spark", action="store_true", help="leave the workers of Spark out")
    given = parser.parse_args(argv)
    report, where = Report("The first result, in seconds of processor time"), machine()
    if not any(SHIPPED.glob("*.nbc")):  # as in a wheel that is released
        ship()
    for rows in given.rows:
        check(report, rows)
    shipped = len(list(SHIPPED.glob("*.nbc")))
    report.fact("functions that came with the package (`./run ship`)", str(shipped))
    readme(report)
    for rows in given.rows:
        aim = 1 if rows < 100_000 else 3
        measure(report, rows, aim, given.rounds)
        if not given.no_spark:
            spark_worker(report, rows, aim)
    report.show()
    if not report.wrong and given.rows == parser.get_default("rows") and not given.no_spark:
        head = HEAD.format(where=where, doc=" ".join((__doc__ or "").split()))
        (DOCS / "start.md").write_text(f"{head}\n{report.markdown()}", encoding="utf-8")
    return 1 if report.wrong else 0
