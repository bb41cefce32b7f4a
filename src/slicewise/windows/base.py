"""What all windows have in common: a name, the columns they read, and their traits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from slicewise.errors import WindowError
from slicewise.limits import BEGINNING, INFINITY, INSTANCES_OF_AN_EVENT, REACH
from slicewise.spans import MICROSECONDS, Units, canonical
from slicewise.times import converted

if TYPE_CHECKING:
    from slicewise.windows.periodic import Periodic

# A boolean column, or a function of the event: a mapping from columns to values, time included.
Condition = str | Callable[[Mapping[str, Any]], Any]
# The unit of windows whose lengths were given as durations.
DURATIONS = "us"
# The first Monday after the epoch, in microseconds.
MONDAY = 4 * MICROSECONDS["d"]
# What one has to have seen to know where instances begin and end (Scotty, Section 4): nothing, all
# events up to there, or events after the beginning as well.
Context = Literal["free", "forward free", "forward aware"]


class Traits(NamedTuple):
    """The properties of a window that decide how it is sliced, planned, stored and explained.

    `measure` is that of `start` and `end`: time, positions of rows, or the column `axis`. `gap` is
    how near an event has to be to an open instance to join it, for windows whose instances are
    told by distances alone. `condition` says which events a window marks, and `follows` names a
    column of numbers whose values it looks at. An instance of a window
    that `counts_rows` depends on how many rows its key has had; where the `length_in_rows` is one,
    a late event shifts others out of an instance. One that `takes_ties` holds events of the time
    at which it starts that came before the event that opened it. `user_defined` windows run code
    of the user for each event, once and in order. Of context-free windows, instances that are
    `disjoint` share no event, and `overlap` is about how many of them hold an event.
    """

    context: Context = "forward free"
    measure: Literal["time", "rows", "column"] = "time"
    axis: str | None = None
    gap: int | None = None
    condition: Condition | None = None
    follows: str | None = None
    counts_rows: bool = False
    length_in_rows: bool = False
    takes_ties: bool = False
    user_defined: bool = False
    disjoint: bool = False
    overlap: float = 1.0

    @property
    def context_free(self) -> bool:
        """Return whether all edges are known without any event."""
        return self.context == "free"

    @property
    def marks(self) -> type[np.generic] | None:
        """The type of what a window has to know of each event, beside its time, if anything."""
        if self.follows is not None:
            return np.float64
        return None if self.condition is None else np.bool_

    @property
    def needs_rows(self) -> bool:
        """Return whether rows are needed when events come out of order (Scotty, Figure 4)."""
        return not self.context_free and self.gap is None


class EdgeRule(NamedTuple):
    """Edges that are known without any event: progressions as (step, phase), and single ones."""

    progressions: frozenset[tuple[Any, Any]] = frozenset()
    singles: frozenset[Any] = frozenset()


class Recipe(NamedTuple):
    """A call of a constructor of `slicewise` that makes a window, but for its name."""

    constructor: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class Window:
    """A definition of window instances. It knows no events; configuration only.

    `name` is what results carry in their column `window`. `start` and `end` of an instance are in
    the measure of the window's length: time, row positions, or an advancing column.
    """

    __slots__ = ()

    name: str

    def recipe(self) -> Recipe | None:
        """The call that makes a window like this one; `None` for windows of one's own."""
        return None

    def __repr__(self) -> str:
        recipe = self.recipe()
        if recipe is None:
            return object.__repr__(self)
        constructor, arguments, options = recipe
        make = getattr(import_module("slicewise"), constructor)
        if make(*arguments, **options).name != self.name:
            options = {**options, "name": self.name}
        shown = [*map(_written, arguments), *(f"{k}={_written(v)}" for k, v in options.items())]
        return f"sw.{constructor}({', '.join(shown)})"

    @property
    def traits(self) -> Traits:
        """The properties that decide how the window is sliced and planned."""
        return Traits()

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The columns that decide which events an instance holds, beside time; `None`: any."""
        return ()

    @property
    def timed(self) -> bool:
        """Return whether `start` and `end` of an instance are times."""
        return self.traits.measure == "time"

    @property
    def time_fields(self) -> tuple[str, ...]:
        """The fields that are lengths of time or points in time."""
        return ()

    @property
    def times(self) -> list[int]:
        """The lengths of time and the points in time of the definition."""
        found = (getattr(self, name) for name in self.time_fields)
        return [number for number in found if number is not None]

    @property
    def durations(self) -> bool | None:
        """Return whether lengths of time are durations, not plain numbers; `None` without any."""
        return getattr(self, "unit", None) == DURATIONS if self.time_fields else None

    def counted_in(self, unit: str) -> Self:
        """The window with its durations as plain numbers of a unit such as `"s"`.

        One whose lengths are plain numbers stays as it is.
        """
        if not self.durations:
            return self
        said = f"the window {self.name!r}"
        given = {name: getattr(self, name) for name in self.time_fields}
        found = {n: converted(value, unit, said) for n, value in given.items() if value is not None}
        return dataclasses.replace(self, unit=None, **found)  # type: ignore[type-var]  # windows with lengths are dataclasses

    def times_within(self, low: int, high: int) -> tuple[int, int]:
        """The first and the last time of events all of whose instances lie in `[low, high]`."""
        return low, high

    def all_edges(self) -> EdgeRule:
        """Where instances begin and end, for windows that know it without any event."""
        return EdgeRule()

    def begin_edges(self) -> EdgeRule:
        """Where slices stay apart once the windows that end there are beyond change (Cutty)."""
        return self.all_edges()

    def as_periodic(self) -> Periodic | None:
        """The tumbling or sliding window over plain numbers with these edges, if it is one."""
        return None

    def starts_beyond(self, point: int) -> int:
        """The least start such that all instances that start there or later end after `point`."""
        raise NotImplementedError(f"{type(self).__name__} knows no edges without events")

    def ends_at(self, times: np.ndarray, since: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The least and the greatest end of the instances that hold each of some times.

        Only instances that start at `since` or later are looked at. Where no instance holds a time,
        its least end is `INFINITY` and its greatest `BEGINNING`. `None` says that the ends of
        instances are not known from times alone.
        """
        return None


def _written(value: Any) -> str:
    # A function has no other text than its name.
    return getattr(value, "__name__", "<function>") if callable(value) else repr(value)


def length_of(number: float, unit: str | None, axis: str | None = None) -> Any:
    """A length as one writes it: units of a column, a text such as `"5m"`, or a plain number."""
    if axis is not None:
        return Units(number, axis)
    return canonical(int(number)) if unit == DURATIONS else number


def moment_of(number: float, unit: str | None) -> Any:
    """A point in time as one writes it: an ISO text, or a plain number."""
    if unit != DURATIONS or not number:
        return number
    moment = np.datetime64(int(number), "us")
    value: Any = moment.item()  # a number beyond the years of a datetime
    return moment if isinstance(value, int) else value.isoformat()


def origin_of(origin: float, unit: str | None, *lengths: float) -> dict[str, Any]:
    """The option `origin` of a constructor; empty where it is what the constructor takes itself."""
    whole = unit == DURATIONS and any(length % MICROSECONDS["w"] == 0 for length in lengths)
    given = moment_of(origin, unit)
    return {} if origin == (MONDAY if whole else 0) else {"origin": given}


def ends_where(
    held: np.ndarray, least: np.ndarray, greatest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ends that `ends_at` returns, where some times are held and others are not."""
    return np.where(held, least, INFINITY), np.where(held, greatest, BEGINNING)


def check_name(name: object) -> None:
    """Refuse a name that results could not carry."""
    if not isinstance(name, str) or not name.strip():
        raise WindowError(
            f"A window's name is a text that is not empty; given: {name!r}. Leave `name` out for "
            "one made from the definition."
        )


def check_unit(kind: str, unit: object) -> None:
    """Refuse what is neither `"us"`, the unit of durations, nor `None` for plain numbers."""
    if unit not in (None, DURATIONS):
        raise WindowError(
            f"`unit` of {kind} is {DURATIONS!r} where lengths are durations, and `None` where they "
            f"are plain numbers; given: {unit!r}."
        )


def check_lengths(kind: str, *, whole: bool, **lengths: object) -> None:
    """Refuse lengths that are no numbers above zero; `whole` ones have no fraction either."""
    for what, given in lengths.items():
        _check_number(kind, what, given, whole=whole)
        if given <= 0:  # type: ignore[operator]  # a number by now
            raise WindowError(f"`{what}` of {kind} must be above zero; given: {given!r}.")


def check_overlap(kind: str, length: float, every: float) -> None:
    """Refuse windows of which an event would be in more instances than can be meant."""
    count = length / every
    if count > INSTANCES_OF_AN_EVENT:
        shown = f"{math.ceil(count):,}" if math.isfinite(count) else "infinitely many"
        raise WindowError(
            f"An event may be in {INSTANCES_OF_AN_EVENT:,} instances of a window at most; {kind} "
            f"with length={length!r} and every={every!r} puts it into {shown}. Make `every` larger."
        )


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
    if not -REACH < given < REACH:  # type: ignore[operator]  # a number by now
        raise WindowError(f"`{what}` of {kind} is below 2**61 in size; given: {given!r}.")


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
    """The name of a condition in the name of a window; empty for a lambda."""
    name = when if isinstance(when, str) else getattr(when, "__name__", type(when).__name__)
    return "" if name == "<lambda>" else name


def holds(when: Condition, event: Mapping[str, Any]) -> bool:
    """Return whether a condition is true for an event; null is not true.

    >>> holds("flag", {"flag": True}), holds("flag", {"flag": None})
    (True, False)
    >>> holds(lambda event: event["speed"] > 5, {"speed": 7})
    True
    """
    value = event[when] if isinstance(when, str) else when(event)
    return value is not None and bool(value)
