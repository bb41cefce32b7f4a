"""Errors in the code of an aggregate, forgiven: its result is null, and counted.

A stream must not stop because an aggregate fails on one key. Inside of `forgiving()` a state that
cannot be made is `FAILED`, which cannot be combined or lowered either, so the instances that hold
it have no result; all others have theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Forgiven:
    """How many results were lost."""

    count: int = 0


class Failed:
    """The state of events on which an aggregate raised an error."""

    def __reduce__(self) -> str:
        return "FAILED"


FAILED = Failed()
_now: ContextVar[Forgiven | None] = ContextVar("forgiven", default=None)


def forgiven() -> Forgiven | None:
    """What is counted now; `None` when errors are not forgiven."""
    return _now.get()


@contextmanager
def forgiving() -> Iterator[Forgiven]:
    """Forgive errors in the code of aggregates, and count the results that they cost."""
    counted = Forgiven()
    before = _now.set(counted)
    try:
        yield counted
    finally:
        _now.reset(before)
