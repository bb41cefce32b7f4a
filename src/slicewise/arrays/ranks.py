"""The order of rows by columns of any types, the same as Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.grouping import NAN, encode, frozen
from slicewise.columns import python_values

if TYPE_CHECKING:
    import pyarrow as pa


def ranks(keys: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """The rank of each row among all rows by these columns, the first of them first.

    Null is the least and NaN the greatest, as Spark sorts them; rows that hold the same have the
    same rank.

    >>> import pyarrow as pa
    >>> ranks([pa.array([2.0, None, float("nan"), 2.0])]).tolist()
    [1, 0, 2, 1]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    codes, size = encode(keys)
    assert codes is not None, "there is no column to rank by"
    present, firsts = np.unique(codes, return_index=True)
    columns: dict[str, pa.Array] = {}
    for number, key in enumerate(keys):
        distinct = key.take(pa.array(firsts))
        if isinstance(distinct, pa.ChunkedArray):
            distinct = distinct.combine_chunks()
        if isinstance(distinct, pa.DictionaryArray):
            distinct = distinct.dictionary_decode()
        if isinstance(distinct, pa.ExtensionArray):
            distinct = distinct.storage  # such as the bytes of a UUID
        if pa.types.is_nested(distinct.type):
            distinct = _places(python_values(distinct))
        columns[f"there{number}"] = distinct.is_valid()
        columns[f"value{number}"] = distinct
    by = [(name, "ascending") for name in columns]
    ranked = pc.sort_indices(pa.table(columns), sort_keys=by).to_numpy()
    places = np.empty(size, np.int64)
    places[present[ranked]] = np.arange(len(ranked))
    found: np.ndarray = places[codes]
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
    if isinstance(value, str):
        value = value.encode()  # such bytes have the order of the texts, and may be no UTF-8
    return (2,) if value is NAN else (1, value)
