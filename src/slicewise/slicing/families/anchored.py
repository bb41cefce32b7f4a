"""Families with windows whose instances depend on where the one before them began.

Each key has an *anchor*: the position of the first row of its oldest instance that is not complete.
From there on instances are found one after the other, whatever other windows still keep before it.
Where events come in order the first row of the newest instance is known as well.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.slicing.families.family import Family, Kept, WindowEntry, padded
from slicewise.slicing.state.checks import check_anchors, exactly
from slicewise.slicing.store.runs import of_keys

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.state.blob import BlobReader, BlobWriter


class AnchoredFamily(Family):
    """A family that keeps anchors for those of its windows that are `anchored`."""

    def __init__(self, group: SliceGroup) -> None:
        super().__init__(group)
        self.anchored: list[WindowEntry] = []
        self._anchors: dict[int, np.ndarray] = {}
        self._newest: dict[int, np.ndarray] = {}

    def anchors(self, number: int) -> np.ndarray:
        """The anchor of each key for a window, with those of keys that are new to it."""
        anchors, runs = self._anchors.get(number, np.empty(0, np.int64)), self.group.runs
        known = len(anchors)
        if known < len(runs.offset):
            anchors = self._anchors[number] = padded(anchors, len(runs.offset))
            if self.group.keeps_rows:
                # A window that is new to a key begins with the first row that is known.
                anchors[known:] = runs.base[known:]
        return anchors

    def newest(self, number: int) -> np.ndarray:
        """The first row of each key's newest instance of a window; -1 where there is none."""
        newest = self._newest.get(number, np.empty(0, np.int64))
        more = len(self.group.runs.offset) - len(newest)
        if more > 0:
            newest = self._newest[number] = np.append(newest, np.full(more, -1))
        return newest

    @abstractmethod
    def find_newest(self, entry: WindowEntry, keys: int) -> None:
        """Find the newest instances of a window in slices that were read from a snapshot."""

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        self._anchors = {n: of_keys(anchors, live) for n, anchors in self._anchors.items()}
        self._newest = {n: of_keys(newest, live, -1) for n, newest in self._newest.items()}

    def dump(self, node: dict[str, Any], out: BlobWriter, kept: Kept) -> None:
        numbers = [entry.number for entry in self.anchored]
        anchors = {n: out.put(of_keys(self.anchors(n), kept.live)) for n in numbers}
        node["anchors"] = {**node.get("anchors", {}), **anchors}

    def load(self, node: dict[str, Any], source: BlobReader, keys: int) -> None:
        for entry in self.anchored:
            anchors = self.load_anchors(entry, node, source, keys)
            if anchors is None:
                continue
            check_anchors(anchors, self.group.rows_ever()[:keys])
            self._anchors[entry.number] = padded(anchors, len(self.group.runs.offset))
            if not self.group.keeps_rows:
                self.find_newest(entry, keys)

    def load_anchors(
        self, entry: WindowEntry, node: dict[str, Any], source: BlobReader, keys: int
    ) -> np.ndarray | None:
        """The anchors of a window as a snapshot has them; `None` if it has none."""
        place = node.get("anchors", {}).get(str(entry.number))
        return None if place is None else exactly(source.get(place), keys, "keys")
