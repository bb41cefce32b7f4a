"""How far an operator has come in time, and what it counts."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.errors import SpanError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.times import UNITS, since_epoch


@dataclass(slots=True)
class Stats:
    """What an operator has seen, keeps and has done.

    `events` counts all that were given, `late_dropped` those that came too late for every window,
    `late_partly` those that count but came too late for some instance of a window, `bad` those
    without a usable time or value of an advancing column. `behind` counts those of which an
    advancing column fell behind what its key had reached for good: windows over that column leave
    them out, the others do not. Rows that wait for the watermark, or stay for late ones to come
    between them, are among `stored_rows`.
    `combines` has those of a merger given as `merger=` too, and each `invert` that it makes.
    `late_forgotten` counts refused events that `op.late` no longer has, since there were more than
    `max_late`.
    """

    events: int = 0
    late_dropped: int = 0
    late_partly: int = 0
    bad: int = 0
    behind: int = 0
    slices: int = 0
    stored_rows: int = 0
    combines: int = 0
    late_forgotten: int = 0


class Progress:
    """The points of time that an operator has reached.

    `watermark` is the greatest one given, `answered` the one up to which results were handed out:
    it stays behind when an aggregate raises an error. `oldest` and `newest` are the least and the
    greatest time of the events that count. Nothing below `floor` is accepted, whatever the
    lateness. `events` counts all that were given: the number of an event is how many came before
    it.
    """

    version = 1

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.watermark = BEGINNING
        self.answered = BEGINNING
        self.oldest = INFINITY
        self.newest = BEGINNING
        self.floor = BEGINNING
        self.events = 0

    def horizon(self, watermark: int) -> int:
        """The time below which nothing changes any more, when the watermark is there."""
        if watermark in (BEGINNING, INFINITY):
            return watermark
        return max(self.floor, watermark - self.lateness)

    @property
    def accepted_from(self) -> int:
        """The time from which on events are never too late."""
        return self.horizon(self.watermark)

    @property
    def open_from(self) -> int:
        """The time below which nothing changes in what was handed out."""
        return self.horizon(self.answered)

    @property
    def behind_all(self) -> int:
        """The least time that neither an event nor the watermark has passed."""
        return max(self.newest + 1, self.watermark)

    def dump(self) -> dict[str, Any]:
        """The points as entries of a snapshot's header."""
        return {
            "counters": {"watermark": self.watermark, "_newest": self.newest},
            "floor": self.floor,
            "answered": self.answered,
            "oldest": self.oldest,
        }

    def load(self, header: dict[str, Any]) -> None:
        """Go on from the points of a header; what was too late with its lateness stays so."""
        self.watermark = header["counters"]["watermark"]
        self.newest = header["counters"]["_newest"]
        self.floor = header["floor"]
        self.answered = header.get("answered", self.watermark)
        self.oldest = header.get("oldest", INFINITY)  # older ones do not say it
        self.events = header["stats"]["events"]
        if header["lateness"] != self.lateness:
            now, self.lateness = self.lateness, header["lateness"]
            self.floor, self.lateness = self.accepted_from, now

    def reopen(self) -> None:
        """Let what lies between the floor and the horizon be due with the next watermark.

        It is not answered yet if all results are final and there was more lateness before.
        """
        self.watermark = min(self.watermark, self.floor + self.lateness)
        self.answered = min(self.answered, self.watermark)


def point_of(watermark: Any, unit: str | None) -> int:
    """A watermark that was given, as a whole number in the unit of the time column."""
    moment: int | None = None
    if isinstance(watermark, np.datetime64) and not np.isnat(watermark):
        moment = int(watermark.astype("M8[us]").astype(np.int64))
    elif isinstance(watermark, dt.datetime) and watermark == watermark:  # NaT is one too
        moment = since_epoch(watermark)
    if moment is not None:
        many, one = UNITS[unit or "us"]
        return -(-moment * one // many)
    number = isinstance(watermark, int | float | np.integer | np.floating)
    if not number or watermark != watermark:
        shown = "NaN" if number else repr(watermark)
        raise SpanError(
            f"A watermark is a time, a moment or a number like those of the events; given: {shown}."
        )
    if watermark >= INFINITY:
        return INFINITY
    return max(BEGINNING, math.ceil(watermark) if watermark > -math.inf else BEGINNING)
