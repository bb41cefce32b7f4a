"""The size of PBA's chunks in a running operator (KDD 2021, Section 4.3, Theorems 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise import tuning
from slicewise.mergers.pba import chunk_size_count, chunk_size_time
from slicewise.slicing.families.family import WindowEntry
from slicewise.times import UNITS


def chunk_sizes(entries: Sequence[WindowEntry], unit: str | None) -> dict[int, int]:
    """Slices per chunk by the number of the window, where a theorem says how many.

    Windows over rows or an advancing column are count-based (Theorem 1). Windows of time need to
    know how long a slide takes (Theorem 2), so their lengths have to be durations, or `unit` says
    what they mean. Of windows that share slices none knows how many it has: their chunks follow the
    window as it is, as do those of other kinds.
    """
    if len(entries) != 1:
        return {}
    (entry,) = entries
    window = entry.window.as_periodic()
    if window is None or window.every > window.length:
        return {}
    length, every = window.length, window.every
    # Slices end at the edges of windows: two of them a slide, where it does not divide the length.
    slices = 2 if length % every else 1
    if not entry.window.timed:
        return {entry.number: slices * chunk_size_count(int(length), int(every))}
    if unit is None and not entry.window.durations:
        return {}
    many, one = UNITS[unit or "us"]
    combine_time = tuning.active().combine_time * 1e6 * one / many
    return {entry.number: slices * chunk_size_time(length, every, combine_time)}
