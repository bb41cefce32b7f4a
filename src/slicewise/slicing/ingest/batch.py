"""Events on their way to slices: batches, those that were accepted, and those in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.ordering import order_of
from slicewise.columns import Column, storage
from slicewise.limits import INFINITY
from slicewise.slicing.ingest.ties import order_of_ties
from slicewise.times import never_falls

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.ingest.events import Columns

# Beside the conditions of windows in the marks of a batch: the rows that are known as bad, and the
# numbers of the rows.
BAD, ROW = -1, -2


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Events of one call, ready for slicing.

    `wanted` marks those that count; `None` means all. `marks` has, for each punctuated and
    threshold window by its number, which events meet its condition. `arrival` numbers the first.
    `low` and `high` are the least and the greatest time of the wanted ones. `objects` are the
    events as user windows see them, if they were made already. `ordered` tells that times are
    known never to fall.
    """

    times: np.ndarray
    keys: np.ndarray
    columns: Mapping[str, Column]
    wanted: np.ndarray | None
    marks: Mapping[int, np.ndarray]
    arrival: int
    low: int
    high: int
    objects: np.ndarray | None = None
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.times)

    def events(self) -> np.ndarray:
        """The events as mappings from columns to values, the time included."""
        return events_of(self.columns) if self.objects is None else self.objects

    def take(self, rows: Any) -> Batch:
        """Some of the events, all of which count; a slice shares the arrays of this one."""
        times = self.times[rows]
        columns = {
            name: Column(c.values[rows], None if c.valid is None else c.valid[rows], c.type)
            for name, c in self.columns.items()
        }
        marks = {number: mark[rows] for number, mark in self.marks.items()}
        objects = None if self.objects is None else self.objects[rows]
        ordered = self.ordered and isinstance(rows, slice)
        low, high = INFINITY, -INFINITY
        if len(times):
            low, high = (times[0], times[-1]) if ordered else (times.min(), times.max())
        return Batch(
            times,
            self.keys[: len(times)] if self.single else self.keys[rows],
            columns,
            None,
            marks,
            self.arrival,
            int(low),
            int(high),
            objects,
            ordered,
        )

    def numbered(self) -> Batch:
        """The batch with the numbers of its rows, which stay with them in any order."""
        return replace(self, marks={ROW: np.arange(len(self)), **self.marks})

    @property
    def single(self) -> bool:
        """The keys are one number, seen many times."""
        return self.keys.strides == (0,)

    def in_order(self) -> Batch:
        """The events that count, in the order of (time, arrival); it may share the arrays."""
        batch = self if self.wanted is None else self.take(np.flatnonzero(self.wanted))
        if not batch.ordered and not never_falls(batch.times):
            batch = batch.take(order_of(batch.times))
        return batch if batch.ordered else replace(batch, ordered=True)

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """The events of several batches; conditions that some of them lack are false there."""
        first, last = parts[0], parts[-1]
        times = np.concatenate([part.times for part in parts])
        numbers = dict.fromkeys(number for part in parts for number in part.marks)
        marks = {
            number: np.concatenate([p.marks.get(number, np.zeros(len(p), np.bool_)) for p in parts])
            for number in numbers
        }
        objects = None
        if last.objects is not None:
            objects = np.concatenate([_objects(part) for part in parts])
        return Batch(
            times,
            np.broadcast_to(first.keys[0], len(times))
            if first.single
            else np.concatenate([part.keys for part in parts]),
            {name: _joined([part.columns[name] for part in parts]) for name in last.columns},
            None,
            marks,
            first.arrival,
            min(part.low for part in parts),
            max(part.high for part in parts),
            objects,
            all(part.ordered for part in parts)
            and all(a.high <= b.low for a, b in pairwise(parts)),
        )


def _objects(batch: Batch) -> np.ndarray:
    return np.empty(len(batch), object) if batch.objects is None else batch.objects


def _joined(columns: Sequence[Column]) -> Column:
    valid = None
    if any(column.valid is not None for column in columns):
        valid = np.concatenate(
            [np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in columns]
        )
    return Column(np.concatenate([c.values for c in columns]), valid, columns[0].type)


def events_of(columns: Mapping[str, Column]) -> np.ndarray:
    """Rows as mappings from columns to Python values."""
    names = list(columns)
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    events = np.empty(len(columns[names[0]]), object)
    events[:] = [dict(zip(names, row, strict=True)) for row in rows]
    return events


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """The events of a batch that count for any window, ready for slicing.

    `wanted` marks those that count for every window, all of them if it is `None`. `shares` has, for
    slice groups that take late events too, all that they take. `columns` are those of the batch as
    it was given.
    """

    events: Batch
    wanted: np.ndarray | None
    shares: Mapping[SliceGroup, np.ndarray]
    columns: Columns

    def share(self, group: SliceGroup) -> Batch | None:
        """The events that a slice group takes; `None` if it takes none."""
        events = self.events
        taken = self.shares.get(group, self.wanted)
        if taken is None or taken is events.wanted:
            return events
        chosen = events.times[taken]
        if not len(chosen):
            return None
        return replace(events, wanted=taken, low=int(chosen.min()), high=int(chosen.max()))


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Events by key and in order of (time, arrival); those of `present[g]` begin at `starts[g]`."""

    batch: Batch
    present: np.ndarray
    starts: np.ndarray

    @staticmethod
    def alone(batch: Batch) -> Grouped:
        """A batch of one key, which is in order."""
        return Grouped(batch, np.zeros(1, np.int64), np.array([0, len(batch)]))

    @staticmethod
    def of(batch: Batch, order: Sequence[str] = ()) -> Grouped:
        """The events of a batch in order, those of one key and time in that of some columns."""
        times, keys = batch.times, batch.keys
        if batch.single:
            if not batch.ordered and not never_falls(times):
                batch = batch.take(order_of(times))
            return Grouped.alone(_without_ties(batch, order))
        after = keys[1:] > keys[:-1]
        if not bool((after | ((keys[1:] == keys[:-1]) & (times[1:] >= times[:-1]))).all()):
            batch = batch.take(order_of(times, keys))
            keys = batch.keys
        batch = _without_ties(batch, order)
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        return Grouped(batch, keys[starts], np.append(starts, len(batch)))


def _without_ties(batch: Batch, order: Sequence[str]) -> Batch:
    """Events that are in order, those of one key and time in that of some columns."""
    if not order or not len(batch):
        return batch
    new = np.ones(len(batch), np.bool_)
    new[1:] = (batch.times[1:] != batch.times[:-1]) | (batch.keys[1:] != batch.keys[:-1])
    columns = [batch.columns[name] for name in order]
    places = order_of_ties(new, lambda rows: [c.take(rows).to_arrow() for c in columns])
    return batch if places is None else replace(batch.take(places), ordered=batch.ordered)


def nulls(size: int, types: Mapping[str, pa.DataType]) -> dict[str, Column]:
    """Columns of nothing but nulls."""
    nothing = np.zeros(size, np.bool_)
    return {
        name: Column(np.zeros(size, storage(kind)), nothing, kind) for name, kind in types.items()
    }
