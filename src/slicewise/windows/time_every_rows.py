"""Windows of time that open at every n-th event."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.spans import Rows
from slicewise.windows.base import (
    Recipe,
    Traits,
    Window,
    check_lengths,
    check_name,
    check_unit,
    length_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimeEveryRows(Window):
    """Windows of `length` in time that open at every `every`-th event of a key.

    Events of a key are numbered from 0 in the order of (time, arrival). Where an event at position
    0, `every`, `2 * every` and so on has time `t` there is the instance `[t, t + length)`, which
    holds every event of the key with such a time, also one before the opener that has the same
    time. Two openers with the same time open one instance. It closes when the watermark reaches
    its end. A late event shifts the openers after it.

    >>> TimeEveryRows(name="w", length=10, every=2).instances([3, 4, 4, 9, 9])
    [(3, 13), (4, 14), (9, 19)]
    """

    name: str
    length: int
    every: int
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_lengths("a window of time every n rows", whole=True, length=self.length)
        check_lengths("a window of time every n rows", whole=True, every=self.every)
        check_unit("a window of time every n rows", self.unit)

    @property
    def traits(self) -> Traits:
        return Traits(counts_rows=True, takes_ties=True)

    def recipe(self) -> Recipe:
        return Recipe("sliding", (length_of(self.length, self.unit),), {"every": Rows(self.every)})

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("length",)

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        return low, high - self.length

    def instances(self, times: list[int]) -> list[tuple[int, int]]:
        """Bounds of the instances of a key whose events have these times, in order."""
        openers = dict.fromkeys(times[:: self.every])
        return [(t, t + self.length) for t in openers]
