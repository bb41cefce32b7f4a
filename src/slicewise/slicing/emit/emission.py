"""What is emitted: window instances listed, merged and lowered to rows of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.columns import Column
from slicewise.slicing.emit.log import Changes
from slicewise.slicing.families.instances import Instances

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup


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


def in_pieces(results: list[Result], key: Callable[[Result], Any]) -> list[Result]:
    """The results sorted by `key`; Ctrl-C is heard every so many of them."""
    piece = tuning.active().results_sorted
    if len(results) <= piece:
        return sorted(results, key=key)
    begins = range(0, len(results), piece)
    return list(merge(*(sorted(results[at : at + piece], key=key) for at in begins), key=key))


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


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Emitted rows of instances that many keys have in common, those of one side by side.

    `window`, `start` and `end` have one value for each instance, and `sizes` the numbers of its
    rows; `key` and `columns` have one for each row. All are first results.
    """

    window: np.ndarray
    start: np.ndarray
    end: np.ndarray
    sizes: np.ndarray
    key: np.ndarray
    columns: Sequence[Column]

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """Rows that are ready, retractions first, and what is remembered when they are handed out."""

    answers: Sequence[Answers | Blocks]
    changes: Changes | None = None


NONE = np.empty(0, np.int64)


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
    def of(group: SliceGroup, keys: np.ndarray, low: int, high: int) -> Listed:
        """The instances of these keys whose close point is in `(low, high]`."""
        found = group.instances(keys, low, high)
        return Listed.joined(found) if group.ties else Listed(found, NONE, NONE, NONE)

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


def fingerprints(group: SliceGroup, listed: Listed) -> np.ndarray:
    """Marks of content: two instances with equal bounds and marks hold the same events."""
    runs, found = group.runs, listed.instances
    rows = group.store.rows(found.left, found.right)
    np.add.at(rows, listed.row, group.store.rows(listed.left, listed.right))
    first = runs.arrival[runs.slot[found.left]]
    last = runs.arrival[runs.slot[found.right - 1]]
    return np.stack([rows, first, last], axis=1)


def answers_of(group: SliceGroup, listed: Listed, revisions: np.ndarray | None = None) -> Answers:
    """Merge the slices of instances and lower their states."""
    found = listed.instances
    states = group.store.merge(found.left, found.right, found.key, found.window)
    if len(listed.row):
        group.store.extend(states, listed.row, listed.left, listed.right)
    size = len(found)
    columns = group.store.lower(states)
    if group.store.since:
        first = group.earliest(found.left)
        for number, since in group.store.since.items():
            columns[number] = _null_where(columns[number], first < since)
    return Answers(
        found.window,
        found.key,
        found.start,
        found.end,
        np.zeros(size, np.int64) if revisions is None else revisions,
        np.zeros(size, np.bool_),
        columns,
    )


def _null_where(column: Column, unknown: np.ndarray) -> Column:
    """The column with nulls in the place of what is not known."""
    known = ~unknown if column.valid is None else column.valid & ~unknown
    return Column(column.values, known, column.type)


def retractions(gone: Sequence[np.ndarray], kinds: Sequence[Any]) -> Answers:
    """Retracted instances (window, key, start, end, revision) as rows without values."""
    import pyarrow as pa

    window, key, start, end, revision = gone
    nothing = [Column.from_arrow(pa.nulls(len(window), kind)) for kind in kinds]
    return Answers(window, key, start, end, revision, np.ones(len(window), np.bool_), nothing)
