"""Windows that last while a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.windows.base import (
    Condition,
    Recipe,
    Traits,
    Window,
    check_condition,
    check_lengths,
    check_name,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Threshold(Window):
    """Maximal runs of neighbouring events of a key for which `when` is true.

    `when` is a boolean column, in which null is false, or a function of the event. A run is
    reported as `[time of its first event, time of the first event after the run)`, events taken in
    the order of (time, arrival), and closes when that event is below the watermark; until there is
    one it stays open. Runs of fewer than `min_rows` events are not reported. Bounds may be equal
    where times tie; runs with equal bounds are reported as one with the events of all of them.

    >>> window = Threshold(name="w", when="hot", min_rows=2)
    >>> window.runs([True, False, True, True, False, True, True])
    [(2, 4)]
    """

    name: str
    when: Condition
    min_rows: int = 1

    def __post_init__(self) -> None:
        check_name(self.name)
        check_condition("a threshold window", self.when)
        check_lengths("a threshold window", whole=True, min_rows=self.min_rows)

    @property
    def traits(self) -> Traits:
        return Traits(condition=self.when)

    def recipe(self) -> Recipe:
        more = {} if self.min_rows == 1 else {"min_rows": self.min_rows}
        return Recipe("threshold", (self.when,), more)

    @property
    def reads(self) -> tuple[str, ...] | None:
        return (self.when,) if isinstance(self.when, str) else None

    def runs(self, marks: Sequence[bool]) -> list[tuple[int, int]]:
        """Positions `[first, first after the run)` of the complete runs of a key."""
        found = []
        first: int | None = None
        for position, marked in enumerate(marks):
            if marked and first is None:
                first = position
            elif not marked and first is not None:
                if position - first >= self.min_rows:
                    found.append((first, position))
                first = None
        return found
