"""The functions of a compiled algebra as plain Python: the same source, and what it may call.

Numbers are those of numpy, with 64 bits: whole numbers wrap, and division by zero gives infinity or
NaN. Where functions of Python raise an error for a number, those of compiled code return infinity
or NaN, so they are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from slicewise.codegen import prelude
from slicewise.codegen.algebra import Algebra


def _lenient(function: Callable[[Any], float], limit: float | None = None) -> Any:
    """A function that returns NaN where it is not defined, and infinity where it grows over."""

    def called(x: Any) -> float:
        try:
            return function(x)
        except ValueError:
            return limit if limit is not None and x == 0 else math.nan
        except OverflowError:
            return math.inf

    return called


MATH = SimpleNamespace(
    **{
        **vars(math),
        "sqrt": _lenient(math.sqrt),
        "exp": _lenient(math.exp),
        **{name: _lenient(getattr(math, name), -math.inf) for name in ("log", "log2", "log10")},
    }
)
# Names of kernels and what they stand for in plain Python.
REPLACED: dict[str, Any] = {"math": MATH}


# Types of whole numbers that compiled code computes with in 64 bits.
SMALL = frozenset({np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32})


def widened(value: Any) -> Any:
    """A value from an array with the bits that compiled code computes with."""
    return np.int64(value) if type(value) in SMALL else value


def unchanged(function: Any) -> Any:
    """The decorator of what is not compiled."""
    return function


@lru_cache(maxsize=1024)
def space(algebra: Algebra) -> dict[str, Any]:
    """The names of the prelude for an algebra that can be compiled."""
    made = run(algebra.module_source("i", "widened({})"), {"widened": widened})
    made.setdefault("prepend", made.get("combine"))
    return {name: made[name] for name in prelude.NAMES if name in made}


def run(source: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The names of a generated module without its header, of which some may be known before."""
    made = {**dict.fromkeys(("algebra", "kernel"), unchanged), **(known or {})}
    exec(compile(source, "<plain>", "exec"), made)
    made.update({name: MATH for name, value in made.items() if value is math})
    return made
