"""Slices before the shuffle, and windows after it, for windows whose edges are known.

A combiner makes states per (key, slice) of each input partition, so a key with most of the rows
costs no more than its slices; Spark itself does the same for aggregates it knows (`native`). Where
the order of events matters, all rows of a slice come to one combiner, in order. The slices of a key
then meet in one partition, sorted, and are merged into window instances.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import Bound, Component, place_of, share
from slicewise.arrays.grouping import encode
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.families.grid import FreeWindows, collect_free
from slicewise.slicing.operator import Operator
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.saving import ROWS
from slicewise.spark.batch.ordered import KeyOrdered
from slicewise.spark.batch.series import STEP, listed
from slicewise.spark.batch.states import PART, SLICE, folded, packed, state_names, unpacked
from slicewise.spark.blame import Traced, blaming
from slicewise.spark.frames import conformed, joined
from slicewise.spark.query import Query, retyped
from slicewise.spark.workers import in_worker

if TYPE_CHECKING:
    import pyarrow as pa

# The columns of a result between its keys and its aggregates.
HEAD = ("window", "start", "end")


@dataclass(frozen=True)
class CombineSlices:
    """From partitions to states of (key, slice), some more than once.

    Rows come in any order, or by (key, time) if that matters; `PART` keeps it among the states of
    one slice.
    """

    query: Query
    schema: pa.Schema

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.query.bounds()  # teaches this process the definitions of user-defined aggregates
        fed: Traced[KeyOrdered] | None = None
        part = 0
        for rows in joined(batches):
            fed = fed or Traced(self.query, KeyOrdered)
            fed.work(self.query.read(self.query.named(rows)), KeyOrdered.take)
            if fed.operator.stats.slices > tuning.active().combiner_slices:
                yield from self._slices(fed.operator, part)
                fed, part = None, part + 1
        if fed is not None:
            yield from self._slices(fed.operator, part)

    def _slices(self, operator: Operator, part: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        (group,) = operator.parts.slices.groups.values()
        if not group.live:
            return  # no row had a usable time
        group.keep_by_key()
        runs, store = group.runs, group.store
        sizes = runs.size[: runs.keys]
        codes = np.repeat(np.arange(runs.keys), sizes)
        begins = np.cumsum(sizes) - sizes
        places = np.arange(len(codes)) - np.repeat(begins - runs.offset[: runs.keys], sizes)
        slots = runs.slot[places]
        keys = self.schema.names[: len(operator.by)]
        columns = dict(zip(keys, operator.parts.output.key_columns(codes), strict=True))
        columns[SLICE] = pa.array(runs.start[places])
        columns[PART] = pa.array(np.full(len(places), part))
        for states, names in zip(store.states, state_names(store.components), strict=True):
            # A count of a column without nulls is that of the rows.
            for name, array in zip(names, states or (runs.rows,), strict=True):
                columns[name] = packed(array[slots])
        yield from conformed(columns, self.schema)


@dataclass(frozen=True)
class MergeSlices:
    """From slices sorted by (key, slice), and by part if order matters, to window instances.

    Keys are the first columns, of slices as of the result, and have the names that `schema` says.
    With `apart` each row is the only slice of its instances, so no order is needed. With `series`
    a row of the result has consecutive instances.
    """

    query: Query
    schema: pa.Schema
    apart: bool = False
    series: bool = False

    @in_worker
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Merging(self).run(batches)


class Merging:
    """A partition being merged: slices of the last key wait for what may still come."""

    def __init__(self, task: MergeSlices, query: Query | None = None) -> None:
        self.task = task
        # Some of the task's aggregates, or all.
        self.by = tuple(task.schema.names[: len(task.query.by)])
        self.query = replace(query or task.query, by=self.by)
        self.types = {name: task.schema.field(name).type for name in self.by}
        self.bounds: list[Bound] = self.query.bounds()
        self.components: list[Component] = share(self.bounds)
        compiled = all(component.algebra.compiled for component in self.components)
        limits = tuning.active()
        self.most = limits.merged_results  # results at a time
        if not compiled:
            self.most = min(self.most, limits.merged_objects)
        every = share(task.query.bounds())
        names = state_names(every)
        self.columns: list[list[str]] = []
        for component in self.components:
            place, fields = place_of(component, every)
            own = names[place]
            self.columns.append(own if fields is None else [own[n] for n in fields])
        windows = task.query.windows
        self.free = FreeWindows.of([WindowEntry(k, w) for k, w in enumerate(windows)], "i8")
        self.reach = max(int(window.length) for window in windows)  # type: ignore[attr-defined]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        waiting: pa.Table | None = None
        low = BEGINNING  # what the waiting key has been answered up to
        for rows in joined(batches):
            own = rows.column_names[len(self.by) :]
            table = retyped(rows.rename_columns([*self.by, *own]), self.types)
            if self.task.apart:
                yield from self._blamed(table, BEGINNING, INFINITY)
                continue
            if waiting is not None:
                table = pa.concat_tables([waiting, table]).combine_chunks()
            slices = yield from self._blamed(table, low)
            low = slices.last
            waiting = slices.needed_from(self.free.needed_from(low))
        if waiting is not None:
            yield from self._blamed(waiting, low, INFINITY)

    def _blamed(
        self, table: pa.Table, low: int, high: int | None = None
    ) -> Generator[pa.RecordBatch, None, Slices]:
        """The answers of a table of slices; of its last key up to the newest slice or `high`."""

        def key(rows: pa.Table, place: int) -> str:
            return repr(rows.select(list(self.by)).slice(place, 1).to_pylist())

        def again(query: Query, rows: pa.Table) -> None:
            slices = Slices(rows, merging := Merging(self.task, query))
            first = key(rows, 0) == key(table, 0)
            last = key(rows, rows.num_rows - 1) == key(table, table.num_rows - 1)
            until = (slices.last if high is None else high) if last else INFINITY
            for _ in merging.answers(slices, low if first else BEGINNING, until):
                pass

        with blaming(self.query, table, again):
            slices = Slices(table, self)
            until = slices.last if high is None else high
            for columns in self.answers(slices, low, until):
                yield from conformed(columns, self.task.schema)
        return slices

    def answers(self, slices: Slices, low: int, high: int) -> Iterator[dict[str, Any]]:
        """Instances that close: all of keys that are complete, up to `high` of the last one.

        It is made in parts of about `most` rows: sparse slices can be in very many instances.
        """
        lows = np.full(slices.keys, BEGINNING, np.int64)
        highs = np.full(slices.keys, INFINITY, np.int64)
        lows[0] = low
        highs[-1] = high
        ends = np.cumsum(slices.instances(self.task.query.windows))
        begin = 0
        while begin < slices.keys:
            done = ends[begin - 1] if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, done + self.most, side="right")))
            part = slice(begin, stop)
            # Room for all that may be found, or else it would be looked for twice.
            slices.runs.listed = min(int(ends[stop - 1] - done), 2 * self.most)
            made = self._series if self.task.series else self._rows
            if stop == begin + 1 and ends[begin] - done > self.most:
                pieces = int((ends[begin] - done) // self.most) + 1
                bounds = slices.points(begin, lows[begin], highs[begin], self.reach, pieces)
                for point, after in pairwise(bounds):
                    once = np.array([point]), np.array([after])
                    yield from made(slices, part, *once)
            else:
                yield from made(slices, part, lows[part], highs[part])
            begin = stop

    def _rows(
        self, slices: Slices, part: slice, low: np.ndarray, high: np.ndarray
    ) -> Iterator[dict[str, Any]]:
        """The instances of some keys, as columns; nothing if there are none."""
        import pyarrow as pa

        keys = np.arange(part.start, part.stop)
        found = collect_free(slices.runs, self.free, keys, low, high)
        if not len(found):
            return
        yield {
            **self._labels(slices, found.key, found.window),
            "start": pa.array(found.start),
            "end": pa.array(found.end),
            **self._results(slices, found.left, found.right),
        }

    def _series(
        self, slices: Slices, part: slice, low: np.ndarray, high: np.ndarray
    ) -> Iterator[dict[str, Any]]:
        """The instances of some keys in series, of which each is a row."""
        import pyarrow as pa

        keys = np.arange(part.start, part.stop)
        found = listed(slices.runs, self.free, keys, low, high)
        if not len(found):
            return
        results = self._results(slices, found.left, found.right)
        yield {
            **self._labels(slices, found.key, found.window),
            "start": pa.array(found.start),
            "end": pa.array(found.end),
            STEP: pa.array(self.free.everys[found.window]),
            **{n: found.lists(a, self.task.schema.field(n).type) for n, a in results.items()},
        }

    def _labels(self, slices: Slices, keys: np.ndarray, windows: np.ndarray) -> dict[str, Any]:
        """Columns of keys and of the names of windows."""
        import pyarrow as pa

        rows = pa.array(slices.rows_of(keys))
        names = pa.array([window.name for window in self.task.query.windows])
        columns = {name: slices.table.column(name).take(rows) for name in self.by}
        return {**columns, "window": names.take(pa.array(windows))}

    def _results(self, slices: Slices, left: np.ndarray, right: np.ndarray) -> dict[str, Any]:
        """Columns of the results over ranges of places."""
        lowered = slices.store.lower(slices.store.merge(left, right))
        names = self.task.schema.names[len(self.by) + len(HEAD) :]
        return {name: column.to_arrow() for name, column in zip(names, lowered, strict=False)}


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
        runs.rows = runs.rows[:0]  # none is known yet
        self.runs = runs
        self.store = KeyMajorStore(merging.bounds, runs)
        for k, (component, names) in enumerate(
            zip(merging.components, merging.columns, strict=True)
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
            overlap = window.traits.overlap
            steps = overlap + 1
            most += np.minimum(runs.size * steps, width * overlap / window.length + 2 * steps)
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
