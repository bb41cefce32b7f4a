"""Tumbling and sliding windows over row counts."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.spans import Rows
from slicewise.windows.base import (
    EdgeRule,
    Recipe,
    Traits,
    Window,
    check_lengths,
    check_name,
)
from slicewise.windows.periodic import Periodic


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowPeriodic(Window):
    """Windows of `length` rows that open every `every` rows of a key.

    Events of a key are numbered from 0 in the order of (time, arrival); instance `k >= 0` holds
    the positions `p` with `k * every <= p < k * every + length`, which are its start and end. It
    closes when its last event is below the watermark, so one that is not full never does. A late
    event takes its place in the order and shifts its successors by one.

    >>> RowPeriodic(name="w", length=4, every=2).instances_at(5)
    [(2, 6), (4, 8)]
    >>> RowPeriodic(name="w", length=4, every=2).instances_at(0)
    [(0, 4)]
    """

    name: str
    length: int
    every: int

    def __post_init__(self) -> None:
        check_name(self.name)
        check_lengths("a window of rows", whole=True, length=self.length, every=self.every)

    def recipe(self) -> Recipe:
        if self.length == self.every:
            return Recipe("tumbling", (Rows(self.length),), {})
        return Recipe("sliding", (Rows(self.length),), {"every": Rows(self.every)})

    @property
    def traits(self) -> Traits:
        return Traits(measure="rows", counts_rows=True, length_in_rows=True)

    def as_periodic(self) -> Periodic:
        return Periodic(name=self.name, length=self.length, every=self.every)

    def all_edges(self) -> EdgeRule:
        return self.as_periodic().all_edges()

    def begin_edges(self) -> EdgeRule:
        return self.as_periodic().begin_edges()

    def instances_at(self, position: int) -> list[tuple[int, int]]:
        """Bounds of the instances that hold the event at `position`, oldest first."""
        first = max(0, (position - self.length) // self.every + 1)
        starts = range(first * self.every, position + 1, self.every)
        return [(start, start + self.length) for start in starts]

    def full(self, rows: int) -> list[tuple[int, int]]:
        """Bounds of the instances that are full once a key has `rows` events, oldest first.

        >>> RowPeriodic(name="w", length=4, every=2).full(7)
        [(0, 4), (2, 6)]
        """
        starts = range(0, rows - self.length + 1, self.every)
        return [(start, start + self.length) for start in starts]
