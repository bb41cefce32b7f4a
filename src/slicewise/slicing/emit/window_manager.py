"""The window manager: which instances are due at a watermark, and what was emitted of them.

Where no result is ever revised, emission is append-only: what closes is listed once and nothing is
remembered. Where results are revised, an emission log has what was handed out, and the keys whose
instances may have changed since are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise.errors import WindowError
from slicewise.limits import INFINITY
from slicewise.slicing.emit.emission import (
    Answers,
    Due,
    Listed,
    answers_of,
    fingerprints,
    retractions,
)
from slicewise.slicing.emit.log import KEY, Changes, EmissionLog
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.slice_manager import SliceManager
from slicewise.slicing.guard import Guard
from slicewise.slicing.ingest.batch import Batch
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import codes as checked_codes


class WindowManager:
    """The keys whose emitted instances may have changed, and the log of what was emitted."""

    version = 1

    def __init__(self, slices: SliceManager, guard: Guard) -> None:
        self.settings, self.slices, self.guard = slices.settings, slices, guard
        self.revises = slices.settings.revises
        self.log = EmissionLog()
        self.dirty: list[np.ndarray] = []  # codes of keys

    def mark_dirty(self, events: Batch) -> None:
        """Remember keys whose emitted instances these events may change."""
        if not self.revises:
            return
        closing = self.settings.emit == "on_close"
        watermark = self.slices.progress.watermark
        if closing and events.low >= watermark:
            return
        wanted = events.wanted
        touched = np.ones(len(events), np.bool_) if wanted is None else wanted
        if closing:
            touched = touched & (events.times < watermark)
        if touched.any():
            self.dirty.append(np.unique(events.keys[touched]))

    def mark_all_dirty(self) -> None:
        """Remember all keys: instances may be due without a further event."""
        if self.revises:
            self.dirty.append(self.slices.keys.every().copy())

    def due(self, point: int) -> list[Due]:
        """The results to hand out up to a watermark, with what is to be remembered then."""
        progress, emit = self.slices.progress, self.settings.emit
        open_from, every = progress.open_from, self.slices.keys.every()
        dirty = self._dirty_keys()
        due: list[Due] = []
        for group in self.slices.groups.values():
            if emit == "final":
                due += self._closed(group, every, open_from, progress.horizon(point))
            elif emit == "on_close":
                clean = every
                if len(dirty):
                    clean = np.setdiff1d(every, dirty, assume_unique=True)
                    due += self._revised(group, dirty, open_from, point)
                due += self._closed(group, clean, progress.answered, point)
            elif len(dirty):
                due += self._revised(group, dirty, open_from, INFINITY)
        return due

    def record(self, due: Sequence[Due]) -> None:
        """Take note that this was handed out."""
        for one in due:
            if one.changes is not None:
                self.log.record(one.changes)
        self.dirty = []

    def _dirty_keys(self) -> np.ndarray:
        return np.unique(np.concatenate(self.dirty)) if self.dirty else np.empty(0, np.int64)

    def _closed(self, group: SliceGroup, keys: np.ndarray, low: int, high: int) -> list[Due]:
        """The instances that closed since the last watermark, for keys that have not changed."""
        if high <= low or not len(keys):
            return []
        with self.guard.harmless(Exception):
            together = group.closed(low, high)
        if together is not None:
            return [Due([together])] if len(together) else []
        with self.guard.harmless(WindowError):  # too many of them
            listed = Listed.of(group, keys, low, high)
        if not len(listed.instances):
            return []
        with self.guard.harmless(Exception):
            answers = [answers_of(group, listed)]
        if self.revises:
            return [Due(answers, Changes(listed.instances, fingerprints(group, listed)))]
        return [Due(answers)]

    def _revised(self, group: SliceGroup, keys: np.ndarray, low: int, high: int) -> list[Due]:
        """The instances of these keys that are new, have changed or no longer exist."""
        with self.guard.harmless(WindowError):  # too many of them
            listed = Listed.of(group, keys, low, high)
        windows = np.array([entry.number for entry in group.windows])
        floors = group.floors(keys, low)
        answers: list[Answers] = []
        changes, seen = Changes(), None
        if len(listed.instances):
            prints = fingerprints(group, listed)
            due, revisions, seen = self.log.diff(listed.instances, prints)
            rows = np.flatnonzero(due)
            if len(rows):
                with self.guard.harmless(Exception):
                    answers = [answers_of(group, listed.take(rows), revisions[rows])]
            changes = Changes(listed.instances, prints)
        missing = self.log.missing(windows, keys, floors, seen)
        if len(missing):
            gone = self.log.retracted(missing, floors.dtype)
            answers.insert(0, retractions(gone, self.slices.schema.value_types()))
        return [Due(answers, replace(changes, gone=missing))]

    # What is remembered.

    def prune(self) -> None:
        """Forget emitted instances that are beyond change, now and then."""
        if self.log.size >= self.log.pruned_at:
            self.log.prune(self._floors())

    def _floors(self) -> dict[int, np.ndarray]:
        """For each window, the close point of each key up to which instances are beyond change."""
        floors: dict[int, np.ndarray] = {}
        every, point = self.slices.keys.every(), self.slices.progress.open_from
        for group in self.slices.groups.values():
            of_keys = group.floors(every, point)
            floors.update(dict.fromkeys((entry.number for entry in group.windows), of_keys))
        return floors

    def mark_held(self, known: np.ndarray, point: int | None = None) -> None:
        """Mark the keys of which anything is remembered; with `point`, that may still change."""
        entries = self.log.entries if point is None else self.log.changeable(self._floors())
        known[entries[KEY]] = True
        for codes in self.dirty:
            known[codes] = True

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones; `codes` has their new codes."""
        self.log.renumber(codes)
        self.dirty = [codes[dirty] for dirty in self.dirty]

    def dump(self, codes: np.ndarray, out: BlobWriter) -> dict[str, Any]:
        """The entries of a snapshot's header; `codes` has the new codes of keys."""
        return {
            "dirty": out.put(codes[self._dirty_keys()]),
            "emitted": self.log.dump(self._floors(), codes, out),
        }

    def load(self, header: dict[str, Any], source: BlobReader) -> None:
        """Go on with what a header says."""
        keys = len(self.slices.keys)
        numbers = [one["number"] for one in header["windows"]]
        self.log.load(EmissionLog.read(header["emitted"], keys, numbers, source))
        dirty = checked_codes(source.get(header["dirty"]), keys, "keys that have changed")
        self.dirty = [dirty] if len(dirty) else []
