"""A whole table as one bounded stream: its watermark ends at infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.arrays.ranks import ranks
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.operator import Operator
from slicewise.slicing.settings import CHOSEN, POSITIONS, TIMES, Merging
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


def windowed_table(
    columns: Mapping[str, Any],
    *,
    by: Sequence[str],
    time: str,
    windows: Sequence[Window],
    aggs: Sequence[Aggregate],
    order: Sequence[str] = (),
    unit: str | None = None,
    merging: Merging = CHOSEN,
) -> tuple[pa.Table, int]:
    """The results of all window instances, in order, and how many rows were unusable."""
    op = Operator(
        windows=windows,
        aggs=aggs,
        time=time,
        by=by,
        emit="final",
        order=order,
        unit=unit,
        **merging.arguments,
    )
    given = Columns(columns)
    piece = tuning.active().rows_taken
    for begin in range(0, given.rows, piece):
        op.process({name: column[begin : begin + piece] for name, column in columns.items()})
    if not given.rows:
        # A batch without events teaches an operator nothing, but a table has types all the same.
        op.parts.ingest.learn(given)
    table = op.advance_arrow(math.inf).drop_columns(["revision", "retracted"])
    return in_order(table, by, [window.name for window in op.windows]), op.stats.bad


def in_order(table: pa.Table, by: Sequence[str], windows: Sequence[str]) -> pa.Table:
    """Rows by (keys, window, start, end), windows as they were given, null before all other keys.

    >>> import pyarrow as pa
    >>> rows = {"k": [2, None, 2], "window": ["b", "a", "a"], "start": [0, 5, 5], "end": [9, 9, 9]}
    >>> in_order(pa.table(rows), ["k"], ["b", "a"]).column("k").to_pylist()
    [None, 2, 2]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_rows < 2:
        return table
    place = pc.index_in(table["window"], pa.array(windows, pa.string())).to_numpy()
    bounds = [name for name in (*TIMES, *POSITIONS) if name in table.column_names]
    order = [*(table[name].to_numpy() for name in reversed(bounds)), place]
    if by:
        order.append(ranks([table[name] for name in by]))
    return table.take(pa.array(np.lexsort(order)))
