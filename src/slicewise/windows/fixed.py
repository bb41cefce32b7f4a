"""One interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicewise.windows.base import (
    EdgeRule,
    Recipe,
    Traits,
    Window,
    check_axis,
    check_lengths,
    check_name,
    check_point,
    check_unit,
    ends_where,
    length_of,
    moment_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fixed(Window):
    """The one instance `[start, start + length)`.

    The measure is time when `axis` is `None`, else the column `axis`.

    >>> window = Fixed(name="w", start=5, length=10)
    >>> window.instances_at(5), window.instances_at(15)
    ([(5, 15)], [])
    """

    name: str
    axis: str | None = None
    start: int | float
    length: int | float
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_axis(self.axis)
        whole = self.axis is None
        check_lengths("a fixed window", whole=whole, length=self.length)
        check_point("a fixed window", "start", self.start, whole=whole)
        check_unit("a fixed window", self.unit)

    def recipe(self) -> Recipe:
        start = moment_of(self.start, None if self.axis else self.unit)
        return Recipe("fixed", (start, length_of(self.length, self.unit, self.axis)), {})

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.axis is None else (self.axis,)

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        if self.axis is not None:
            return low, high
        first = low if self.start >= low else max(low, int(self.end))
        return first, high if self.end <= high else min(high, int(self.start) - 1)

    @property
    def traits(self) -> Traits:
        return Traits(
            context="free",
            measure="time" if self.axis is None else "column",
            axis=self.axis,
            disjoint=True,
        )

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("start", "length") if self.axis is None else ()

    def all_edges(self) -> EdgeRule:
        return EdgeRule(singles=frozenset([self.start, self.end]))

    def starts_beyond(self, point: int) -> int:
        return int(self.start if self.end > point else self.end)

    @property
    def end(self) -> int | float:
        """Where the instance ends."""
        return self.start + self.length

    def instances_at(self, t: int | float) -> list[tuple[int | float, int | float]]:
        """Bounds of the instance when it holds `t`, else nothing."""
        return [(self.start, self.end)] if self.start <= t < self.end else []

    def ends_at(self, times: np.ndarray, since: int) -> tuple[np.ndarray, np.ndarray] | None:
        if self.axis is not None:
            return None
        held = (times >= self.start) & (times < self.end) & (self.start >= since)
        end = np.full(len(times), self.end)
        return ends_where(held, end, end)
