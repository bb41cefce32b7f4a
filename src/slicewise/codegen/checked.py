"""Sums, differences and products in compiled code of users: whole numbers never wrap.

Numba checks no addition, and goes on from the other end where a result does not fit 64 bits. Python
has integers of any size, so here that is an error. Floats are added as they are. What wraps is
computed without a sign: of whole numbers with one the compiler takes for granted that nothing does,
and would leave out the check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

TOO_LARGE = "A whole number does not fit 64 bits. Begin with a float, or say `compile = False`."


def added(a: Any, b: Any) -> Any:
    """`a + b`."""


def subtracted(a: Any, b: Any) -> Any:
    """`a - b`."""


def multiplied(a: Any, b: Any) -> Any:
    """`a * b`."""


def whole(a: Any, b: Any) -> bool:
    """Return whether two types are of whole numbers that have a sign: `int64`, not `uint64`."""
    return all(str(types.unliteral(t)).startswith("int") for t in (a, b))


@overload(added)
def add(a: Any, b: Any) -> Callable[[Any, Any], Any]:
    """The implementation that Numba compiles for `added`."""

    def checked(a: Any, b: Any) -> Any:
        one, other = np.int64(a), np.int64(b)
        total = np.int64(np.uint64(one) + np.uint64(other))
        if ((one ^ total) & (other ^ total)) < 0:
            raise OverflowError(TOO_LARGE)
        return total

    def plain(a: Any, b: Any) -> Any:
        return a + b

    return checked if whole(a, b) else plain


@overload(subtracted)
def subtract(a: Any, b: Any) -> Callable[[Any, Any], Any]:
    """The implementation that Numba compiles for `subtracted`."""

    def checked(a: Any, b: Any) -> Any:
        one, other = np.int64(a), np.int64(b)
        rest = np.int64(np.uint64(one) - np.uint64(other))
        if ((one ^ other) & (one ^ rest)) < 0:
            raise OverflowError(TOO_LARGE)
        return rest

    def plain(a: Any, b: Any) -> Any:
        return a - b

    return checked if whole(a, b) else plain


@overload(multiplied)
def multiply(a: Any, b: Any) -> Callable[[Any, Any], Any]:
    """The implementation that Numba compiles for `multiplied`."""

    def checked(a: Any, b: Any) -> Any:
        one, other = np.int64(a), np.int64(b)
        product = np.int64(np.uint64(one) * np.uint64(other))
        about = np.float64(one) * np.float64(other)
        # What wraps once has the other sign.
        if abs(about) >= 2.0**62 and (abs(about) >= 2.0**64 or (product < 0) != (about < 0.0)):
            raise OverflowError(TOO_LARGE)
        return product

    def plain(a: Any, b: Any) -> Any:
        return a * b

    return checked if whole(a, b) else plain
