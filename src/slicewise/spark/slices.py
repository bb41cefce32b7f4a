"""Slices before the shuffle, and windows after it, for windows whose edges are known.

A combiner makes states per (key, slice) of each input partition, so a key with most of the rows
costs no more than its slices; Spark itself does the same for aggregates it knows (`native`). The
slices of a key then meet in one partition, sorted, and are merged into window instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import Bound, Component, share
from slicewise.grouping import encode
from slicewise.slicing.operator import Operator
from slicewise.slicing.output import key_columns
from slicewise.slicing.runs import Runs
from slicewise.slicing.store import ROWS, Store
from slicewise.slicing.triggers import (
    BEGINNING,
    INFINITY,
    FreeWindows,
    Instances,
    collect,
    list_free,
)
from slicewise.spark.blame import blaming
from slicewise.spark.frames import conformed, joined
from slicewise.spark.query import Query, retyped
from slicewise.spark.states import SLICE, folded, packed, state_names, unpacked
from slicewise.spark.workers import in_worker

if TYPE_CHECKING:
    import pyarrow as pa

# Slices that a combiner keeps before it hands them on.
KEPT = 1 << 17
# Results that are made at a time.
RESULTS = 1 << 20


@dataclass(frozen=True)
class CombineSlices:
    """From partitions in any order to states of (key, slice), some more than once."""

    query: Query
    schema: pa.Schema

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        operator: Operator | None = None
        for rows in joined(batches):
            table = self.query.read(rows)
            operator = operator or self._operator()
            with blaming(self.query.aggs, self.query.by, table):
                operator.process(table)
            if next(iter(operator._tracks.values())).live > KEPT:
                yield from self._slices(operator)
                operator = None
        if operator is not None:
            yield from self._slices(operator)

    def _operator(self) -> Operator:
        query = self.query
        return Operator(windows=query.windows, aggs=query.aggs, time=query.time, by=query.by)

    def _slices(self, operator: Operator) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        (track,) = operator._tracks.values()
        runs, store = track.runs, track.store
        sizes = runs.size[: runs.keys]
        codes = np.repeat(np.arange(runs.keys), sizes)
        begins = np.cumsum(sizes) - sizes
        places = np.arange(len(codes)) - np.repeat(begins - runs.offset[: runs.keys], sizes)
        slots = runs.slot[places]
        columns = dict(zip(operator.by, key_columns(operator, codes), strict=True))
        columns[SLICE] = pa.array(runs.start[places])
        for states, names in zip(store.states, state_names(store.components), strict=True):
            # A count of a column without nulls is that of the rows.
            for name, array in zip(names, states or (runs.rows,), strict=True):
                columns[name] = packed(array[slots])
        yield from conformed(columns, self.schema)


@dataclass(frozen=True)
class MergeSlices:
    """From slices sorted by (key, slice) to window instances.

    With `apart` each row is the only slice of its instances, so no order is needed.
    """

    query: Query
    schema: pa.Schema
    apart: bool = False

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Merging(self).run(batches)


class Merging:
    """A partition being merged: slices of the last key wait for what may still come."""

    def __init__(self, task: MergeSlices) -> None:
        self.task = task
        self.by = task.query.by
        self.bounds: list[Bound] = task.query.bounds()
        self.components: list[Component] = share(self.bounds)
        windows = task.query.windows
        self.free = FreeWindows.of([(k, w, BEGINNING) for k, w in enumerate(windows)], "i8")  # type: ignore[misc]  # only these come here
        self.reach = max(int(window.length) for window in windows)  # type: ignore[attr-defined]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        waiting: pa.Table | None = None
        low = BEGINNING  # what the waiting key has been answered up to
        for rows in joined(batches):
            table = retyped(rows, self.task.query.types)
            if self.task.apart:
                yield from self._answers(self._slices(table), BEGINNING, INFINITY)
                continue
            if waiting is not None:
                table = pa.concat_tables([waiting, table]).combine_chunks()
            slices = self._slices(table)
            high = slices.last
            yield from self._answers(slices, low, high)
            low = high
            waiting = slices.needed_from(self.free.needed_from(high))
        if waiting is not None:
            yield from self._answers(self._slices(waiting), low, INFINITY)

    def _slices(self, table: pa.Table) -> Slices:
        return Slices(table, self)

    def _answers(self, slices: Slices, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """What closes: everything of keys that are complete, up to `high` of the last one.

        It is made in parts of about `RESULTS` rows: sparse slices can be in very many instances.
        """
        lows = np.full(slices.keys, BEGINNING, np.int64)
        highs = np.full(slices.keys, INFINITY, np.int64)
        lows[0] = low
        highs[-1] = high
        ends = np.cumsum(slices.instances(self.task.query.windows))
        begin = 0
        while begin < slices.keys:
            done = ends[begin - 1] if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, done + RESULTS, side="right")))
            part = slice(begin, stop)
            # Room for all that may be found, or else it would be looked for twice.
            slices.runs.listed = min(int(ends[stop - 1] - done), 2 * RESULTS)
            if stop == begin + 1 and ends[begin] - done > RESULTS:
                pieces = int((ends[begin] - done) // RESULTS) + 1
                bounds = slices.points(begin, lows[begin], highs[begin], self.reach, pieces)
                for point, after in pairwise(bounds):
                    once = np.array([point]), np.array([after])
                    yield from self._rows(slices, self._listed(slices, part, *once))
            else:
                yield from self._rows(slices, self._listed(slices, part, lows[part], highs[part]))
            begin = stop

    def _listed(self, slices: Slices, part: slice, low: np.ndarray, high: np.ndarray) -> Instances:
        keys = np.arange(part.start, part.stop)
        return collect(list_free, slices.runs, self.free.arrays(), keys, low, high)

    def _rows(self, slices: Slices, found: Instances) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if not len(found):
            return
        names = pa.array([window.name for window in self.task.query.windows])
        columns: dict[str, Any] = {
            name: slices.table.column(name).take(pa.array(slices.rows_of(found.key)))
            for name in self.by
        }
        columns["window"] = names.take(pa.array(found.window))
        columns["start"], columns["end"] = pa.array(found.start), pa.array(found.end)
        states = slices.store.merge(found.left, found.right)
        for agg, column in zip(self.task.query.aggs, slices.store.lower(states), strict=True):
            columns[agg.output] = column.to_arrow()
        yield from conformed(columns, self.task.schema)


class Slices:
    """Slices as runs of an aggregate store: one place per (key, slice), in order."""

    def __init__(self, table: pa.Table, merging: Merging) -> None:
        self.table = table
        at = table.column(SLICE).to_numpy()
        size = len(at)
        if merging.task.apart:
            self.first = starts = np.arange(size)
            offset = starts
        else:
            codes, _ = encode([table.column(name) for name in merging.by])
            new_key = np.zeros(size, np.bool_) if codes is None else np.diff(codes, prepend=-1) != 0
            new_key[:1] = True
            self.first = np.flatnonzero(new_key)
            starts = np.flatnonzero(new_key | (np.diff(at, prepend=at[:1] - 1) != 0))
            offset = np.searchsorted(starts, self.first)
        runs = Runs()
        runs.keys = len(self.first)
        runs.offset, runs.size = offset, np.diff(np.append(offset, len(starts)))
        runs.base = np.zeros(runs.keys, np.int64)
        runs.start, runs.slot = at[starts], np.arange(len(starts))
        self.runs = runs
        self.store = Store(merging.bounds, runs)
        for k, (component, names) in enumerate(
            zip(merging.components, state_names(merging.components), strict=True)
        ):
            states = unpacked(component.algebra, [table.column(name) for name in names])
            states = folded(component.algebra, states, starts)
            if component.algebra == ROWS.algebra:
                # Counts that agree are merged once.
                if not len(runs.rows):
                    runs.rows = states[0]
                if np.array_equal(runs.rows, states[0]):
                    continue
            self.store.states[k] = states

    @property
    def keys(self) -> int:
        return self.runs.keys

    @cached_property
    def last(self) -> int:
        """The start of the newest slice of the last key."""
        return int(self.runs.start[-1])

    def instances(self, windows: Sequence[Any]) -> np.ndarray:
        """At most how many instances the slices of each key make up."""
        runs = self.runs
        first = runs.start[runs.offset]
        width = (runs.start[runs.offset + runs.size - 1] - first).astype(np.float64)
        most = np.zeros(runs.keys)
        for window in windows:
            every = getattr(window, "every", window.length)
            steps = window.length / every + 1
            most += np.minimum(runs.size * steps, width / every + 2 * steps)
        return most

    def points(self, key: int, low: int, high: int, reach: int, pieces: int) -> list[int]:
        """Watermarks from `low` to `high` between which a key's instances close, piece by piece."""
        place = self.runs.offset[key]
        first = int(self.runs.start[place])
        last = int(self.runs.start[place + self.runs.size[key] - 1])
        begin, end = max(low, first), min(high, last + reach)
        inner = [begin + (end - begin) * k // pieces for k in range(1, pieces)]
        return [int(low), *(point for point in inner if low < point < high), int(high)]

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """A row of each key."""
        rows: np.ndarray = self.first[keys]
        return rows

    def needed_from(self, least: int) -> pa.Table:
        """The rows of the last key from the slice at `least` on."""
        rows = self.table.slice(int(self.first[-1]))
        at = rows.column(SLICE).to_numpy()
        return rows.slice(int(np.searchsorted(at, least)))
