"""The decisions for a query: what is kept (Scotty, Figures 4 to 6) and which windows share slices.

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
from slicewise.limits import BEGINNING
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.settings import Settings, StoreKind
from slicewise.windows import Periodic, Window

# Where a slice group stands among the others: its kind, or its kind and what tells it apart. It is
# in snapshots.
Place = str | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A slice group that there is to be, and the windows that share its slices.

    It is of a `kind`: `"time"` for context-free windows, `"sessions"`, `"measure"` for windows over
    a column, `"order"` and `"ties"` for windows that are cut as events come in order, `"rows"` for
    those that need the rows, and `"sorted"` for rows that only the order of events needs. If it
    `waits`, it gets its events in order when the watermark passes them.
    """

    place: Place
    windows: tuple[WindowEntry, ...]
    waits: bool

    @property
    def defined(self) -> list[Window]:
        """The windows alone."""
        return [entry.window for entry in self.windows]

    @property
    def kind(self) -> str:
        """The way in which the group slices."""
        return kind_of(self.place)

    @property
    def stores_rows(self) -> bool:
        """Events are kept, not only states: as slices of their own or because they wait.

        Those that wait for others of their time do not count.
        """
        in_rows = self.kind in ("rows", "sorted") or (self.kind == "measure" and self.place[2])
        return bool(in_rows or (self.waits and self.kind != "ties"))


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions for a query with these settings: all that the slice manager goes by.

    `groups`: which windows share slices, and how those are cut.
    `store`: `"lazy"` merges slices when a window closes, `"eager"` keeps a tree over them.
    `partials`: where periodic windows cut slices (see `slicing.edges.partials`).
    `combined`: windows of time and sessions share slices, cut at the edges of both.

    The other decisions of the paper follow from the groups. Events that wait for the watermark come
    in order, so that they neither split slices nor leave them.
    """

    groups: tuple[GroupPlan, ...]
    store: StoreKind
    partials: Technique
    combined: bool
    settings: Settings

    @property
    def stores_rows(self) -> bool:
        """Events are kept, not only states (Figure 4)."""
        return any(group.stores_rows for group in self.groups)

    @property
    def splits(self) -> bool:
        """A slice may have to be cut (Figure 5)."""
        among = [w.traits for g in self.groups if g.kind == "rows" for w in g.defined]
        if self.settings.ordered:
            return any(one.context == "forward aware" for one in among)
        return any(one.needs_rows for one in among)

    @property
    def removes(self) -> Literal["never", "invert", "recompute"]:
        """How an event leaves a slice when a late one shifts it (Figure 6)."""
        settings = self.settings
        counts = any(w.traits.length_in_rows for group in self.groups for w in group.defined)
        if not counts or settings.ordered or settings.append_only:
            return "never"
        return "invert" if all(one.invertible for one in settings.aggs) else "recompute"


def combines(windows: Sequence[Window], *, keyed: bool, append_only: bool) -> bool:
    """Return whether windows of time share slices with sessions: an addition less per event.

    Where there may be many keys and results are never revised, slices of windows of time are kept
    for many keys at once (`store.time_major`); the edges of sessions, other ones for each key,
    would cut them into pieces.
    """
    traits = [window.traits for window in windows]
    timed = any(one.context_free and one.axis is None for one in traits)
    sessions = any(one.gap is not None for one in traits)
    return timed and sessions and not (keyed and append_only)


def chosen_store(windows: Sequence[Window], aggs: Sequence[Aggregate]) -> StoreKind:
    """The store that costs fewer combines for each unit of time: a tree over slices, or none.

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


def kind_of(place: Place) -> str:
    """The kind of slice group that stands at a place."""
    return place if isinstance(place, str) else str(place[0])


def place_of(entry: WindowEntry, settings: Settings, *, combined: bool, apart: bool) -> Place:
    """The place of the slice group that a window belongs to.

    `combined` is that of the plan; `apart` says that each session has slices of its own, as it does
    after a late event.
    """
    traits, append_only = entry.window.traits, settings.append_only
    if traits.axis is not None:
        return ("measure", traits.axis, settings.sorts)
    if settings.sorts and apart and not traits.needs_rows:
        return "sorted" if traits.context_free else ("sorted", entry.number)
    if traits.needs_rows or (settings.sorts and not append_only):
        kind = "order" if append_only and traits.context != "forward aware" else "rows"
        if kind == "order" and settings.ordered and traits.takes_ties:
            kind = "ties"  # the opening row may come after others of its time
        new = entry.since > BEGINNING and traits.needs_rows
        return (kind, entry.number) if new else kind  # it does not count the rows before it
    if traits.context_free:
        return "sessions" if combined else "time"
    return ("sessions", entry.number) if apart else "sessions"


def waits(place: Place, settings: Settings) -> bool:
    """Return whether a slice group gets its events in order, when the watermark passes them."""
    kind = kind_of(place)
    if settings.ordered or kind == "order":
        return kind == "ties" or not settings.ordered
    return settings.sorts and settings.append_only and kind in ("time", "sessions")


def plan(
    entries: Sequence[WindowEntry],
    settings: Settings,
    *,
    combined: bool | None = None,
    apart: bool = False,
) -> Plan:
    """The decisions for these windows.

    `combined` stands if it is given, as it does once there are slices; `apart` is as in `place_of`.
    """
    windows, aggs = [entry.window for entry in entries], settings.aggs
    if combined is None:
        combined = combines(windows, keyed=bool(settings.by), append_only=settings.append_only)
    store = "lazy" if settings.merger and not settings.store else settings.store
    if store is None:
        eager = settings.partials == "pairs+"
        store = "eager" if eager else chosen_store(windows, aggs)
    places: dict[Place, list[WindowEntry]] = {}
    for entry in entries:
        place = place_of(entry, settings, combined=combined, apart=apart)
        places.setdefault(place, []).append(entry)
    return Plan(
        groups=tuple(
            GroupPlan(place, tuple(shared), waits(place, settings))
            for place, shared in places.items()
        ),
        store=store,
        partials=settings.partials or "cutty",
        combined=combined,
        settings=settings,
    )
