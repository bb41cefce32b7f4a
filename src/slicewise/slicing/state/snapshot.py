"""Snapshots: all that an operator knows as bytes. See `state.resume` for the way back.

Only slices that open instances need are written, and only keys of which anything is known; so the
size of a snapshot follows what is needed. The operator stays as it is. Nothing is pickled but what
only pickle can say: values of one's own Python types in states and in what one's own windows keep.
The header lists their types under "pickled", and they are read only from bytes that are trusted.
"""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.keys import Keys
from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.families.user_rows import Progress, UserRows
from slicewise.slicing.groups.group import RowGroup, SliceGroup
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.settings import wall_clock
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.state.checks import (
    check_anchors,
    check_seen,
    check_users,
    exactly,
    require,
)
from slicewise.slicing.state.describe import aggregate_described, modules_of
from slicewise.slicing.state.plain import pack, unpack
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import of_keys

if TYPE_CHECKING:
    from slicewise.slicing.parts import Parts

# Arguments of an operator that are kept under their own names.
SETTINGS = (
    *("time", "unit", "emit", "ordered", "order"),
    *("merger", "store", "partials", "max_late"),
)
# The parts whose versions a snapshot has.
VERSIONED = ("progress", "windows", "schema", "quarantine", "slices", "emission")


def snapshot(parts: Parts) -> bytes:
    """All that the parts of an operator know; they stay as they are."""
    settings = parts.settings
    out = BlobWriter(modules_of(parts.windows.defined, settings.aggs))
    live = parts.forgetting.live(parts.progress.open_from)
    codes = parts.forgetting.codes(live)
    progress = parts.progress.dump()
    header = {
        "windows": parts.windows.dump(),
        "aggs": [aggregate_described(aggregate) for aggregate in settings.aggs],
        "by": settings.by[0] if settings.by_one else list(settings.by),
        **{name: getattr(settings, name) for name in SETTINGS if name != "max_late"},
        "max_late": parts.quarantine.most,
        "lateness": settings.lateness,
        "lateness_unit": settings.lateness_unit,
        "clock": settings.time is None and settings.clock is not wall_clock,
        **progress,
        "counters": {**progress["counters"], "_next_number": parts.windows.next_number},
        "stats": asdict(parts.stats()),
        "types": parts.schema.dump(out),
        "late": parts.quarantine.dump(out),
        "keys": _put_keys(parts.keys, live, out),
        **parts.emission.dump(codes, out),
        **parts.slices.dump(live, codes, out),
        "parts": {name: getattr(parts, name).version for name in VERSIONED},
    }
    return out.blob(header)


def _put_keys(keys: Keys, live: np.ndarray, out: BlobWriter) -> Any:
    import pyarrow as pa

    arrays = [array.take(pa.array(live)) for array in keys.arrays()]
    return out.put_bytes(table_bytes(pa.table(arrays, [str(k) for k in range(len(arrays))])))


# Slices.


def _put_track(
    group: SliceGroup, live: np.ndarray, codes: np.ndarray, point: int, out: BlobWriter
) -> Any:
    """The slices of a slice group, without those that nothing needs at `point`, and what it knows.

    The group stays as it is.
    """
    keep = group.first_needed(point)
    node = {
        "kind": group.kind,
        **group.dump_slices(out, live, codes, keep),
        "evict_at": group.evict_at,
    }
    if not isinstance(group.slices, KeyMajorStore):
        return node
    runs = group.runs
    slots = runs.slots_of(live, keep)
    ties = group.tie_order.table(slots)
    if ties is not None:
        node["ties"] = out.put_bytes(table_bytes(ties))
    if isinstance(group, MeasureGroup):
        node["settled"] = out.put(of_keys(group.settled, live, BEGINNING))
    if isinstance(group, RowGroup):
        node["marks"] = {n: out.put(marks[slots]) for n, marks in group.marks.items()}
        node["anchors"] = {n: out.put(of_keys(a, live)) for n, a in group.anchors.items()}
    if isinstance(group, OrderedGroup):
        node["seen"] = out.put(of_keys(group.seen, live))
        node["after"] = group.after
        node["marks"] = {n: out.put(_padded(f, runs.slots)[slots]) for n, f in group.flags.items()}
        node["users"] = {n: _put_user(user, codes, out) for n, user in group.users.items()}
    return node


def _get_track(
    group: SliceGroup,
    node: Any,
    keys: int,
    source: BlobReader,
    since: int | None = None,
) -> None:
    if node["kind"] != group.kind:
        raise SnapshotError(
            f"The snapshot keeps slices as {node['kind']}, and these windows and aggregates keep "
            f"them as {group.kind}. Restore it with the release that wrote it."
        )
    if isinstance(group, MeasureGroup):
        kind = source.get(node["settled"]).dtype
        group.keep_as(kind, rows=node["arrival"] is not None)
    group.load_slices(node, keys, source, since)
    group.evict_at = node["evict_at"]
    if not isinstance(group.slices, KeyMajorStore):
        return
    runs, count = group.runs, group.live
    if "ties" in node:
        group.tie_order.load(table_of(source.get_bytes(node["ties"])), runs.slots)
    if isinstance(group, MeasureGroup):
        group.admit()
        settled = exactly(source.get(node["settled"]), keys, "keys", group.settled.dtype)
        known = settled[settled != BEGINNING]
        require((np.abs(known) < group.reach).all(), "keys have come beyond all values")
        group.settled[:keys] = settled
    if isinstance(group, RowGroup):
        for number, place in node["marks"].items():
            if int(number) in group.marks:
                group.marks[int(number)] = _get_marks(place, count, runs.slots, source)
        for number, place in node["anchors"].items():
            anchors = exactly(source.get(place), keys, "keys")
            check_anchors(group, anchors, keys)
            group.anchors[int(number)] = _padded(anchors, len(runs.offset))
    if isinstance(group, OrderedGroup):
        group.after = node["after"]
        seen = exactly(source.get(node["seen"]), keys, "keys")
        check_seen(group, seen, count, keys)
        group.seen = _padded(seen, len(runs.offset))
        for number, place in node["marks"].items():
            if int(number) in group.flags:
                group.flags[int(number)] = _get_marks(place, count, runs.slots, source)
        watermark = source.header["counters"]["watermark"]
        over = min(watermark, source.header.get("answered", watermark)) >= INFINITY
        for number, progress in node["users"].items():
            if int(number) in group.users:
                _get_user(group.users[int(number)], progress, source)
                check_users(group, group.users[int(number)], keys, over=over)


def _get_marks(place: Any, count: int, slots: int, source: BlobReader) -> np.ndarray:
    return _padded(exactly(source.get(place), count, "marks", np.bool_), slots)


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    padded = np.zeros(size, values.dtype)
    padded[: len(values)] = values
    return padded


# Windows of one's own.


def _put_user(user: UserRows, codes: np.ndarray, out: BlobWriter) -> Any:
    """How far each key's copy has come, and what the copy keeps on itself.

    The copy's class is not said: the window itself names it.
    """
    if not user.progress:
        return None
    rows = [
        (int(codes[code]), tuple(p.open_since), p.window.__getstate__())
        for code, p in user.progress.items()
    ]
    ended = [(int(codes[code]), *rest) for code, *rest in user.ended]
    try:
        return {"rows": pack(rows, out), "ended": pack(ended, out)}
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise SnapshotError(
            f"A snapshot keeps what the window {user.window.name!r} has on `self`, and that cannot "
            f"be pickled: {error}. Keep plain values there, or define `__getstate__`."
        ) from error


def _get_user(user: UserRows, node: Any, source: BlobReader) -> None:
    if node is None:
        return
    if isinstance(node, list):
        # All of it was pickled once.
        rows, user.ended = source.unpickled(node)
    else:
        rows, user.ended = unpack(node["rows"], source), unpack(node["ended"], source)
    for code, open_since, state in rows:
        window = user.window.fresh()
        if hasattr(window, "__setstate__"):
            window.__setstate__(state)
        else:
            window.__dict__.clear()
            window.__dict__.update(state or {})
        user.progress[code] = Progress(window, deque(open_since))
