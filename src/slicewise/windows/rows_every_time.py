"""The last n events at every multiple of a time step."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.spans import Rows
from slicewise.windows.base import (
    Recipe,
    Traits,
    Window,
    check_lengths,
    check_name,
    check_point,
    check_unit,
    length_of,
    origin_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowsEveryTime(Window):
    """The last `length` events of a key before each multiple of `every`, aligned to `origin`.

    At each `T = origin + m * every` for which some event has `T - every <= time < T` there is an
    instance with the last `length` events with `time < T`; of fewer while there are fewer. Its
    start is the time of its oldest event and its end is `T`. It closes when the watermark reaches
    `T`.

    >>> window = RowsEveryTime(name="w", length=2, every=5)
    >>> window.mark(4), window.mark(5), window.mark(-1)
    (5, 10, 0)
    >>> window.instances([1, 2, 4, 11])
    [(2, 5), (4, 15)]
    """

    name: str
    length: int
    every: int
    origin: int = 0
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_lengths("a window of rows every time step", whole=True, length=self.length)
        check_lengths("a window of rows every time step", whole=True, every=self.every)
        check_point("a window of rows every time step", "origin", self.origin, whole=True)
        check_unit("a window of rows every time step", self.unit)

    @property
    def traits(self) -> Traits:
        return Traits(context="forward aware", counts_rows=True, length_in_rows=True)

    def recipe(self) -> Recipe:
        every = length_of(self.every, self.unit)
        origin = origin_of(self.origin, self.unit, self.every)
        return Recipe("sliding", (Rows(self.length),), {"every": every, **origin})

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("every", "origin")

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        return low, min(high, self.origin + (high - self.origin) // self.every * self.every - 1)

    def mark(self, t: int) -> int:
        """The first multiple after `t`: where an event at `t` is reported first."""
        return self.origin + ((t - self.origin) // self.every + 1) * self.every

    def instances(self, times: list[int]) -> list[tuple[int, int]]:
        """Bounds of the instances of a key whose events have these times, in order."""
        found = []
        for position, t in enumerate(times, start=1):
            mark = self.mark(t)
            if position == len(times) or times[position] >= mark:
                found.append((times[max(0, position - self.length)], mark))
        return found
