"""Events on their way to slices: batches, batches by key and in order, and events that wait.

What needs the order of events gets them in order. Those above the watermark wait in the batches
they came in; when the watermark passes them these are merged, and nothing can come between them any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column, storage
from slicewise.limits import INFINITY
from slicewise.slicing.ingest.ties import order_of_ties
from slicewise.times import never_falls

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.state.blob import BlobWriter

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
            batch = batch.take(order_of_times(batch.times))
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


def order_of(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """The order of rows by whole numbers, the first ones first, equal rows as they are.

    Where all of them fit into one number it is that which is sorted, several times as fast.
    """
    size = len(numbers[0])
    packed, bits = np.zeros(size, np.int64), 0
    for values in numbers:
        low = int(values.min(initial=INFINITY))
        width = max(0, int(values.max(initial=-INFINITY)) - low).bit_length()
        bits += width
        if bits + size.bit_length() > 62:
            return np.lexsort(numbers[::-1])
        packed = (packed << width) + (values - low)
    width = size.bit_length()
    packed = (packed << width) + np.arange(size)
    packed.sort()
    return packed & ((1 << width) - 1)


def order_of_times(times: np.ndarray) -> np.ndarray:
    """The order of rows by times most of which never fall: only the late ones are sorted."""
    regular, late = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    count = int(run(pick_late)(times, regular, late))
    if 2 * count > len(times):
        return order_of([times])
    late = late[:count]
    late = late[order_of([times[late]])]
    order = np.empty(len(times), np.int64)
    run(merge_late)(times, regular, late, order)
    return order


@kernel
def pick_late(times: Any, regular: Any, late: Any) -> int:
    """Part rows that are not before the newest from those that are; how many those are."""
    count = 0
    newest = times[0]
    for i in range(times.shape[0]):
        if times[i] < newest:
            late[count] = i
            count += 1
        else:
            newest = times[i]
            regular[i - count] = i
    return count


@kernel
def merge_late(times: Any, regular: Any, late: Any, order: Any) -> None:
    """Merge two lists of rows by time; equal ones as they came."""
    many = order.shape[0] - late.shape[0]
    j = 0
    for i in range(many):
        row = regular[i]
        while j < late.shape[0] and (
            times[late[j]] < times[row] or (times[late[j]] == times[row] and late[j] < row)
        ):
            order[i + j] = late[j]
            j += 1
        order[i + j] = row
    while j < late.shape[0]:
        order[many + j] = late[j]
        j += 1


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
    def alone(batch: Batch) -> Grouped:
        """A batch of one key, which is in order."""
        return Grouped(batch, np.zeros(1, np.int64), np.array([0, len(batch)]))

    @staticmethod
    def of(batch: Batch, order: Sequence[str] = ()) -> Grouped:
        """The events of a batch in order, those of one key and time in that of some columns."""
        times, keys = batch.times, batch.keys
        if batch.single:
            if not batch.ordered and not never_falls(times):
                batch = batch.take(order_of_times(times))
            return Grouped.alone(_without_ties(batch, order))
        after = keys[1:] > keys[:-1]
        if not bool((after | ((keys[1:] == keys[:-1]) & (times[1:] >= times[:-1]))).all()):
            batch = batch.take(order_of([keys, times]))
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


class ReorderBuffer:
    """Events that the watermark has not passed yet, in batches that are each in order of time.

    `kept` are those that it has passed: where the order of events matters, and it `keeps` them, a
    late event may have to come between those of a window that is still open. They are complete
    from the time `kept_from` on.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.kept: list[Batch] = []
        self.keeps = False
        self.kept_from = -INFINITY
        self.prune_at = tuning.active().keep_at_least
        # Events that an aggregate raised an error for when they waited no longer.
        self.refused: list[tuple[Batch, int, Exception]] = []
        self._barriers: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def rows_kept(self) -> int:
        """How many events are kept that the watermark has passed."""
        return sum(map(len, self.kept))

    def keep(self, ready: Sequence[Batch], point: int) -> None:
        """Keep events that were released below `point`, if a late one may come between them."""
        if self.keeps and point < INFINITY:
            self.kept += [replace(batch, objects=None, marks={}) for batch in ready]

    def forget(self, gone: Callable[[Batch], np.ndarray]) -> None:
        """Let go of kept events: of each batch those that are marked."""
        self.kept = _left(self.kept, gone)
        self.prune_at = 2 * self.rows_kept + tuning.active().keep_at_least

    def separate(self, arrival: int) -> None:
        """Keep the events before number `arrival` apart from those that come."""
        self._barriers.append(arrival)

    def add(self, batch: Batch) -> None:
        """Take the events that count, in the order of time and in arrays of their own."""
        batch = batch.in_order()
        parts = [batch]
        while self.batches and self._joins(self.batches[-1], parts):
            parts.insert(0, self.batches.pop())
        self.batches.append(Batch.joined(parts).in_order())

    def _joins(self, older: Batch, parts: Sequence[Batch]) -> bool:
        """Return whether the rest of a batch goes with the next ones: it is small, or all are."""
        newer = parts[0]
        if any(older.arrival < barrier <= newer.arrival for barrier in self._barriers):
            return False
        size, most = len(older), sum(map(len, parts))
        if older.high <= newer.low:
            return size <= most
        return size + most < tuning.active().join_below and size <= 2 * most

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

    def dump(
        self, codes: np.ndarray, gone: Callable[[Batch], np.ndarray] | None, out: BlobWriter
    ) -> dict[str, Any]:
        """The events as entries of a snapshot's header, without kept ones that are `gone`.

        `codes` has the new codes of keys, -1 for those that are left out.
        """
        from slicewise.slicing.state.batches import put_batches

        kept = self.kept if gone is None else _left(self.kept, gone)
        kept = _left(kept, lambda batch: codes[batch.keys] < 0)
        return {
            "waiting": put_batches(self.batches, codes, out),
            "kept": put_batches(kept, codes, out),
        }

    def load(self, header: dict[str, Any], get: Callable[[Any], list[Batch]], since: int) -> None:
        """Go on with the events of a header; `get` reads batches.

        If an earlier release wrote it, which kept no events, they are complete from `since` on.
        """
        self.batches = get(header["waiting"])
        if "kept" not in header:
            self.kept_from = since
        elif self.keeps:
            self.kept = get(header["kept"])

    def renumber(self, codes: np.ndarray) -> None:
        """Take over the new codes of keys."""
        self.forget(lambda batch: codes[batch.keys] < 0)
        self.batches, self.kept = (
            [replace(batch, keys=codes[batch.keys]) for batch in batches]
            for batches in (self.batches, self.kept)
        )

    def retype(self, types: Mapping[str, pa.DataType]) -> None:
        """Give columns that have had nothing but nulls these types."""
        for batches in (self.batches, self.kept):
            for number, batch in enumerate(batches):
                known = {name: kind for name, kind in types.items() if name in batch.columns}
                columns = {**batch.columns, **nulls(len(batch), known)}
                batches[number] = replace(batch, columns=columns)


def _left(batches: Iterable[Batch], gone: Callable[[Batch], np.ndarray]) -> list[Batch]:
    """The events of batches that are not marked as gone."""
    left = []
    for batch in batches:
        stay = np.flatnonzero(~gone(batch))
        if len(stay) == len(batch):
            left.append(batch)
        elif len(stay):
            left.append(batch.take(stay))
    return left


def _split(batch: Batch, point: int) -> tuple[list[Batch], list[Batch]]:
    """The events of a batch below `point`, and those that are not."""
    if batch.high < point:
        return [batch], []
    if batch.low >= point:
        return [], [batch]
    count = int(np.searchsorted(batch.times, point))
    if 4 * (len(batch) - count) < len(batch):
        # A small rest must not keep the arrays of the whole.
        rest = replace(batch.take(np.arange(count, len(batch))), ordered=True)
    else:
        rest = batch.take(slice(count, None))
    return [batch.take(slice(0, count))], [rest]


def nulls(size: int, types: Mapping[str, pa.DataType]) -> dict[str, Column]:
    """Columns of nothing but nulls."""
    nothing = np.zeros(size, np.bool_)
    return {
        name: Column(np.zeros(size, storage(kind)), nothing, kind) for name, kind in types.items()
    }


def in_sequence(batches: Iterable[Batch]) -> list[Batch]:
    """The events in batches of which each is later than the one before."""
    found: list[list[Batch]] = []
    for batch in batches:
        joined = [batch]
        while found and max(one.high for one in found[-1]) >= min(one.low for one in joined):
            joined = found.pop() + joined
        found.append(joined)
    return [Batch.joined(parts) if len(parts) > 1 else parts[0] for parts in found]
