"""The parts of an operator and how they are joined.

Each part owns its fields. Those with something to remember write it into a snapshot (`dump`) and
go on from one (`load`), with a `version` of what they write. A part knows those before it and none
of those behind it.
"""

from __future__ import annotations

from slicewise.arrays.keys import Keys
from slicewise.slicing.emit.output import Output
from slicewise.slicing.emit.window_manager import WindowManager
from slicewise.slicing.families.window_set import WindowSet
from slicewise.slicing.forgetting import Forgetting
from slicewise.slicing.groups.slice_manager import SliceManager
from slicewise.slicing.guard import Guard
from slicewise.slicing.ingest.intake import Ingest
from slicewise.slicing.ingest.quarantine import Quarantine
from slicewise.slicing.ingest.schema import Schema
from slicewise.slicing.progress import Progress, Stats
from slicewise.slicing.settings import Settings


class Parts:
    """The parts of one operator, for the package itself: they may change in any release."""

    def __init__(self, settings: Settings, max_late: int | None) -> None:
        self.guard = Guard()
        self.settings = settings
        self.progress = Progress(settings.lateness)
        self.windows = WindowSet(settings)
        self.schema = Schema(settings, self.windows)
        self.keys = Keys(settings.by)
        self.slices = SliceManager(settings, self.windows, self.schema, self.keys, self.progress)
        self.quarantine = Quarantine(max_late)
        self.ingest = Ingest(self.slices, self.quarantine, self.guard)
        self.output = Output(settings, self.windows, self.schema, self.keys)
        self.emission = WindowManager(self.slices, self.guard)
        self.forgetting = Forgetting(self.keys, [self.slices, self.emission])

    def stats(self) -> Stats:
        """The counts of all parts."""
        stats = Stats(events=self.progress.events)
        self.quarantine.count(stats)
        self.slices.count(stats)
        return stats
