"""What a family of windows says of its windows to the slice group that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slicewise.limits import BEGINNING
from slicewise.slicing.families.acceptance import Late, Verdict, too_late
from slicewise.slicing.families.instances import Instances
from slicewise.windows import Window

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.ingest.batch import Batch, Grouped
    from slicewise.slicing.locate.by_time import Sliced
    from slicewise.slicing.state.blob import BlobReader, BlobWriter


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """A window with its number in the operator and the least start of an instance it reports."""

    number: int
    window: Any
    since: Any = BEGINNING


class Family(ABC):
    """The windows of one family in a slice group, and all that only they need to be known.

    A family says where to cut slices, which instances slices make up, what must be kept, when an
    instance closes and which late events it accepts. The group keeps the slices.
    """

    kinds: ClassVar[tuple[type[Window], ...]]  # the definitions that belong to the family
    ties: ClassVar[bool] = False  # ties in time may give several instances the same bounds

    def __init__(self, group: SliceGroup) -> None:
        self.group = group
        self.windows: list[WindowEntry] = []

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        """Take over a new set of windows; what is known of those that stay is kept."""
        self.windows = list(windows)

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        """Mark the events before which slices are cut, beside the edges that the group knows.

        Events come by key and in order, and `positions` numbers those of each key. `None` stands
        for no cuts at all.
        """
        return None

    def sliced(self, sliced: Sliced, batch: Batch) -> None:
        """Take note of the slices that the events of a batch went into."""
        return

    @abstractmethod
    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterable[Instances]:
        """The instances of these keys whose close point is in `(low, high]`."""

    @abstractmethod
    def keep(self, point: int, keep: np.ndarray) -> None:
        """Lower `keep` to each key's first place that an instance open at `point` can need."""

    def verdict(self, entry: WindowEntry, late: Late) -> Verdict:
        """Which late events a window takes: those that depend on the rows before take none."""
        return too_late(late, entry.since)

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        """Let go of instances of these keys that are closed at `point`, so that nothing joins them.

        Only families with a group of their own are asked.
        """
        return

    def handed_out(self, high: int) -> None:
        """Take note that instances that close up to `high` were handed out."""
        return

    def failed(self) -> list[tuple[Any, Exception]]:
        """The events that code of the user's own raised an error for, which are then forgotten."""
        return []

    def held(self, held: np.ndarray) -> None:
        """Mark the keys of which anything is known beside their slices."""
        return

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones, which are in order; `codes` has their new codes."""
        return

    def dump(self, node: dict[str, Any], out: BlobWriter, kept: Kept) -> None:
        """Write what the family knows into the node of its group in a snapshot."""
        return

    def load(self, node: dict[str, Any], source: BlobReader, keys: int) -> None:
        """Read what the family knows; its group has read its slices already."""
        return


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What goes into a snapshot: the `live` keys, the new `codes` of all, and `slots` of slices."""

    live: np.ndarray
    codes: np.ndarray
    slots: np.ndarray


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """The values in an array of `size`, with zeros behind them."""
    found = np.zeros(size, values.dtype)
    found[: len(values)] = values
    return found
