"""What all windows have in common: a name, and the columns they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from slicewise.errors import WindowError

# A boolean column, or a function of the event: a mapping from columns to values, time included.
Condition = str | Callable[[Mapping[str, Any]], Any]


class Window:
    """A definition of window instances. It knows no events; configuration only.

    `name` is what results carry in their column `window`. `start` and `end` of an instance are in
    the measure of the window's length: time, row positions, or an advancing column.
    """

    __slots__ = ()

    name: str

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns that decide which events an instance holds, beside time; `None`: any."""
        return ()

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        """The first and the last time of events all of whose instances lie in `[low, high]`."""
        return low, high


def check_name(name: object) -> None:
    """Refuse a name that results could not carry."""
    if not isinstance(name, str) or not name.strip():
        raise WindowError(
            f"A window's name is a text that is not empty; given: {name!r}. Leave `name` out for "
            "one made from the definition."
        )


def check_lengths(kind: str, *, whole: bool, **lengths: object) -> None:
    """Refuse lengths that are no numbers above zero; `whole` ones have no fraction either."""
    for what, given in lengths.items():
        _check_number(kind, what, given, whole=whole)
        if given <= 0:  # type: ignore[operator]  # a number by now
            raise WindowError(f"`{what}` of {kind} must be above zero; given: {given!r}.")


def check_point(kind: str, what: str, given: object, *, whole: bool) -> None:
    """Refuse an origin or a start that is no number; `whole` ones have no fraction either."""
    _check_number(kind, what, given, whole=whole)


def _check_number(kind: str, what: str, given: object, *, whole: bool) -> None:
    wanted: type | tuple[type, ...] = int if whole else (int, float)
    if (
        isinstance(given, bool) or not isinstance(given, wanted) or not math.isfinite(given)  # type: ignore[arg-type]  # a number by now
    ):
        number = "a whole number" if whole else "a finite number"
        raise WindowError(f"`{what}` of {kind} is {number}; given: {given!r}.")


def check_axis(axis: object) -> None:
    """Refuse what is neither time (`None`) nor the name of a column."""
    if axis is not None and (not isinstance(axis, str) or not axis):
        raise WindowError(f"`axis` is `None` for time or the name of a column; given: {axis!r}.")


def check_condition(kind: str, when: object) -> None:
    """Refuse what is neither the name of a column nor a function."""
    if not (isinstance(when, str) and when) and not callable(when):
        raise WindowError(
            f"`when` of {kind} is the name of a boolean column or a function of the event; given: "
            f'{when!r}. For example `when="flag"` or `when=lambda event: event["speed"] > 5`.'
        )


def condition_name(when: Condition) -> str:
    """What a condition is called in the name of a window; empty for a lambda."""
    name = when if isinstance(when, str) else getattr(when, "__name__", type(when).__name__)
    return "" if name == "<lambda>" else name


def holds(when: Condition, event: Mapping[str, Any]) -> bool:
    """Whether a condition is true for an event; null is not true.

    >>> holds("flag", {"flag": True}), holds("flag", {"flag": None})
    (True, False)
    >>> holds(lambda event: event["speed"] > 5, {"speed": 7})
    True
    """
    value = event[when] if isinstance(when, str) else when(event)
    return value is not None and bool(value)
