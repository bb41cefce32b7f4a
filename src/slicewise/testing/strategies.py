"""Random windows, events, batches and watermarks for property tests; needs `hypothesis`.

Events have the columns `k` (key), `t` (time), `x` (whole numbers, some null), `s` (letters), `km`
(advances with time) and `flag`. Numbers are small, so that ties, equal edges and late events are
common and whole-number results are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

try:
    from hypothesis import strategies as st
except ImportError as error:
    from slicewise.errors import MissingDependencyError

    raise MissingDependencyError(
        "`slicewise.testing.strategies` needs the package `hypothesis`: pip install hypothesis."
    ) from error

from slicewise.spans import rows, units
from slicewise.windows import (
    UserWindow,
    Window,
    cumulate,
    fixed,
    punctuated,
    session,
    sliding,
    threshold,
    tumbling,
)
from slicewise.windows.delta import delta

Row = dict[str, Any]
Step = tuple[Literal["process"], list[Row]] | tuple[Literal["advance"], int | float]

LENGTHS = st.integers(1, 12)
ORIGINS = st.integers(-5, 5)


class Overlapping(UserWindow):
    """An instance begins with every `every`-th event and ends `length` events later."""

    def __init__(self, length: int, every: int, name: str = "overlapping") -> None:
        self.name = name
        self.length = length
        self.every = every
        self.seen = 0

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        seen, self.seen = self.seen, self.seen + 1
        ended = seen - self.length
        return int(seen % self.every == 0), int(ended >= 0 and ended % self.every == 0)


class Following(UserWindow):
    """Data decide: marked events begin an instance, events with a large `x` end all of them."""

    def __init__(self, name: str = "following") -> None:
        self.name = name
        self.open = 0

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        ends = self.open if (event["x"] or 0) > 5 else 0
        begins = int(event["flag"])
        self.open += begins - ends
        return begins, ends


def _km(length: int) -> Any:
    return units(length, on="km")


# A strategy of windows with a given name, for each kind of window.
KINDS: dict[str, Callable[[str], st.SearchStrategy[Window]]] = {
    "tumbling": lambda name: st.builds(tumbling, LENGTHS, origin=ORIGINS, name=st.just(name)),
    "sliding": lambda name: st.builds(
        sliding, LENGTHS, LENGTHS, origin=ORIGINS, name=st.just(name)
    ),
    "cumulate": lambda name: st.tuples(LENGTHS, LENGTHS, ORIGINS).map(
        lambda drawn: cumulate(max(drawn[:2]), min(drawn[:2]), origin=drawn[2], name=name)
    ),
    "fixed": lambda name: st.builds(fixed, st.integers(-10, 40), LENGTHS, name=st.just(name)),
    "tumbling_units": lambda name: st.builds(
        tumbling, LENGTHS.map(_km), origin=ORIGINS, name=st.just(name)
    ),
    "sliding_units": lambda name: st.builds(
        sliding, LENGTHS.map(_km), LENGTHS.map(_km), origin=ORIGINS, name=st.just(name)
    ),
    "cumulate_units": lambda name: st.tuples(LENGTHS, LENGTHS, ORIGINS).map(
        lambda drawn: cumulate(_km(max(drawn[:2])), _km(min(drawn[:2])), origin=drawn[2], name=name)
    ),
    "fixed_units": lambda name: st.builds(
        fixed, st.integers(-10, 40), LENGTHS.map(_km), name=st.just(name)
    ),
    "tumbling_rows": lambda name: st.builds(
        tumbling, st.integers(1, 5).map(rows), name=st.just(name)
    ),
    "sliding_rows": lambda name: st.builds(
        sliding, st.integers(1, 5).map(rows), st.integers(1, 5).map(rows), name=st.just(name)
    ),
    "time_every_rows": lambda name: st.builds(
        sliding, LENGTHS, st.integers(1, 4).map(rows), name=st.just(name)
    ),
    "rows_every_time": lambda name: st.builds(
        sliding, st.integers(1, 5).map(rows), LENGTHS, origin=ORIGINS, name=st.just(name)
    ),
    "session": lambda name: st.builds(
        session,
        st.integers(1, 6),
        max_length=st.none() | st.integers(1, 15),
        name=st.just(name),
    ),
    "punctuated": lambda name: st.builds(punctuated, st.just("flag"), name=st.just(name)),
    "threshold": lambda name: st.builds(
        threshold, st.just("flag"), min_rows=st.integers(1, 3), name=st.just(name)
    ),
    "delta": lambda name: st.builds(delta, st.just("x"), by=st.integers(1, 5), name=st.just(name)),
    "user_counts": lambda name: st.builds(
        Overlapping, st.integers(1, 5), st.integers(1, 5), name=st.just(name)
    ),
    "user_data": lambda name: st.builds(Following, name=st.just(name)),
}


@st.composite
def windows(
    draw: st.DrawFn, kinds: Sequence[str] = tuple(KINDS), *, max_size: int = 4
) -> list[Window]:
    """One to `max_size` windows of the given kinds, with different names."""
    drawn = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=max_size))
    return [draw(KINDS[kind](f"{kind}_{k}")) for k, kind in enumerate(drawn)]


@st.composite
def events(
    draw: st.DrawFn,
    *,
    max_size: int = 25,
    keys: Sequence[Any] = ("a", "b"),
    ordered: bool = False,
    distinct_times: bool = False,
) -> list[Row]:
    """Events in the order of arrival: any order, or that of time when `ordered`.

    Without a least size most lists would be so short that windows which wait for several events
    never close.
    """
    least = draw(st.sampled_from([0, max_size // 4, max_size // 2]))
    times = draw(
        st.lists(st.integers(-15, 45), min_size=least, max_size=max_size, unique=distinct_times),
    )
    if ordered:
        times.sort()
    slowness = draw(st.sampled_from([1, 2, 5]))
    return [
        {
            "k": draw(st.sampled_from(keys)),
            "t": t,
            "x": draw(st.none() | st.integers(-9, 9)),
            "s": draw(st.sampled_from("abcde")),
            "km": t // slowness,
            "flag": draw(st.booleans()),
        }
        for t in times
    ]


def watermarks() -> st.SearchStrategy[int]:
    """Watermarks that jump, stand still and go back when several are drawn."""
    return st.integers(-20, 55)


@st.composite
def steps(
    draw: st.DrawFn,
    *,
    max_size: int = 25,
    keys: Sequence[Any] = ("a", "b"),
    bounded: bool = True,
    ordered: bool = False,
) -> list[Step]:
    """Steps for an operator: batches of one or more events, and watermarks in between.

    The last step is the watermark at infinity when `bounded`. With `ordered` the events come in
    the order of time, with no watermark before the last.
    """
    left = draw(events(max_size=max_size, keys=keys, ordered=ordered))
    done: list[Step] = []
    while left:
        size = draw(st.integers(1, len(left)))
        done.append(("process", left[:size]))
        left = left[size:]
        if not ordered:
            done += [("advance", w) for w in draw(st.lists(watermarks(), max_size=2))]
    if bounded:
        done.append(("advance", math.inf))
    return done
