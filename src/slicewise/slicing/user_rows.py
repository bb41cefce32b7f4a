"""User-defined windows over runs of rows (Cutty, Section 3.2).

`on_event` sees the rows of a key once, in order, when they are below the watermark: nothing can
come between them any more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicewise.slicing.runs import Runs
from slicewise.slicing.triggers import Instances
from slicewise.windows import UserWindow


@dataclass(slots=True)
class Progress:
    """How far a key's copy of a window has come; positions count the rows of the key."""

    window: UserWindow
    seen: int = 0
    open_since: deque[tuple[int, int]] = field(default_factory=deque)


class UserRows:
    """One user-defined window on all keys."""

    def __init__(self, window: UserWindow) -> None:
        self.window = window
        self.progress: dict[int, Progress] = {}

    def instances(
        self, number: int, since: int, runs: Runs, events: np.ndarray, keys: np.ndarray, high: int
    ) -> Instances:
        """Feed the rows below `high`; the instances that they end."""
        found: list[tuple[int, ...]] = []
        for code in keys.tolist():
            offset, base = int(runs.offset[code]), int(runs.base[code])
            begin = offset
            progress = self.progress.get(code)
            if progress is not None:
                begin += progress.seen - base
            stop = offset + int(runs.size[code])
            if begin >= stop or runs.start[begin] >= high:
                continue
            if progress is None:
                progress = self.progress[code] = Progress(self.window.fresh(), base)
            for place in range(begin, stop):
                time = int(runs.start[place])
                if time >= high:
                    break
                event = events[runs.slot[place]]
                begins, ends = progress.window.step(time, event, len(progress.open_since))
                for _ in range(ends):
                    start, position = progress.open_since.popleft()
                    if start >= since:
                        left = position - base + offset
                        found.append((number, code, start, time, left, place, time + 1))
                progress.open_since.extend([(time, progress.seen)] * begins)
                progress.seen += 1
        columns = np.array(found, np.int64).reshape(-1, 7).T
        return Instances(*columns)

    def needed(self, runs: Runs, keep: np.ndarray) -> None:
        """Lower `keep` to the first row of each run that an open instance needs."""
        for code in range(runs.keys):
            progress = self.progress.get(code)
            place = int(runs.offset[code])
            if progress is not None:
                oldest = progress.open_since[0][1] if progress.open_since else progress.seen
                place += oldest - int(runs.base[code])
            keep[code] = min(keep[code], place)

    def state(self) -> dict[int, Any]:
        """What a snapshot keeps: the user's own objects, so only pickle can write it."""
        return {code: (p.window, p.seen, tuple(p.open_since)) for code, p in self.progress.items()}

    def load(self, state: dict[int, Any]) -> None:
        self.progress = {
            code: Progress(window, seen, deque(since))
            for code, (window, seen, since) in state.items()
        }
