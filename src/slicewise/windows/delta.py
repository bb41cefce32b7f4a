"""Windows that begin anew when a column has moved far enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from slicewise.errors import WindowError
from slicewise.suggestions import taking_names
from slicewise.windows.base import (
    Recipe,
    Traits,
    Window,
    check_lengths,
    check_name,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Delta(Window):
    """Runs of events of a key within which the column `on` moves by less than `by`.

    The first event opens an instance. An event whose value differs by `by` or more, up or down,
    from the first value of the open instance opens the next one; one whose value is null or NaN
    opens none. An instance holds the events from its opener up to before the next one in the order
    of (time, arrival), is reported as `[time of its opener, time of the next opener)`, and closes
    when that next opener is below the watermark; until there is one it stays open. Instances with
    equal bounds, where times tie, are reported as one with the events of all of them.

    >>> Delta(name="w", on="price", by=5).runs([100, 103, 105, 101, 99, None, 94])
    [(0, 2), (2, 4), (4, 6)]
    """

    name: str
    on: str
    by: int | float

    def __post_init__(self) -> None:
        check_name(self.name)
        on: object = self.on
        if not isinstance(on, str) or not on:
            raise WindowError(f"`on` of a delta window is the name of a column; given: {on!r}.")
        check_lengths("a delta window", whole=False, by=self.by)

    @property
    def traits(self) -> Traits:
        return Traits(follows=self.on)

    def recipe(self) -> Recipe:
        return Recipe("delta", (self.on,), {"by": self.by})

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.on,)

    def runs(self, values: Sequence[float | None]) -> list[tuple[int, int]]:
        """Positions `[opener, next opener)` of the complete instances of a key."""
        openers, first = [0][: len(values)], math.nan
        for position, value in enumerate(values):
            if value is None or math.isnan(value):
                continue
            if abs(value - first) >= self.by:
                openers.append(position)
                first = value
            elif math.isnan(first):
                first = value
        return list(pairwise(openers))


@taking_names
def delta(on: str, by: float, *, name: str | None = None) -> Window:
    """Runs of events; one ends when column `on` is `by` or more away from its first value.

    Args:
        on: A column of numbers.
        by: By how much it has to move, up or down, for a new instance.
        name: The name of the window in results; one made from the definition unless given.

    >>> import slicewise as sw
    >>> sw.delta("price", by=5)
    sw.delta('price', by=5)
    """
    return Delta(name=f"delta_{on}_{by}" if name is None else name, on=on, by=by)
