"""Tumbling and sliding windows, on time or on an advancing column."""

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
    check_overlap,
    check_point,
    check_unit,
    ends_where,
    length_of,
    origin_of,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Periodic(Window):
    """Windows of `length` that open every `every`, aligned to `origin`.

    Instance `k`, any whole number, holds `t` with `start(k) <= t < start(k) + length`, where
    `start(k)` is `origin + k * every`. The measure is time in the units of the time column when
    `axis` is `None`, else the column `axis`, which advances with time. `every == length` gives
    tumbling windows; a larger `every` leaves gaps; it need not divide `length`. An event whose
    `axis` is null or NaN is in no instance.

    >>> window = Periodic(name="w", length=10, every=5)
    >>> window.instances_at(12)
    [(5, 15), (10, 20)]
    >>> window.instances_at(-1)
    [(-10, 0), (-5, 5)]
    >>> Periodic(name="gaps", length=2, every=5).instances_at(3)
    []
    """

    name: str
    axis: str | None = None
    length: int | float
    every: int | float
    origin: int | float = 0
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_axis(self.axis)
        whole = self.axis is None
        check_lengths("a periodic window", whole=whole, length=self.length, every=self.every)
        check_point("a periodic window", "origin", self.origin, whole=whole)
        check_overlap("a periodic window", self.length, self.every)
        check_unit("a periodic window", self.unit)

    def recipe(self) -> Recipe:
        length, every = (length_of(n, self.unit, self.axis) for n in (self.length, self.every))
        unit = None if self.axis else self.unit
        origin = origin_of(self.origin, unit, self.length, self.every)
        if self.length == self.every:
            return Recipe("tumbling", (length,), origin)
        return Recipe("sliding", (length,), {"every": every, **origin})

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.axis is None else (self.axis,)

    @property
    def traits(self) -> Traits:
        return Traits(
            context="free",
            measure="time" if self.axis is None else "column",
            axis=self.axis,
            disjoint=self.every >= self.length,
            overlap=self.length / self.every,
        )

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("length", "every", "origin") if self.axis is None else ()

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        """The first and the last time of events all of whose instances lie in `[low, high]`.

        >>> Periodic(name="w", length=10, every=5).times_within(-12, 21)
        (-5, 14)
        """
        if self.axis is not None:
            return low, high
        before = -int((self.origin - low) // self.every) - 1  # the last that starts before `low`
        after = int((high - self.origin - self.length) // self.every) + 1  # ends after `high`
        return max(low, int(self.end(before))), min(high, int(self.start(after)) - 1)

    def all_edges(self) -> EdgeRule:
        ends = (self.every, (self.origin + self.length) % self.every)
        return EdgeRule(self.begin_edges().progressions | {ends})

    def begin_edges(self) -> EdgeRule:
        return EdgeRule(frozenset([(self.every, self.origin % self.every)]))

    def as_periodic(self) -> Periodic:
        return self

    def starts_beyond(self, point: int) -> int:
        passed = (point - self.origin - self.length) // self.every
        return int(self.origin + (passed + 1) * self.every)

    def start(self, k: int) -> int | float:
        """Where instance `k` starts."""
        return self.origin + k * self.every

    def end(self, k: int) -> int | float:
        """Where instance `k` ends."""
        return self.start(k) + self.length

    def ids_at(self, t: int | float) -> range:
        """Numbers of the instances that hold `t`, oldest first."""
        low = int((t - self.origin - self.length) // self.every) + 1
        high = int((t - self.origin) // self.every) + 1
        # Exact for whole numbers. Quotients of fractions round, the bounds themselves decide.
        while self.end(low - 1) > t:
            low -= 1
        while low < high and self.end(low) <= t:
            low += 1
        while self.start(high) <= t:
            high += 1
        while high > low and self.start(high - 1) > t:
            high -= 1
        return range(low, high)

    def instances_at(self, t: int | float) -> list[tuple[int | float, int | float]]:
        """Bounds of the instances that hold `t`, oldest first."""
        return [(self.start(k), self.end(k)) for k in self.ids_at(t)]

    def ends_at(self, times: np.ndarray, since: int) -> tuple[np.ndarray, np.ndarray] | None:
        if self.axis is not None:
            return None
        newest = (times - self.origin) // self.every
        oldest = (times - self.origin - self.length) // self.every + 1
        oldest = np.maximum(oldest, -((self.origin - since) // self.every))
        first, last = (self.origin + k * self.every + self.length for k in (oldest, newest))
        return ends_where(oldest <= newest, first, last)
