"""An aggregate that fails for one value."""

from __future__ import annotations

import slicewise as sw


class Poison(sw.Aggregate):
    """A sum that cannot take in one value."""

    commutative = True
    compile = False

    def identity(self) -> int:
        return 0

    def lift(self, x: int) -> int:
        if x == 666:
            raise ValueError("no such number")
        return x

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def lower(self, state: int) -> float:
        return float(state)
