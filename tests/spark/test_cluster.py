"""On real executor processes and through Spark Connect, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark import own_spark

# As a user's script: the classes live in `__main__`, which no worker can import.
SCRIPT = """
import sys

import slicewise as sw
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

MASTER = sys.argv[1]
builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
if MASTER == "connect":
    spark = builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__
else:
    spark = builder.master(MASTER).config("spark.ui.enabled", "false").getOrCreate()


class Vwap(sw.Aggregate):
    commutative = True

    def identity(self):
        return (0.0, 0.0)

    def lift(self, price, volume):
        return (price * volume, volume)

    def combine(self, older, newer):
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state):
        return state[0] / state[1] if state[1] else None


class EveryThird(sw.UserWindow):
    seen = 0

    def on_event(self, time, event):
        self.seen += 1
        return (int(self.seen % 3 == 1), int(self.seen % 3 == 1 and self.seen > 1))


events = spark.range(0, 400, 1, 4).select(
    (F.col("id") % 3).alias("k"),
    F.timestamp_seconds(F.col("id")).alias("t"),
    (F.col("id") % 10).cast("double").alias("price"),
    (F.col("id") % 4 + 1).cast("double").alias("volume"),
)
vwap = Vwap("price", "volume")
said = sw.explain(events, by="k", time="t", windows=sw.sliding("1m", every="10s"), aggs=vwap)
assert "price_vwap: compiled." in said, said
table = events.toArrow()
for windows, aggs in (
    (sw.sliding("1m", every="10s"), [sw.agg.sum("price"), sw.agg.count()]),
    (sw.sliding("1m", every="10s"), [vwap, sw.agg.median("price")]),
    ([sw.sliding("1m", every="10s")], [vwap, sw.agg.last("price")]),
    ([sw.session("5s"), EveryThird()], [vwap, sw.agg.last("price")]),
):
    query = {"by": "k", "time": "t", "windows": windows, "aggs": aggs}
    found = sw.windowed(events, **query).toArrow()
    wanted = sw.windowed(table, **query)
    order = [(name, "ascending") for name in ("k", "window", "start", "end")]
    found = found.select(wanted.column_names).cast(wanted.schema)
    assert found.sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist(), windows
query = {"by": "k", "time": "t", "over": ["1m", sw.rows(5)], "aggs": [vwap, sw.agg.max("price")]}
found, wanted = sw.rolling(events, **query).toArrow(), sw.rolling(table, **query)
order = [("k", "ascending"), ("t", "ascending")]
assert found.cast(wanted.schema).sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist()
# What `withWatermark` said is found without the JVM.
ticks = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")
counts = {"time": "timestamp", "aggs": sw.agg.count()}
assert sw.windowed(ticks, windows=sw.tumbling("1m"), **counts).isStreaming
assert sw.rolling(ticks, over="1m", watermark="10s", **counts).isStreaming
print("all the same")
spark.stop()
"""


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,1024]", pytest.param("connect", marks=pytest.mark.smoke)]
)
def test_a_script_with_classes_of_its_own_gets_the_same_answers(
    master: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), master],
        cwd=tmp_path,
        env=own_spark(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "all the same" in done.stdout


def test_what_is_sent_to_workers_is_compiled_there_without_its_source(tmp_path: Path) -> None:
    send = SCRIPT[SCRIPT.index("class Vwap") : SCRIPT.index("class EveryThird")]
    made = tmp_path / "query.pickle"
    first = (
        "import pyarrow as pa, slicewise as sw\n"
        "from slicewise.spark.query import Query\nfrom slicewise.spark.sending import pickled\n\n\n"
        f"{send}"
        "types = {'p': pa.float64(), 'v': pa.float64()}\n"
        "query = Query.of([], [Vwap('p', 'v')], 't', [], types)\n"
        f"open({str(made)!r}, 'wb').write(pickled(query))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(first, encoding="utf-8")
    second = (
        "import pickle\n"
        f"query = pickle.load(open({str(made)!r}, 'rb'))\n"
        "print(query.bounds()[0].reason or 'compiled')\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=200)
    script.unlink()
    done = subprocess.run(
        [sys.executable, "-c", second], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "compiled"
