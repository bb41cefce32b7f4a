"""Operators from snapshots, with the same or with other windows, aggregates and lateness.

There is one way: a fresh operator goes on from a snapshot. `restore` makes it with the definitions
of the snapshot, `resume` takes one with its own. Windows of the same name and definition go on;
others of the snapshot are forgotten, and new ones begin as if they were added while running. An
aggregate that the snapshot does not know has seen none of the events before: its result is null for
instances that hold any of them, and may be for those that begin before the newest of them. Lateness
may change; what was too late before stays so. Windows that need rows with lateness and none without
keep theirs at zero or above it. Keys, the time column and the way of emission may not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.arrays.keys import Keys
from slicewise.errors import SnapshotError
from slicewise.slicing.emit.log import CLOSE, END, KEY, START, WINDOW
from slicewise.slicing.state.blob import BlobReader, table_of
from slicewise.slicing.state.checks import check_header, check_key_types, check_keys, reading
from slicewise.slicing.state.describe import (
    aggregate_described,
    aggregate_of,
    chosen,
    modules_of,
    same_window,
    window_described,
    window_of,
)
from slicewise.slicing.state.snapshot import SETTINGS, VERSIONED
from slicewise.spans import Duration
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.operator import Operator
    from slicewise.slicing.parts import Parts

# What must be as it was.
FIXED = ("by", "time", "unit", "emit", "ordered")


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
        header = source.header
        check_header(header)
        if header["clock"] and clock is None:
            raise SnapshotError(
                "The operator of the snapshot stamped events by a clock of its own. Give it to "
                "`restore` again with `clock=...`."
            )
        defined = _windows_of(header, windows, trusted=trusted)
        aggregates = chosen(
            "aggs",
            header["aggs"],
            aggs,
            aggregate_described,
            aggregate_of,
            lambda aggregate: aggregate.output,
            trusted=trusted,
        )
        source.modules = modules_of(defined, aggregates)
        lateness = header["lateness"]
        op = cls(
            windows=defined,
            aggs=aggregates,
            by=header["by"] or None,
            clock=clock,
            lateness=Duration(lateness) if lateness and header.get("lateness_unit") else lateness,
            **{name: header[name] for name in SETTINGS if name in header},  # older ones have fewer
        )
        return _loaded(op, source, defined)


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
        header = source.header
        check_header(header)
        _check_fixed(op, header)
        wanted = [(window, window_described(window)) for window in op.windows]
        found = [
            next((w for w, said in wanted if same_window(one["window"], said)), None)
            for one in header["windows"]
        ]
        return _loaded(op, source, found, types)


def _windows_of(header: dict[str, Any], given: Any, *, trusted: bool) -> list[Window]:
    """The windows of a snapshot: those given, if they are the same, or made anew."""
    described = [one["window"] for one in header["windows"]]
    given = counted_in(header.get("unit"), given)
    return chosen(
        "windows",
        described,
        given,
        window_described,
        window_of,
        lambda window: window.name,
        trusted=trusted,
    )


def counted_in(unit: str | None, windows: Any) -> Any:
    """Windows that are given again, in the unit in which a snapshot says them."""
    if unit is None or windows is None:
        return windows
    given = [windows] if isinstance(windows, Window) else windows
    return [window.counted_in(unit) for window in given]


def _check_fixed(op: Operator, header: dict[str, Any]) -> None:
    """Refuse a snapshot of another query."""
    now = {"by": op.by[0] if op.settings.by_one else list(op.by)}
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


def _loaded(
    op: Operator,
    source: BlobReader,
    found: Sequence[Window | None],
    types: Mapping[str, pa.DataType] | None = None,
) -> Operator:
    """Let a fresh operator go on from a snapshot.

    `found` has the operator's own window for each one of the snapshot, and `None` for those that
    end. Without `types` all definitions are those of the snapshot; with them, they may be others.
    """
    parts, header = op.parts, source.header
    _check_versions(parts, header)
    wanted = op.windows
    parts.windows.load(header, found)
    parts.slices.load_plan(header)
    parts.progress.load(header)
    parts.quarantine.load(header["late"], header["stats"], source)
    _get_keys(parts.keys, header["keys"], source)
    parts.forgetting.look_again()
    parts.emission.load(header, source)
    for one, window in zip(header["windows"], found, strict=True):
        if window is None:
            parts.emission.log.forget(one["number"])
    if header["types"] is not None:
        parts.schema.load(header["types"], source, types or {})
        if parts.schema.columns is not None:
            parts.slices.arrange()
            check_key_types(parts.keys, [parts.schema.columns[name] for name in op.by])
        parts.slices.load(source, changed=types is not None)
        _say_times(parts, header)
    if types is not None:
        known = {window.name for window in op.windows}
        for window in wanted:
            if window.name not in known:
                op.add_window(window)
        parts.slices.share_since()
    if op.emit == "final" and header["lateness"] != op.lateness:
        parts.progress.reopen()
    return op


def _check_versions(parts: Parts, header: dict[str, Any]) -> None:
    """Refuse a snapshot that a later release wrote in another way."""
    said = header.get("parts", {})
    for name in VERSIONED:
        version, known = said.get(name, 1), getattr(parts, name).version
        if type(version) is not int or version > known:
            raise SnapshotError(
                f"The part {name!r} of the snapshot has version {version}; this release of "
                f"Slicewise reads versions up to {known}. Restore it with the release that wrote "
                "it, or a later one."
            )


def _get_keys(keys: Keys, place: Any, source: BlobReader) -> None:
    table = table_of(source.get_bytes(place))
    if table.num_columns and table.num_rows:
        source.count(table.num_rows)  # columns of nothing but nulls take no bytes
        arrays = [column.combine_chunks() for column in table.columns]
        keys.load(arrays)
        check_keys(keys, arrays)


def _say_times(parts: Parts, header: dict[str, Any]) -> None:
    """Name emitted instances of the last rows by their times; they had row positions once.

    Snapshots from before that do not say the unit of times either.
    """
    if "unit" in header:
        return
    log = parts.emission.log
    entries = log.entries.copy()
    for group in parts.slices.groups.values():
        aware = [p for p in group.windows if p.window.traits.context == "forward aware"]
        mine = np.flatnonzero(np.isin(entries[WINDOW], [entry.number for entry in aware]))
        if len(mine):
            entries[START, mine] = group.times_at(entries[KEY, mine], entries[START, mine])
            entries[END, mine] = entries[CLOSE, mine]
    log.load(entries)
