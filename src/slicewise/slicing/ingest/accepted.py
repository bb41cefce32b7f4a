"""A batch of events that were accepted, each by all windows or by some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slicewise.slicing.ingest.batch import Batch

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.ingest.events import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """The events of a batch that count for any window, ready for slicing.

    `wanted` marks those that count for every window, all of them if it is `None`. `shares` has, for
    slice groups that take late events too, all that they take. `columns` are those of the batch as
    it was given.
    """

    events: Batch
    wanted: np.ndarray | None
    shares: Mapping[SliceGroup, np.ndarray]
    columns: Columns

    def share(self, group: SliceGroup) -> Batch | None:
        """The events that a slice group takes; `None` if it takes none."""
        events = self.events
        taken = self.shares.get(group, self.wanted)
        if taken is None or taken is events.wanted:
            return events
        chosen = events.times[taken]
        if not len(chosen):
            return None
        return replace(events, wanted=taken, low=int(chosen.min()), high=int(chosen.max()))
