"""The names that a kernel may use and that its algebra supplies.

`X` is a tuple of input arrays, `S` a tuple of state arrays (one per field of the state), `i` a
position in them. A kernel is specialised before it runs, so none of these is ever called.
"""

from typing import Any


def identity() -> Any:
    """The neutral state."""
    raise AssertionError("a kernel ran before it was specialised")


def lift(X: Any, i: int) -> Any:
    """The state of the event at `i`."""
    raise AssertionError("a kernel ran before it was specialised")


def combine(older: Any, newer: Any) -> Any:
    """The state of `older` followed by `newer`."""
    raise AssertionError("a kernel ran before it was specialised")


def prepend(older: Any, newer: Any) -> Any:
    """The state of `older` followed by `newer`, which is what the last step of a loop back made.

    Algebras that have none of their own take `combine`.
    """
    raise AssertionError("a kernel ran before it was specialised")


def invert(total: Any, oldest: Any) -> Any:
    """The state `rest` with `combine(oldest, rest) == total`; only invertible algebras have it."""
    raise AssertionError("a kernel ran before it was specialised")


def lower(state: Any) -> Any:
    """The result of a state; only algebras of user-defined aggregates have it."""
    raise AssertionError("a kernel ran before it was specialised")


def load(S: Any, i: int) -> Any:
    """The state stored at `i`."""
    raise AssertionError("a kernel ran before it was specialised")


def store(S: Any, i: int, state: Any) -> None:
    """Put `state` at `i`."""
    raise AssertionError("a kernel ran before it was specialised")


def part(S: Any, begin: int, end: int) -> Any:
    """The states from `begin` to before `end`, as arrays of their own that share the memory."""
    raise AssertionError("a kernel ran before it was specialised")


def same_state(a: Any, b: Any) -> bool:
    """Return whether two states are the same; NaN is the same as NaN."""
    raise AssertionError("a kernel ran before it was specialised")


NAMES = frozenset(
    {
        "identity",
        "lift",
        "combine",
        "prepend",
        "invert",
        "lower",
        "load",
        "store",
        "part",
        "same_state",
    }
)
