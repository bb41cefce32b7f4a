"""Rolling aggregation of rows that come in rounds, many keys side by side.

A round is a row of each key, always in the same order of keys, all of one time: what is polled, or
a table of daily prices. All windows of a round begin with the same round, so the sweep goes over
the keys of a round at once: the compiler does several keys with one instruction, no step waits for
the one before it, and no row moves.

Needs:   associative, compiled `combine`; event order is kept. Nothing is ever subtracted.
Cost:    at most 3 combines per round, key, span and component, whatever the span.
Memory:  states of the longest window of some keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import Bound
from slicewise.arrays.grouping import Groups, read_only
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.codegen.product import ROUNDS, by_tiles
from slicewise.columns import Column
from slicewise.frames.bounds import Bounds
from slicewise.frames.places import Found, Inputs, Results
from slicewise.mergers.boundary import sweep_round

# Keys that a few instructions do at once: only the last part of a round is not whole.
WIDTH = 16


@dataclass(frozen=True, slots=True)
class Turns:
    """The windows of a span: the first round of each, and the boundary that it meets.

    A base is the first round that has a suffix at that boundary; `longest` is the most rounds that
    have one.
    """

    firsts: np.ndarray
    boundaries: np.ndarray
    bases: np.ndarray
    longest: int


def in_rounds(
    bounds: Sequence[Bound],
    spans: Sequence[tuple[int, bool]],
    codes: np.ndarray | None,
    keys: int,
    times: np.ndarray,
) -> list[Turns] | None:
    """The windows of each span, a length that may be in rows, over rows that come in rounds.

    `None` where keys are done one after the other: where rows do not come in rounds, an aggregate
    has no compiled way to its result, or so many rounds have a suffix that few keys could be done
    side by side.
    """
    limits = tuning.active()
    if codes is None or keys < limits.rounds_keys or len(codes) < max(keys, limits.rounds_rows):
        return None
    if any(bound.finish is None for bound in bounds):
        return None
    if not is_table.specialise(NOTHING)(read_only(codes), read_only(times), keys):
        return None
    turns = [_turns(times[::keys].copy(), length, by_rows=by_rows) for length, by_rows in spans]
    longest = max(one.longest for one in turns)
    return turns if longest * limits.rounds_keys <= limits.rounds_states else None


def _turns(times: np.ndarray, length: int, *, by_rows: bool) -> Turns:
    count = len(times)
    windows = Bounds(Groups(times, np.array([0, count]), ties=False))
    (block,) = windows.blocks(length, count, by_rows=by_rows)
    boundaries, bases = np.empty(count, np.int64), np.empty(count, np.int64)
    longest = find_boundaries.specialise(NOTHING)(block.firsts, boundaries, bases)
    return Turns(block.firsts, boundaries, bases, longest)


def roll_in_rounds(
    bounds: Sequence[Bound], columns: Mapping[str, Column], spans: Sequence[Turns], keys: int
) -> list[list[Found]]:
    """A column per aggregate for each span, rows as they came."""
    inputs = Inputs(bounds, columns, keys * len(spans[0].firsts))
    tiles = by_tiles(sweep_round, inputs.algebras, inputs.wanted, ROUNDS)
    return [_roll(inputs, tiles, turns, keys) for turns in spans]


def _roll(inputs: Inputs, tiles: Any, turns: Turns, keys: int) -> list[Found]:
    limits, rows = tuning.active(), keys * len(turns.firsts)
    most = min(limits.side_by_side, limits.rounds_states // max(turns.longest, 1))
    parts = -(-keys // most)  # of about the same size
    size = -(-keys // (parts * WIDTH)) * WIDTH
    results = Results(inputs.finishes, rows)
    suffixes, kept, states = (
        tuple(array for algebra in inputs.algebras for array in algebra.new(room))
        for room in (turns.longest * size, size, size)
    )
    windows = (turns.firsts, turns.boundaries, turns.bases)
    out = results.part(slice(0, rows))
    tiles(inputs.X, inputs.valid, windows, keys, size, (suffixes, kept), states, out)
    return results.found()


@kernel
def is_table(codes: Any, times: Any, keys: int) -> bool:
    """Return `True` if each round has all keys, in the order of their codes, and a later time."""
    if len(codes) % keys:
        return False
    for begin in range(0, len(codes), keys):
        own, same, time = codes[begin : begin + keys], times[begin : begin + keys], times[begin]
        if begin > 0 and time <= times[begin - 1]:
            return False
        odd = 0
        for k in range(keys):
            odd |= (own[k] ^ k) | (same[k] ^ time)
        if odd != 0:
            return False
    return True


@kernel
def find_boundaries(firsts: Any, boundaries: Any, bases: Any) -> int:
    """The boundary and the base of each round; returns how many rounds have a suffix at most."""
    boundary, base, longest = 0, 0, 0
    for r in range(len(firsts)):
        if firsts[r] > boundary:
            boundary, base = r, firsts[r]
            longest = max(longest, boundary - base)
        boundaries[r], bases[r] = boundary, base
    return longest
