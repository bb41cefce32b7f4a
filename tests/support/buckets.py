"""Buckets of a stream, fed by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from slicewise.spark.stream.keeping import (
    DROPPED,
    METRICS,
    RESULTS,
    KeepBuckets,
)
from slicewise.spark.stream.packing import (
    EVENTS,
    HEARTBEAT,
    to_bytes,
    to_table,
)

EVENT = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])


MADE = pa.schema(
    [
        ("k", pa.string()),
        ("window", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("p", pa.float64()),
        ("c", pa.int64()),
        ("revision", pa.int64()),
        ("retracted", pa.bool_()),
    ]
)


class State:
    """What Spark hands to a bucket, in miniature."""

    def __init__(self) -> None:
        self.exists = False
        self.get: Any = None

    def update(self, value: Any) -> None:
        self.exists, self.get = True, value


def feed(
    keep: KeepBuckets, state: State, rows: list[Any], kind: int = EVENTS, made: Any = MADE
) -> dict[int, Any]:
    """The rows of one micro-batch through a bucket: what comes out by kind."""
    table = pa.Table.from_pylist([dict(zip("ktx", row)) for row in rows], EVENT)
    newest = max((row[1] for row in rows), default=-(2**62))
    frame = pd.DataFrame(
        {
            "part": [0, 0],
            "seq": [0, 1],
            "kind": [kind, HEARTBEAT],
            "newest": [-(2**62), newest if kind == EVENTS else -(2**62)],
            "packed": [to_bytes(table), b""],
        }
    )
    found: dict[int, Any] = {RESULTS: [], DROPPED: []}
    for out in keep((0,), iter([frame]), state):
        *tables, measured = out.to_dict("records")
        assert measured["kind"] == METRICS
        found[METRICS] = measured
        for row in tables:
            schema = made if row["kind"] == RESULTS else EVENT
            found[row["kind"]] += to_table([row["made"]], schema).to_pylist()
    return found
