"""What an operator does with its windows and aggregates, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.slicing.arrangement import group_of
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import RowGroup, SessionGroup, SliceGroup, WindowEntry
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.ingest.measures import has_fractions

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator

# Objects of these modules hold what an operator keeps.
STATEFUL = ("slicewise.arrays", "slicewise.columns", "slicewise.slicing")


def explain(op: Operator) -> str:
    """Which windows share slices, what is stored and why, which merger, compiled or not."""
    lines = [*_groups(op), *_decisions(op), *_aggregates(op), _merging(op), *_costs(op)]
    return "\n".join(lines)


def _groups(op: Operator) -> list[str]:
    groups: dict[Any, list[WindowEntry]] = {}
    for entry in op._windows:
        groups.setdefault(group_of(op, entry), []).append(entry)
    lines = []
    for place, windows in groups.items():
        names = ", ".join(entry.window.name for entry in windows)
        share = "share slices" if len(windows) > 1 else "has slices of its own"
        kind = place if isinstance(place, str) else place[0]
        if kind in ("order", "ties"):
            lines.append(f"{names}: {share} of events in order, cut where these begin and end.")
        elif kind in ("rows", "sorted"):
            order = ", ".join(["time", *op.order, "arrival"])
            lines.append(f"{names}: read from rows in the order of ({order}).")
        elif kind == "sessions":
            lines.append(f"{names}: {share}, cut {_gaps_and_edges(windows, op.plan.partials)}.")
        else:
            measure = "time" if place == "time" else f"column {place[1]!r}"
            lines.append(
                f"{names}: {share} of {measure}, cut at {_edges(windows, op.plan.partials)}."
            )
    return lines


def _gaps_and_edges(windows: Sequence[WindowEntry], technique: Technique) -> str:
    gaps = [gap for p in windows if (gap := p.window.traits.gap) is not None]
    free = [p for p in windows if p.window.traits.context_free]
    parts = [f"where events are more than {min(gaps)} apart"] if gaps else []
    parts += [f"at {_edges(free, technique)}"] if free else []
    return " and ".join(parts)


def _edges(windows: Sequence[WindowEntry], technique: Technique) -> str:
    from slicewise.slicing.edges.cutting import cut_by

    kind = "f8" if any(has_fractions(p.window) for p in windows) else "i8"
    edges = cut_by([entry.window for entry in windows], technique, kind)
    steps = [f"every {s} from {p}" for s, p in zip(edges.steps, edges.phases, strict=True)]
    steps += [f"at {single}" for single in edges.singles]
    shown = ", ".join(steps[:6]) + (f" and {len(steps) - 6} more" if len(steps) > 6 else "")
    return f"edges that come {shown}"


def _decisions(op: Operator) -> list[str]:
    plan = op.plan
    removes = {
        "never": "no event ever leaves a slice",
        "invert": "a late event shifts rows, which exact inverses could follow",
        "recompute": "a late event shifts rows, and what they are in is merged again",
    }[plan.removes]
    kept = [t for t in op._groups.values() if t.begins is not None]
    partials = "slices that only passed ends part become one (cutty)" if kept else plan.partials
    late = "slices may be cut by late events"
    cut = "slices are cut where windows turn out to begin" if op.ordered or op._settled else late
    splits = cut if plan.splits else "no slice is ever cut"
    lines = [f"Storage: {'; '.join(plan.reasons)}.", f"Changes: {splits}; {removes}."]
    return [*lines, f"Partials: {partials}."] if partials != "cutty" else lines


def _aggregates(op: Operator) -> list[str]:
    if not op._bounds:
        return ["Aggregates: compiled or interpreted is decided by the types of the first batch."]
    lines = []
    for bound in op._bounds:
        how = "compiled" if bound.compiled else f"interpreted: {bound.reason}"
        lines.append(f"{bound.aggregate.output}: {how}.")
    return lines


def _merging(op: Operator) -> str:
    if op.plan.store == "eager":
        return "Merging: eager, by a tree over the slices of each key (flatfat)."
    name = op.merger or "boundary aggregation (sba)"
    return f"Merging: lazy, when a window closes, by {name}."


def _costs(op: Operator) -> list[str]:
    """What is kept now, added up from the arrays that are there."""
    lines = []
    for group in op._groups.values():
        states = sum(np.dtype(kind).itemsize for c in group.components for kind in c.algebra.dtypes)
        unit = "rows" if group.keeps_rows else "slices"
        lines.append(
            f"Memory of {_title(op, group)}: {_per_key(group, group.keys)}, for {group.live} "
            f"{unit} with states of {states} bytes."
        )
    if op._groups:
        lines.append(f"Memory of the keys: {_per_key(op._keys, len(op._keys))}.")
    if op._waiting.batches:
        lines.append(f"Memory of events that wait: {_per_key(op._waiting, len(op._keys))}.")
    return lines


def _per_key(thing: Any, keys: int) -> str:
    size = bytes_of(thing)
    return f"{size} bytes, {-(-size // max(keys, 1))} a key for {keys} keys"


def bytes_of(thing: Any) -> int:
    """The bytes of all arrays that belong to a thing, each once; Python objects are left out."""
    known: dict[int, int] = {}
    waiting, seen = [thing], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, np.ndarray):
            while isinstance(one.base, np.ndarray):
                one = one.base
            known[id(one)] = one.nbytes
        elif id(one) not in seen:
            seen.add(id(one))
            if isinstance(one, dict):
                waiting += one.values()
            elif isinstance(one, list | tuple):
                waiting += one
            elif type(one).__module__ == "pyarrow.lib":
                known[id(one)] = getattr(one, "nbytes", 0)
            elif type(one).__module__.startswith(STATEFUL):
                slots = getattr(type(one), "__slots__", ())
                waiting += [getattr(one, name) for name in slots if hasattr(one, name)]
                waiting += getattr(one, "__dict__", {}).values()
    return sum(known.values())


def _title(op: Operator, group: SliceGroup) -> str:
    if isinstance(group, MeasureGroup):
        return f"column {group.axis!r}"
    titles = {
        GridGroup: "time",
        SessionGroup: "time and sessions" if op.plan.combined else "sessions",
        OrderedGroup: "events in order",
        RowGroup: "rows",
    }
    return titles[type(group)]
