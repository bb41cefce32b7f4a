"""The reorder buffer: events that must come in order wait for the watermark.

They wait in the batches they came in; when the watermark passes them these are merged, and nothing
can come between them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.limits import INFINITY
from slicewise.slicing.ingest.batch import Batch, nulls

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.state.blob import BlobWriter


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


def in_sequence(batches: Iterable[Batch]) -> list[Batch]:
    """The events in batches of which each is later than the one before."""
    found: list[list[Batch]] = []
    for batch in batches:
        joined = [batch]
        while found and max(one.high for one in found[-1]) >= min(one.low for one in joined):
            joined = found.pop() + joined
        found.append(joined)
    return [Batch.joined(parts) if len(parts) > 1 else parts[0] for parts in found]
