"""What a stopped stream still holds: with its late output, and with definitions of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import SnapshotError
from slicewise.testing import fold
from tests.spark.streaming import Source, drained, emitted, run
from tests.spark.test_stream_sources import Poison


class Pair(tuple[Any, ...]):
    """A state that only pickle can say."""

    __slots__ = ()


class Ends(sw.Aggregate):
    """Interpreted, with such states."""

    compile = False
    returns = pa.string()

    def identity(self) -> Any:
        return None

    def lift(self, x: Any) -> Any:
        return Pair((x, x))

    def combine(self, older: Any, newer: Any) -> Any:
        return Pair((older[0], newer[1])) if older and newer else older or newer

    def lower(self, state: Any) -> Any:
        return None if state is None else f"{state[0]} {state[1]}"


def test_pickled_states_are_drained_only_if_the_checkpoint_is_trusted(
    spark: Any, tmp_path: Path
) -> None:
    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    source.add(
        [{"k": "a", "t": 1, "x": 1, "id": 0}, {"k": "a", "t": 2, "x": 5, "id": 1}],
        [{"k": "a", "t": 4, "x": 7, "id": 2}, {"k": "a", "t": 5, "x": 3, "id": 3}],
    )
    # The second micro-batch goes on from the pickled states of the first.
    stream = sw.windowed(
        source.stream(spark), time="t", windows=sw.tumbling(10), aggs=Ends("x"), watermark=0,
        buckets=1,
    )  # fmt: skip
    assert not run(stream, checkpoint).rows
    with pytest.raises(SnapshotError, match=r"pickled \(.*Pair\).*`trusted=True`"):
        sw.drain(checkpoint)
    (left,) = drained(checkpoint, trusted=True)
    assert left["x_ends"] == "1 3"


def test_a_drained_stream_joins_the_emitted_rows_with_its_late_output_and_own_definitions(
    spark: Any, tmp_path: Path
) -> None:
    class Nowhere(Poison):
        """A class that no worker can import."""

    windows = [sw.tumbling(10), sw.punctuated(lambda event: event["x"] == 5, name="fives")]
    aggs = [Nowhere("x").alias("sum"), sw.agg.count()]
    source, checkpoint = Source(tmp_path / "in"), tmp_path / "state"
    source.add(
        [{"k": "a", "t": 1, "x": 1, "id": 0}, {"k": "a", "t": 12, "x": 5, "id": 1}],
        [{"k": "a", "t": 2, "x": 7, "id": 2}, {"k": "a", "t": 31, "x": 3, "id": 3}],
    )
    query: dict[str, Any] = {"by": "k", "time": "t", "windows": windows, "aggs": aggs}
    stream = sw.windowed(source.stream(spark), **query, watermark=0, keep_late=True, buckets=2)
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(200)
    for given, message in (
        ({}, r"The window 'fives' .*Give it to `drain` with `windows=\[...\]`, all of them"),
        ({"windows": windows}, r"The aggregate 'sum' .*Give it to `drain` with `aggs=\[...\]`"),
        ({"windows": windows[:1], "aggs": aggs}, "has 'fives' among its windows; given: 'tum"),
        ({"windows": windows, "aggs": aggs[1:]}, "has 'sum' among its aggs; given: 'count'"),
    ):
        with pytest.raises(SnapshotError, match=message):
            sw.drain(checkpoint, **given)
    written = spark.read.parquet(str(tmp_path / "out"))
    left = sw.drain(checkpoint, windows=windows, aggs=aggs)
    assert left.schema["late"] == stream.schema["late"]
    whole = written.union(left)
    assert [row.late.id for row in whole.where("late is not null").collect()] == [2]
    counted = spark.read.parquet(str(source.folder)).where("id <> 2")
    batch = sw.windowed(counted, **query)
    assert sorted(map(tuple, sw.fold(whole).collect())) == sorted(map(tuple, batch.collect()))
    assert fold(emitted(drained(checkpoint, windows=windows, aggs=aggs))) == {
        ("a", "tumbling_10", 30, 40): {"sum": 3.0, "count": 1},
    }
