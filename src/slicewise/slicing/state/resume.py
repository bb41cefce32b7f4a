"""Going on from a snapshot with other windows, aggregates or lateness.

Windows of the same name and definition go on; others of the snapshot are forgotten, and new ones
begin as if they were added while running. An aggregate that the snapshot does not know has seen
none of the events before: its result is null for instances that hold any of them, and may be for
those that begin before the newest of them. Lateness may change; what was too late before stays so.
Windows that need rows with lateness and none without keep theirs at zero or above it. Keys, the
time column and the way of emission may not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING
from slicewise.slicing.groups.group import WindowEntry
from slicewise.slicing.operator import Operator
from slicewise.slicing.state.blob import BlobReader
from slicewise.slicing.state.checks import check_header, reading
from slicewise.slicing.state.describe import modules_of, same_window, window_described
from slicewise.slicing.state.snapshot import (
    COUNTERS,
    _get_progress,
    _get_track,
    _get_types,
    _place_said,
    combined_of,
    get_events,
    say_times,
)
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

# What must be as it was.
FIXED = ("by", "time", "unit", "emit", "ordered")


def resume(op: Operator, blob: bytes, types: Mapping[str, pa.DataType]) -> Operator:
    """Let a fresh operator go on from the snapshot of one that had other windows or aggregates.

    `types` are those of all columns that it reads. The snapshot is one that this program wrote, in
    a checkpoint of its own; where windows or aggregates are one's own, so that states may have been
    pickled, it is as trusted as they are.
    """
    with reading():
        modules = modules_of(op.windows, op.aggs)
        source = BlobReader(blob, trusted=bool(modules))
        source.modules = modules
        check_header(source.header)
        return _resumed(op, source, types)


def _resumed(op: Operator, source: BlobReader, types: Mapping[str, pa.DataType]) -> Operator:
    header = source.header
    _check(op, header)
    wanted = op.windows
    op._windows = [p for one in header["windows"] if (p := _continued(one, wanted))]
    op._taken = {entry.window.name for entry in op._windows}
    for name in COUNTERS:
        setattr(op, name, header["counters"][name])
    op._combined, op._apart = combined_of(header), header.get("apart", False)
    if op._windows:
        op._replan()
    _get_progress(op, source)
    before = op.lateness
    op.lateness = header["lateness"]
    op._floor = op._horizon(op.watermark)
    op.lateness = before
    for one in header["windows"]:
        if one["number"] not in {entry.number for entry in op._windows}:
            op._log.forget(one["number"])
    if header["types"] is not None:
        _get_types(op, header["types"], source, types)
        _get_tracks(op, source)
        get_events(op, source)
        say_times(op, header)
    for window in wanted:
        if window.name not in op._taken:
            op.add_window(window)
    _share_since(op)
    if op.emit == "final":
        # With less lateness than before, what lies between is due with the next watermark.
        op.watermark = min(op.watermark, op._floor + op.lateness)
        op._answered = min(op._answered, op.watermark)
    return op


def _check(op: Operator, header: dict[str, Any]) -> None:
    now = {"by": op.by[0] if op._by_one else list(op.by)}
    now |= {name: getattr(op, name) for name in FIXED[1:]}
    differing = [
        f"`{name}` was {header[name]!r} and is {now[name]!r}"
        for name in FIXED
        if header.get(name, now[name]) != now[name]
    ]
    if differing:
        raise SnapshotError(
            f"The snapshot is of another operator: {'; '.join(differing)}. Give the same as "
            "before, or begin anew."
        )


def _continued(one: dict[str, Any], wanted: list[Window]) -> WindowEntry | None:
    """The window of a snapshot that goes on, if it is among those wanted."""
    for window in wanted:
        if same_window(one["window"], window_described(window)):
            return WindowEntry(one["number"], window, one["since"])
    return None


def _get_tracks(op: Operator, source: BlobReader) -> None:
    nodes = {str(node["place"]): node for node in source.header["tracks"]}
    # An event that is not yet seen decides from when on a new aggregate knows everything.
    since = max(op._newest + 1, op.watermark)
    for place, group in op._groups.items():
        node = nodes.get(str(_place_said(place)))
        if node is None or node["kind"] != group.kind:
            shown = ", ".join(repr(entry.window.name) for entry in group.windows)
            raise SnapshotError(
                f"With these aggregates and this lateness the windows {shown} need rows, or need "
                "them no longer, and the snapshot keeps them the other way. Leave the lateness and "
                "the aggregates whose order of events matters as they were, or begin anew."
            )

        _get_track(group, node, len(op._keys), source, since)


def _share_since(op: Operator) -> None:
    """Let new slice groups know since when aggregates know all: waiting events come to them."""
    stores = [group.slices for group in op._groups.values()]
    numbers = {number for store in stores for number in store.since}
    shared = {n: max(store.since.get(n, BEGINNING) for store in stores) for n in numbers}
    for group in op._groups.values() if shared else ():
        group.slices.since = dict(shared)
        group.keep_by_key()
