"""Events on their way to slices: batches, batches by key and in order, and events that wait.

What needs the order of events gets them in order. Those above the watermark wait as they came;
when the watermark passes them they are sorted once, and nothing can come between them any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slicewise.columns import Column, storage
from slicewise.grouping import group

if TYPE_CHECKING:
    import pyarrow as pa

JOIN_BELOW = 4096  # events; many small batches that wait become one


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Events of one call, ready for slicing.

    `wanted` marks those that count; `None` means all. `marks` has, for each punctuated and
    threshold window by its number, which events meet its condition. `arrival` numbers the first.
    `low` and `high` are the least and the greatest time of the wanted ones. `objects` are the
    events as user windows see them, if they were made already.
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

    def __len__(self) -> int:
        return len(self.times)

    def events(self) -> np.ndarray:
        """The events as mappings from columns to values, the time included."""
        return events_of(self.columns) if self.objects is None else self.objects

    def take(self, rows: np.ndarray) -> Batch:
        """Some of the events, all of which count."""
        times = self.times[rows]
        return Batch(
            times,
            self.keys[rows],
            {name: column.take(rows) for name, column in self.columns.items()},
            None,
            {number: mark[rows] for number, mark in self.marks.items()},
            self.arrival,
            *reach(times),
            None if self.objects is None else self.objects[rows],
        )

    def head(self, size: int) -> tuple[Batch, Batch]:
        """The first events and the others; both share the arrays of this one."""
        return self._part(slice(0, size)), self._part(slice(size, None))

    def _part(self, rows: slice) -> Batch:
        times = self.times[rows]
        columns = {
            name: Column(c.values[rows], None if c.valid is None else c.valid[rows], c.type)
            for name, c in self.columns.items()
        }
        marks = {number: mark[rows] for number, mark in self.marks.items()}
        objects = None if self.objects is None else self.objects[rows]
        keys = self.keys[rows]
        return Batch(times, keys, columns, None, marks, self.arrival, *reach(times), objects)

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """The events of several batches; conditions that some of them lack are false there."""
        if len(parts) == 1:
            return parts[0]
        first, last = parts[0], parts[-1]
        numbers = dict.fromkeys(number for part in parts for number in part.marks)
        marks = {
            number: np.concatenate([p.marks.get(number, np.zeros(len(p), np.bool_)) for p in parts])
            for number in numbers
        }
        objects = None
        if last.objects is not None:
            objects = np.concatenate([_objects(part) for part in parts])
        return Batch(
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.keys for part in parts]),
            {name: _joined([part.columns[name] for part in parts]) for name in last.columns},
            None,
            marks,
            first.arrival,
            min(part.low for part in parts),
            max(part.high for part in parts),
            objects,
        )


def reach(times: np.ndarray) -> tuple[int, int]:
    """The least and the greatest of some times."""
    return (int(times.min()), int(times.max())) if len(times) else (0, 0)


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
class Grouped:
    """Events by key and in order of (time, arrival); those of `present[g]` begin at `starts[g]`."""

    batch: Batch
    present: np.ndarray
    starts: np.ndarray

    @staticmethod
    def of(batch: Batch, keys: int) -> Grouped:
        """The events of a batch in order, given how many keys there are."""
        present = np.arange(keys)
        codes: np.ndarray | None = batch.keys
        if keys == 1:
            codes = None
        elif keys > 2 * len(batch) + 1024:
            present, codes = np.unique(batch.keys, return_inverse=True)
        found = group(codes, len(present), batch.times)
        if found.order is not None:
            batch = batch.take(found.order)
        return Grouped(batch, present, found.starts)


class Waiting:
    """Events that the watermark has not passed yet, as they came."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._barriers: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def separate(self, arrival: int) -> None:
        """Keep the events before number `arrival` apart from those that come."""
        self._barriers.append(arrival)

    def add(self, batch: Batch) -> None:
        """Take events, which nobody else changes."""
        if len(batch):
            self.batches.append(batch)
        while len(self.batches) > 1 and self._small(*self.batches[-2:]):
            self.batches[-2:] = [Batch.joined(self.batches[-2:])]

    def _small(self, older: Batch, newer: Batch) -> bool:
        apart = any(older.arrival < barrier <= newer.arrival for barrier in self._barriers)
        return len(older) + len(newer) < JOIN_BELOW and len(older) <= 2 * len(newer) and not apart

    def release(self, point: int) -> list[Batch]:
        """The events below `point`; those of a batch come before all of the next one."""
        ready: list[Batch] = []
        waiting: list[Batch] = []
        for batch in self.batches:
            below, above = _split(batch, point)
            ready += below
            waiting += above
        self.batches = waiting
        self._barriers = [b for b in self._barriers if waiting and waiting[0].arrival < b]
        return ready

    def retype(self, types: Mapping[str, pa.DataType]) -> None:
        """Give columns that have had nothing but nulls these types."""
        for number, batch in enumerate(self.batches):
            known = {name: kind for name, kind in types.items() if name in batch.columns}
            columns = {**batch.columns, **nulls(len(batch), known)}
            self.batches[number] = replace(batch, columns=columns)


def _split(batch: Batch, point: int) -> tuple[list[Batch], list[Batch]]:
    """What of a batch is below `point`, and what is not."""
    if batch.high < point:
        return [batch], []
    if batch.low >= point:
        return [], [batch]
    below = batch.times < point
    count = int(below.sum())
    if below[:count].all():
        head, rest = batch.head(count)
        # A small rest must not keep the arrays of the whole.
        return [head], [rest if 2 * len(rest) > len(batch) else rest.take(np.arange(len(rest)))]
    return [batch.take(np.flatnonzero(below))], [batch.take(np.flatnonzero(~below))]


def nulls(size: int, types: Mapping[str, pa.DataType]) -> dict[str, Column]:
    """Columns of nothing but nulls."""
    nothing = np.zeros(size, np.bool_)
    return {
        name: Column(np.zeros(size, storage(kind)), nothing, kind) for name, kind in types.items()
    }


def in_sequence(batches: Iterable[Batch]) -> list[Batch]:
    """The same events in batches of which each is later than the one before."""
    found: list[list[Batch]] = []
    for batch in batches:
        joined = [batch]
        while found and max(one.high for one in found[-1]) >= min(one.low for one in joined):
            joined = found.pop() + joined
        found.append(joined)
    return [Batch.joined(parts) for parts in found]
