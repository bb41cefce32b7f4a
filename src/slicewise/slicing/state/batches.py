"""Batches of events in a snapshot: those that wait for the watermark, and those kept behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import Column
from slicewise.limits import REACH
from slicewise.slicing.ingest.batch import BAD, ROW, Batch, nulls
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.state.checks import codes, exactly, require
from slicewise.slicing.state.plain import pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa

# The events that were refused and the numbers of rows; all others are the marks of windows.
MARKS = {BAD: np.bool_, ROW: np.int64}


def put_batches(batches: Sequence[Batch], codes: np.ndarray, out: BlobWriter) -> Any:
    """The events, with the codes that their keys get."""
    return [_put(batch, codes, out) for batch in batches]


def _put(batch: Batch, codes: np.ndarray, out: BlobWriter) -> Any:
    import pyarrow as pa

    table = pa.table({name: column.to_arrow() for name, column in batch.columns.items()})
    return {
        "times": out.put(batch.times),
        "keys": out.put(codes[batch.keys]),
        "columns": out.put_bytes(table_bytes(table)),
        "marks": {str(number): out.put(mark) for number, mark in batch.marks.items()},
        "arrival": batch.arrival,
        "objects": None if batch.objects is None else pack(batch.objects.tolist(), out),
    }


def get_batches(
    nodes: Any,
    source: BlobReader,
    types: Mapping[str, pa.DataType],
    keys: int,
    marking: Mapping[int, Any],
    *,
    single: bool,
) -> list[Batch]:
    """The events, of so many keys, of one if `single`.

    Columns of these types that they lack are null, and marks of windows that came after them are
    false or zero; `marking` has the type of the marks of each window.
    """
    found = []
    for node in nodes:
        batch = _get(node, source, types, keys, marking, single=single)
        marks = {number: np.zeros(len(batch), kind) for number, kind in marking.items()}
        found.append(replace(batch, marks={**marks, **batch.marks}))
    return found


def _get(
    node: Any,
    source: BlobReader,
    types: Mapping[str, pa.DataType],
    keys: int,
    marking: Mapping[int, Any],
    *,
    single: bool,
) -> Batch:
    times = source.get(node["times"])
    count = len(times)
    exactly(times, count, "times")
    require(count and (np.abs(times) < REACH).all(), "events wait at no time")
    require((times[1:] >= times[:-1]).all(), "events that wait are not in order")
    who = codes(exactly(source.get(node["keys"]), count, "keys"), keys, "keys of events that wait")
    table = table_of(source.get_bytes(node["columns"]))
    require(not table.num_columns or table.num_rows == count, "columns have other events")
    known = {name: Column.from_arrow(table[name]) for name in table.column_names}
    for name, column in known.items():
        kind = types.get(name, column.type)
        kind = "float" if kind == "halffloat" else kind  # which columns hold in single precision
        require(column.type == kind, f"the column {name!r} is {column.type} and {kind}")
    objects = None
    if node["objects"] is not None:
        found = unpack(node["objects"], source)
        require(len(found) == count, "there are other events than those that wait")
        objects = np.fromiter(found, object, count)
    require(type(node["arrival"]) is int, "events came at no time")
    kinds, given = {**marking, **MARKS}, {int(n): place for n, place in node["marks"].items()}
    marks = {
        number: exactly(source.get(given[number]), count, "marks", kind)
        for number, kind in kinds.items()
        if number in given  # and not those of windows that are gone
    }
    return Batch(
        times,
        np.broadcast_to(who[0], count) if single else who,
        {**nulls(count, types), **known},
        None,
        marks,
        node["arrival"],
        int(times[0]),
        int(times[-1]),
        objects,
        ordered=True,
    )
