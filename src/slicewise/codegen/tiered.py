"""Kernels that run as plain Python until there is enough to do, and compiled from then on.

To compile a kernel takes longer than to run it over some thousands of rows, so a small table has
its answer before one function would have been compiled. It is decided for each kernel of its own:
one that is given large arrays is compiled at once, and so is one that has taken its time before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from slicewise import tuning


class Tiered:
    """A kernel for one algebra; to call it runs it in one way or the other.

    `python` makes it from its source, `compiling` compiles it. Where it cannot run as Python, the
    first is `None`.
    """

    __slots__ = ("_compiling", "_plain", "_python", "_spent", "compiled")

    def __init__(
        self, python: Callable[[], Callable[..., Any]] | None, compiling: Callable[[], Any]
    ) -> None:
        self._python, self._compiling = python, compiling
        self._plain: Callable[..., Any] | None = None
        self._spent = 0.0  # seconds in plain Python
        self.compiled: Callable[..., Any] | None = None

    def prepared(self, work: float = 0) -> Callable[..., Any]:
        """The function to call: for about `work` steps, or as many as its arrays have places."""
        if self._runs_plain(work):
            return self
        return self.compile()

    def compile(self) -> Callable[..., Any]:
        """The compiled kernel."""
        if self.compiled is None:
            self.compiled = self._compiling()
        return self.compiled

    def _runs_plain(self, work: float) -> bool:
        if self._python is None:
            return False
        limits = tuning.active()
        if limits.kernels != "by work":
            return limits.kernels == "plain"
        loaded = "numba" in sys.modules
        patience = limits.plain_seconds_loaded if loaded else limits.plain_seconds
        return self.compiled is None and work <= limits.plain_places and self._spent <= patience

    def __call__(self, *given: Any) -> Any:
        if not self._runs_plain(places(given)):
            return self.compile()(*given)
        if self._plain is None:
            assert self._python is not None
            self._plain = self._python()
        begin = time.thread_time()
        with np.errstate(all="ignore"):  # as compiled code does
            made = self._plain(*map(_of_64_bits, given))
        self._spent += time.thread_time() - begin
        return _of_python(made)


def places(given: tuple[Any, ...]) -> int:
    """How many numbers of 64 bits the largest array among arguments has, those in tuples too."""
    most = 0
    for item in given:
        if isinstance(item, np.ndarray):
            most = max(most, item.nbytes >> 3)
        elif isinstance(item, tuple):
            most = max(most, places(item))
    return most


def _of_64_bits(item: Any) -> Any:
    """An argument whose whole numbers have 64 bits, as in compiled code, and not any number."""
    kind = type(item)
    if kind is int:
        return np.int64(item)
    if kind is float:
        return np.float64(item)
    if isinstance(item, tuple) and any(isinstance(part, int | float | tuple) for part in item):
        parts = map(_of_64_bits, item)
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    return item


def _of_python(made: Any) -> Any:
    """A result as compiled code hands it to Python."""
    if isinstance(made, np.generic):
        return made.item()
    return tuple(map(_of_python, made)) if type(made) is tuple else made
