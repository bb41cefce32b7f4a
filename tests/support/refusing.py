"""Aggregates that raise errors for some events."""

from __future__ import annotations

import slicewise as sw


class Picky(sw.Aggregate):
    """The sum, compiled; it cannot take 13 and does not go beyond a thousand."""

    name = "picky"
    arity = 1
    commutative = True

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        if value == 13:
            raise ValueError("13 is bad luck")
        return value

    def combine(self, older: float, newer: float) -> float:
        if older + newer > 1000:
            raise ValueError("more than a thousand is bad luck")
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Ponderous(Picky):
    """The same, interpreted."""

    compile = False


class Careful(Picky):
    """The same, for events one after the other."""

    commutative = False


class Slow(Careful):
    """And interpreted."""

    compile = False
