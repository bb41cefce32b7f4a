"""Operators whose windows change on the way, beside operators that had them from the start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import slicewise as sw
from slicewise.testing import Oracle, assert_same_rows
from slicewise.testing.strategies import KINDS, Row, Step, events
from slicewise.windows import Window
from tests.support.operators import without_retracted_values

NAMES = ["v", "w", "x"]


TIMED = [kind for kind in KINDS if "units" not in kind]


MODES = [("final", 0), ("final", 9), ("on_close", 0), ("on_close", 9), ("on_update", 9)]


@dataclass(frozen=True)
class Add:
    window: Window


@dataclass(frozen=True)
class Remove:
    which: int


class Restore:
    pass


def windows_of(kinds: Sequence[str], name: str) -> st.SearchStrategy[Window]:
    return st.sampled_from(kinds).flatmap(lambda kind: KINDS[kind](name))


def scripts(kinds: Sequence[str]) -> st.SearchStrategy[list[Any]]:
    """Batches, watermarks and changes; events mostly come in order, or nothing new would show."""
    batches = events(max_size=30).map(lambda rows: nearly_sorted(rows))
    change = (
        st.sampled_from(NAMES).flatmap(lambda name: windows_of(kinds, name)).map(Add)
        | st.builds(Remove, st.integers(0, 2))
        | st.builds(Restore)
        | st.integers(-20, 55)
    )
    return st.tuples(batches, st.lists(st.tuples(st.integers(0, 30), change), max_size=10)).map(
        lambda drawn: woven(*drawn)
    )


def nearly_sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["t"] // 12)


def woven(rows: list[Row], changes: list[tuple[int, Any]]) -> list[Any]:
    """Steps: the events, cut where something else happens."""
    script: list[Any] = []
    done = 0
    for place, change in sorted(changes, key=lambda pair: pair[0]):
        if rows[done:place]:
            script.append(("process", rows[done:place]))
        done = max(done, place)
        script.append(("advance", change) if isinstance(change, int) else change)
    if rows[done:]:
        script.append(("process", rows[done:]))
    return [*script, ("advance", math.inf)]


class Watched:
    """An operator, and oracles for what it emits.

    A window that depends on the rows before it has an oracle of its own, which sees the events
    that come after the window.
    """

    def __init__(self, **made: Any) -> None:
        self.made = made
        self.op = sw.Operator(**made)
        self.oracles: dict[str, Oracle] = {}
        self.oracle = Oracle(**made)

    def change(self, change: Any) -> None:
        names = [window.name for window in self.op.windows]
        if isinstance(change, Restore):
            self.op = sw.Operator.restore(self.op.snapshot())
        elif isinstance(change, Add):
            if change.window.name not in names and self.takes(change.window):
                self.add(change.window)
        elif len(names) > 1:
            name = names[change.which % len(names)]
            self.op.remove_window(name)
            self.oracles.pop(name, self.oracle).remove_window(name)

    def takes(self, window: Window) -> bool:
        revises = self.made["emit"] == "on_update" or (
            self.made["emit"] == "on_close" and self.made["lateness"]
        )
        return not (revises and isinstance(window, sw.UserWindow))

    def add(self, window: Window) -> None:
        since = self.op.add_window(window)
        begin = -math.inf if since is None else since
        oracle = self.oracle
        if since is not None and window.traits.needs_rows:
            oracle = self.oracles[window.name] = Oracle(**self.made | {"windows": []})
            oracle.watermark = self.oracle.watermark
        oracle.add_window(window, since=begin)

    def step(self, step: Step) -> None:
        verb, given_ = step
        ours: Any = getattr(self.op, verb)(given_) or []
        theirs = [
            row
            for oracle in [self.oracle, *self.oracles.values()]
            for row in getattr(oracle, verb)(given_) or []
        ]
        assert_same_rows(without_retracted_values(ours), without_retracted_values(theirs))


def check(made: Any, script: list[Any]) -> None:
    watched = Watched(time="t", **made)
    for step in script:
        if isinstance(step, tuple):
            watched.step(step)
        else:
            watched.change(step)
