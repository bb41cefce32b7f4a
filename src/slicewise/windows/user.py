"""Windows of the user's own: Cutty's discretisation function."""

from __future__ import annotations

import copy
import operator
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Self

from slicewise.errors import WindowError
from slicewise.names import snake_case
from slicewise.windows.base import Traits, Window


class UserWindow(Window):
    """Base of your own windows: say for each event how many instances begin and end.

    `on_event` is called for the events of a key in the order of (time, arrival), whatever order
    they arrive in. It returns `(begins, ends)`: the `ends` oldest open instances end before this
    event, then `begins` instances begin with it. An instance is reported as `[time of the event it
    began with, time of the event that ended it)` and closes when that event is below the
    watermark; until then it stays open. Instances with equal bounds are reported as one with the
    events of all of them. The window may keep what it likes on `self`; each key has a copy of its
    own.

    >>> class Pairs(UserWindow):
    ...     seen = 0
    ...     def on_event(self, time, event):
    ...         self.seen += 1
    ...         return (1, 1 if self.seen > 2 else 0)
    >>> window = Pairs()
    >>> window.name, window.runs([(0, {}), (3, {}), (4, {}), (9, {})])
    ('pairs', [(0, 2), (1, 3)])
    """

    name: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = snake_case(cls.__name__)

    @property
    def traits(self) -> Traits:
        return Traits(user_defined=True)

    @property
    def reads(self) -> tuple[str, ...] | None:
        return None

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        """How many instances begin with this event, and how many open ones end before it."""
        raise WindowError(
            f"A user window defines `on_event(self, time, event)`; `{type(self).__name__}` has "
            "none. It returns (instances that begin with the event, instances that end before it)."
        )

    def fresh(self) -> Self:
        """A copy for one key, which has seen no event."""
        return copy.deepcopy(self)

    def step(self, time: int, event: Mapping[str, Any], open_now: int) -> tuple[int, int]:
        """Return what `on_event` does, checked: `open_now` instances are open before the event."""
        answer = self.on_event(time, event)
        try:
            begins, ends = (operator.index(count) for count in answer)
        except (TypeError, ValueError):
            begins = -1
        if begins < 0 or ends < 0:
            raise WindowError(
                f"`on_event` returns two whole numbers from 0 on, (begins, ends); "
                f"{self.name!r} returned {answer!r} at time {time}."
            )
        if ends > open_now:
            raise WindowError(
                f"A user window can end only instances that are open; {self.name!r} ended "
                f"{ends} at time {time} when {open_now} were open. Count in `on_event` what "
                "has begun and ended."
            )
        return begins, ends

    def runs(self, events: Iterable[tuple[int, Mapping[str, Any]]]) -> list[tuple[int, int]]:
        """Positions `[begin, end)` of the complete instances of a key, by their end.

        `events` are pairs of time and event, in order.
        """
        window = self.fresh()
        found = []
        open_since: deque[int] = deque()
        for position, (time, event) in enumerate(events):
            begins, ends = window.step(time, event, len(open_since))
            found += [(open_since.popleft(), position) for _ in range(ends)]
            open_since.extend([position] * begins)
        return found
