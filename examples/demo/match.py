"""The events of the demo and the query that it asks of them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import slicewise as sw
from slicewise.samples import football

KICK_OFF = datetime(2013, 6, 29, 15, 0, tzinfo=UTC)
DELAY = 2  # seconds; no event is later than the watermark
SCHEMA = "t timestamp, sensor bigint, speed double, distance double, kick boolean"
LENGTH, EVERY = 60, 1  # seconds, of the sliding window
QUERY: dict[str, Any] = {
    "by": "sensor",
    "time": "t",
    "windows": [
        sw.session("3s", name="run"),
        sw.sliding(f"{LENGTH}s", every=f"{EVERY}s", name="last minute"),
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


def make_match(events: int) -> pa.Table:
    """The events of a match in the order of their arrival."""
    match = football(events, seed=2013, delay=DELAY * 1_000_000)
    start = int(KICK_OFF.timestamp() * 1_000_000)
    moments = pa.array(match["t"] + start).cast(pa.timestamp("us", "UTC"))
    return pa.table({**match, "t": moments})


def write_match(match: pa.Table, folder: Path, files: int) -> None:
    """Write files in the order of arrival; each can become a micro-batch."""
    folder.mkdir()
    bounds = np.linspace(0, match.num_rows, files + 1).astype(int)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        path = folder / f"{number:04}.parquet"
        pq.write_table(match.slice(begin, end - begin), path)
        # The order of files is that of their dates.
        moment = KICK_OFF.timestamp() + number
        os.utime(path, (moment, moment))


def seconds(moment: datetime) -> float:
    """Seconds since the kick-off."""
    return (moment.astimezone(UTC) - KICK_OFF).total_seconds()
