"""Slice groups: one way of slicing with the windows that share its slices.

A slice group slices events, keeps their states, lists the window instances its slices make up, and
evicts slices that no instance can need any more; the families of its windows say where to cut,
which instances there are and what to keep. Context-free windows of one measure share a slice group,
sessions share another one, perhaps with windows of time, and windows that need rows share a third;
`ordered` has a fourth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import Bound, Component, reads
from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.edges.cutty import cuts_alike, fuse_ends
from slicewise.slicing.edges.partials import Technique
from slicewise.slicing.emit.emission import Blocks
from slicewise.slicing.families.acceptance import Late, Verdict
from slicewise.slicing.families.family import Family, Kept, WindowEntry
from slicewise.slicing.families.grid import FreeWindows, GridFamily
from slicewise.slicing.families.instances import Instances
from slicewise.slicing.families.registry import FAMILIES, family_of
from slicewise.slicing.ingest.batch import Batch, Grouped
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.ingest.ties import Ties
from slicewise.slicing.locate.by_time import Edges, Sliced
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of
from slicewise.slicing.store.base import SliceStore
from slicewise.slicing.store.key_major import KeyMajorStore
from slicewise.slicing.store.runs import Runs
from slicewise.slicing.store.saving import Layout
from slicewise.windows import Window


class SliceGroup(ABC):
    """What all slice groups share."""

    kind: str  # what snapshots call it
    keeps_rows: bool = False  # whether each slice is one row
    ordered: bool = False  # whether events have to come in order, so that no late one can be taken
    after: int = 0  # events that came before this number are not its own
    edges: Edges
    # The store by key and its runs. A group that keeps slices by time has neither: who reads them
    # gets an error, and not the slices of an empty store.
    store: KeyMajorStore
    runs: Runs

    def __init__(
        self,
        bounds: Sequence[Bound],
        dtype: str = "i8",
        *,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        self.slices: SliceStore
        self.use(KeyMajorStore(bounds, Runs(dtype), merger, eager=eager))
        self.windows: list[WindowEntry] = []
        self.families: list[Family] = []
        self.technique: Technique = "cutty"
        self.begins: Edges | None = None  # where slices stay apart, if not at every edge
        self.fused_to = BEGINNING
        self.evict_at = tuning.active().evict_at_least
        self.tie_order = Ties(())
        # Events that an aggregate raised an error for, until they are handed out.
        self.refused: list[tuple[Batch, int, Exception]] = []

    def use(self, slices: SliceStore) -> None:
        """Keep slices in this store from now on."""
        self.slices = slices
        if isinstance(slices, KeyMajorStore):
            self.store, self.runs = slices, slices.runs
        else:
            del self.store, self.runs

    def keep_by_key(self) -> None:
        """Keep slices in a store by key from now on."""
        return

    @property
    def live(self) -> int:
        """The number of slices that are kept."""
        return self.slices.live

    @property
    def keys(self) -> int:
        """The number of keys that are known."""
        return self.slices.keys

    @property
    def dtype(self) -> str:
        """The type of the measure by which slices are cut."""
        return self.slices.dtype.str

    @property
    def components(self) -> list[Component]:
        """The components that states are made of."""
        return self.slices.components

    @abstractmethod
    def title(self, *, combined: bool) -> str:
        """The name for its slices in an explanation; `combined` is that of the plan."""

    @property
    def layout(self) -> Layout:
        """The properties that are known of each slice here."""
        return Layout(single_rows=self.keeps_rows)

    @property
    def combines(self) -> int:
        """The number of states that were combined so far."""
        return self.slices.combines

    def cuts(self, window: Window) -> bool:
        """Return whether edges of a window can be told exactly from what is kept."""
        return True

    def kept_from(self, window: Window, horizon: int) -> Any:
        """From when on slices have all that a window needs which is added now.

        `None` if what is kept tells nothing of its instances.
        """
        return None

    def cut_from(self, window: Window, horizon: int) -> Any:
        """From when on slices are cut at all edges of a window of time; `None` if they are not."""
        # Only windows that were there from the start had all events cut at their edges.
        first = [p for p in self.windows if p.since == BEGINNING and p.window.traits.context_free]
        if not cuts_alike([p.window for p in first], self.technique, window):
            return None
        return horizon if horizon == BEGINNING else FreeWindows.of(first, "i8").needed_from(horizon)

    def usable(self, columns: Columns) -> np.ndarray | None:
        """The events that windows here can take, by what they read; `None` if all of them."""
        return None

    def take_regressed(self) -> np.ndarray | None:
        """The events of the last batch that fell behind, if any did; they are then forgotten."""
        return None

    def verdicts(self, late: Late) -> dict[int, Verdict]:
        """The verdict of each window, by its number, on events that are below the horizon."""
        return {p.number: f.verdict(p, late) for f in self.families for p in f.windows}

    def takes(self, late: Late, verdicts: Mapping[int, Verdict]) -> np.ndarray:
        """Which late events go into slices, given what the windows make of them."""
        taken = [verdicts[entry.number].took for entry in self.windows]
        found: np.ndarray = np.logical_or.reduce(taken)
        return found

    @property
    def parts(self) -> bool:
        """Return whether windows here need slices of their own before a late event comes."""
        return len(self.windows) > 1

    def rows_from(self, point: int) -> np.ndarray | None:
        """The time from which on open windows need rows that waited, for all keys or for each.

        `None` if they need none.
        """
        return None

    def drop_closed(self, keys: np.ndarray, point: int) -> None:
        """Let go of sessions of these keys that are closed at `point`, so that nothing joins them.

        Slices that windows share stay: late events come to sessions that have their own.
        """
        if len(self.windows) == 1:
            self.families[0].drop_closed(keys, point)

    def handed_out(self, high: int) -> None:
        """Take note that what closes up to `high` was handed out."""
        for family in self.families:
            family.handed_out(high)

    def failed(self) -> list[tuple[Any, Exception]]:
        """The events that windows of the user's own could not take, which are then forgotten."""
        return [one for family in self.families for one in family.failed()]

    def know(self, keys: int) -> None:
        """Take note that there are key codes below `keys`."""
        self.slices.admit(keys)

    def held(self, point: int | None = None) -> np.ndarray:
        """By code, the keys of which anything is known that an answer may depend on.

        With `point`, without slices of which every instance is complete there.
        """
        held = self.slices.held(self.first_needed(point))
        for family in self.families:
            family.held(held)
        return held

    def rows_ever(self) -> np.ndarray:
        """The number of rows that each key has ever had, for slice groups that know it."""
        return self.runs.base + self.runs.size

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones, which are in order; `codes` has their new codes."""
        self.slices.renumber(live, codes)
        for family in self.families:
            family.renumber(live, codes)

    def closed(self, low: int, high: int) -> Blocks | None:
        """The instances of all keys that close in `(low, high]`, if they are merged together."""
        return None

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        """Take over a new set of windows; slices that exist stay as they are."""
        self.windows = list(windows)
        wanted: dict[type[Family], list[WindowEntry]] = {}
        for entry in windows:
            wanted.setdefault(family_of(entry.window), []).append(entry)
        known = {type(family): family for family in self.families}
        self.families = [known.get(cls) or cls(self) for cls in FAMILIES if cls in wanted]
        for family in self.families:
            family.set_windows(wanted[type(family)])
        self.ties = any(family.ties for family in self.families)
        grid = [family.free for family in self.families if isinstance(family, GridFamily)]
        self.free = grid[0] if grid else FreeWindows.of([], self.dtype)

    def take(self, sliced: Sliced, batch: Batch) -> None:
        """Add events to the states of their slices; those that are refused are noted."""
        refused = self.store.add(sliced, batch.columns)
        self.refused += [(batch, row, error) for row, error in refused.items()]

    def take_found(self, sliced: Sliced, batch: Batch) -> Batch | None:
        """Add the events that found their slices; returns those that did not, if there are any."""
        done = sliced.events
        if done == len(batch):
            self.take(sliced, batch)
            return None
        names = dict.fromkeys(name for c in self.store.components for name in reads(c))
        batch = replace(batch.numbered(), columns={name: batch.columns[name] for name in names})
        self.take(sliced, batch.take(slice(0, done)))
        rows = np.arange(done, len(batch))
        return batch.take(rows if batch.wanted is None else rows[batch.wanted[done:]])

    @abstractmethod
    def add(self, batch: Batch) -> None:
        """Slice a batch and add its events to the states."""

    def add_in_order(self, grouped: Grouped) -> None:
        """Slice events that come by key and in the order of time."""
        self.add(grouped.batch)

    def _alone(self, batch: Batch) -> bool:
        """Return whether the events have one key and are in order."""
        return self.runs.keys == 1 and batch.ordered and batch.wanted is None

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        """The instances of these keys whose close point is in `(low, high]`."""
        families = self.families
        found = [part for family in families for part in family.instances(keys, low, high)]
        return Instances.concatenate(found)

    def floors(self, keys: np.ndarray, point: int) -> np.ndarray:
        """For each key, the close point up to which instances are beyond change at `point`."""
        return np.full(len(keys), point, np.int64)

    def needed(self, point: int) -> np.ndarray:
        """For each key, its first place that an instance not complete at `point` can need."""
        keep = self._keep()
        for family in self.families:
            family.keep(point, keep)
        return keep

    def first_needed(self, point: int | None) -> np.ndarray | None:
        """For each key, its first place that may be needed at `point`; `None` if all of them are.

        A store by time has dropped all others already.
        """
        if point is None or not isinstance(self.slices, KeyMajorStore):
            return None
        return self._keep() if point >= INFINITY else self.needed(point)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        """Times before which the slices at these places have no event."""
        found: np.ndarray = self.runs.first[self.runs.slot[places]]
        return found

    def times_at(self, keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """The times of rows by their positions, for slice groups whose slices are rows.

        Rows that are gone have the time of the first one that is left.
        """
        runs = self.runs
        there = np.clip(positions - runs.base[keys], 0, np.maximum(runs.size[keys] - 1, 0))
        places = np.minimum(runs.offset[keys] + there, max(len(runs.start) - 1, 0))
        found: np.ndarray = runs.start[places] if len(runs.start) else positions
        return found

    def live_at(self, point: int) -> int:
        """The number of slices that may be needed at `point`: those that a snapshot has."""
        keep = self.first_needed(point)
        return self.live if keep is None else int((self._keep() - keep).sum())

    def evict(self, point: int) -> None:
        """Drop the slices of which every instance is complete at `point`."""
        # Looking at every key pays only when there is enough to be found.
        if point < INFINITY and self.runs.live < self.evict_at:
            return
        keep = self._keep() if point >= INFINITY else self.needed(point)
        freed = self.runs.evict(keep)
        if len(freed):
            self.store.forget(freed)
        self.evict_at = 2 * self.runs.live + tuning.active().evict_at_least

    def drop(self, keys: np.ndarray, keep: np.ndarray) -> None:
        """Drop the places before `keep` of the runs of these keys."""
        freed = self.runs.evict(keep, keys)
        if len(freed):
            self.store.forget(freed)

    def fuse(self, point: int, highs: np.ndarray, low: int) -> None:
        """Make one of slices that only ends of windows part, all of them complete at `point`."""
        if self.begins is None or point >= INFINITY or self.store.merger is not None:
            return  # mergers know slices as they were
        if self.runs.keys > tuning.active().fuse_keys and self.runs.live < self.evict_at:
            return
        touched = self.store.touched()

        def find() -> tuple[np.ndarray, np.ndarray]:
            assert self.begins is not None
            return fuse_ends(self.runs, self.edges, self.begins, low, highs, touched)

        if self._make_one(find):
            self.fused_to = point

    def _make_one(self, find: Callable[[], tuple[np.ndarray, np.ndarray]]) -> bool:
        """Fuse the pairs of slots that are found, which are no longer apart in the runs.

        If an aggregate of the user's own raises an error all stay as they are, and whoever asks
        for an instance of them is told why.
        """
        undo = self.runs.remember() if self.store.own else None
        older, newer = find()
        try:
            self.store.fuse(older, newer)
        except Exception:
            if undo is None:
                raise
            undo()
            return False
        self._let_go(newer)
        return True

    def _let_go(self, slots: np.ndarray) -> None:
        if len(slots):
            self.runs.release(slots)
            self.store.forget(slots)

    def _keep(self) -> np.ndarray:
        return self.runs.offset + self.runs.size

    def dump(
        self, out: BlobWriter, live: np.ndarray, codes: np.ndarray, point: int
    ) -> dict[str, Any]:
        """Write the slices of the `live` keys, of which `codes` has the new codes.

        Slices of which every instance is complete at `point` are left out. Returns the node of a
        snapshot that finds the others again; the group stays as it is.
        """
        keep = self.first_needed(point)
        node = {
            "kind": self.kind,
            **self.slices.dump(out, live, codes, self.layout, keep),
            "evict_at": self.evict_at,
        }
        if isinstance(self.slices, KeyMajorStore):  # by time there is nothing more to say
            kept = Kept(live, codes, self.runs.slots_of(live, keep))
            ties = self.tie_order.table(kept.slots)
            if ties is not None:
                node["ties"] = out.put_bytes(table_bytes(ties))
            for family in self.families:
                family.dump(node, out, kept)
        return node

    def load(self, node: Any, source: BlobReader, keys: int, since: int | None = None) -> None:
        """Read the node of a snapshot into this group, which is empty.

        With `since`, aggregates may be others than those of the snapshot: what it does not know
        has seen the events from there on.
        """
        if node["kind"] != self.kind:
            raise SnapshotError(
                f"The snapshot keeps slices as {node['kind']}, and these windows and aggregates "
                f"keep them as {self.kind}. Restore it with the release that wrote it."
            )
        self._load_slices(node, source, keys, since)
        self.evict_at = node["evict_at"]
        if "ties" in node:
            self.tie_order.load(table_of(source.get_bytes(node["ties"])), self.runs.slots)
        for family in self.families if isinstance(self.slices, KeyMajorStore) else ():
            family.load(node, source, keys)

    def _load_slices(self, node: Any, source: BlobReader, keys: int, since: int | None) -> None:
        self.slices.load(node, keys, source, self.layout, since)
