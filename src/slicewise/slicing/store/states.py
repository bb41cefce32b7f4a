"""Kernels over the states of slices: events into states, states into states, ranges of them.

States live in flat arrays, one per field of each component, by slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slicewise.aggregates.bound import States
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, lift, load, store
from slicewise.slicing.store.base import Refused

LONG = 64  # events in a range that is worth to be halved


def undo_of(S: States, slots: np.ndarray) -> Callable[[], None]:
    """Return a closure that gives these slots back the states that they have now."""
    chosen: Any = slots if len(slots) < len(S[0]) else slice(None)  # whichever is less to keep
    before = [array[chosen].copy() for array in S]

    def undo() -> None:
        for array, old in zip(S, before, strict=True):
            array[chosen] = old

    return undo


def add_apart(
    algebra: Any, X: States, valid: np.ndarray | None, slots: np.ndarray, S: States, first: int = 0
) -> Refused:
    """Add events as `add_events` does, but for those that raise an error: they are returned.

    Where one does the events are halved, and each half begins from the states before it.
    """
    undo = undo_of(S, slots)
    try:
        add_events.specialise(algebra)(X, valid, slots, S)
        return {}
    except Exception as error:
        undo()
        if len(slots) == 1:
            return {first: error}
    refused: Refused = {}
    half = len(slots) // 2
    for part, begin in ((slice(half), 0), (slice(half, None), half)):
        given = (tuple(x[part] for x in X), None if valid is None else valid[part])
        refused |= add_apart(algebra, *given, slots[part], S, first + begin)
    return refused


@kernel
def fill_identity(S: Any, slots: Any) -> None:
    """Make slots neutral."""
    for slot in slots:
        store(S, slot, identity())


@kernel
def add_events(X: Any, valid: Any, slots: Any, S: Any) -> None:
    """Add each event to the state of its slot; neighbours of one slot stay in registers."""
    here = -1
    state = identity()
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < 0 or (valid is not None and not valid[i]):
            continue
        if slot != here:
            if i + 1 < slots.shape[0] and slots[i + 1] == here:
                # A late event between others: theirs stays at hand.
                store(S, slot, combine(load(S, slot), lift(X, i)))
                continue
            if here >= 0:
                store(S, here, state)
            here = slot
            state = load(S, slot)
        state = combine(state, lift(X, i))
    if here >= 0:
        store(S, here, state)


@kernel
def add_ranges(X: Any, valid: Any, slots: Any, begins: Any, S: Any) -> None:
    """Add each range of events to the state of its slot.

    The two halves of a long one are added up side by side, as neither has to wait for the other.
    """
    for j in range(slots.shape[0]):
        state, later = load(S, slots[j]), identity()
        begin, end = begins[j], begins[j + 1]
        half = (end - begin) >> 1 if end - begin >= LONG else 0
        for i in range(begin, begin + half):
            if valid is None or valid[i]:
                state = combine(state, lift(X, i))
            if valid is None or valid[i + half]:
                later = combine(later, lift(X, i + half))
        if half > 0:
            state = combine(state, later)
        for i in range(begin + 2 * half, end):
            if valid is None or valid[i]:
                state = combine(state, lift(X, i))
        store(S, slots[j], state)


@kernel
def fuse(S: Any, older: Any, newer: Any) -> None:
    """Merge states pair by pair."""
    for i in range(older.shape[0]):
        store(S, older[i], combine(load(S, older[i]), load(S, newer[i])))


@kernel
def extend(S: Any, rows: Any, more: Any) -> None:
    """Add states to others, each to the row it belongs to."""
    for i in range(rows.shape[0]):
        store(S, rows[i], combine(load(S, rows[i]), load(more, i)))
