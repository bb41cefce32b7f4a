"""The emission log: emitted instances that may still change, their events, how often revised.

An instance is found by hashing its window, key and bounds; the instances of a key are chained, so
that those which no longer exist are found without a look at other keys. Bounds over a column of
floats are kept as the bits of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.codegen.kernel import kernel, run
from slicewise.slicing.families.instances import Instances
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import codes as checked_codes
from slicewise.slicing.state.checks import exactly, require

# The rows of the array of entries. Two entries with equal prints hold the same events.
FIELDS = (
    "window",
    "key",
    "start",
    "end",
    "close",
    "rows",
    "first",
    "last",
    "revision",
    "retracted",
)
WINDOW, KEY, START, END, CLOSE, ROWS, FIRST, LAST, REVISION, RETRACTED = range(len(FIELDS))


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What is to be remembered when results are handed out.

    `instances` with their `prints` may be revised; `gone` are the numbers of entries that no longer
    exist.
    """

    instances: Instances | None = None
    prints: np.ndarray | None = None
    gone: np.ndarray | None = None


class EmissionLog:
    """The memory of emitted instances.

    `entries` has a column per instance. `link` says the next older instance of the same key,
    `heads` the newest one of each key; `table` is the hash table of places.
    """

    def __init__(self) -> None:
        self.size = 0
        self.pruned_at = tuning.active().prune_at_least
        self._entries = np.zeros((len(FIELDS), 16), np.int64)
        self._link = np.zeros(16, np.int64)
        self._heads = np.full(16, -1, np.int64)
        self._table = np.full(32, -1, np.int64)

    @property
    def entries(self) -> np.ndarray:
        """One column per remembered instance, with the fields of `FIELDS`."""
        return self._entries[:, : self.size]

    def diff(
        self, instances: Instances, prints: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which instances are to be emitted, their revisions, and the entries that there are.

        Nothing is remembered yet.
        """
        count = len(instances)
        due, revisions = np.zeros(count, np.bool_), np.zeros(count, np.int64)
        seen = np.zeros(self.size, np.bool_)
        found = self._found(instances, prints)
        run(diff_all)(found, self._entries, self._table, due, revisions, seen)
        return due, revisions, seen

    def missing(
        self, windows: np.ndarray, keys: np.ndarray, floors: np.ndarray, seen: np.ndarray | None
    ) -> np.ndarray:
        """The numbers of entries of these windows and keys that no longer exist.

        `floors` has for each key the close point up to which instances are beyond change; `seen`
        are the entries that still exist (`None`: none does).
        """
        gone = np.empty(self.size, np.int64)
        mine = np.zeros(int(windows.max()) + 1, np.bool_)
        mine[windows] = True
        close = self._entries[CLOSE].view(floors.dtype)
        exists = np.zeros(self.size, np.bool_) if seen is None else seen
        index = (self._entries, self._link, self._heads)
        return gone[: run(find_missing)(mine, keys, floors, close, index, exists, gone)]

    def retracted(self, gone: np.ndarray, kind: Any) -> tuple[np.ndarray, ...]:
        """Entries as they are retracted: arrays (window, key, start, end, revision).

        `kind` is the type of their bounds.
        """
        taken = self._entries[:, gone]
        bounds = (np.ascontiguousarray(taken[field]).view(kind) for field in (START, END))
        return (taken[WINDOW], taken[KEY], *bounds, taken[REVISION] + 1)

    def record(self, changes: Changes) -> None:
        """Remember what was handed out."""
        instances, prints = changes.instances, changes.prints
        if instances is not None and prints is not None and len(instances):
            self._grow(len(instances), int(instances.key.max()) + 1)
            index = (self._entries, self._link, self._heads, self._table)
            self.size = run(record_all)(self._found(instances, prints), index, self.size)
        if changes.gone is not None:
            self._entries[RETRACTED, changes.gone] = 1
            self._entries[REVISION, changes.gone] += 1

    def _found(self, instances: Instances, prints: np.ndarray) -> np.ndarray:
        """Instances as entries, as far as their fields are known."""
        found = np.empty((REVISION, len(instances)), np.int64)
        found[WINDOW], found[KEY] = instances.window, instances.key
        for field, values in zip(
            (START, END, CLOSE), (instances.start, instances.end, instances.close), strict=True
        ):
            found[field] = as_bits(values)
        found[ROWS:] = prints.T
        return found

    def prune(self, floors: dict[int, np.ndarray]) -> None:
        """Forget instances that are beyond change; `floors` has those of all keys, by window."""
        self.load(self.changeable(floors))
        self.pruned_at = max(tuning.active().prune_at_least, 2 * self.size)

    def changeable(self, floors: dict[int, np.ndarray]) -> np.ndarray:
        """The entries of instances that are not beyond change; `floors` is as in `prune`."""
        entries = self.entries
        keep = np.zeros(self.size, np.bool_)
        for window in np.unique(entries[WINDOW]).tolist():
            of_keys = floors[window]
            mine = np.flatnonzero(entries[WINDOW] == window)
            close = entries[CLOSE][mine].view(of_keys.dtype)
            keep[mine] = close > of_keys[entries[KEY][mine]]
        return entries[:, keep]

    def forget(self, window: int) -> None:
        """Forget all instances of a window."""
        entries = self.entries
        self.load(entries[:, entries[WINDOW] != window])

    def renumber(self, codes: np.ndarray) -> None:
        """Take over the new codes of keys."""
        entries = self.entries.copy()
        entries[KEY] = codes[entries[KEY]]
        self.load(entries)

    def dump(self, floors: dict[int, np.ndarray], codes: np.ndarray, out: BlobWriter) -> Any:
        """The places of the fields in a blob, without instances that are beyond change.

        `floors` is as in `prune`, and `codes` has the new codes of keys.
        """
        fields = dict(zip(FIELDS, self.changeable(floors), strict=True))
        fields["key"] = codes[fields["key"]]
        # Near to each other, and so short as distances.
        fields["end"], fields["close"] = (
            fields["end"] - fields["start"],
            fields["close"] - fields["end"],
        )
        return {name: out.put(values) for name, values in fields.items()}

    @staticmethod
    def read(node: Any, keys: int, windows: Sequence[int], source: BlobReader) -> np.ndarray:
        """The entries of a snapshot, of so many keys and of windows with these numbers."""
        fields = {name: source.get(node[name]) for name in FIELDS}
        for name, values in fields.items():
            exactly(values, len(fields["key"]), f"emitted {name}s")
        checked_codes(fields["key"], keys, "keys of emitted instances")
        known = np.isin(fields["window"], windows).all()
        require(known, "it has emitted other windows than its own")
        fields["end"] += fields["start"]
        fields["close"] += fields["end"]
        return np.stack([fields[name] for name in FIELDS])

    def load(self, entries: np.ndarray) -> None:
        """Remember these instances and no others."""
        pruned_at = self.pruned_at
        self.__init__()  # type: ignore[misc]  # begin anew
        self.pruned_at = pruned_at
        if entries.shape[1]:
            self._grow(entries.shape[1], int(entries[KEY].max()) + 1)
            self._entries[:, : entries.shape[1]] = entries
            self.size = entries.shape[1]
            self._index()

    def _grow(self, more: int, keys: int) -> None:
        """Make room for `more` instances, of key codes below `keys`."""
        if keys > len(self._heads):
            heads = np.full(max(keys, 2 * len(self._heads)), -1, np.int64)
            heads[: len(self._heads)] = self._heads
            self._heads = heads
        wanted = self.size + more
        if wanted > self._entries.shape[1]:
            room = max(wanted, 2 * self._entries.shape[1])
            entries = np.zeros((len(FIELDS), room), np.int64)
            entries[:, : self.size] = self.entries
            link = np.zeros(room, np.int64)
            link[: self.size] = self._link[: self.size]
            self._entries, self._link = entries, link
        if 2 * wanted > len(self._table):
            self._table = np.full(1 << (2 * wanted).bit_length(), -1, np.int64)
            self._index()

    def _index(self) -> None:
        self._heads[:] = -1
        self._table[:] = -1
        run(index_all)(self._entries, self._link, self._heads, self._table, self.size)


def as_bits(values: np.ndarray) -> np.ndarray:
    """Whole numbers as they are, and floats as their bits; -0.0 is 0.0."""
    return values if values.dtype.kind == "i" else (values + 0.0).view(np.int64)


@kernel
def find(entries: Any, table: Any, window: int, key: int, start: int, end: int) -> Any:
    """Where in the table an instance is, or would go."""
    mask = table.shape[0] - 1
    mixed = ((window * 31 + key) * -7046029254386353131 + start) * -7046029254386353131 + end
    place = ((mixed * -7046029254386353131) >> 20) & mask
    while table[place] >= 0:
        e = table[place]
        if (
            entries[START, e] == start
            and entries[END, e] == end
            and entries[KEY, e] == key
            and entries[WINDOW, e] == window
        ):
            break
        place = (place + 1) & mask
    return place


@kernel
def index_all(entries: Any, link: Any, heads: Any, table: Any, size: int) -> None:
    for e in range(size):
        place = find(
            entries, table, entries[WINDOW, e], entries[KEY, e], entries[START, e], entries[END, e]
        )
        table[place] = e
        link[e] = heads[entries[KEY, e]]
        heads[entries[KEY, e]] = e


@kernel
def same_events(entries: Any, e: int, found: Any, i: int) -> Any:
    """Return whether a remembered instance is there and holds the same events as the one found."""
    return (
        entries[RETRACTED, e] == 0
        and entries[ROWS, e] == found[ROWS, i]
        and entries[FIRST, e] == found[FIRST, i]
        and entries[LAST, e] == found[LAST, i]
    )


@kernel
def diff_all(found: Any, entries: Any, table: Any, due: Any, revisions: Any, seen: Any) -> None:
    """Mark what is `due`, with which revision, and the entries that are `seen` to exist still."""
    for i in range(found.shape[1]):
        place = find(
            entries, table, found[WINDOW, i], found[KEY, i], found[START, i], found[END, i]
        )
        e = table[place]
        if e >= 0:
            seen[e] = True
            if same_events(entries, e, found, i):
                continue
        due[i] = True
        revisions[i] = 0 if e < 0 else entries[REVISION, e] + 1


@kernel
def record_all(found: Any, index: Any, size: int) -> Any:
    """Enter instances; returns how many there are now. There is room for all of them."""
    entries, link, heads, table = index
    for i in range(found.shape[1]):
        place = find(
            entries, table, found[WINDOW, i], found[KEY, i], found[START, i], found[END, i]
        )
        e = table[place]
        if e < 0:
            e = size
            size += 1
            table[place] = e
            for field in range(CLOSE):
                entries[field, e] = found[field, i]
            entries[REVISION, e] = 0
            link[e] = heads[found[KEY, i]]
            heads[found[KEY, i]] = e
        elif same_events(entries, e, found, i):
            continue
        else:
            entries[REVISION, e] += 1
        for field in range(CLOSE, REVISION):
            entries[field, e] = found[field, i]
        entries[RETRACTED, e] = 0
    return size


@kernel
def find_missing(
    mine: Any, keys: Any, floors: Any, close: Any, index: Any, seen: Any, gone: Any
) -> Any:
    """Entries that may change and do not exist any more; returns how many there are."""
    entries, link, heads = index
    count = 0
    for k in range(keys.shape[0]):
        if keys[k] >= heads.shape[0]:
            continue
        e = heads[keys[k]]
        while e >= 0:
            window = entries[WINDOW, e]
            if (
                window < mine.shape[0]
                and mine[window]
                and entries[RETRACTED, e] == 0
                and not seen[e]
                and close[e] > floors[k]
            ):
                gone[count] = e
                count += 1
            e = link[e]
    return count
