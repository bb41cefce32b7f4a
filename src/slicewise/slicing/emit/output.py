"""Emitted rows as Arrow tables and as lists of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.grouping import frozen
from slicewise.arrays.keys import Keys
from slicewise.columns import Column, pylist
from slicewise.slicing.emit.emission import Answers, Blocks, Result, in_pieces
from slicewise.slicing.families.window_set import WindowSet
from slicewise.slicing.ingest.batch import Batch
from slicewise.slicing.ingest.events import times_column
from slicewise.slicing.ingest.measures import measure_dtype
from slicewise.slicing.ingest.schema import Schema
from slicewise.slicing.settings import POSITIONS, RESULT_COLUMNS, TIMES, Settings
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = 1 << 14  # rows; longer columns of one value repeat a piece of this size


class Output:
    """Makes tables of answers; it keeps nothing but the last table without rows."""

    def __init__(self, settings: Settings, windows: WindowSet, schema: Schema, keys: Keys) -> None:
        self.settings, self.windows, self.schema, self.keys = settings, windows, schema, keys
        self._nothing: tuple[tuple[Any, ...], pa.Table] | None = None

    def table(self, answers: Sequence[Answers | Blocks]) -> pa.Table:
        """Emitted rows as a table."""
        import pyarrow as pa

        if not answers:
            return self._empty_table()
        outputs = [aggregate.output for aggregate in self.settings.aggs]
        tables = []
        for part in answers:
            keys = self.key_columns(part.key)
            columns: dict[str, Any] = dict(zip(self.settings.by, keys, strict=True))
            plain = self._of_blocks(part) if isinstance(part, Blocks) else self._of_rows(part)
            columns |= {name: plain.pop(name) for name in ("window", *self._bound_names())}
            values = [column.to_arrow() for column in part.columns]
            columns |= dict(zip(outputs, values, strict=True))
            tables.append(pa.table(columns | plain))
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables, promote_options="permissive")

    def results(self, table: pa.Table) -> list[Result]:
        """The rows of a table of results, in order."""
        by = self.settings.by
        plain = {*by, *RESULT_COLUMNS}
        values = [name for name in table.column_names if name not in plain]
        others = {window.name for window in self.windows.facts.others}
        results = []
        for row in pylist(table):
            key: Any = tuple(map(frozen, (row[name] for name in by)))
            key = None if not key else key[0] if self.settings.by_one else key
            apart = POSITIONS[0] in row and row["window"] in others
            start, end = (row[name] for name in (POSITIONS if apart else TIMES))
            results.append(
                Result(
                    key,
                    row["window"],
                    start,
                    end,
                    {name: row[name] for name in values},
                    row["revision"],
                    row["retracted"],
                )
            )
        rank = {window.name: number for number, window in enumerate(self.windows.defined)}
        return in_pieces(results, lambda r: (rank[r.window], not r.retracted, r.start, r.end))

    def event(self, batch: Batch, row: int) -> dict[str, Any]:
        """An event as it was given, as far as it was kept: its key, its time and some columns."""
        rows, event = slice(row, row + 1), {}
        by, time = self.settings.by, self.settings.time
        if by:
            keys = self.key_columns(batch.keys[rows])
            event = {name: key.to_pylist()[0] for name, key in zip(by, keys, strict=True)}
        if time is not None and self.schema.time is not None:
            event[time] = times_column(batch.times[rows], self.schema.time, 0).to_pylist()[0]
        return event | {name: c.tolist()[0] for name, c in batch.take(rows).columns.items()}

    def key_columns(self, codes: np.ndarray) -> list[pa.Array]:
        """The keys of these codes, one array per column."""
        import pyarrow as pa

        if self.settings.by and not len(self.keys):
            types = self.schema.columns or {}
            return [pa.nulls(0, types.get(name, pa.null())) for name in self.settings.by]
        return self.keys.take(codes)

    def _empty_table(self) -> pa.Table:
        import pyarrow as pa

        schema = self.schema
        about = (self.windows.facts, schema.columns, schema.time)
        if schema.columns is None or self._nothing is None or not _same(self._nothing[0], about):
            zero = np.empty(0, np.int64)
            kinds = schema.value_types() or [pa.null() for _ in self.settings.aggs]
            none = [Column.from_arrow(pa.nulls(0, kind)) for kind in kinds]
            empty = Answers(zero, zero, zero, zero, zero, zero.astype(np.bool_), none)
            self._nothing = about, self.table([empty])
        return self._nothing[1]

    def _of_rows(self, part: Answers) -> dict[str, Any]:
        """The columns beside keys and results."""
        import pyarrow as pa

        return {
            "window": self._names(part.window),
            **self._bounds(part.window, part.start, part.end),
            "revision": pa.array(part.revision.astype(np.int64)),
            "retracted": pa.array(part.retracted),
        }

    def _of_blocks(self, part: Blocks) -> dict[str, Any]:
        """The columns beside keys and results, for rows that come in blocks of equal values."""
        import pyarrow as pa

        sizes = part.sizes.tolist()
        whole = [len(part)]
        return {
            "window": _repeated(self._names(part.window), sizes),
            **{
                name: _repeated(column, sizes)
                for name, column in self._bounds(part.window, part.start, part.end).items()
            },
            "revision": _repeated(pa.array([0], pa.int64()), whole),
            "retracted": _repeated(pa.array([False]), whole),
        }

    def _names(self, numbers: np.ndarray) -> pa.Array:
        import pyarrow as pa

        labels = self.windows.facts.labels
        if len(numbers) > len(labels):
            return pa.array(labels, pa.string()).take(pa.array(numbers))
        return pa.array([labels[k] for k in numbers.tolist()], pa.string())

    def _is_mixed(self) -> bool:
        """Return whether times are moments and some windows measure something else."""
        import pyarrow as pa

        known = self.schema.time is not None and self.windows.facts.mixed
        return known and bool(pa.types.is_temporal(self.schema.time))

    def _bound_names(self) -> tuple[str, ...]:
        """The columns that have the bounds of instances."""
        return (*TIMES, *POSITIONS) if self._is_mixed() else TIMES

    def _bounds(self, window: np.ndarray, start: np.ndarray, end: np.ndarray) -> dict[str, Any]:
        """Starts and ends: moments like the time column, or numbers.

        Where times are moments, the bounds of windows that measure something else have columns of
        their own, and each row has null in those that it has nothing to say in.
        """
        import pyarrow as pa

        facts, kind = self.windows.facts, self.schema.time
        if kind is None or (facts.others and not self._is_mixed()):
            return dict(zip(TIMES, map(pa.array, (start, end)), strict=True))
        grain, both = facts.grain, (start, end)
        if not facts.others:
            return {n: times_column(v, kind, grain) for n, v in zip(TIMES, both, strict=True)}
        timed = facts.timed[window]
        found = {}
        for name, values in zip(TIMES, both, strict=True):
            whole = np.where(timed, values, 0).astype(np.int64)
            found[name] = times_column(whole, kind, grain, ~timed)
        number = position_type(facts.others, self.schema.columns or {})
        for name, values in zip(POSITIONS, both, strict=True):
            found[name] = pa.array(values, mask=timed).cast(number)
        return found


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return all(one is other for one, other in zip(before, now, strict=True))


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


def position_type(windows: Iterable[Window], types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type of the bounds of windows over rows and advancing columns."""
    import pyarrow as pa

    axes = [(window, window.traits.axis) for window in windows]
    over = [(window, axis) for window, axis in axes if axis is not None and axis in types]
    fractions = any(measure_dtype(types[axis], [window]) == "f8" for window, axis in over)
    return pa.float64() if fractions else pa.int64()
