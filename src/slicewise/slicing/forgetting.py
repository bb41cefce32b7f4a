"""Keys of which nothing is known any more: they are left out, now and then and in snapshots.

Keys may come and go, such as numbers of visits to a site. One that has no slice, no event that
waits, nothing emitted that may be revised and nothing counted is as if it had never been there, so
memory follows the keys that are kept, not those seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from slicewise import tuning
from slicewise.arrays.keys import Keys
from slicewise.limits import INFINITY


class Keyed(Protocol):
    """A part of an operator that keeps something by the codes of keys."""

    def mark_held(self, known: np.ndarray, point: int | None = None) -> None:
        """Mark the keys of which anything is kept; with `point`, anything that is needed there."""

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones, which are in order; `codes` has their new codes."""


class Forgetting:
    """Forgets keys of which no part keeps anything."""

    def __init__(self, keys: Keys, parts: Sequence[Keyed]) -> None:
        self.keys, self.parts = keys, parts
        # How many keys it takes to look for dead ones.
        self.look_at = tuning.active().forget_at_least

    def live(self, point: int | None = None) -> np.ndarray:
        """The codes of keys of which anything is known, in order.

        With `point`, without what is complete there and has not been let go yet.
        """
        if not self.keys.columns:
            return np.arange(len(self.keys))
        known = np.zeros(len(self.keys), np.bool_)
        for part in self.parts:
            part.mark_held(known, point)
        return np.flatnonzero(known)

    def codes(self, live: np.ndarray) -> np.ndarray:
        """The new codes of keys, in the order of the old ones; -1 for those that are left out."""
        codes = np.full(len(self.keys), -1, np.int64)
        codes[live] = np.arange(len(live))
        return codes

    def forget(self, horizon: int) -> None:
        """Leave out keys of which nothing is known, if there are many and these are most of them.

        When all is over, at a horizon of infinity, nobody comes to make up for the work.
        """
        if len(self.keys) < self.look_at or horizon >= INFINITY:
            return
        live = self.live()
        if 2 * len(live) < len(self.keys):
            codes = self.codes(live)
            for part in self.parts:
                part.renumber(live, codes)
            self.keys.renumber(live)
        self.look_again()

    def look_again(self) -> None:
        """Take note that keys need no look until there are twice as many."""
        self.look_at = 2 * len(self.keys) + tuning.active().forget_at_least
