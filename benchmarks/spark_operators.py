"""The stateful operators that Spark has for Python, each with the same small function inside."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.spark_stream import Bench

if TYPE_CHECKING:
    import pandas as pd

BUCKETS = 16
PER_KEY = 200  # bytes of state
MADE = "place bigint, events bigint"


def per_place(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[Any]:
    """For `applyInPandasWithState`: count events, rewrite the state of as many bytes."""
    import pandas as pd

    before, size = state.get if state.exists else (0, b"")
    rows, room = before, len(size)
    for frame in frames:
        rows += len(frame)
        room = max(room, PER_KEY * frame["k"].nunique())
    state.update((rows, bytes(room)))
    yield pd.DataFrame({"place": [key[0]], "events": [rows]})


def processor() -> Any:
    """The same for `transformWithStateInPandas`."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.kept = handle.getValueState("kept", "events bigint, room binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            found = self.kept.get() if self.kept.exists() else (0, b"")
            count, room = int(found[0]), len(found[1])
            for frame in rows:
                count += len(frame)
                room = max(room, PER_KEY * frame["k"].nunique())
            self.kept.update((count, bytes(room)))
            yield pd.DataFrame({"place": [key[0]], "events": [count]})

        def close(self) -> None:
            pass

    return Counting()


def queries(stream: Any) -> dict[str, Any]:
    """What is compared, by name; each takes the events of a stream."""
    from pyspark.sql import functions as F

    by_bucket = stream.withColumn("place", F.pmod(F.hash("k"), F.lit(BUCKETS)).cast("bigint"))
    by_key = stream.withColumn("place", F.col("k"))
    with_state: Any = ("append", "NoTimeout")
    made = {}
    for place, frame in (("bucket", by_bucket), ("key", by_key)):
        grouped = frame.groupBy("place")
        made[f"`applyInPandasWithState` per {place}"] = grouped.applyInPandasWithState(
            per_place, MADE, "events bigint, room binary", *with_state
        )
        made[f"`transformWithStateInPandas` per {place}"] = grouped.transformWithStateInPandas(
            processor(), MADE, "append", "none"
        )
    return made


def spark_own(stream: Any) -> Any:
    from pyspark.sql import functions as F

    windows = stream.withWatermark("t", "10 seconds").groupBy("k", F.window("t", "10 seconds"))
    return windows.agg(F.count(F.lit(1)).alias("events"))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench spark-operators", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="in a micro-batch")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--keys", type=int, nargs="*", default=[1000, 100_000])
    options = parser.parse_args(argv)
    bench = Bench(options.events, options.batches)
    table: dict[str, list[str]] = {}
    for keys in options.keys:
        folder = bench.folder(keys, options.events, options.batches)
        stream = bench.stream(folder)
        for name, frame in {"Spark's own `window()`": spark_own(stream), **queries(stream)}.items():
            if keys > 10_000 and name.endswith("per key"):
                shown = ""  # a call and a state for each of a hundred thousand keys
            else:
                seconds = bench.run(frame).seconds
                shown = f"{min(seconds):.2f} to {max(seconds):.2f} s"
            print(f"{keys:,} keys, {name}: {shown or 'left out'}", flush=True)
            table.setdefault(name, []).append(shown)
    print("\n| operator | " + " | ".join(f"{keys:,} keys" for keys in options.keys) + " |")
    print("|---" * (1 + len(options.keys)) + "|")
    for name, cells in table.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    bench.spark.stop()
    return 0
