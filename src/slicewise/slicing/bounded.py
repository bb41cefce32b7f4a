"""A whole table as one bounded stream: its watermark ends at infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.grouping import NAN, encode, frozen
from slicewise.slicing.events import Columns
from slicewise.slicing.intake import bind, times_of
from slicewise.slicing.operator import Operator
from slicewise.slicing.settings import POSITIONS, TIMES
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
    unit: str | None = None,
) -> tuple[pa.Table, int]:
    """The results of all window instances, in order, and how many rows were unusable."""
    op = Operator(windows=windows, aggs=aggs, time=time, by=by, emit="final", unit=unit)
    given = Columns(columns)
    if given.rows:
        op.process(columns)
    else:
        # A batch without events teaches an operator nothing, but a table has types all the same.
        times_of(op, given)
        bind(op, given)
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
        order.append(_ranks([table[name] for name in by]))
    return table.take(pa.array(np.lexsort(order)))


def _ranks(keys: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """The rank of each row's key among all keys; null is the least and NaN the greatest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes, size = encode(keys)
    assert codes is not None
    present, firsts = np.unique(codes, return_index=True)
    columns: dict[str, pa.Array] = {}
    for number, key in enumerate(keys):
        distinct = key.take(pa.array(firsts)).combine_chunks()
        if isinstance(distinct, pa.DictionaryArray):
            distinct = distinct.dictionary_decode()
        if isinstance(distinct, pa.ExtensionArray):
            distinct = distinct.storage  # such as the bytes of a UUID
        if pa.types.is_nested(distinct.type):
            distinct = _places(distinct.to_pylist())
        columns[f"there{number}"] = distinct.is_valid()
        columns[f"value{number}"] = distinct
    by = [(name, "ascending") for name in columns]
    ranked = pc.sort_indices(pa.table(columns), sort_keys=by).to_numpy()
    ranks = np.empty(size, np.int64)
    ranks[present[ranked]] = np.arange(len(ranked))
    found: np.ndarray = ranks[codes]
    return found


def _places(keys: Sequence[Any]) -> pa.Array:
    """Numbers in the order of keys that are lists or structs, which Arrow does not sort."""
    import pyarrow as pa

    known = [_sortable(frozen(key)) for key in keys]
    places = {key: place for place, key in enumerate(sorted(set(known)))}
    return pa.array([places[key] for key in known])


def _sortable(value: Any) -> Any:
    """A frozen key as tuples that have an order: null is the least, NaN the greatest."""
    if isinstance(value, tuple):
        return (1, tuple(map(_sortable, value)))
    if value is None:
        return (0,)
    return (2,) if value is NAN else (1, value)
