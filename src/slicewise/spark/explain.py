"""How a query runs on a DataFrame, in words: what Spark computes, and what crosses to Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewise.aggregates.bound import Bound
from slicewise.slicing.emit.explain import explain_plan
from slicewise.slicing.locate.by_time import Edges
from slicewise.slicing.plan import plan
from slicewise.slicing.settings import Merging
from slicewise.spans import Rows, canonical
from slicewise.spark.asked import BOUNDED, definitions
from slicewise.spark.batch.rolling import Rolling
from slicewise.spark.batch.windowed import Windowed
from slicewise.spark.options import StreamOptions


def explain_windowed(
    frame: Any,
    *,
    by: Any,
    time: str,
    windows: Any,
    aggs: Any,
    order: Any,
    unit: Any,
    options: StreamOptions,
    merging: Merging,
) -> str:
    """How `sw.windowed` runs."""
    streamed = frame.isStreaming
    taken = definitions(by, time, windows, aggs, unit, options if streamed else BOUNDED, merging)
    made = Windowed.of(frame, taken, order)
    if not streamed:
        made.check_merging()
    options.checked(made.query.measure)
    if streamed:
        kept, how = explain_plan(plan(taken.entries, taken.settings))
        lines = [*_streamed(made.query.by, made.columns), *kept, how]
        return _shown(lines, made.bounds)
    ways = {"native": _native, "combined": _combined, "sliced": _sliced, "ordered": _ordered}
    lines = ways[made.way](made)
    return _shown(lines, made.bounds)


def explain_rolling(
    frame: Any,
    *,
    by: Any,
    time: str,
    over: Any,
    aggs: Any,
    order: Any,
    unit: Any,
    options: StreamOptions,
) -> str:
    """How `sw.rolling` runs."""
    made = Rolling.of(frame, by, time, over, aggs, order, unit)
    options.checked(made.query.measure)
    if frame.isStreaming:
        kept = (
            f"A bucket keeps the rows above the watermark, and of those below it what aggregates "
            f"read, as far back as the longest span ({', '.join(map(str, made.spans))})."
        )
        lines = [*_streamed(made.query.by, frame.columns), kept]
        return _shown(lines, made.query.bounds())
    lines = []
    keys = _keys(made.query.by)
    if made.range is None:
        lines.append(f"Spark sends all rows of {keys} to one partition and sorts them by time.")
        if any(isinstance(span, Rows) for span in made.spans):
            lines.append("Keys are not cut into ranges of time: a span of rows may reach anywhere.")
    else:
        lines.append(
            f"Spark cuts {keys} into ranges of {_length(made.range, made)}, each with the "
            f"{_length(made.reach, made)} before it, so a single key uses all cores; rows "
            "are sorted by time within their range."
        )
    lines.append(
        "All rows cross to Python once, with all their columns; each batch is answered by a "
        "boundary aggregator (SBA) over the rows that its windows reach back to."
    )
    return _shown(lines, made.query.bounds())


def _streamed(by: Sequence[str], columns: Sequence[str]) -> list[str]:
    return [
        f"The columns {', '.join(columns)} cross to Python, where events are packed by bucket of "
        "keys, with a heartbeat for every bucket; a few packed rows are shuffled.",
        "Spark calls each bucket in every micro-batch; all that it knows of its keys "
        f"({', '.join(by) or 'there is one'}) is one snapshot in the checkpoint.",
    ]


def _native(made: Windowed) -> list[str]:
    edges = Edges(made.query.windows)
    count = len(edges.steps) + len(edges.singles)
    lines = [
        f"Spark cuts time into slices at the edges of all windows ({count} "
        f"progression{'s' * (count != 1)} of edges) and makes one partial state per key and slice, "
        "combined before the shuffle: a key with most of the rows does not pin a task."
    ]
    if made.apart:
        lines.append(
            "Each window instance is one slice, so slices are not shuffled again, and no merger "
            "runs."
        )
        if made.finished is not None:
            lines.append("Spark makes results of their states; nothing crosses to Python.")
        else:
            lines.append("Slices cross to Python, where their states become results.")
    else:
        lines += _merged(made)
    return lines


def _combined(made: Windowed) -> list[str]:
    return [
        "Rows cross to Python before the shuffle, where a combiner makes one partial state per "
        "key and slice: a key with most of the rows does not pin a task.",
        *_merged(made),
    ]


def _merged(made: Windowed) -> list[str]:
    return [
        f"Spark sends the slices of {_keys(made.query.by)} to one partition, sorted.",
        "Slices cross to Python, where a boundary aggregator (SBA) merges them to windows.",
    ]


def _sliced(made: Windowed) -> list[str]:
    lines = [
        f"States before the shuffle would not do: {', '.join(made.dependent_aggs)} depend on the "
        "order of events.",
        "Spark cuts time into slices at the edges of all windows, sends the rows of each slice of "
        f"{_keys(made.query.by)} to one partition and sorts them by time: a key with most of the "
        "rows does not pin a task.",
    ]
    crossing = f"The columns {', '.join(made.columns)} cross to Python, where"
    if made.apart:
        lines.append(f"{crossing} an operator makes results of them: each instance is one slice.")
        return lines
    lines.append(f"{crossing} a combiner makes one partial state per key and slice.")
    return [*lines, *_merged(made)]


def _ordered(made: Windowed) -> list[str]:
    return [
        f"Slices are not enough: the edges of {', '.join(made.dependent_windows)} depend on the "
        "events.",
        f"Spark sends all rows of {_keys(made.query.by)} to one partition and sorts them by time.",
        f"The columns {', '.join(made.columns)} cross to Python, where an operator takes them "
        f"batch by batch and merges slices by {_merger(made)}.",
    ]


def _merger(made: Windowed) -> str:
    chosen = made.query.merging
    if chosen.store == "eager" or chosen.partials == "pairs+":
        return "a tree over the slices of each key (flatfat)"
    return chosen.merger or "a boundary aggregator (SBA)"


def _shown(lines: Sequence[str], bounds: Sequence[Bound]) -> str:
    lines = list(lines)
    for bound in bounds:
        how = f"interpreted: {bound.reason}" if bound.reason else "compiled"
        lines.append(f"{bound.aggregate.output}: {how}.")
    return "\n".join(lines)


def _keys(by: Sequence[str]) -> str:
    return f"each key ({', '.join(by)})" if by else "the one key"


def _length(length: int, made: Rolling) -> str:
    return canonical(length) if made.query.measure.moments else str(length)
