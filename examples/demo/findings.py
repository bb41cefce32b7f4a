"""What the report shows, as lists of rows.

Sessions come from the stream on Spark; the rest is computed in process from the same events.
"""

from __future__ import annotations

import math
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import slicewise as sw
from examples.demo.match import DELAY, KICK_OFF, seconds
from examples.demo.runs import Run
from slicewise.spark.local import SETTINGS

Rows = list[dict[str, Any]]

# Three levels of zoom: the length of a step in milliseconds, and how many seconds are shown.
ZOOMS = {"whole match": (500, math.inf), "12 seconds": (50, 12), "1 second": (5, 1)}
# Windows short enough to be looked at: of the kinds that the demo has, and one of marked events.
SHARING = [
    sw.sliding("20s", every="5s", name="sliding, 20 s every 5 s"),
    sw.cumulate("30s", every="10s", name="cumulate to 30 s by 10 s"),
    sw.session("3s", name="session, gap of 3 s"),
    sw.tumbling(sw.rows(2000), name="tumbling, 2000 rows"),
    sw.punctuated("kick", name="punctuated by kicks"),
]
REVISED = sw.tumbling("5s")
BATCHES = 200  # in which the operator that revises its results gets the match


@dataclass(frozen=True, slots=True)
class Findings:
    """The rows behind each chart, and what they were made with."""

    sensor: int
    events: int
    zooms: Rows  # steps of time with the first, last, least and greatest speed
    sessions: Rows
    slices: Rows
    instances: Rows  # of windows, merged from these slices
    revisions: Rows
    lateness: Rows  # how many events came how late
    runs: Rows
    settings: Rows


def collect(
    spark: SparkSession, match: pa.Table, sensor: int, answer: DataFrame, runs: list[Run]
) -> Findings:
    """All that the report shows."""
    one = match.filter(pc.equal(match["sensor"], sensor)).sort_by("t")
    slices, instances = share(one)
    revisions, lateness = revise(match)
    return Findings(
        sensor=sensor,
        events=match.num_rows,
        zooms=zoom(one),
        sessions=sessions(answer),
        slices=slices,
        instances=instances,
        revisions=revisions,
        lateness=lateness,
        runs=[asdict(run) for run in runs],
        settings=settings(spark),
    )


def zoom(reports: pa.Table) -> Rows:
    """The speed at three levels of zoom from one call: four values a step, however many reports."""
    windows = [sw.tumbling(f"{step}ms", name=name) for name, (step, _) in ZOOMS.items()]
    aggs = [sw.agg.m4("speed"), sw.agg.count()]
    found = sw.windowed(reports, time="t", windows=windows, aggs=aggs)
    middle = since_kick_off(reports)[-1] // 3
    rows = []
    for row in found.to_pylist():
        start, end = seconds(row["start"]), seconds(row["end"])
        _, shown = ZOOMS[row["window"]]
        if abs(start + end - 2 * middle) < shown:
            step = {"zoom": row["window"], "start": start, "end": end}
            rows.append({**step, **row["speed_m4"], "count": row["count"]})
    return rows


def sessions(answer: DataFrame) -> Rows:
    """The sessions of all sensors that the stream found."""
    return [
        {
            "sensor": row.sensor,
            "start": seconds(row.start),
            "end": seconds(row.end),
            "count": row["count"],
            "mean": row["mean"],
            "top": row.top,
            "metres": row.metres,
        }
        for row in answer.where("window = 'run'").orderBy("sensor", "start").collect()
    ]


def share(reports: pa.Table) -> tuple[Rows, Rows]:
    """The slices that an operator makes for windows of many kinds, and the instances made of them.

    The reports are in order. The operator forgets slices that no window needs any more, so they are
    noted second by second, as long as they grow.
    """
    aggs = [sw.agg.count(), sw.agg.max("speed").alias("top")]
    op = sw.Operator(windows=SHARING, aggs=aggs, time="t")
    times = since_kick_off(reports)
    slices: dict[tuple[str, int], dict[str, Any]] = {}
    instances = []
    for second in range(int(times[-1]) + 1):
        begin, end = np.searchsorted(times, (second, second + 1))
        op.process(reports.slice(begin, end - begin))
        instances += op.advance(micros(second + 1))
        for place, group in op.parts.slices.groups.items():
            runs, kind = group.runs, "in order" if place == "order" else "of time"
            for number in range(runs.offset[0], runs.offset[0] + runs.size[0]):
                slot = runs.slot[number]
                first, last, rows = (int(x[slot]) for x in (runs.first, runs.last, runs.rows))
                if last >= micros(second):
                    found = {"start": since(first), "end": since(last), "count": rows}
                    slices[kind, first] = {"slices": kind, **found}
    instances += op.advance(math.inf)
    return list(slices.values()), in_lanes(instances, times)


def in_lanes(instances: list[sw.Result], times: np.ndarray) -> Rows:
    """Instances as rows: those of a window that overlap are in different lanes."""
    rows: Rows = []
    free: dict[str, list[float]] = {}  # when each lane of a window is free again
    for one in instances:  # of each window, in the order of their ends
        if isinstance(one.start, int):  # positions of rows
            start, end = float(times[one.start]), float(times[one.end - 1])
        else:
            start, end = seconds(one.start), seconds(one.end)
        lanes = free.setdefault(one.window, [])
        lane = next((n for n, until in enumerate(lanes) if until <= start), len(lanes))
        lanes[lane:] = [end, *lanes[lane + 1 :]]
        rows.append({"window": one.window, "lane": lane, "start": start, "end": end, **one.values})
    return rows


def revise(match: pa.Table) -> tuple[Rows, Rows]:
    """What an operator said of each five seconds, first and later, and how late events came.

    Its watermark is the newest time that it saw: every event below that is late, and changes
    results that are out already.
    """
    aggs = [sw.agg.sum("distance").alias("metres"), sw.agg.count()]
    op = sw.Operator(windows=[REVISED], aggs=aggs, time="t", lateness=f"{DELAY}s")
    times = since_kick_off(match)
    size = max(len(times) // BATCHES, 1)
    rows, late = [], []
    newest = -math.inf
    for begin in range(0, len(times), size):
        now = times[begin : begin + size]
        late.append(newest - now)
        newest = max(newest, float(now.max()))
        op.process(match.slice(begin, size))
        rows += [seen_at(result, newest) for result in op.advance(micros(newest))]
    rows += [seen_at(result, newest) for result in op.advance(math.inf)]
    last = {row["start"]: row["metres"] for row in rows}
    counts, edges = np.histogram(np.concatenate(late), bins=20, range=(1e-6, DELAY))
    bins = zip(edges.round(1).tolist(), edges[1:].round(1).tolist(), counts.tolist())
    return (
        [{**row, "final": last[row["start"]]} for row in rows],
        [{"from": begin, "to": end, "events": count} for begin, end, count in bins],
    )


def seen_at(result: sw.Result, newest: float) -> dict[str, Any]:
    """A result as a row, with the watermark at which it was emitted."""
    bounds = {"start": seconds(result.start), "end": seconds(result.end)}
    return {**bounds, "revision": result.revision, "seen": newest, **result.values}


def settings(spark: SparkSession) -> Rows:
    """The machine, the versions and the settings of Spark."""
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    store = spark.conf.get("spark.sql.streaming.stateStore.providerClass") or ""
    said = {
        "machine": f"{processor()}, {os.cpu_count()} cores, {memory()}",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": ", ".join(
            [
                f"Slicewise {version('slicewise')}",
                f"Python {platform.python_version()}",
                f"Spark {spark.version}",
                f"Java {java}",
                *(f"{name} {version(name)}" for name in ("numba", "numpy", "pyarrow")),
            ]
        ),
        **SETTINGS,
        "state store": store.rpartition(".")[2],
    }
    return [{"name": name, "value": value} for name, value in said.items()]


def processor() -> str:
    """The name of the processor, where the system tells it."""
    known = Path("/proc/cpuinfo")
    if known.exists():
        for line in known.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory() -> str:
    """The size of the memory."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{size / 2**30:.0f} GiB of memory"


def micros(second: float) -> int:
    """A moment in the unit of watermarks, from seconds since the kick-off."""
    return round((KICK_OFF.timestamp() + second) * 1_000_000)


def since(moment: int) -> float:
    """Seconds since the kick-off, from a moment in microseconds."""
    return (moment - micros(0)) / 1e6


def since_kick_off(match: pa.Table) -> np.ndarray:
    """The times of events in seconds since the kick-off."""
    found: np.ndarray = (match["t"].cast(pa.int64()).to_numpy() - micros(0)) / 1e6
    return found
