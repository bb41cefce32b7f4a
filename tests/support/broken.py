"""Aggregates that each break a law."""

from typing import Any

import slicewise as sw


class Total(sw.Aggregate):
    """Sound; the broken ones differ from it in one thing."""

    commutative = True
    takes = ("numbers",)

    def identity(self) -> Any:
        return 0.0

    def lift(self, x: Any) -> Any:
        return x

    def combine(self, older: Any, newer: Any) -> Any:
        return older + newer

    def lower(self, state: Any) -> Any:
        return state


class StartsAtOne(Total):
    def identity(self) -> Any:
        return 1.0


class Halves(Total):
    def combine(self, older: Any, newer: Any) -> Any:
        return older + newer if 0.0 in (older, newer) else (older + newer) / 2


class KeepsTheOlder(Total):
    def combine(self, older: Any, newer: Any) -> Any:
        return older if older else newer


class Subtracts(Total):
    commutative = False

    def combine(self, older: Any, newer: Any) -> Any:
        return older - newer


class SaysTooLittle(Total):
    commutative = False


class SelectsNothing(Total):
    selective = True


class ForgetsToSubtract(Total):
    def invert(self, total: Any, oldest: Any) -> Any:
        return total


class ChangesItsArguments(sw.Aggregate):
    compile = False

    def identity(self) -> Any:
        return []

    def lift(self, x: Any) -> Any:
        return [x]

    def combine(self, older: Any, newer: Any) -> Any:
        older.extend(newer)
        return older

    def lower(self, state: Any) -> Any:
        return list(state)
