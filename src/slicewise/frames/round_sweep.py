"""Rolling aggregation of rows that come in rounds, many keys side by side.

All windows of a round begin with the same round, so the sweep goes over the keys of a round at
once, in the order in which the rows came: the compiler does several keys with one instruction, no
step waits for the one before it, and results need no way back. A key without a row in a round has
an empty event there, which leaves no trace.

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
from slicewise.aggregates.base import Bound
from slicewise.aggregates.own import is_own
from slicewise.arrays.grouping import Groups
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.codegen.product import ROUNDS, by_tiles
from slicewise.columns import Column
from slicewise.frames.bounds import Bounds
from slicewise.frames.places import Found, Inputs, Results
from slicewise.frames.rounds import Rounds, rounds_of
from slicewise.mergers.boundary import sweep_round


@dataclass(frozen=True, slots=True)
class Turns:
    """The windows of a span: the first round of each, and the boundary that it meets.

    `base` is the first round that has a suffix at that boundary; `longest` is the most rounds that
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
) -> tuple[Rounds, list[Turns]] | None:
    """The rounds of the rows, and the windows of each span.

    A span is given as its length, and whether that is in rows. `None` where keys are done one after
    the other: where rows do not come in rounds, an aggregate has no compiled way to its result, or
    so many rounds have a suffix that few keys could be done side by side.
    """
    if any(bound.finish is None for bound in bounds):
        return None
    # Without all keys in all rounds, the last rows of a key are not its last rounds, and windows
    # without any row are computed, of which an aggregate of a user's own may know nothing.
    whole = any(by_rows for _, by_rows in spans) or any(is_own(b.aggregate) for b in bounds)
    rounds = rounds_of(codes, keys, times, full=1.0 if whole else tuning.active().rounds_full)
    if rounds is None:
        return None
    turns = [_turns(rounds, length, by_rows=by_rows) for length, by_rows in spans]
    longest = max(one.longest for one in turns)
    limits = tuning.active()
    least = min(limits.side_by_side_least, keys)
    return (rounds, turns) if longest * least <= limits.rounds_states else None


def _turns(rounds: Rounds, length: int, *, by_rows: bool) -> Turns:
    count = len(rounds.times)
    windows = Bounds(Groups(rounds.times, np.array([0, count]), ties=False))
    (block,) = windows.blocks(length, count, by_rows=by_rows)
    boundaries, bases = np.empty(count, np.int64), np.empty(count, np.int64)
    longest = find_boundaries.specialise(NOTHING)(block.firsts, boundaries, bases)
    return Turns(block.firsts, boundaries, bases, longest)


def roll_in_rounds(
    bounds: Sequence[Bound], rounds: Rounds, columns: Mapping[str, Column], spans: Sequence[Turns]
) -> list[list[Found]]:
    """A column per aggregate for each span."""
    inputs = Inputs(bounds, columns, rounds.size, rounds.present)
    tiles = by_tiles(sweep_round, inputs.algebras, inputs.wanted, ROUNDS)
    return [run_span(inputs, tiles, rounds, turns) for turns in spans]


def run_span(inputs: Inputs, tiles: Any, rounds: Rounds, turns: Turns) -> list[Found]:
    """A column per aggregate."""
    limits = tuning.active()
    most = min(limits.side_by_side, limits.rounds_states // max(turns.longest, 1))
    parts = -(-rounds.keys // most)  # of about the same size
    width = limits.rounds_width
    size = -(-rounds.keys // (parts * width)) * width
    results = Results(inputs.finishes, rounds.size)
    suffixes, kept, states = (
        tuple(array for algebra in inputs.algebras for array in algebra.new(room))
        for room in (turns.longest * size, size, size)
    )
    windows = (turns.firsts, turns.boundaries, turns.bases)
    out = results.part(slice(0, rounds.size))
    tiles(inputs.X, inputs.valid, windows, rounds.keys, size, (suffixes, kept), states, out)
    return results.found()


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
