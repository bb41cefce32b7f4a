"""Events below the horizon: which windows still take them, and which have missed them.

The horizon is the watermark less the lateness. An instance of time and a session take an event as
long as the horizon has not passed their close point, however late the event itself is; windows
that depend on the rows before them take what is not below the horizon. So an event may count for
some windows, or for some instances of a window, and be too late for others.

The events of a batch come together: those that are near enough to each other, or to an open
session, are one session, which takes all of them or none. A session that has closed is gone: no
event joins it, and one between it and an open session belongs to the open one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from slicewise.arrays.searches import last_at_most
from slicewise.codegen.kernel import kernel, run
from slicewise.columns import Column
from slicewise.slicing.store.runs import Runs
from slicewise.windows import Window


class Late(NamedTuple):
    """The events of a batch that are below the horizon.

    `rows` are those of the batch, whose `columns` are here too; `times` and `keys` are their own.
    """

    rows: np.ndarray
    times: np.ndarray
    keys: np.ndarray
    columns: Mapping[str, Column]
    horizon: int


class Verdict(NamedTuple):
    """Which late events an instance of a window takes, and which ones an instance has missed."""

    took: np.ndarray
    missed: np.ndarray


def by_ends(window: Window, late: Late, since: int) -> Verdict | None:
    """The verdict of a window whose ends are known from times alone; `None` for others."""
    ends = window.ends_at(late.times, since)
    if ends is None:
        return None
    least, greatest = ends
    return Verdict(greatest > late.horizon, least <= late.horizon)


def by_sessions(gap: int, late: Late, runs: Runs, since: int) -> Verdict:
    """The verdict of sessions, of which the open ones are in runs."""
    order = np.lexsort((-late.times, late.keys))  # the newest of a key first
    took = np.zeros(len(order), np.bool_)
    run(join_open)(gap, late.horizon, order, late.keys, late.times, runs.arrays, took)
    return Verdict(took, ~took & (late.times >= since))


def too_late(late: Late, since: int) -> Verdict:
    """The verdict of windows that depend on the rows before: they take nothing."""
    return Verdict(np.zeros(len(late.times), np.bool_), late.times >= since)


@kernel
def join_open(
    gap: int, horizon: int, order: Any, keys: Any, times: Any, runs: Any, took: Any
) -> None:
    """Which events make a session that is open, or are near to one."""
    key, newer, reached = -1, False, 0
    for i in order:
        t, k = times[i], keys[i]
        if k != key:
            key, newer = k, False
        taken = t + gap >= horizon or (newer and reached - t <= gap)
        if not taken:
            taken = near_open(gap, horizon, t, k, runs)
        took[i] = taken
        if taken:
            newer, reached = True, t


@kernel
def near_open(gap: int, horizon: int, t: int, k: int, runs: Any) -> Any:
    """Whether an open session of `k` is near enough to `t`, which lies before its last event."""
    offset, size = runs.offset, runs.size
    start, slot = runs.start, runs.slot
    first, last = runs.first, runs.last
    begin, end = offset[k], offset[k] + size[k]
    place = last_at_most(start, begin, end, t)
    for at in range(max(place, begin), min(place + 2, end)):
        if t - last[slot[at]] > gap or first[slot[at]] - t > gap:
            continue
        r = at
        while (
            r + 1 < end
            and last[slot[r]] + gap < horizon
            and first[slot[r + 1]] - last[slot[r]] <= gap
        ):
            r += 1
        if last[slot[r]] + gap >= horizon:
            return True
    return False
