"""Events below the horizon: which windows still take them, and which have missed them.

The horizon is the watermark less the lateness. An instance of time and a session take an event as
long as the horizon has not passed their close point, however late the event itself is; windows
that depend on the rows before them take what is not below the horizon. So an event may count for
some windows, or for some instances of a window, and be too late for others. Each family decides
for its own windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slicewise.columns import Column


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


def too_late(late: Late, since: int) -> Verdict:
    """The verdict of windows that depend on the rows before: they take nothing."""
    return Verdict(np.zeros(len(late.times), np.bool_), late.times >= since)
