"""What a workload needs: the decisions of Scotty, Figures 4 to 6, and the slice groups that follow.

Rows are kept when the order of events matters and they can come out of order: an aggregate that
does not commute, a window that is neither context free nor a session, or a count of rows. Where no
result is ever revised they only wait: once the watermark has passed them they are put in order and
sliced, and no late event can cut a slice or shift a row any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Literal

from slicewise.aggregates.base import Aggregate
from slicewise.slicing.edges.partials import Technique
from slicewise.windows import Periodic, Window

StoreKind = Literal["lazy", "eager"]
STORES = ("lazy", "eager")


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions for a workload.

    `stores_rows`: events are kept, not only states (Figure 4). `splits`: a slice may have to be
    cut (Figure 5). `removes`: how an event leaves a slice when a late one shifts it (Figure 6).
    Events that wait for the watermark come in order: for them neither happens.
    `store`: `"lazy"` merges slices when a window closes, `"eager"` keeps a tree over them.
    `partials`: where periodic windows cut slices (see `slicing.partials`).
    `combined`: windows of time and sessions share slices, cut at the edges of both.
    """

    stores_rows: bool
    splits: bool
    removes: Literal["never", "invert", "recompute"]
    store: StoreKind
    partials: Technique
    combined: bool
    reasons: tuple[str, ...]


def settles(emit: str, lateness: int, *, ordered: bool) -> bool:
    """Whether results are made of events that nothing can come before any more.

    Then events are put in order once, when the watermark passes them, and no result is revised.
    """
    return emit == "final" or (emit == "on_close" and (ordered or not lateness))


def combines(windows: Sequence[Window], *, keyed: bool, settled: bool) -> bool:
    """Whether windows of time share slices with sessions, which saves an addition per event.

    Where there may be many keys and results are never revised, slices of windows of time are kept
    for many keys at once (`store.time_major`); the edges of sessions, other ones for each key,
    would cut them into pieces.
    """
    traits = [window.traits for window in windows]
    timed = any(one.context_free and one.axis is None for one in traits)
    sessions = any(one.gap is not None for one in traits)
    return timed and sessions and not (keyed and settled)


def chosen_store(windows: Sequence[Window], aggs: Sequence[Aggregate]) -> StoreKind:
    """Whether a tree over slices pays, by the combines that each unit of time costs.

    A lazy store merges all slices of a window whenever one closes; a tree takes the logarithm for
    each slice and twice that for each window that closes. Aggregates that all invert have states
    that are cheap to combine, so that for them the difference must be larger.
    """
    rates = {"lazy": 0.0, "asked": 0.0}
    longest = 1.0
    by_measure: dict[Any, list[Periodic]] = {}
    for window in windows:
        periodic = window.as_periodic()
        if periodic is not None:
            measure = window.traits.measure, window.traits.axis
            by_measure.setdefault(measure, []).append(periodic)
    for shared in by_measure.values():
        # Windows of equal slides cut at the same edges, but for an origin of their own.
        slices = sum(1 / w.every for w in {w.every: w for w in shared}.values())
        for one in shared:
            many = max(1.0, float(one.length) * slices)
            longest = max(longest, many)
            rates["lazy"] += many / one.every
            rates["asked"] += 1 / one.every
        rates["asked"] += slices / 2
    # Merging slices side by side is quick: measured, a tree pays when it saves most combines.
    margin = 40 if all(aggregate.invertible for aggregate in aggs) else 20
    return "eager" if rates["lazy"] > margin * 2 * log2(2 * longest) * rates["asked"] else "lazy"


def plan(
    windows: Sequence[Window],
    aggs: Sequence[Aggregate],
    *,
    ordered: bool,
    settled: bool,
    keyed: bool = False,
    store: StoreKind | None = None,
    partials: Technique | None = None,
    combined: bool | None = None,
) -> Plan:
    """The decisions for these windows and aggregates; `settled` is what `settles` says.

    `store`, `partials` and `combined` stand if they are given.
    """
    if combined is None:
        combined = combines(windows, keyed=keyed, settled=settled)
    if store is None:
        store = "eager" if partials == "pairs+" else chosen_store(windows, aggs)
    traits = [(window.name, window.traits) for window in windows]
    aware = [name for name, one in traits if one.context == "forward aware"]
    context = [name for name, one in traits if one.needs_rows]
    unordered = [a.output for a in aggs if not a.commutative]
    reasons = []
    if ordered and settled:
        stores = bool(aware)
        if aware:
            reasons.append(
                f"rows are kept: where {', '.join(aware)} begin is known only when they end"
            )
    else:
        stores = bool(context or (unordered and not ordered))
        kept = "rows are kept until the watermark passes them" if settled else "rows are kept"
        if unordered and not ordered:
            until = "rows are kept until their windows close" if settled else kept
            reasons.append(f"{until}: {', '.join(unordered)} depend on the order of events")
        if context:
            reasons.append(f"{kept}: {', '.join(context)} depend on the events themselves")
    counts = any(one.length_in_rows for _, one in traits)
    removes: Literal["never", "invert", "recompute"] = "never"
    if counts and not ordered and not settled:
        removes = "invert" if all(a.invertible for a in aggs) else "recompute"
    splits = bool(aware) if ordered or settled else bool(context)
    if not reasons:
        reasons.append("states alone are kept: no window or aggregate needs rows")
    return Plan(stores, splits, removes, store, partials or "cutty", combined, tuple(reasons))
