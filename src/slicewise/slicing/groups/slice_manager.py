"""The slice manager: which windows share slices, where events go, and what is kept of them.

Windows belong to slice groups, as the plan says; a group slices events and keeps their states.
Groups whose windows need events in order get them when the watermark passes: until then events are
in the reorder buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.keys import Keys
from slicewise.errors import SnapshotError
from slicewise.limits import BEGINNING, INFINITY
from slicewise.slicing.buffer import ReorderBuffer, in_sequence
from slicewise.slicing.edges.chunks import chunk_sizes
from slicewise.slicing.families.acceptance import Late, Verdict
from slicewise.slicing.families.window_set import WindowSet
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.measured import MeasureGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.groups.parting import part
from slicewise.slicing.groups.rows import RowGroup
from slicewise.slicing.groups.session import SessionGroup
from slicewise.slicing.ingest.batch import BAD, ROW, Accepted, Batch, Grouped
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.ingest.measures import adds_exactly, measure_dtype
from slicewise.slicing.ingest.schema import Schema
from slicewise.slicing.ingest.ties import Ties
from slicewise.slicing.plan import GroupPlan, Place, Plan, plan
from slicewise.slicing.progress import Progress, Stats
from slicewise.slicing.settings import Settings
from slicewise.slicing.state.checks import require

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.state.blob import BlobReader, BlobWriter

# Events that an aggregate raised an error for, with their batches and the errors.
Refused = list[tuple[Batch, int, Exception]]


class SliceManager:
    """The slice groups of an operator by their places, and the events that wait for them.

    `plan` is what runs. `takers` are the groups that take events as they come, and `waiters` those
    that get them from the `buffer`. `combined` says whether windows of time and sessions share
    slices, once there may be some, and `apart` that a late event has come to windows that shared
    slices, so that they no longer do.
    """

    version = 1
    plan: Plan

    def __init__(
        self,
        settings: Settings,
        windows: WindowSet,
        schema: Schema,
        keys: Keys,
        progress: Progress,
    ) -> None:
        self.settings, self.windows, self.schema = settings, windows, schema
        self.keys, self.progress = keys, progress
        self.groups: dict[Place, SliceGroup] = {}
        self.takers: list[SliceGroup] = []
        self.waiters: list[SliceGroup] = []
        self.buffer = ReorderBuffer()
        self.combined: bool | None = None
        self.apart = False

    # Which groups there are.

    def replan(self) -> None:
        """Decide anew what the windows and aggregates need."""
        self.schema.find_reach()
        self.plan = plan(
            self.windows.entries, self.settings, combined=self.combined, apart=self.apart
        )
        if self.schema.columns is not None:
            self.arrange()

    def arrange(self) -> None:
        """Give each slice group of the plan its windows; types are known."""
        self.combined = self.plan.combined  # and it stays so, as slices are there
        eager = self.plan.store == "eager"
        groups: dict[Place, SliceGroup] = {}
        for planned in self.plan.groups:
            group = self.groups.get(planned.place)
            if group is None or not all(group.cuts(entry.window) for entry in planned.windows):
                group = self._made(planned)
            group.technique = self.plan.partials
            group.set_windows(planned.windows)
            merger = self.settings.merger_type
            if merger is not None and merger.chunked:
                group.store.chunks = chunk_sizes(planned.windows, self.settings.unit)
            if group.tie_order.order != self.settings.order:
                group.tie_order = Ties(self.settings.order)
            group.know(len(self.keys))
            groups[planned.place] = group
        self.groups = groups
        for group in groups.values():
            if (group.store.tree is not None) != eager:
                group.store.set_eager(eager=eager)
        self.waiters = [groups[planned.place] for planned in self.plan.groups if planned.waits]
        for group in self.waiters:
            group.slices.waits = True
        self.takers = [groups[planned.place] for planned in self.plan.groups if not planned.waits]
        if not self.waiters:
            self.buffer = ReorderBuffer()
        self.buffer.keeps = any(not group.ordered for group in self.waiters)

    def _made(self, planned: GroupPlan) -> SliceGroup:
        bounds, place, kind = self.schema.bounds, planned.place, planned.kind
        how: Any = {
            "merger": self.settings.merger_type,
            "eager": self.plan.store == "eager",
        }
        if kind in ("order", "ties"):
            after = 0 if isinstance(place, str) else self.progress.events
            self.buffer.separate(after)
            return OrderedGroup(bounds, after=after, **how)
        if kind in ("rows", "sorted"):
            return RowGroup(bounds, **how)
        if kind == "sessions":
            return SessionGroup(bounds, **how)
        if kind == "time":
            return GridGroup(bounds, append_only=self.settings.append_only, **how)
        assert self.schema.columns is not None and isinstance(place, tuple)
        _, axis, sorts = place
        defined = [entry.window for entry in planned.windows]
        dtype = measure_dtype(self.schema.columns[axis], defined)
        rows = sorts or not all(map(adds_exactly, defined))
        return MeasureGroup(bounds, axis, dtype, keeps_rows=rows, **how)

    def rebind(self, found: dict[str, pa.DataType]) -> None:
        """Go on with the types that columns of nothing but nulls turned out to have."""
        for group in self.groups.values():
            group.keep_by_key()
            group.store.rebind(self.schema.bounds)
        self.buffer.retype(found)

    # Events.

    def know(self) -> None:
        """Take note of new keys, also of those whose events are all left out."""
        for group in self.groups.values():
            group.know(len(self.keys))

    def usable(self, columns: Columns, usable: np.ndarray | None) -> np.ndarray | None:
        """The usable events whose advancing columns are so too; infinite ones reach no instance."""
        for group in self.takers:
            inside = group.usable(columns)
            if inside is not None and not inside.all():
                usable = inside if usable is None else usable & inside
        return usable

    def verdicts(self, late: Late) -> dict[int, Verdict]:
        """The verdict of each window, by its number, on late events.

        If some windows that share slices take them and others do not, they have their own from
        here on.
        """
        verdicts: dict[int, Verdict] = {}
        for group in self.groups.values():
            group.know(len(self.keys))
            verdicts |= group.verdicts(late)
        part(self, verdicts)
        return verdicts

    def shares(
        self, late: Late, verdicts: dict[int, Verdict], wanted: np.ndarray
    ) -> dict[SliceGroup, np.ndarray]:
        """The events of a batch that each group takes which takes late ones too."""
        shares = {}
        for group in self.groups.values():
            taken = group.takes(late, verdicts)
            if taken.any() and group not in self.waiters:
                group.drop_closed(np.unique(late.keys[taken]), late.horizon)
                share = wanted.copy()
                share[late.rows[taken]] = True
                shares[group] = share
        return shares

    def add(self, accepted: Accepted) -> None:
        """Slice events for the groups that take them as they come."""
        for group in self.takers:
            share = accepted.share(group)
            if share is None:
                continue
            if group.ordered:
                plain = self._plain(share)
                group.add(plain.numbered() if group.store.own else plain)
            else:
                group.add(share)

    def hold(self, accepted: Accepted, bad: np.ndarray | None) -> None:
        """Let events wait for the groups that need them in order; `bad` ones are known as such."""
        waits = accepted.share(self.waiters[0]) if self.waiters else None
        if waits is not None:
            if bad is not None:
                waits = replace(waits, marks={**waits.marks, BAD: bad})
            self.buffer.add(self._plain(waits))

    def _plain(self, batch: Batch) -> Batch:
        """The batch with the columns that aggregates read, and with events for user windows."""
        columns = {name: batch.columns[name] for name in self.schema.kept}
        users = any(window.traits.user_defined for window in self.windows.defined)
        objects = batch.events() if users else None
        keys = batch.keys if self.settings.by else np.broadcast_to(np.int64(0), len(batch))
        return replace(batch, keys=keys, columns=columns, objects=objects)

    def release(self, point: int) -> None:
        """Slice the events below `point` for the groups that get them in order."""
        if not self.buffer.batches:
            return
        ready = self.buffer.release(point)
        sorted_: dict[int, list[Grouped]] = {}
        for group in self.waiters if ready else ():
            after = group.after
            if after not in sorted_:
                batches = in_sequence(batch for batch in ready if batch.arrival >= after)
                sorted_[after] = [Grouped.of(batch, self.settings.order) for batch in batches]
            for grouped in sorted_[after]:
                group.add_in_order(grouped)
        self.buffer.keep(ready, point)

    # Events that were refused while they were sliced; each is told once.

    def take_regressed(self) -> np.ndarray | None:
        """The events of the last batch of which an advancing column fell behind."""
        regressed = [group.take_regressed() for group in self.takers]
        marked = [rows for rows in regressed if rows is not None]
        return np.logical_or.reduce(marked) if marked else None

    def take_refused(self, rows: int) -> tuple[np.ndarray | None, Exception | None]:
        """The events of the last batch, of so many, that an aggregate refused; the first error."""
        refused = _taken(self.takers)
        if not refused:
            return None, None
        marked = np.zeros(rows, np.bool_)
        marked[[int(b.marks[ROW][row]) if ROW in b.marks else row for b, row, _ in refused]] = True
        return marked, refused[0][2]

    def take_refused_later(self) -> Iterator[Refused]:
        """The events that aggregates refused when the watermark passed them, by slice group."""
        given, self.buffer.refused = self.buffer.refused, []
        yield given
        for group in self.waiters:
            yield _taken([group])

    def take_failed(self) -> list[tuple[Any, Exception]]:
        """The events that windows of the user's own could not take, with the errors."""
        return [one for group in self.groups.values() for one in group.failed()]

    # What is kept.

    def let_go(self, released: int, horizon: int | None) -> None:
        """Forget what was handed out up to `released`, and all that is complete at `horizon`."""
        for group in self.groups.values():
            group.handed_out(released)
            if horizon is not None:
                group.evict(horizon)
        if self.buffer.kept and self.buffer.rows_kept >= self.buffer.prune_at:
            self.buffer.forget(self._outdated())

    def _outdated(self) -> Callable[[Batch], np.ndarray]:
        """A function that marks kept rows of a batch which no open window needs."""
        horizon = self.progress.open_from
        least = np.array([INFINITY])
        for group in self.waiters:
            needed = group.rows_from(horizon)
            least = least if needed is None else np.minimum(least, needed)

        def gone(batch: Batch) -> np.ndarray:
            of_each = least if len(least) == 1 else least[batch.keys]
            found: np.ndarray = batch.times < of_each
            return found

        return gone

    def count(self, stats: Stats) -> None:
        """Add what is kept and was combined to the stats of an operator."""
        groups = self.groups.values()
        stats.slices = sum(group.live for group in groups)
        stats.stored_rows = sum(group.live for group in groups if group.keeps_rows)
        stats.stored_rows += len(self.buffer)
        if self.buffer.kept:
            gone = self._outdated()
            stats.stored_rows += sum(int((~gone(batch)).sum()) for batch in self.buffer.kept)
        stats.combines = sum(group.combines for group in groups)

    def live(self) -> int:
        """The number of slices that open windows may need: those that a snapshot has."""
        return sum(group.live_at(self.progress.open_from) for group in self.groups.values())

    def mark_held(self, known: np.ndarray, point: int | None = None) -> None:
        """Mark the keys of which anything is kept that is needed at `point`."""
        for group in self.groups.values():
            held = group.held(point)
            known[: len(held)] |= held
        for batch in self.buffer.batches:
            known[batch.keys] = True

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones; `codes` has their new codes."""
        for group in self.groups.values():
            group.renumber(live, codes)
        self.buffer.renumber(codes)

    # Stopping and going on.

    def dump(self, live: np.ndarray, codes: np.ndarray, out: BlobWriter) -> dict[str, Any]:
        """The entries of a snapshot's header; of the `live` keys, `codes` has the new codes."""
        gone, point = self._outdated() if self.buffer.kept else None, self.progress.open_from
        return {
            "combined": self.combined,
            "apart": self.apart,
            **self.buffer.dump(codes, gone, out),
            "tracks": [
                {"place": _said(place), **group.dump(out, live, codes, point)}
                for place, group in self.groups.items()
            ],
        }

    def load_plan(self, header: dict[str, Any]) -> None:
        """Go on as a header says with slices that windows share, or do not any more."""
        known: bool | None = header.get("combined", False)  # they did not before this was said
        if not self.windows.entries:
            known = self.plan.combined  # no slice goes on, and new windows share as they would
        self.combined = None if header["types"] is None else known
        self.apart = header.get("apart", False)
        self.replan()

    def load(self, source: BlobReader, *, changed: bool) -> None:
        """Go on with the slices and the events of a snapshot, after all that they depend on.

        If definitions may have `changed`, an aggregate that is not known has seen no event.
        """
        nodes = {str(node["place"]): node for node in source.header["tracks"]}
        # An event that is not yet seen decides from when on a new aggregate knows everything.
        since = self.progress.behind_all if changed else None
        require(changed or len(nodes) == len(self.groups), "it has slices of other windows")
        for place, group in self.groups.items():
            node = nodes.get(str(_said(place)))
            if changed and (node is None or node["kind"] != group.kind):
                shown = ", ".join(repr(entry.window.name) for entry in group.windows)
                raise SnapshotError(
                    f"With these aggregates and this lateness the windows {shown} need rows, or "
                    "need them no longer, and the snapshot keeps them the other way. Leave the "
                    "lateness and the aggregates whose order of events matters as they were, or "
                    "begin anew."
                )
            require(node is not None, "it has slices of other windows")
            group.load(node, source, len(self.keys), since)
        self._load_events(source)

    def _load_events(self, source: BlobReader) -> None:
        """Go on with the events that wait, if anything still takes them."""
        from slicewise.slicing.state.batches import get_batches

        if not self.waiters:
            return
        for group in self.waiters:
            if group.ordered:
                self.buffer.separate(group.after)
        types = {name: (self.schema.columns or {})[name] for name in self.schema.kept}
        marks = {p.number: p.window.traits.marks for p in self.windows.facts.marking}
        keys, single = len(self.keys), not self.settings.by

        def get(nodes: Any) -> list[Batch]:
            return get_batches(nodes, source, types, keys, marks, single=single)

        self.buffer.load(source.header, get, self.progress.open_from)

    def share_since(self) -> None:
        """Let new slice groups know since when aggregates know all: waiting events come to them."""
        stores = [group.slices for group in self.groups.values()]
        numbers = {number for store in stores for number in store.since}
        shared = {n: max(store.since.get(n, BEGINNING) for store in stores) for n in numbers}
        for group in self.groups.values() if shared else ():
            group.slices.since = dict(shared)
            group.keep_by_key()


def _said(place: Place) -> Any:
    """The place of a slice group as JSON has it."""
    return list(place) if isinstance(place, tuple) else place


def _taken(groups: Iterable[SliceGroup]) -> Refused:
    """The events that slice groups have noted as refused, which they then forget."""
    refused = []
    for group in groups:
        refused += group.refused
        group.refused = []
    return refused
