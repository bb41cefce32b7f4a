"""Keys of which nothing is known any more: they are left out, now and then and in snapshots.

Keys may come and go, such as numbers of visits to a site. One that has no slice, no event that
waits, nothing emitted that may be revised and nothing counted is as if it had never been there, so
memory follows the keys that are kept, not those seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slicewise import tuning
from slicewise.slicing.emit.log import KEY

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator


def live_keys(op: Operator) -> np.ndarray:
    """The codes of keys of which anything is known, in order."""
    if not op.by:
        return np.arange(len(op._keys))
    known = np.zeros(len(op._keys), np.bool_)
    for group in op._groups.values():
        held = group.held()
        known[: len(held)] |= held
    known[op._log.entries[KEY]] = True
    for codes in [*op._dirty, *(batch.keys for batch in op._waiting.batches)]:
        known[codes] = True
    return np.flatnonzero(known)


def codes_of(live: np.ndarray, keys: int) -> np.ndarray:
    """The new codes of keys, in the order of the old ones; -1 for those that are left out."""
    codes = np.full(keys, -1, np.int64)
    codes[live] = np.arange(len(live))
    return codes


def forget_keys(op: Operator) -> None:
    """Leave out keys of which nothing is known, if these are most of them."""
    live = live_keys(op)
    if 2 * len(live) < len(op._keys):
        codes = codes_of(live, len(op._keys))
        for group in op._groups.values():
            group.renumber(live, codes)
        op._log.renumber(codes)
        op._waiting.renumber(codes)
        op._dirty = [codes[dirty] for dirty in op._dirty]
        op._codes = op._codes[:0].copy()
        op._keys.renumber(live)
    look_again(op)


def look_again(op: Operator) -> None:
    """Take note that keys need no look until there are twice as many."""
    op._forget_at = 2 * len(op._keys) + tuning.active().forget_at_least
