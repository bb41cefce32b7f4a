"""User-defined windows over events in order (Cutty, Section 3.2).

`on_event` sees the events of a key once, in order; slices are cut where it says that an instance
begins or ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicewise.windows import UserWindow


@dataclass(slots=True)
class Progress:
    """How far a key's copy of a window has come: (time, position) of what is open."""

    window: UserWindow
    open_since: deque[tuple[int, int]] = field(default_factory=deque)


class UserRows:
    """One user-defined window on all keys.

    `ended` are instances that wait to be handed out: (key, start, end, first position, end
    position). `failed` are events for which `on_event` raised an error or ended more than is open,
    with that error: they begin and end nothing.
    """

    def __init__(self, window: UserWindow) -> None:
        self.window = window
        self.progress: dict[int, Progress] = {}
        self.ended: list[tuple[int, ...]] = []
        self.failed: list[tuple[Any, Exception]] = []

    def see(
        self, codes: np.ndarray, times: np.ndarray, positions: np.ndarray, events: np.ndarray
    ) -> np.ndarray:
        """Feed events; before which of them an instance begins or ends."""
        cuts = np.zeros(len(codes), np.bool_)
        rows = zip(codes.tolist(), times.tolist(), positions.tolist(), events, strict=True)
        for row, (code, time, position, event) in enumerate(rows):
            progress = self.progress.get(code)
            if progress is None:
                progress = self.progress[code] = Progress(self.window.fresh())
            try:
                begins, ends = progress.window.step(time, event, len(progress.open_since))
            except Exception as error:
                self.failed.append((event, error))
                continue
            for _ in range(ends):
                self.ended.append((code, *_swapped(progress.open_since.popleft(), time, position)))
            progress.open_since.extend([(time, position)] * begins)
            cuts[row] = begins > 0 or ends > 0
        return cuts

    def closed(self, high: int) -> np.ndarray:
        """The instances of which the event that ended them is below `high`."""
        ready = sorted((one for one in self.ended if one[2] < high), key=lambda one: one[0])
        return np.array(ready, np.int64).reshape(-1, 5).T

    def forget(self, high: int) -> None:
        """Drop the instances that `closed` gives: they were handed out."""
        self.ended = [one for one in self.ended if one[2] >= high]

    def renumber(self, codes: np.ndarray) -> None:
        """Take over the new codes of keys."""
        self.progress = {int(codes[code]): one for code, one in self.progress.items()}
        self.ended = [(int(codes[code]), *rest) for code, *rest in self.ended]

    def needed(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys that have an instance open or not listed yet, and its first position."""
        oldest = {k: p.open_since[0][1] for k, p in self.progress.items() if p.open_since}
        for code, _, _, position, _ in self.ended:
            oldest[code] = min(position, oldest.get(code, position))
        return np.array(list(oldest), np.int64), np.array(list(oldest.values()), np.int64)


def _swapped(begun: tuple[int, int], time: int, position: int) -> tuple[int, int, int, int]:
    start, first = begun
    return start, time, first, position
