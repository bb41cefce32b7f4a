"""Events that wait for the watermark, in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import Column
from slicewise.slicing.batches import Batch, nulls
from slicewise.slicing.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.plain import pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa


def put_waiting(batches: Sequence[Batch], codes: np.ndarray, out: BlobWriter) -> Any:
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


def get_waiting(
    nodes: Any, types: Mapping[str, pa.DataType], source: BlobReader, single: bool
) -> list[Batch]:
    """The events, of one key if `single`; columns of these types that they lack are null."""
    found = []
    for node in nodes:
        times = source.get(node["times"])
        table = table_of(source.get_bytes(node["columns"]))
        objects = None
        if node["objects"] is not None:
            objects = np.empty(len(times), object)
            objects[:] = unpack(node["objects"], source)
        known = {name: Column.from_arrow(table[name]) for name in table.column_names}
        keys = source.get(node["keys"])
        batch = Batch(
            times,
            np.broadcast_to(keys[0], len(keys)) if single else keys,
            {**nulls(len(times), types), **known},
            None,
            {int(number): source.get(mark) for number, mark in node["marks"].items()},
            node["arrival"],
            int(times[0]),
            int(times[-1]),
            objects,
            ordered=True,
        )
        found.append(batch)
    return found
