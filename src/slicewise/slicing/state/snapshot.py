"""Snapshots: all that an operator knows as bytes. See `state.resume` for the way back.

Only slices that open instances need are written, and only keys of which anything is known; so the
size of a snapshot follows what is needed. The operator stays as it is. Nothing is pickled but what
only pickle can say: values of one's own Python types in states and in what one's own windows keep.
The header lists their types under "pickled", and they are read only from bytes that are trusted.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.keys import Keys
from slicewise.slicing.settings import wall_clock
from slicewise.slicing.state.blob import BlobWriter, table_bytes
from slicewise.slicing.state.describe import aggregate_described, modules_of

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
