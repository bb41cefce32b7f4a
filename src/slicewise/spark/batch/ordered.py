"""Rows sorted by (key, time), fed to an operator: any windows, any aggregates.

A partition comes as an iterator of batches and is never held as a whole. A key that ends within a
batch is complete: its watermark is infinity. The last key of a batch may go on in the next one,
so it has an operator of its own whose watermark is its newest event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slicewise import tuning
from slicewise.arrays.grouping import encode
from slicewise.limits import INFINITY
from slicewise.slicing.guard import changing
from slicewise.slicing.operator import Operator
from slicewise.spark.blame import Traced
from slicewise.spark.frames import conformed, joined
from slicewise.spark.query import Query
from slicewise.spark.workers import in_worker
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa


class KeyOrdered(Operator):
    """An operator whose events come in the order of time within each key, where that matters."""

    def __init__(self, query: Query) -> None:
        super().__init__(
            windows=query.windows,
            aggs=query.aggs,
            time=query.time,
            by=query.by,
            emit="final",
            ordered=True,
            max_late=0,
            **query.merging.arguments,
        )
        # The times of different keys have nothing to do with each other.
        self.parts.ingest.holds_order = False

    @property
    def newest(self) -> int:
        """The time of the newest event."""
        return self.parts.progress.newest

    @changing
    def take(self, rows: pa.Table) -> None:
        """Add events; no watermark follows from them."""
        self._add(rows)


@dataclass(frozen=True)
class FeedOrdered:
    """From partitions sorted by (key, time) to the rows of window instances.

    The columns of `schema` are those of the result by position.
    """

    query: Query
    schema: pa.Schema

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        fed: Traced[KeyOrdered] | None = None
        last: pa.Table | None = None
        for rows in joined(batches, rows_at_once(self.query.windows)):
            table = self.query.read(self.query.named(rows))
            starts = self._starts(table, last)
            if len(starts) and fed is not None:
                yield from self._step(fed, table.slice(0, starts[0]), INFINITY)
                fed = None
            if len(starts) > 1:
                whole = table.slice(starts[0], starts[-1] - starts[0])
                yield from self._step(Traced(self.query, KeyOrdered), whole, INFINITY)
            if fed is None:
                fed = Traced(self.query, KeyOrdered)
            rest = table.slice(starts[-1]) if len(starts) else table
            yield from self._step(fed, rest)
            last = table.slice(table.num_rows - 1)
        if fed is not None and last is not None:
            yield from self._step(fed, last.slice(1), INFINITY)

    def _starts(self, table: pa.Table, last: pa.Table | None) -> np.ndarray:
        """The rows with which a key begins; `last` is the row before the first."""
        import pyarrow as pa

        both = table if last is None else pa.concat_tables([last, table])
        codes, _ = encode([both.column(name) for name in self.query.by])
        begin = np.zeros(1 if last is None else 0, np.int64)
        if codes is None:
            return begin
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + (1 if last is None else 0)
        return np.concatenate([begin, changes])

    def _step(
        self, fed: Traced[KeyOrdered], rows: pa.Table, watermark: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Add rows and advance; without a watermark to the newest event, as rows are sorted."""

        def advanced(operator: KeyOrdered, rows: pa.Table) -> pa.Table | None:
            if rows.num_rows:
                operator.take(rows)
            if not operator.stats.events:
                return None
            return operator.advance_arrow(operator.newest if watermark is None else watermark)

        table = fed.work(rows, advanced)
        if table is not None and table.num_rows:
            # Of revisions, which come last, there are none.
            yield from conformed(dict(zip(self.schema.names, table.columns)), self.schema)


def rows_at_once(windows: tuple[Window, ...]) -> int:
    """How many rows to take at a time, so that they make few enough results."""
    overlap = sum(window.traits.overlap for window in windows)
    limits = tuning.active()
    return int(max(limits.ordered_rows, limits.ordered_results / max(overlap, 1.0)))
