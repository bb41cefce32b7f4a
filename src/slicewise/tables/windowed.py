"""`sw.windowed` over a table in this process: a stream whose watermark ends at infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.arguments import (
    check_columns,
    checked_aggregates,
    listed,
    sources_of,
)
from slicewise.arrays.ranks import ranks
from slicewise.columns import Source
from slicewise.errors import (
    BadRowsWarning,
    warn,
)
from slicewise.names import column_name, column_names
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.operator import Operator
from slicewise.slicing.settings import CHOSEN, POSITIONS, TIMES, Merging
from slicewise.tables import table_of
from slicewise.times import Measure, as_length
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


def in_windows(
    data: Any,
    *,
    by: Any,
    time: str,
    windows: Any,
    aggs: Any,
    order: Any,
    unit: Any,
    merging: Merging,
    delays: Mapping[str, Any],
) -> Any:
    """The results of all window instances, as a table of the kind of `data`.

    `delays` are lengths of time by the names of their arguments. They change nothing here, and have
    to make sense beside the time column all the same.
    """
    table = table_of(data)
    chosen, defined = checked_aggregates("windowed", aggs), listed(windows)
    keys, decides = column_names("by", by), column_names("order", order)
    time = column_name("time", time)
    reads = [window.reads for window in defined if isinstance(window, Window)]
    needed = dict.fromkeys([*keys, time, *(name for agg in chosen for name in agg.columns)])
    needed |= dict.fromkeys(name for names in reads for name in names or ())
    needed |= dict.fromkeys(decides)
    check_columns(table.names, [*needed])
    measure = Measure.of(time, table.arrow(time).type, unit)
    for name, given in delays.items():
        if given is not None:
            measure.length(f"`{name}`", as_length(name, given))
    # Windows with a condition or logic of the user's own may look at any column.
    wanted = table.names if None in reads else [*needed]
    check_columns(table.names, wanted)
    found, bad = bounded(
        {name: table.arrow(name) for name in wanted},
        by=keys,
        time=time,
        windows=defined,
        aggs=chosen,
        order=decides,
        unit=unit,
        merging=merging,
    )
    if bad:
        warn(
            f"{bad} rows are in no window: they have no usable time in {time!r} (null, NaN, a "
            "fraction or out of range), a text that is no UTF-8, or a window's condition raised an "
            "error. Filter them out to say so.",
            BadRowsWarning,
        )
    like = {key: Source(key) for key in keys} | sources_of(chosen)
    like |= dict.fromkeys(TIMES, Source(time, picked=False))
    return table.made(found, like)


def bounded(
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
