"""Sessions: events without a long pause between them."""

from __future__ import annotations

from dataclasses import dataclass

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
class Session(Window):
    """Runs of events of a key with pauses of at most `gap` between neighbours.

    An event exactly `gap` after the one before still joins. A session is `[first, last + gap)` and
    closes when the watermark is above `last + gap`. With `max_length` an event `max_length` or
    more after the first one begins a new session; the session then ends at
    `first + max_length` at the latest, and closes when the watermark is there. The end is always
    after the last event. `max_length` may be shorter than `gap`, which then only tells that events
    further apart do not share a session.

    >>> Session(name="w", gap=5).sessions([0, 5, 11])
    [(0, 2), (2, 3)]
    >>> Session(name="w", gap=5, max_length=10).sessions([0, 5, 9, 10, 12])
    [(0, 3), (3, 5)]
    >>> Session(name="w", gap=5, max_length=10).end(0, 9)
    10
    """

    name: str
    gap: int
    max_length: int | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_lengths("a session", whole=True, gap=self.gap)
        if self.max_length is not None:
            check_lengths("a session", whole=True, max_length=self.max_length)
        check_unit("a session", self.unit)

    def recipe(self) -> Recipe:
        longest = self.max_length
        more = {} if longest is None else {"max_length": length_of(longest, self.unit)}
        return Recipe("session", (length_of(self.gap, self.unit),), more)

    @property
    def time_fields(self) -> tuple[str, ...]:
        return ("gap", "max_length")

    @property
    def traits(self) -> Traits:
        # Where sessions of a greatest length are cut depends on all the rows before.
        return Traits(gap=self.gap if self.max_length is None else None)

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        return low, high - (self.gap if self.max_length is None else min(self.gap, self.max_length))

    def joins(self, first: int, last: int, t: int) -> bool:
        """Return whether an event at `t >= last` belongs to the session from `first` to `last`."""
        return t - last <= self.gap and (self.max_length is None or t - first < self.max_length)

    def end(self, first: int, last: int) -> int:
        """Where the session with these first and last events ends."""
        end = last + self.gap
        return end if self.max_length is None else min(end, first + self.max_length)

    def closes(self, first: int, last: int) -> int:
        """The smallest watermark at which no further event can join.

        >>> Session(name="w", gap=5).closes(0, 9)
        15
        """
        close = last + self.gap + 1
        return close if self.max_length is None else min(close, first + self.max_length)

    def sessions(self, times: list[int]) -> list[tuple[int, int]]:
        """Positions `[begin, end)` of the sessions of a key whose events have these times."""
        begins: list[int] = []
        for position, t in enumerate(times):
            if not begins or not self.joins(times[begins[-1]], times[position - 1], t):
                begins.append(position)
        return list(zip(begins, [*begins[1:], len(times)], strict=True)) if begins else []
