"""Windows cut by marked events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from slicewise.windows.base import (
    Condition,
    Recipe,
    Traits,
    Window,
    check_condition,
    check_name,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Punctuated(Window):
    """Runs of events of a key, each opened by an event for which `when` is true.

    `when` is a boolean column, in which null is false, or a function of the event. The first
    instance opens at the first event, marked or not. An instance holds the events from its opener
    up to before the next marked one in the order of (time, arrival), and is reported as
    `[time of its opener, time of the next marked event)`. It closes when that event is below the
    watermark; until there is one it stays open. Marked events with the same time make instances
    whose start is their end; instances with equal bounds are reported as one with the events of
    all of them.

    >>> Punctuated(name="w", when="flag").runs([False, False, True, False, True])
    [(0, 2), (2, 4)]
    """

    name: str
    when: Condition

    def __post_init__(self) -> None:
        check_name(self.name)
        check_condition("a punctuated window", self.when)

    @property
    def traits(self) -> Traits:
        return Traits(condition=self.when)

    def recipe(self) -> Recipe:
        return Recipe("punctuated", (self.when,), {})

    @property
    def reads(self) -> tuple[str, ...] | None:
        return (self.when,) if isinstance(self.when, str) else None

    def runs(self, marks: Sequence[bool]) -> list[tuple[int, int]]:
        """Positions `[opener, next marked event)` of the complete instances of a key."""
        openers = [k for k, marked in enumerate(marks) if marked or k == 0]
        return list(pairwise(openers))
