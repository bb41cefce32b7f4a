"""Snapshots: all that an operator knows as bytes, and an operator from them.

Only slices that are kept are written, in the order of their runs, and only keys of which anything
is known; so the size of a snapshot follows what is kept. Nothing is pickled but what only pickle
can say: values of one's own Python types in states and in what one's own windows keep. The header
lists their types under "pickled", and they are read only from bytes that are trusted.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.arrays.keys import Keys
from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.emit.log import CLOSE, END, FIELDS, KEY, START, WINDOW, EmissionLog
from slicewise.slicing.families.user_rows import Progress, UserRows
from slicewise.slicing.forgetting import codes_of, live_keys, look_again
from slicewise.slicing.groups.group import RowGroup, SliceGroup, WindowEntry
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.groups.parting import prune_kept
from slicewise.slicing.ingest.intake import bind_to
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.state.checks import (
    check_anchors,
    check_header,
    check_key_types,
    check_keys,
    check_seen,
    check_time_type,
    check_users,
    check_zones,
    codes,
    exactly,
    reading,
    require,
)
from slicewise.slicing.state.describe import (
    aggregate_described,
    aggregate_of,
    chosen,
    modules_of,
    window_described,
    window_of,
)
from slicewise.slicing.state.plain import pack, unpack
from slicewise.slicing.state.waiting_blob import get_waiting, put_waiting
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import of_keys
from slicewise.spans import Duration
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.operator import Operator

# Arguments of an operator that are kept under their own names, and numbers that it counts.
SETTINGS = (
    *("time", "unit", "emit", "ordered", "order"),
    *("merger", "store", "partials", "max_late"),
)
COUNTERS = ("watermark", "_newest", "_next_number")


def snapshot(op: Operator) -> bytes:
    """All that an operator knows."""
    from slicewise.slicing.settings import wall_clock

    op._guard.begin()
    _compact(op)
    op._guard.end()
    out = BlobWriter(modules_of(op.windows, op.aggs))
    live = live_keys(op)
    codes = codes_of(live, len(op._keys))
    dirty = np.unique(np.concatenate(op._dirty)) if op._dirty else live[:0]
    header = {
        "windows": [
            {"number": p.number, "since": p.since, "window": window_described(p.window)}
            for p in op._windows
        ],
        "aggs": [aggregate_described(aggregate) for aggregate in op.aggs],
        "by": op.by[0] if op._by_one else list(op.by),
        **{name: getattr(op, name) for name in SETTINGS},
        "lateness": op.lateness,
        "lateness_unit": op.lateness_unit,
        "clock": op.time is None and op._clock is not wall_clock,
        "counters": {name: getattr(op, name) for name in COUNTERS},
        "stats": asdict(op.stats),
        "types": _put_types(op, out),
        "late": [out.put_bytes(table_bytes(table)) for table in op._late.tables],
        "keys": _put_keys(op._keys, live, out),
        "dirty": out.put(codes[dirty]),
        "emitted": _put_emitted(op._log, codes, out),
        "floor": op._floor,
        "answered": op._answered,
        "combined": op._combined,
        "apart": op._apart,
        "waiting": put_waiting(op._waiting.batches, codes, out),
        "kept": put_waiting(op._waiting.kept, codes, out),
        "tracks": [
            {"place": _place_said(place), **_put_track(group, live, codes, out)}
            for place, group in op._groups.items()
        ],
    }
    return out.blob(header)


def restore(
    cls: type[Operator],
    blob: bytes,
    *,
    windows: Iterable[Window] | Window | None,
    aggs: Iterable[Aggregate] | Aggregate | None,
    clock: Callable[[], int] | None,
    trusted: bool,
) -> Operator:
    """The operator of which `blob` is a snapshot; pickles and functions only of `trusted` ones."""
    with reading():
        source = BlobReader(blob, trusted=trusted)
        return _restored(cls, source, windows=windows, aggs=aggs, clock=clock)


def _restored(
    cls: type[Operator],
    source: BlobReader,
    *,
    windows: Iterable[Window] | Window | None,
    aggs: Iterable[Aggregate] | Aggregate | None,
    clock: Callable[[], int] | None,
) -> Operator:
    header, trusted = source.header, source.trusted
    check_header(header)
    if header["clock"] and clock is None:
        raise SnapshotError(
            "The operator of the snapshot stamped events by a clock of its own. Give it to "
            "`restore` again with `clock=...`."
        )
    described = [one["window"] for one in header["windows"]]
    unit, lateness = header.get("unit"), header["lateness"]
    windows = counted_in(unit, windows)
    found = chosen(
        "windows", described, windows, window_described, window_of, _window_name, trusted=trusted
    )
    defined = chosen(
        "aggs", header["aggs"], aggs, aggregate_described, aggregate_of, _output, trusted=trusted
    )
    source.modules = modules_of(found, defined)
    op = cls(
        windows=found,
        aggs=defined,
        by=header["by"] or None,
        clock=clock,
        lateness=Duration(lateness) if lateness and header.get("lateness_unit") else lateness,
        **{name: header[name] for name in SETTINGS if name in header},  # older ones have fewer
    )
    op._windows = [
        WindowEntry(one["number"], window, one["since"])
        for one, window in zip(header["windows"], found, strict=True)
    ]
    for name in COUNTERS:
        setattr(op, name, header["counters"][name])
    op._combined, op._apart = combined_of(header), header.get("apart", False)
    op._replan()
    _get_progress(op, source)
    if header["types"] is not None:
        _get_types(op, header["types"], source)
        groups = list(op._groups.values())
        for group, node in zip(groups, header["tracks"], strict=True):
            _get_track(group, node, len(op._keys), source)
        get_events(op, source)
        say_times(op, header)
    return op


def say_times(op: Operator, header: dict[str, Any]) -> None:
    """Name emitted instances of the last rows by their times; they had row positions once.

    Snapshots from before that do not say the unit of times either.
    """
    if "unit" in header:
        return
    entries = op._log.entries.copy()
    for group in op._groups.values():
        aware = [p for p in group.windows if p.window.traits.context == "forward aware"]
        numbers = [entry.number for entry in aware]
        mine = np.flatnonzero(np.isin(entries[WINDOW], numbers))
        if len(mine):
            entries[START, mine] = group.times_at(entries[KEY, mine], entries[START, mine])
            entries[END, mine] = entries[CLOSE, mine]
    op._log.load(entries)


def counted_in(unit: str | None, windows: Any) -> Any:
    """Windows that are given again, in the unit in which a snapshot says them."""
    if unit is None or windows is None:
        return windows
    given = [windows] if isinstance(windows, Window) else windows
    return [window.counted_in(unit) for window in given]


def combined_of(header: dict[str, Any]) -> bool | None:
    """Whether windows of time and sessions share slices; they did not before this was said."""
    known: bool | None = header.get("combined", False)
    return None if header["types"] is None else known


def get_events(op: Operator, source: BlobReader) -> None:
    """The events that wait, if anything still takes them."""
    for group in op._waiters:
        if isinstance(group, OrderedGroup):
            op._waiting.separate(group.after)
    if op._waiters:
        types = {name: (op._types or {})[name] for name in op._kept()}
        conditions = [entry.number for entry in op._facts.conditions]
        given = (source, types, len(op._keys), conditions)
        op._waiting.batches = get_waiting(source.header["waiting"], *given, single=not op.by)
        if "kept" not in source.header:
            op._waiting.kept_from = op._horizon(op._answered)  # an earlier release kept none
        elif op._waiting.keeps:
            op._waiting.kept = get_waiting(source.header["kept"], *given, single=not op.by)


def _get_progress(op: Operator, source: BlobReader) -> None:
    """What an operator has seen and emitted, but for its slices."""
    header = source.header
    op._floor = header["floor"]
    op._answered = header.get("answered", op.watermark)
    op._stats = type(op._stats)(**header["stats"])
    late = [source.get_bytes(place) for place in header["late"]]
    op._late.tables = [table_of(data, any_text=True) for data in late]
    op._late.forgotten = op._stats.late_forgotten
    _get_keys(op._keys, header["keys"], source)
    look_again(op)
    op._log = _get_emitted(header, len(op._keys), source)
    dirty = codes(source.get(header["dirty"]), len(op._keys), "keys that have changed")
    op._dirty = [dirty] if len(dirty) else []


def _place_said(place: Any) -> Any:
    """The place of a slice group among the others, as JSON has it."""
    return list(place) if isinstance(place, tuple) else place


def _window_name(window: Window) -> str:
    return window.name


def _output(aggregate: Aggregate) -> str:
    return aggregate.output


def _compact(op: Operator) -> None:
    """Let go of what nothing can need any more, all of it; otherwise that is done now and then."""
    horizon = op._horizon(op._answered)
    for group in op._groups.values():
        group.evict_at = 0
        group.evict(horizon)
    prune_kept(op, all_of_it=True)
    op._log.pruned_at = 0
    op._prune(horizon)


# Types and tables.


def _put_types(op: Operator, out: BlobWriter) -> Any:
    """The types of columns and of the time, as an Arrow schema."""
    import pyarrow as pa

    if op._types is None and op._time_type is None:
        return None
    fields = [pa.field(f"column:{name}", kind) for name, kind in (op._types or {}).items()]
    if op._time_type is not None:
        fields.append(pa.field("time", op._time_type))
    return {
        "schema": out.put_bytes(pa.schema(fields).serialize().to_pybytes()),
        "bound": op._types is not None,
        "untyped": sorted(op._untyped),
    }


def _get_types(
    op: Operator, node: Any, source: BlobReader, more: Mapping[str, pa.DataType] | None = None
) -> None:
    """Bind to the types of the snapshot, and to those of columns that it did not read."""
    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.py_buffer(source.get_bytes(node["schema"])))
    kinds = {field.name: field.type for field in schema}
    check_zones(kinds.values())
    op._time_type = kinds.pop("time", None)
    check_time_type(op._time_type)
    if node["bound"]:
        known = {name.removeprefix("column:"): kind for name, kind in kinds.items()}
        bind_to(op, {**(more or {}), **known})
        op._untyped = {name for name in node["untyped"] if name in (op._types or {})}
        check_key_types(op._keys, [(op._types or {})[name] for name in op.by])


def _put_keys(keys: Keys, live: np.ndarray, out: BlobWriter) -> Any:
    import pyarrow as pa

    arrays = [array.take(pa.array(live)) for array in keys.arrays()]
    return out.put_bytes(table_bytes(pa.table(arrays, [str(k) for k in range(len(arrays))])))


def _get_keys(keys: Keys, place: Any, source: BlobReader) -> None:
    table = table_of(source.get_bytes(place))
    if table.num_columns and table.num_rows:
        source.count(table.num_rows)  # columns of nothing but nulls take no bytes
        arrays = [column.combine_chunks() for column in table.columns]
        keys.load(arrays)
        check_keys(keys, arrays)


# What was emitted.


def _put_emitted(emitted: EmissionLog, codes: np.ndarray, out: BlobWriter) -> Any:
    fields = dict(zip(FIELDS, emitted.entries, strict=True))
    fields["key"] = codes[fields["key"]]
    # Near to each other, and so short as distances.
    fields["end"], fields["close"] = (
        fields["end"] - fields["start"],
        fields["close"] - fields["end"],
    )
    return {name: out.put(values) for name, values in fields.items()}


def _get_emitted(header: dict[str, Any], keys: int, source: BlobReader) -> EmissionLog:
    fields = {name: source.get(header["emitted"][name]) for name in FIELDS}
    for name, values in fields.items():
        exactly(values, len(fields["key"]), f"emitted {name}s")
    codes(fields["key"], keys, "keys of emitted instances")
    numbers = [one["number"] for one in header["windows"]]
    require(np.isin(fields["window"], numbers).all(), "it has emitted other windows than its own")
    fields["end"] += fields["start"]
    fields["close"] += fields["end"]
    emitted = EmissionLog()
    emitted.load(np.stack([fields[name] for name in FIELDS]))
    return emitted


# Slices.


def _put_track(group: SliceGroup, live: np.ndarray, codes: np.ndarray, out: BlobWriter) -> Any:
    """The slices of a slice group, without what was free between them, and what it knows."""
    node = {
        "kind": group.kind,
        **group.dump_slices(out, live, codes),
        "evict_at": group.evict_at,
    }
    if not isinstance(group.slices, KeyMajorStore):
        return node
    runs = group.runs
    slots = runs.slots_of(live)
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
        group._admit()
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
