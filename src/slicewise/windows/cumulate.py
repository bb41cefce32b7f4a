"""Windows that grow in steps, then start again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicewise.errors import WindowError
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
from slicewise.windows.periodic import Periodic


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cumulate(Window):
    """Windows that grow by `every` until `length`, then start again, aligned to `origin`.

    In each period `[base, base + length)`, where `base` is `origin + m * length`, the instances
    are `[base, base + every)`, `[base, base + 2 * every)` and so on; the last ends with the
    period, also when `every` does not divide `length`. The measure is time when `axis` is `None`,
    else the column `axis`. Every end is exclusive.

    >>> Cumulate(name="w", length=10, every=4).instances_at(5)
    [(0, 8), (0, 10)]
    >>> Cumulate(name="w", length=10, every=4).instances_at(-10)
    [(-10, -6), (-10, -2), (-10, 0)]
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
        check_lengths("a cumulating window", whole=whole, length=self.length, every=self.every)
        check_point("a cumulating window", "origin", self.origin, whole=whole)
        check_overlap("a cumulating window", self.length, self.every)
        check_unit("a cumulating window", self.unit)
        if self.every > self.length:
            raise WindowError(
                "A cumulating window grows by `every` until `length`, so `every` is at most "
                f"`length`; given: every={self.every!r}, length={self.length!r}. "
                "Swap them, or use `tumbling`."
            )

    def recipe(self) -> Recipe:
        length, every = (length_of(n, self.unit, self.axis) for n in (self.length, self.every))
        unit = None if self.axis else self.unit
        origin = origin_of(self.origin, unit, self.length, self.every)
        return Recipe("cumulate", (length,), {"every": every, **origin})

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.axis is None else (self.axis,)

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        return self.periods.times_within(low, high)

    @property
    def traits(self) -> Traits:
        return Traits(
            context="free",
            measure="time" if self.axis is None else "column",
            axis=self.axis,
            overlap=self.length / self.every,
        )

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("length", "every", "origin") if self.axis is None else ()

    @property
    def periods(self) -> Periodic:
        """The tumbling window of whole periods, in which the instances grow."""
        return Periodic(
            name=self.name,
            axis=self.axis,
            length=self.length,
            every=self.length,
            origin=self.origin,
            unit=self.unit,
        )

    def all_edges(self) -> EdgeRule:
        if self.length % self.every == 0:
            return EdgeRule(frozenset([(self.every, self.origin % self.every)]))
        # Its growth starts again with every `length`: each step is a progression.
        offsets = np.arange(0, self.length, self.every).tolist()
        return EdgeRule(frozenset((self.length, (self.origin + n) % self.length) for n in offsets))

    def begin_edges(self) -> EdgeRule:
        return self.periods.begin_edges()

    def starts_beyond(self, point: int) -> int:
        # The shortest instance of a period ends first.
        passed = (point - self.origin - self.every) // self.length
        return int(self.origin + (passed + 1) * self.length)

    @property
    def steps(self) -> int:
        """How many instances a period has."""
        return int(-(-self.length // self.every))

    def instances_at(self, t: int | float) -> list[tuple[int | float, int | float]]:
        """Bounds of the instances that hold `t`, shortest first."""
        found = []
        for base, limit in self.periods.instances_at(t):
            ends = (min(base + j * self.every, limit) for j in range(1, self.steps + 1))
            found += [(base, end) for end in ends if end > t]
        return found

    def ends_at(self, times: np.ndarray, since: int) -> tuple[np.ndarray, np.ndarray] | None:
        if self.axis is not None:
            return None
        base = self.origin + (times - self.origin) // self.length * self.length
        grown = ((times - base) // self.every + 1) * self.every
        return ends_where(base >= since, base + np.minimum(grown, self.length), base + self.length)
