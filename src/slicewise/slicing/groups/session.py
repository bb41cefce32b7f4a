"""The slice group of sessions, and of windows of time that share their slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.codegen.kernel import run
from slicewise.limits import INFINITY
from slicewise.slicing.edges.cutty import cut_by
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.ingest.batch import Batch, Grouped
from slicewise.slicing.locate.by_session import (
    Rule,
    fuse_past,
    on_both_sides,
    slice_sessions,
    slice_sorted_sessions,
)
from slicewise.slicing.locate.by_time import Sliced
from slicewise.windows import Window


class SessionGroup(SliceGroup):
    """Sessions of any gaps, cut by the smallest, and windows of time that share their slices."""

    kind = "SessionTrack"

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        gaps = [gap for entry in windows if (gap := entry.window.traits.gap) is not None]
        self.gap = min(gaps, default=INFINITY)
        free = [entry.window for entry in windows if entry.window.traits.context_free]
        self.edges = on_both_sides(cut_by(free, self.technique))

    def title(self, *, combined: bool) -> str:
        return "time and sessions" if combined else "sessions"

    def kept_from(self, window: Window, horizon: int) -> Any:
        return self.cut_from(window, horizon)

    @property
    def rule(self) -> Rule:
        return Rule(self.gap, fuses=not self.store.own)

    def add(self, batch: Batch) -> None:
        cut, reach = (self.runs, self.rule, self.edges, batch.times), (batch.low, batch.high)
        if self.runs.keys > 1 or batch.wanted is not None:
            keys = batch.keys if self.runs.keys > 1 else None
            self._store(slice_sessions(*cut, reach, keys, batch.wanted), batch)
            return
        # Late events mostly stay within the session of those before them.
        self._slice(Grouped.alone(batch), limited=True)

    def add_in_order(self, grouped: Grouped) -> None:
        self._slice(grouped, limited=False)

    def _slice(self, grouped: Grouped, *, limited: bool) -> None:
        batch, groups = grouped.batch, (grouped.present, grouped.starts)
        given = (self.edges, batch.times, (batch.low, batch.high), groups)
        self._store(slice_sorted_sessions(self.runs, self.rule, *given, limited=limited), batch)

    def _store(self, sliced: Sliced, batch: Batch) -> None:
        self.store.touch(batch.times, batch.keys if self.runs.keys > 1 else None)
        rest = self.take_found(sliced, batch)
        self._let_go(sliced.merged[1])
        if rest is not None:
            self.add_in_order(Grouped.of(rest))

    def rows_from(self, point: int) -> np.ndarray | None:
        runs = self.runs
        least = np.full(runs.keys, INFINITY)
        begun = runs.size[: runs.keys] > 0
        least[begun] = runs.start[runs.offset[: runs.keys][begun]]
        return least

    def evict(self, point: int) -> None:
        due = self.runs.keys <= tuning.active().fuse_keys or self.runs.live >= self.evict_at
        if due and point < INFINITY and (len(self.free.numbers) or not self.rule.fuses):
            self._make_one(lambda: self._fuse_past(self.free.needed_from(point)))
        super().evict(point)

    def _fuse_past(self, least: int) -> tuple[np.ndarray, np.ndarray]:
        """Keep one slice of each session for what lies behind the windows of time."""
        runs = self.runs
        older, newer = np.empty(runs.live, np.int64), np.empty(runs.live, np.int64)
        count = run(fuse_past)(
            least,
            self.gap,
            runs.keys,
            runs.arrays,
            self.store.touched(),
            (older, newer),
        )
        return older[:count], newer[:count]
