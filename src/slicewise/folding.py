"""Emitted rows folded: of each window instance the last revision, if it still exists.

Every emission of an instance has a revision of its own, retractions too, so the greatest one is the
last, in whatever order rows arrive and however often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arguments import check_columns
from slicewise.arrays.grouping import encode
from slicewise.names import column_names

if TYPE_CHECKING:
    import pyarrow as pa

INSTANCE = ("window", "start", "end")
# The bounds of windows that do not measure time, where others measure moments.
POSITIONS = ("start_position", "end_position")
REVISION = ("revision", "retracted")
LATE = "late"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of emitted rows say what.

    `identity` names an instance: the keys, `window`, `start` and `end`, and `start_position` and
    `end_position` where there are such columns. `columns` are those of the answer, in order.
    `revised` tells whether rows carry `revision` and `retracted`; those of `emit="final"` do not.
    `late` tells whether dropped events are among the rows.
    """

    identity: tuple[str, ...]
    columns: tuple[str, ...]
    revised: bool
    late: bool

    @staticmethod
    def of(names: Sequence[Any], by: str | Sequence[str] | None, *, late: bool) -> Layout:
        """The layout of a table with these columns; the keys are `by`, or those before `window`."""
        revised = any(name in names for name in REVISION)
        check_columns(names, [*INSTANCE, *(REVISION if revised else ())])
        keys = names[: list(names).index("window")] if by is None else column_names("by", by)
        check_columns(names, keys)
        apart = {*(REVISION if revised else ()), *([LATE] if late else ())}
        columns = tuple(name for name in names if name not in apart)
        positions = [name for name in POSITIONS if name in names]
        return Layout((*keys, *INSTANCE, *positions), columns, revised, late)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return self.identity[: self.identity.index(INSTANCE[0])]

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are no part of an instance's name."""
        return tuple(name for name in self.columns if name not in self.identity)


def latest_rows(layout: Layout, column: Callable[[str], pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """The places of the last revision of each instance, in the order of the rows.

    Retractions are among them; dropped events are not.
    """
    places = result_rows(layout, column)
    identity = [column(name).take(places) for name in layout.identity]
    codes, _ = encode(identity)
    assert codes is not None  # an instance always has a name
    if layout.revised:
        revision = column("revision").take(places).to_numpy().astype(np.int64)
    else:
        revision = np.zeros(len(places), np.int64)
    # Of rows that came twice the first stays, hence the falling place.
    order = np.lexsort((-places, revision, codes))
    last = np.flatnonzero(np.diff(codes[order], append=-1))
    latest: np.ndarray = np.sort(places[order[last]])
    return latest


def current_rows(layout: Layout, column: Callable[[str], pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """The places of the rows of the current answer."""
    if not layout.revised:
        return result_rows(layout, column)
    latest = latest_rows(layout, column)
    gone = column("retracted").take(latest).to_numpy(zero_copy_only=False).astype(np.bool_)
    current: np.ndarray = latest[~gone]
    return current


def result_rows(layout: Layout, column: Callable[[str], pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """The places of the rows that are no dropped events."""
    window = column("window")
    if not layout.late:
        return np.arange(len(window))
    return np.flatnonzero(window.is_valid().to_numpy(zero_copy_only=False))


def hands_out_late(
    names: Sequence[Any], column: Callable[[str], pa.Array | pa.ChunkedArray]
) -> bool:
    """Return whether `late` is the column of dropped events, not a key or aggregate."""
    import pyarrow as pa

    if "window" not in names or LATE not in names[list(names).index("window") :]:
        return False
    kind = column(LATE).type
    return bool(pa.types.is_struct(kind) or pa.types.is_null(kind))
