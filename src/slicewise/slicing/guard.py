"""Calls of one object: one at a time, and none after one that was cut short.

A call may end at any point by Ctrl-C, a signal, a lack of memory or a defect. If it had begun to
change the object by then, what is kept is neither the state before the call nor the one after it,
and answers from it would be wrong. So the object is torn from `begin` to `end`, and every call on
a torn one raises an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from slicewise.errors import CapabilityError, TornError

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Says whether an object is whole, and lets one thread at a time call it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.torn = False
        self.inside = False  # whether a call that may change the object is under way

    def begin(self) -> None:
        """Take note that the object is about to change."""
        self.torn = True

    def end(self) -> None:
        """Take note that the object is whole again."""
        self.torn = False

    @contextmanager
    def harmless(self, *kinds: type[Exception]) -> Iterator[None]:
        """Let an error of these kinds that is raised here leave the object whole."""
        try:
            yield
        except kinds:
            self.torn = False
            raise

    def check(self) -> None:
        """Refuse a torn object."""
        if self.torn:
            raise TornError(
                "An earlier call of this operator was cut short, by Ctrl-C or an error, while it "
                "changed what is kept; from then on its answers would be wrong. Go on from the "
                "last snapshot with `sw.Operator.restore(blob)` and give it the events after that."
            )


def changing(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Decorates a method that changes its object, which has a `Guard` in `_guard`.

    The method says when it begins to change the object; when it returns all is done. Other threads
    wait until then. It may not be called from inside such a method, as an aggregate of the user's
    own might do.
    """

    @wraps(method)
    def called(self: Any, /, *given: P.args, **named: P.kwargs) -> T:
        guard: Guard = self._guard
        with guard.lock:
            if guard.inside:
                raise CapabilityError(
                    f"`{method.__name__}` of an operator was called from inside another call of "
                    "it, by a window or an aggregate. Call it when the other one has returned."
                )
            guard.check()
            guard.inside = True
            try:
                made = method(self, *given, **named)
                guard.end()
                return made
            finally:
                guard.inside = False

    return called


def reading(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Decorates a method that reads its object, and waits for other threads that change it."""

    @wraps(method)
    def called(self: Any, /, *given: P.args, **named: P.kwargs) -> T:
        guard: Guard = self._guard
        with guard.lock:
            if not guard.inside:
                guard.check()
            return method(self, *given, **named)

    return called
