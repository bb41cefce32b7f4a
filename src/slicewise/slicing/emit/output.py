"""What an operator hands out: emitted rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import Column
from slicewise.slicing.emit.emission import Answers, Blocks
from slicewise.slicing.ingest.events import times_column
from slicewise.slicing.ingest.measures import measure_dtype
from slicewise.slicing.settings import POSITIONS, TIMES
from slicewise.windows import Window

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
        columns |= {name: plain.pop(name) for name in ("window", *bounds_of(op))}
        values = [column.to_arrow() for column in part.columns]
        columns |= dict(zip(outputs, values, strict=True))
        tables.append(pa.table(columns | plain))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def _of_rows(op: Operator, part: Answers) -> dict[str, Any]:
    """The columns beside keys and results."""
    import pyarrow as pa

    return {
        "window": _names(op, part.window),
        **_bounds(op, part.window, part.start, part.end),
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
        **{
            name: _repeated(column, sizes)
            for name, column in _bounds(op, part.window, part.start, part.end).items()
        },
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

    labels = op._facts.labels
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


def mixed(op: Operator) -> bool:
    """Whether times are moments and some windows measure something else."""
    import pyarrow as pa

    known = op._time_type is not None and op._facts.mixed
    return known and bool(pa.types.is_temporal(op._time_type))


def bounds_of(op: Operator) -> tuple[str, ...]:
    """The columns that have the bounds of instances."""
    return (*TIMES, *POSITIONS) if mixed(op) else TIMES


def _bounds(op: Operator, window: np.ndarray, start: np.ndarray, end: np.ndarray) -> dict[str, Any]:
    """Starts and ends: moments like the time column, or numbers.

    Where times are moments, the bounds of windows that measure something else have columns of their
    own, and each row has null in those that it has nothing to say in.
    """
    import pyarrow as pa

    if op._time_type is None or (op._facts.others and not mixed(op)):
        return dict(zip(TIMES, map(pa.array, (start, end)), strict=True))
    kind, grain = op._time_type, op._facts.grain
    if not op._facts.others:
        return {n: times_column(v, kind, grain) for n, v in zip(TIMES, (start, end), strict=True)}
    timed = op._facts.timed[window]
    found = {}
    for name, values in zip(TIMES, (start, end), strict=True):
        found[name] = times_column(np.where(timed, values, 0).astype(np.int64), kind, grain, ~timed)
    number = position_type(op._facts.others, op._types or {})
    for name, values in zip(POSITIONS, (start, end), strict=True):
        found[name] = pa.array(values, mask=timed).cast(number)
    return found


def position_type(windows: Iterable[Window], types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type of the bounds of windows over rows and advancing columns."""
    import pyarrow as pa

    axes = [(window, window.traits.axis) for window in windows]
    over = [(window, axis) for window, axis in axes if axis is not None and axis in types]
    fractions = any(measure_dtype(types[axis], [window]) == "f8" for window, axis in over)
    return pa.float64() if fractions else pa.int64()
