"""How much was compiled in this process; and a word to whoever waits for it at a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

# Who waits longer wants to know for what.
PATIENCE = 1.0

WORDS = (
    "slicewise: compiling for windows, aggregates and types that are new here, once; later "
    "processes find the machine code (`sw.warm` compiles ahead).\n"
)


class Compiling:
    """Counts what is compiled and how long it takes, and says so once where that is long.

    What is compiled within something else takes no time of its own.
    """

    def __init__(self) -> None:
        self.functions = 0
        self.seconds = 0.0
        self._said = False
        self._began: dict[int, float] = {}  # by thread

    def watched(
        self, compiling: Callable[..., Any], compiled: Callable[[], int]
    ) -> Callable[..., Any]:
        """The function `compiling`; `compiled` returns how often it did more than to look up."""

        @wraps(compiling)
        def called(*given: Any) -> Any:
            thread, before = threading.get_ident(), compiled()
            outermost = thread not in self._began
            self._began.setdefault(thread, time.perf_counter())
            try:
                return compiling(*given)
            finally:
                self.functions += (some := compiled() - before)
                now = time.perf_counter()
                if some:
                    self._say(self.seconds + now - self._began[thread])
                if outermost:
                    self.seconds += now - self._began.pop(thread)

        return called

    def _say(self, waited: float) -> None:
        """Say once that something is compiled, if somebody waits for it at a terminal."""
        if self._said or waited < PATIENCE:
            return
        self._said = True
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(WORDS)
            sys.stderr.flush()


COMPILING = Compiling()
