"""Rows that a stream emitted, and what is left of them when revisions are folded."""

from __future__ import annotations

from typing import Any

# Instance [0, 5) of `a` is revised, that of null is retracted and comes back, [5, 9) is retracted.
EMITTED: dict[str, list[Any]] = {
    "k": ["a", None, "a", "a", None, None, "a"],
    "window": ["w"] * 7,
    "start": [0, 0, 5, 0, 0, 0, 5],
    "end": [5, 5, 9, 5, 5, 5, 9],
    "n": [1, 2, 3, 4, None, 6, None],
    "revision": [0, 0, 0, 1, 1, 2, 1],
    "retracted": [False, False, False, False, True, False, True],
}


CURRENT: dict[str, list[Any]] = {
    "k": ["a", None],
    "window": ["w", "w"],
    "start": [0, 0],
    "end": [5, 5],
    "n": [4, 6],
}
