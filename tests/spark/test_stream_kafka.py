"""A stream from a real Kafka: the batch answer, over a restart and a message that is no event."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.testing import windowed_rows
from tests.support.spark import SCHEMA, assert_same, events, own_spark
from tests.support.streaming import disordered, emitted, late

# A broker and Spark's connector have to be fetched and started.
pytestmark = pytest.mark.slow

WINDOWS = [sw.sliding(30, every=10), sw.session(3), sw.tumbling(sw.rows(4))]
AGGS = [sw.agg.sum("x"), sw.agg.last("s"), sw.agg.count()]

# The newest connector that there is, and the broker of the version that it is made for. One of the
# connector's parts has not changed since 4.0 and is not everywhere in later versions.
FETCH = """
import sys
import warnings

warnings.simplefilter("ignore")
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars.ivy", sys.argv[1]).getOrCreate()
token = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
for package in (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0?exclude={token}",
    f"{token}:4.0.0?transitive=false",
    "org.apache.kafka:kafka_2.13:3.9.2",
):
    spark.sql(f"ADD JAR ivy://{package}")
spark.stop()
"""
CONNECTOR = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")

SCRIPT = f"""
import base64
import json
import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import pyspark
import slicewise as sw
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

folder, fetched = Path(sys.argv[1]), sorted(Path(sys.argv[2]).glob("*.jar"))
connector = [str(jar) for jar in fetched if any(part in jar.name for part in {CONNECTOR})]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.jars", ",".join(connector))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def broker():
    # Spark has what is still missing.
    jars = [*map(str, fetched), str(Path(pyspark.__file__).parent / "jars" / "*")]
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    start = [java, "-Xmx512m", "-cp", ":".join(jars)]
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    settings = folder / "server.properties"
    settings.write_text(
        f\"\"\"process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{{ports[1]}}
listeners=PLAINTEXT://127.0.0.1:{{ports[0]}},CONTROLLER://127.0.0.1:{{ports[1]}}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={{folder / "topics"}}
offsets.topic.replication.factor=1
num.partitions=2
\"\"\"
    )
    name = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    made = [*start, "kafka.tools.StorageTool", "format", "-t", name, "-c", settings]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    process = subprocess.Popen([*start, "kafka.Kafka", settings], stdout=subprocess.DEVNULL)
    for _ in range(300):
        time.sleep(0.2)
        assert process.poll() is None, "the broker did not start"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", ports[0])) == 0:
                return process, f"127.0.0.1:{{ports[0]}}"
    raise AssertionError("the broker does not answer")


process, address = broker()
parts = json.loads((folder / "parts.json").read_text())
aggs = [sw.agg.sum("x"), sw.agg.last("s"), sw.agg.count()]
windows = [sw.sliding(30, every=10), sw.session(3), sw.tumbling(sw.rows(4))]
bad = 0
try:
    for part in parts:
        messages = spark.createDataFrame([(line,) for line in part], "value string").coalesce(1)
        to = messages.write.format("kafka").option("kafka.bootstrap.servers", address)
        to.option("topic", "events").save()
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
        source = source.option("subscribe", "events").option("startingOffsets", "earliest")
        stream = source.option("maxOffsetsPerTrigger", 30).load()
        event = F.from_json(F.col("value").cast("string"), {SCHEMA!r}).alias("event")
        found = sw.windowed(
            stream.select(event).select("event.*"), by="k", time="t", windows=windows, aggs=aggs,
            watermark=60, emit="final", keep_late=True, buckets=3,
        )
        query = (
            found.writeStream.format("parquet")
            .option("path", f"{{folder}}/out")
            .option("checkpointLocation", f"{{folder}}/state")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        steps = [p["observedMetrics"]["slicewise"] for p in query.recentProgress]
        assert len(steps) > 1
        bad += sum(step["bad"] for step in steps)
    spark.read.parquet(f"{{folder}}/out").coalesce(1).write.parquet(f"{{folder}}/emitted")
    sw.drain(f"{{folder}}/state").coalesce(1).write.parquet(f"{{folder}}/left")
finally:
    process.kill()
assert bad == 1, bad
spark.stop()
"""


def run(script: str, folder: Path, *arguments: Path) -> None:
    """Run a script in a process of its own."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path, *arguments],
        cwd=folder,
        env=own_spark(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()[-3000:]


def test_events_of_a_topic_give_the_answer_of_the_same_events_as_a_table(tmp_path: Path) -> None:
    rows = [{**row, "y": None} for row in disordered(events(160, seed=41), 41, 30)]
    lines = [json.dumps(row) for row in rows]
    lines.insert(50, "no event at all")
    (tmp_path / "parts.json").write_text(json.dumps([lines[:90], lines[90:]]), encoding="utf-8")
    fetched = Path.home() / ".cache" / "slicewise-kafka"
    run(FETCH, tmp_path, fetched)
    run(SCRIPT, tmp_path, tmp_path, fetched / "jars")
    first = pq.read_table(tmp_path / "emitted").to_pylist()
    last = pq.read_table(tmp_path / "left").to_pylist()
    lost = {row["id"] for row in late(row for row in first if (row["late"] or {}).get("t"))}
    counted = [row for row in rows if row["id"] not in lost]
    assert len(counted) > 120
    found = emitted([*first, *last])
    expected = windowed_rows(counted, windows=WINDOWS, aggs=AGGS, time="t", by="k")
    assert len(found) == len(expected)
    assert len(emitted(first)) > 20
    assert_same({(row.key, row.window, row.start, row.end): row.values for row in found}, expected)
