"""What was emitted: revisions and retractions of window instances that may still change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import Column
from slicewise.slicing.triggers import Instances

if TYPE_CHECKING:
    from slicewise.slicing.tracks import Track


@dataclass(slots=True)
class Result:
    """One emitted row: the answer of a window instance, or its retraction.

    `key` is `None` without keys, a value with one key column and a tuple with several. `start` and
    `end` are in the measure of the window's length.
    """

    key: Any
    window: str
    start: Any
    end: Any
    values: dict[str, Any]
    revision: int = 0
    retracted: bool = False


@dataclass(slots=True)
class Memory:
    """What is remembered of an emitted instance while it can change."""

    print: tuple[int, int, int]
    revision: int
    retracted: bool
    close: Any


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Emitted rows as arrays; `columns` has one column per aggregate."""

    window: np.ndarray
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    revision: np.ndarray
    retracted: np.ndarray
    columns: Sequence[Column]

    def __len__(self) -> int:
        return len(self.window)


class Emitted:
    """The memory of emitted instances, by window number and key code."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], dict[tuple[Any, Any], Memory]] = {}
        self.size = 0
        self.pruned_at = 1024

    def note(self, instances: Instances, prints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take over instances; which of them are to be emitted, and their revisions."""
        due = np.zeros(len(instances), np.bool_)
        revisions = np.zeros(len(instances), np.int64)
        rows = zip(*(getattr(instances, n).tolist() for n in FIELDS), prints.tolist(), strict=True)
        for row, (window, key, start, end, close, print_) in enumerate(rows):
            known = self.known.setdefault((window, key), {})
            memory = known.get((start, end))
            if memory is None:
                known[start, end] = Memory(tuple(print_), 0, retracted=False, close=close)
                self.size += 1
            elif memory.print == tuple(print_) and not memory.retracted:
                continue
            else:
                memory.print, memory.close = tuple(print_), close
                memory.revision += 1
                memory.retracted = False
            due[row] = True
            revisions[row] = known[start, end].revision
        return due, revisions

    def retract(
        self, windows: Sequence[int], keys: Sequence[int], exist: Instances, floors: Sequence[Any]
    ) -> list[tuple[int, int, Any, Any, int]]:
        """Rows (window, key, start, end, revision) for what no longer exists.

        `floors` has for each key the point below which instances are beyond change.
        """
        current = set(zip(*(getattr(exist, n).tolist() for n in FIELDS[:4]), strict=True))
        gone = []
        for key, floor in zip(keys, floors, strict=True):
            for window in windows:
                for (start, end), memory in self.known.get((window, key), {}).items():
                    if memory.retracted or memory.close <= floor:
                        continue
                    if (window, key, start, end) not in current:
                        memory.retracted = True
                        memory.revision += 1
                        gone.append((window, key, start, end, memory.revision))
        return gone

    def prune(self, floor_of: Any) -> None:
        """Forget instances that are beyond change; done now and then."""
        if self.size < self.pruned_at:
            return
        for (window, key), known in list(self.known.items()):
            floor = floor_of(window, key)
            for identity in [i for i, memory in known.items() if memory.close <= floor]:
                del known[identity]
                self.size -= 1
            if not known:
                del self.known[window, key]
        self.pruned_at = max(1024, 2 * self.size)

    def forget(self, window: int) -> None:
        """Forget all instances of a window."""
        for place in [place for place in self.known if place[0] == window]:
            self.size -= len(self.known.pop(place))


NONE = np.empty(0, np.int64)
FIELDS = ("window", "key", "start", "end", "close")


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Instances with distinct bounds, and what more belongs to some of them.

    Ties in time can make several instances with equal bounds, which are reported as one. Its
    events are one range of places, or, rarely, ranges apart: `[left, right)` also belong to the
    instance in row `row`.
    """

    instances: Instances
    row: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @staticmethod
    def of(track: Track, keys: np.ndarray, low: int, high: int) -> Listed:
        """The instances of these keys whose close point is in `(low, high]`."""
        found = track.instances(keys, low, high)
        return Listed.joined(found) if track.ties else Listed(found, NONE, NONE, NONE)

    @staticmethod
    def joined(found: Instances) -> Listed:
        """Make one of neighbours with equal bounds."""
        same = np.flatnonzero(
            (found.window[1:] == found.window[:-1])
            & (found.key[1:] == found.key[:-1])
            & (found.start[1:] == found.start[:-1])
            & (found.end[1:] == found.end[:-1])
        )
        if not len(same):
            return Listed(found, NONE, NONE, NONE)
        right = found.right.copy()
        head = np.arange(len(found))
        apart: list[int] = []
        for row in (same + 1).tolist():
            head[row] = head[row - 1]
            last = apart[-1] if apart and head[apart[-1]] == head[row] else head[row]
            if found.left[row] <= right[last]:
                right[last] = max(right[last], right[row])
            else:
                apart.append(row)
        heads = np.flatnonzero(head == np.arange(len(found)))
        parts = {"right": right}
        instances = Instances(
            *(parts.get(name, getattr(found, name))[heads] for name in Instances.__slots__)
        )
        extra = np.array(apart, np.int64)
        rows = np.searchsorted(heads, head[extra])
        return Listed(instances, rows, found.left[extra], right[extra])

    def take(self, rows: np.ndarray) -> Listed:
        place = np.full(len(self.instances), -1, np.int64)
        place[rows] = np.arange(len(rows))
        stay = place[self.row] >= 0
        return Listed(
            self.instances.take(rows), place[self.row[stay]], self.left[stay], self.right[stay]
        )


def prints_of(track: Track, listed: Listed) -> np.ndarray:
    """Marks of content: two instances with equal bounds and marks hold the same events."""
    runs, found = track.runs, listed.instances
    rows = track.store.rows(found.left, found.right)
    np.add.at(rows, listed.row, track.store.rows(listed.left, listed.right))
    first = runs.arrival[runs.slot[found.left]]
    last = runs.arrival[runs.slot[found.right - 1]]
    return np.stack([rows, first, last], axis=1)


def answers_of(track: Track, listed: Listed, revisions: np.ndarray | None = None) -> Answers:
    """Merge the slices of instances and lower their states."""
    found = listed.instances
    states = track.store.merge(found.left, found.right)
    if len(listed.row):
        track.store.extend(states, listed.row, listed.left, listed.right)
    size = len(found)
    return Answers(
        found.window,
        found.key,
        found.start,
        found.end,
        np.zeros(size, np.int64) if revisions is None else revisions,
        np.zeros(size, np.bool_),
        track.store.lower(states),
    )


def retractions(rows: Sequence[tuple[int, int, Any, Any, int]], kinds: Sequence[Any]) -> Answers:
    """Retracted instances as rows without values."""
    import pyarrow as pa

    size = len(rows)
    window, key, start, end, revision = (np.array(column) for column in zip(*rows, strict=True))
    nothing = [Column.from_arrow(pa.nulls(size, kind)) for kind in kinds]
    return Answers(window, key, start, end, revision, np.ones(size, np.bool_), nothing)
