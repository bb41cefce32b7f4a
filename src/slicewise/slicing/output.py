"""What an operator hands out: emitted rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import Column
from slicewise.slicing.emission import Answers, Blocks
from slicewise.slicing.events import times_column

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.operator import Operator

PIECE = 1 << 14  # rows; longer columns of one value repeat a piece of this size


def value_types(op: Operator) -> list[pa.DataType]:
    """The types of the results, as far as they are known without one."""
    return [bound.lower([c.algebra.new(0) for c in bound.components]).type for bound in op._bounds]


def table_of(op: Operator, answers: Sequence[Answers | Blocks]) -> pa.Table:
    """Emitted rows as a table."""
    import pyarrow as pa

    if not answers:
        return _empty_table(op)
    outputs = [aggregate.output for aggregate in op.aggs]
    tables = []
    for part in answers:
        columns: dict[str, Any] = dict(zip(op.by, key_columns(op, part.key), strict=True))
        plain = _of_blocks(op, part) if isinstance(part, Blocks) else _of_rows(op, part)
        columns |= {name: plain.pop(name) for name in ("window", "start", "end")}
        values = [column.to_arrow() for column in part.columns]
        columns |= dict(zip(outputs, values, strict=True))
        tables.append(pa.table(columns | plain))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def _of_rows(op: Operator, part: Answers) -> dict[str, Any]:
    """The columns beside keys and results."""
    import pyarrow as pa

    return {
        "window": _names(op, part.window),
        "start": _bounds_column(op, part.start),
        "end": _bounds_column(op, part.end),
        "revision": pa.array(part.revision.astype(np.int64)),
        "retracted": pa.array(part.retracted),
    }


def _of_blocks(op: Operator, part: Blocks) -> dict[str, Any]:
    """The same for rows that come in blocks of equal values."""
    import pyarrow as pa

    sizes = part.sizes.tolist()
    whole = [len(part)]
    return {
        "window": _repeated(_names(op, part.window), sizes),
        "start": _repeated(_bounds_column(op, part.start), sizes),
        "end": _repeated(_bounds_column(op, part.end), sizes),
        "revision": _repeated(pa.array([0], pa.int64()), whole),
        "retracted": _repeated(pa.array([False]), whole),
    }


def _repeated(values: pa.Array, sizes: Sequence[int]) -> pa.Array | pa.ChunkedArray:
    """Each value as often as its size says.

    Large blocks are made of one piece that is named several times: what would be written is the
    same all over, and writing it would cost more than all the rest.
    """
    import pyarrow as pa

    if sum(sizes) <= PIECE:
        return values.take(pa.array(np.repeat(np.arange(len(values)), sizes)))
    pieces = []
    for value, size in zip(values, sizes, strict=True):
        piece = _piece(value) if size > PIECE // 4 else pa.repeat(value, size)
        pieces += [piece] * (size // PIECE)
        if size % PIECE:
            pieces.append(piece.slice(0, size % PIECE))
    return pa.chunked_array(pieces, values.type)


@lru_cache(maxsize=64)
def _piece(value: pa.Scalar) -> pa.Array:
    """One value many times; names of windows and zeros come again and again."""
    import pyarrow as pa

    return pa.repeat(value, PIECE)


def _empty_table(op: Operator) -> pa.Table:
    import pyarrow as pa

    if op._nothing is None or op._types is None:
        zero = np.empty(0, np.int64)
        kinds = value_types(op) or [pa.null() for _ in op.aggs]
        none = [Column.from_arrow(pa.nulls(0, kind)) for kind in kinds]
        empty = Answers(zero, zero, zero, zero, zero, zero.astype(np.bool_), none)
        op._nothing = table_of(op, [empty])
    return op._nothing


def _names(op: Operator, numbers: np.ndarray) -> pa.Array:
    import pyarrow as pa

    labels = op._known.labels
    if len(numbers) > len(labels):
        return pa.array(labels, pa.string()).take(pa.array(numbers))
    return pa.array([labels[k] for k in numbers.tolist()], pa.string())


def key_columns(op: Operator, codes: np.ndarray) -> list[pa.Array]:
    """The keys of emitted rows."""
    import pyarrow as pa

    if op.by and not len(op._keys):
        types = op._types or {}
        return [pa.nulls(0, types.get(name, pa.null())) for name in op.by]
    return op._keys.take(codes)


def _bounds_column(op: Operator, values: np.ndarray) -> pa.Array:
    """Starts or ends: times of the type of the time column, if all windows measure time."""
    import pyarrow as pa

    if op._time_type is None or not op._known.timed:
        return pa.array(values)
    return times_column(values, op._time_type, op._known.grain)
