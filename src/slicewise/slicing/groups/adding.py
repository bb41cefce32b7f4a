"""Windows that are added while an operator runs: from when on they are complete.

A context-free window whose edges are all edges of windows that were there from the start finds its
slices cut already, so it covers the past as far as slices are kept. Other context-free windows and
sessions begin behind the newest event. Windows that depend on the rows before them (counts of rows,
conditions, one's own, sessions of a greatest length) begin anew: they see the events that come
after them, as if the stream began there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slicewise.errors import CapabilityError
from slicewise.limits import BEGINNING
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.plan import place_of
from slicewise.windows import Window

if TYPE_CHECKING:
    from slicewise.slicing.groups.slice_manager import SliceManager


def known_from(slices: SliceManager, window: Window) -> Any:
    """The least start of an instance of which everything is known, in the window's measure."""
    traits = window.traits
    axis = traits.axis
    types, progress = slices.schema.columns, slices.progress
    if progress.newest == BEGINNING and (axis is None or types is None or axis in types):
        return BEGINNING
    behind = progress.behind_all
    if traits.needs_rows:
        return behind
    if traits.gap is not None:
        # An event before may be near enough to belong to a session that begins there.
        return behind + traits.gap
    entry = WindowEntry(-1, window)
    how = {"combined": slices.plan.combined, "apart": slices.apart}
    group = slices.groups.get(place_of(entry, slices.settings, **how))
    if axis is not None and group is None:
        raise CapabilityError(
            f"How far {axis!r} has come is not known, so a window over it would begin "
            f"in the middle; {window.name!r} was given after the first event. Give it when the "
            "operator is built, or beside another window over the same column."
        )
    horizon = progress.accepted_from
    kept = None if group is None else group.kept_from(window, horizon)
    if axis is not None:
        return kept
    if kept is None:
        if group not in slices.waiters:
            return behind
        kept = horizon  # events from there on wait and are not sliced yet
    return BEGINNING if kept == BEGINNING else max(kept, window.starts_beyond(horizon))


def make_room(slices: SliceManager, window: Window) -> None:
    """Prepare the slices that there are for a window that is not complete from the start."""
    group = slices.groups.get("time")
    if window.traits.context_free and group is not None:
        # Slices that reach further may straddle its edges; what comes next opens new ones.
        progress, waits = slices.progress, group in slices.waiters
        behind = progress.accepted_from if waits else progress.behind_all
        group.slices.cut_at(behind)
