"""Partial aggregations of periodic windows on a stream in order, side by side.

Events are folded into partials, which all windows share, and windows are merged from partials. The
techniques differ in where they cut:

- Panes (doi:10.1145/1058150.1058158): everywhere at the greatest common divisor of all lengths
  and slides.
- Pairs (doi:10.1145/1142473.1142543): where a window begins and where one ends; Pairs+ is the same
  with an eager store.
- Cutty (doi:10.1145/2983323.2983807): only where a window begins. A window that ends within a
  partial takes the partial as it stands.

A plan is FlatFIT's shared plan (doi:10.1145/3085504.3085509, Sections 2.3 and 3.2): the composite
slide after which everything repeats, the lengths of its fragments, and which windows answer where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm
from typing import Literal, get_args

import numpy as np

from slicewise.errors import WindowError
from slicewise.slicing.locate.by_time import Edges
from slicewise.windows import Periodic, Window

Technique = Literal["cutty", "panes", "pairs", "pairs+"]
TECHNIQUES: tuple[str, ...] = get_args(Technique)

# A composite slide is a least common multiple and may be longer than any stream.
MOST_EDGES = 1_000_000


def cutting(windows: Sequence[Window], technique: Technique = "cutty") -> list[Periodic]:
    """Windows whose begins and ends are the edges at which `technique` cuts.

    >>> import slicewise as sw
    >>> for technique in ("cutty", "panes", "pairs"):
    ...     print([(w.length, w.every) for w in cutting([sw.sliding(10, every=3)], technique)])
    [(3, 3)]
    [(1, 1)]
    [(10, 3)]
    """
    if technique not in TECHNIQUES:
        known = ", ".join(map(repr, TECHNIQUES))
        raise WindowError(
            f"A technique of partial aggregation is one of {known}; given: {technique!r}."
        )
    given = [_periodic(window) for window in windows]
    if not given:
        raise WindowError("Partial aggregation needs at least one window; given: none.")
    if len({(window.traits.measure, window.traits.axis) for window in windows}) > 1:
        raise WindowError(
            "Partials are shared among windows of one measure: time, rows, or one column. "
            f"Given: {', '.join(window.name for window in windows)}. Plan them apart."
        )
    if technique == "cutty":
        return [_with(window, window.every) for window in given]
    if technique == "panes":
        first = given[0]
        apart = (window.origin - first.origin for window in given)
        pane = gcd(*(int(n) for w in given for n in (w.length, w.every)), *map(int, apart))
        return [_with(first, pane)]
    return given


def _periodic(window: Window) -> Periodic:
    periodic = window.as_periodic()
    if periodic is None or not all(
        isinstance(n, int) for n in (periodic.length, periodic.every, periodic.origin)
    ):
        raise WindowError(
            "Partials are planned for tumbling and sliding windows with lengths in whole numbers; "
            f"given: {window!r}."
        )
    return periodic


def _with(window: Periodic, length: int | float) -> Periodic:
    """A tumbling window of `length` with the same origin: all its edges are begins."""
    return Periodic(name=window.name, length=length, every=length, origin=window.origin)


@dataclass(frozen=True)
class PartialPlan:
    """Where partials are cut and which windows answer where; it repeats with the composite slide.

    The two queries of the FlatFIT paper's example, of 6 events every 2 and of 8 every 4:

    >>> import slicewise as sw
    >>> plan = plan_partials([sw.sliding(6, every=2, name="a"), sw.sliding(8, every=4, name="b")])
    >>> plan.composite, plan.edges, plan.fragments
    (4, (0, 2), (2, 2))
    >>> plan.answers
    {0: ('a', 'b'), 2: ('a',)}
    >>> plan.partials, plan.longest
    (2, 4)
    """

    technique: Technique
    windows: tuple[Periodic, ...]

    @property
    def eager(self) -> bool:
        """Return whether the technique keeps a tree over its partials."""
        return self.technique in ("cutty", "pairs+")

    @cached_property
    def composite(self) -> int:
        """The composite slide: the least common multiple of all slides."""
        return lcm(*(int(window.every) for window in self.windows))

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Where partials begin within a composite slide."""
        expected = self._cuts.count(0, self.composite)
        if expected > MOST_EDGES:
            raise WindowError(
                f"These windows repeat after {self.composite}, with about {expected:.0f} edges "
                "until then, too many to list. Ask for a part of them with `cuts(low, high)`."
            )
        return tuple(self.cuts(0, self.composite).tolist())

    @property
    def fragments(self) -> tuple[int, ...]:
        """The length of the partial that begins at each edge."""
        edges = self.edges
        return tuple(np.diff([*edges, edges[0] + self.composite]).tolist())

    @property
    def partials(self) -> int:
        """How many partials a composite slide has."""
        return len(self.edges)

    @property
    def answers(self) -> dict[int, tuple[str, ...]]:
        """Which windows end at which place of a composite slide."""
        found: dict[int, list[str]] = {}
        for window in self.windows:
            place = int(window.origin + window.length) % int(window.every)
            for end in range(place, self.composite, int(window.every)):
                found.setdefault(end, []).append(window.name)
        return {place: tuple(found[place]) for place in sorted(found)}

    @property
    def longest(self) -> int:
        """The most partials that one window instance is merged from."""
        most = 0
        for window in self.windows:
            starts = np.arange(window.origin % window.every, self.composite, window.every)
            cuts = self.cuts(0, self.composite + int(window.length))
            counts = np.searchsorted(cuts, starts + window.length) - np.searchsorted(cuts, starts)
            most = max(most, int(counts.max()))
        return most

    @cached_property
    def _cuts(self) -> Edges:
        return Edges(cutting(self.windows, self.technique))

    def cuts(self, low: int, high: int) -> np.ndarray:
        """The edges at which partials begin, from `low` to before `high`."""
        edges = self._cuts.between(low, high)
        return edges[(edges >= low) & (edges < high)]


def plan_partials(windows: Sequence[Window], technique: Technique = "cutty") -> PartialPlan:
    """The shared plan of periodic windows of one measure.

    >>> import slicewise as sw
    >>> windows = [sw.sliding(sw.rows(10), every=sw.rows(3))]
    >>> for technique in ("cutty", "pairs", "panes"):
    ...     plan = plan_partials(windows, technique)
    ...     print(technique, plan.fragments, plan.longest)
    cutty (3,) 4
    pairs (1, 2) 7
    panes (1, 1, 1) 10
    """
    cutting(windows, technique)
    return PartialPlan(technique, tuple(map(_periodic, windows)))
