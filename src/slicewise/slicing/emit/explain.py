"""How an operator treats its windows and aggregates, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.ingest.measures import has_fractions
from slicewise.spans import canonical
from slicewise.windows.base import DURATIONS, moment_of

if TYPE_CHECKING:
    from slicewise.slicing.groups.slice_manager import SliceManager
    from slicewise.slicing.ingest.schema import Schema
    from slicewise.slicing.parts import Parts
    from slicewise.slicing.plan import Plan

# Objects of these modules hold what an operator keeps.
STATEFUL = ("slicewise.arrays", "slicewise.columns", "slicewise.slicing")


def explain(parts: Parts) -> str:
    """Which windows share slices, what is stored and why, which merger, compiled or not."""
    slices = parts.slices
    cutty = any(group.begins is not None for group in slices.groups.values())
    kept, merging = explain_plan(slices.plan, cutty=cutty)
    return "\n".join([*kept, *_aggregates(slices.schema), merging, *_costs(slices)])


def explain_plan(plan: Plan, *, cutty: bool = False) -> tuple[list[str], str]:
    """Which windows share slices and what is stored and why; then by what slices are merged.

    `cutty` tells that slices which only passed ends part become one.
    """
    kept = [*_groups(plan), *_decisions(plan, cutty=cutty)]
    return kept, _merging(plan)


def _groups(plan: Plan) -> list[str]:
    lines, partials = [], plan.partials
    for group in plan.groups:
        windows = group.windows
        names = ", ".join(entry.window.name for entry in windows)
        share = "share slices" if len(windows) > 1 else "has its own slices"
        if group.kind in ("order", "ties"):
            lines.append(f"{names}: {share} of events in order, cut where these begin and end.")
        elif group.kind in ("rows", "sorted"):
            order = ", ".join(["time", *plan.settings.order, "arrival"])
            lines.append(f"{names}: read from rows in the order of ({order}).")
        elif group.kind == "sessions":
            lines.append(f"{names}: {share}, cut {_gaps_and_edges(windows, partials)}.")
        else:
            measure = "time" if group.kind == "time" else f"column {group.place[1]!r}"
            lines.append(f"{names}: {share} of {measure}, cut at {_edges(windows, partials)}.")
    return lines


def _gaps_and_edges(windows: Sequence[WindowEntry], technique: Technique) -> str:
    gaps = [gap for p in windows if (gap := p.window.traits.gap) is not None]
    free = [p for p in windows if p.window.traits.context_free]
    parts = [f"where events are more than {_span(min(gaps), windows)} apart"] if gaps else []
    parts += [f"at {_edges(free, technique)}"] if free else []
    return " and ".join(parts)


def _edges(windows: Sequence[WindowEntry], technique: Technique) -> str:
    from slicewise.slicing.edges.cutty import cut_by

    kind = "f8" if any(has_fractions(p.window) for p in windows) else "i8"
    edges = cut_by([entry.window for entry in windows], technique, kind)
    steps = [
        f"every {_span(step, windows)} from {_span(phase, windows)}"
        for step, phase in zip(edges.steps, edges.phases, strict=True)
    ]
    unit = DURATIONS if _in_durations(windows) else None
    steps += [f"at {moment_of(single, unit)}" for single in edges.singles]
    shown = ", ".join(steps[:6]) + (f" and {len(steps) - 6} more" if len(steps) > 6 else "")
    return f"edges {shown}"


def _span(length: float, windows: Sequence[WindowEntry]) -> str:
    """A length as these windows write theirs: `"1h"` where they are durations."""
    return canonical(int(length)) or "0" if _in_durations(windows) else str(length)


def _in_durations(windows: Sequence[WindowEntry]) -> bool:
    return any(entry.window.durations for entry in windows)


def _decisions(plan: Plan, *, cutty: bool) -> list[str]:
    removes = {
        "never": "no event ever leaves a slice",
        "invert": "a late event shifts rows, which exact inverses could follow",
        "recompute": "a late event shifts rows, and what they are in is merged again",
    }[plan.removes]
    partials = "slices that only passed ends part become one (cutty)" if cutty else plan.partials
    cut = "slices may be cut by late events"
    if plan.settings.ordered or plan.settings.append_only:
        cut = "slices are cut where windows turn out to begin"
    splits = cut if plan.splits else "no slice is ever cut"
    lines = [f"Storage: {'; '.join(_reasons(plan))}.", f"Changes: {splits}; {removes}."]
    return [*lines, f"Partials: {partials}."] if partials != "cutty" else lines


def _reasons(plan: Plan) -> list[str]:
    """The reasons for keeping rows, or for keeping none."""
    entries = sorted((e for g in plan.groups for e in g.windows), key=lambda e: e.number)
    windows, settings = [entry.window for entry in entries], plan.settings
    if not plan.stores_rows:
        return ["states alone are kept: no window or aggregate needs rows"]
    if settings.ordered and settings.append_only:
        aware = [w.name for w in windows if w.traits.context == "forward aware"]
        return [f"rows are kept: where {', '.join(aware)} begin is known only when they end"]
    reasons, kept = [], "rows are kept"
    if settings.sorts:
        unordered = [a.output for a in settings.aggs if not a.commutative]
        until = f"{kept} until their windows close" if settings.append_only else kept
        reasons.append(f"{until}: {', '.join(unordered)} depend on the order of events")
    context = [window.name for window in windows if window.traits.needs_rows]
    if context:
        until = f"{kept} until the watermark passes them" if settings.append_only else kept
        reasons.append(f"{until}: {', '.join(context)} depend on the events themselves")
    return reasons


def _aggregates(schema: Schema) -> list[str]:
    if not schema.bounds:
        return ["Aggregates: compiled or interpreted is decided by the types of the first batch."]
    lines = []
    for bound in schema.bounds:
        how = "compiled" if bound.compiled else f"interpreted: {bound.reason}"
        lines.append(f"{bound.aggregate.output}: {how}.")
    return lines


def _merging(plan: Plan) -> str:
    if plan.store == "eager":
        return "Merging: eager, by a tree over the slices of each key (flatfat)."
    settings = plan.settings
    if settings.merger_type is None:
        return "Merging: lazy, when a window closes, by boundary aggregation (sba)."
    shares = settings.merger_type.properties.suffixes
    each = "one for all windows of a key" if shares else "one for each window of a key"
    return (
        f"Merging: lazy, when a window closes, by {settings.merger}, which is kept between "
        f"watermarks: {each}. A late event lets it begin anew."
    )


def _costs(slices: SliceManager) -> list[str]:
    """The memory of all that is kept now, added up from the arrays that are there."""
    lines, keys = [], slices.keys
    for group in slices.groups.values():
        states = sum(np.dtype(kind).itemsize for c in group.components for kind in c.algebra.dtypes)
        unit = "rows" if group.keeps_rows else "slices"
        title = group.title(combined=slices.plan.combined)
        lines.append(
            f"Memory of {title}: {_per_key(group, group.keys)}, for {group.live} "
            f"{unit} with states of {states} bytes."
        )
    if slices.groups:
        lines.append(f"Memory of the keys: {_per_key(keys, len(keys))}.")
    if slices.buffer.batches:
        lines.append(f"Memory of events that wait: {_per_key(slices.buffer, len(keys))}.")
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
