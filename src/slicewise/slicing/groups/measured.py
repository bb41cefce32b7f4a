"""The slice group of context-free windows over an advancing column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound
from slicewise.arrays.ordering import order_of
from slicewise.codegen.kernel import kernel, run
from slicewise.errors import CapabilityError
from slicewise.limits import BEGINNING, INFINITY, REACH
from slicewise.mergers.base import FlatMerger
from slicewise.slicing.families.acceptance import Late, Verdict
from slicewise.slicing.families.grid import collect_free, keep_from, needed_from
from slicewise.slicing.families.instances import Instances
from slicewise.slicing.groups.grid import GridGroup
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.ingest.batch import Batch
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.ingest.measures import adds_exactly, has_fractions
from slicewise.slicing.locate.by_row import slice_rows
from slicewise.slicing.locate.by_time import slice_free, slice_sorted
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import exactly, require
from slicewise.slicing.store.runs import Runs, of_keys
from slicewise.slicing.store.saving import Layout
from slicewise.windows import Window

EXACT = 2**53  # whole numbers up to here are floats


class MeasureGroup(GridGroup):
    """Context-free windows over an advancing column.

    An instance closes when an event at or past its end is below the watermark. `watermarks` is what
    each key has reached for good: an event that falls behind it does not advance, and `regressed`
    marks those of the last batch. If the group `keeps_rows`, each event is a slice of its own:
    aggregates depend on their order, or sums of fractions such as 0.1 round, so that no edge is
    the same twice.
    """

    kind = "MeasureTrack"

    def __init__(
        self,
        bounds: Sequence[Bound],
        axis: str,
        dtype: str,
        *,
        keeps_rows: bool,
        merger: type[FlatMerger] | None = None,
        eager: bool = False,
    ) -> None:
        super().__init__(bounds, dtype, merger=merger, eager=eager)
        self.axis = axis
        self.keeps_rows = keeps_rows
        self.watermarks = np.empty(0, dtype)
        self.regressed: np.ndarray | None = None

    @property
    def layout(self) -> Layout:
        return Layout(single_rows=self.keeps_rows, reach=self.reach)

    def title(self, *, combined: bool) -> str:
        return f"column {self.axis!r}"

    def cuts(self, window: Window) -> bool:
        whole = self.watermarks.dtype.kind == "i"
        return not (whole and has_fractions(window)) and (self.keeps_rows or adds_exactly(window))

    @property
    def reach(self) -> float:
        """How far from zero values can be told apart: floats run together after so many steps."""
        if self.watermarks.dtype.kind != "f":
            return float(REACH)
        steps: float = min(p.window.length / p.window.traits.overlap for p in self.windows)
        return min(float(REACH), EXACT * steps)

    def usable(self, columns: Columns) -> np.ndarray:
        # Values are usable that can be told apart from their neighbours; null and NaN are in no
        # instance.
        column = columns[self.axis]
        values = column.values
        reach = self.reach
        if self.watermarks.dtype.kind == "f" and values.dtype.kind != "f":
            reach = min(reach, EXACT)
        usable: np.ndarray = (np.abs(values.astype(np.float64)) < reach) | (values != values)
        return usable if column.valid is None else usable | ~column.valid

    def keep_as(self, dtype: np.dtype[Any], *, keeps_rows: bool) -> None:
        """Keep floats or rows if a window that is gone had need of them, before there is any."""
        self.keeps_rows = self.keeps_rows or keeps_rows
        if dtype.kind == "f" and self.watermarks.dtype.kind != "f":
            self.runs = self.store.runs = Runs("f8")
            self.watermarks = np.empty(0)
            self.set_windows(self.windows)

    def add(self, batch: Batch) -> None:
        column = batch.columns[self.axis]
        at = column.values.astype(self.runs.start.dtype, copy=False)
        wanted = np.ones(len(batch), np.bool_) if batch.wanted is None else batch.wanted
        if column.valid is not None:
            wanted = wanted & column.valid
        if at.dtype.kind == "f":
            wanted = wanted & np.isfinite(at)
        self.admit()
        behind = wanted & (at < self.watermarks[batch.keys])
        self.regressed = behind if behind.any() else None
        if self.regressed is not None:
            wanted = wanted & ~behind
        self.store.touch(at, batch.keys)
        if self.keeps_rows:
            sliced = slice_rows(self.runs, at, batch.times, batch.keys, wanted, batch.arrival)
            self.take(sliced, batch)
            self.tie_order.sort(self.runs, at, batch.times, batch.keys, sliced.slots, batch.columns)
            return
        chosen = at[wanted]
        reach = (chosen.min(), chosen.max()) if len(chosen) else (at[0], at[0])
        given = (at, reach, batch.times, batch.keys, wanted)
        sliced = slice_free(self.runs, self.edges, *given, limited=True)
        rest = self.take_found(sliced, replace(batch, wanted=wanted))
        if rest is not None:
            self._add_sorted(rest, at[wanted & (np.arange(len(batch)) >= sliced.events)])

    def take_regressed(self) -> np.ndarray | None:
        regressed, self.regressed = self.regressed, None
        return regressed

    def _add_sorted(self, batch: Batch, at: np.ndarray) -> None:
        """Add events by key and in the order of the column, of which these are the values."""
        order = order_of(at, batch.keys)
        batch, at = batch.take(order), at[order]
        keys, times, runs = batch.keys, batch.times, self.runs
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        groups = (keys[starts], np.append(starts, len(keys)))
        sliced = slice_sorted(runs, self.edges, at, (at.min(), at.max()), None, groups)
        # Times need not be in the order of the column.
        assert sliced.begins is not None
        runs.first[sliced.born], runs.last[sliced.born] = INFINITY, BEGINNING
        begins = sliced.begins[:-1]
        np.minimum.at(runs.first, sliced.slots, np.minimum.reduceat(times, begins))
        np.maximum.at(runs.last, sliced.slots, np.maximum.reduceat(times, begins))
        self.take(sliced, batch)

    def verdicts(self, late: Late) -> dict[int, Verdict]:
        column, nothing = late.columns[self.axis], np.zeros(len(late.rows), np.bool_)
        at = column.values[late.rows]
        there = at == at  # null and NaN are in no instance
        if column.valid is not None:
            there &= column.valid[late.rows]
        return {p.number: Verdict(nothing, there & (at >= p.since)) for p in self.windows}

    def takes(self, late: Late, verdicts: Mapping[int, Verdict]) -> np.ndarray:
        return SliceGroup.takes(self, late, verdicts)

    def held(self, point: int | None = None) -> np.ndarray:
        held = SliceGroup.held(self, point)
        return held | (of_keys(self.watermarks, np.arange(len(held)), BEGINNING) > BEGINNING)

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        super().renumber(live, codes)
        self.watermarks = of_keys(self.watermarks, live, BEGINNING)

    def admit(self) -> None:
        """Make room for the keys that there are."""
        more = len(self.runs.offset) - len(self.watermarks)
        if more > 0:
            fresh = np.full(more, BEGINNING, self.watermarks.dtype)
            self.watermarks = np.append(self.watermarks, fresh)

    def kept_from(self, window: Window, horizon: int) -> Any:
        if not self.cuts(window):
            raise CapabilityError(
                f"Slices over {self.axis!r} are cut for windows of whole numbers or of halves, "
                f"quarters and so on, as those that were there first; {window.name!r} has other "
                "fractions and was given after the first event. Give it when the operator is built."
            )
        return self._beyond()

    def _beyond(self) -> Any:
        """A value that no event has reached yet."""
        runs = self.runs
        places = runs.places(np.arange(runs.keys))
        seen = [BEGINNING, *self.watermarks[: runs.keys].tolist()]
        if len(places) and self.keeps_rows:
            last = runs.start[places].max()
            seen.append((last + 1 if last.dtype.kind == "i" else np.nextafter(last, np.inf)).item())
        elif len(places):
            seen.append(runs.stop[places].max().item())
        return max(seen)

    def reached(self, point: int) -> np.ndarray:
        """For each key, the greatest start of a slice with an event below `point`."""
        self.admit()
        if point >= INFINITY:
            return np.full(len(self.watermarks), INFINITY, self.watermarks.dtype)
        reached = self.watermarks.copy()
        run(reach)(point, self.runs.keys, self.runs.arrays, reached)
        return reached

    def instances(self, keys: np.ndarray, low: int, high: int) -> Instances:
        # No instance ends before its key begins, and floats far below that count no steps.
        runs, begun = self.runs, self.runs.size[keys] > 0
        lows = np.zeros(len(keys), runs.start.dtype)
        lows[begun] = runs.start[runs.offset[keys[begun]]]
        points = (np.maximum(self.reached(low)[keys], lows), self.reached(high)[keys])
        return collect_free(self.runs, self.free, keys, *points)

    def earliest(self, places: np.ndarray) -> np.ndarray:
        return SliceGroup.earliest(self, places)

    def floors(self, keys: np.ndarray, point: int) -> np.ndarray:
        floors: np.ndarray = self.reached(point)[keys]
        return floors

    def evict(self, point: int) -> None:
        # The watermark of a key decides which events count, so it may not wait for an eviction.
        if point < INFINITY:
            self.watermarks = self.reached(point)
        SliceGroup.evict(self, point)

    def needed(self, point: int) -> np.ndarray:
        keep = self._keep()
        least = run(needed_of_all)(self.free.arrays(), self.watermarks, self.runs.keys)
        run(keep_from)(least, self.runs.keys, self.runs.arrays, keep)
        return keep

    def dump(
        self, out: BlobWriter, live: np.ndarray, codes: np.ndarray, point: int
    ) -> dict[str, Any]:
        node = super().dump(out, live, codes, point)
        return {**node, "settled": out.put(of_keys(self.watermarks, live, BEGINNING))}

    def load(self, node: Any, source: BlobReader, keys: int, since: int | None = None) -> None:
        watermarks = source.get(node["settled"])
        self.keep_as(watermarks.dtype, keeps_rows=node["arrival"] is not None)
        super().load(node, source, keys, since)
        self.admit()
        exactly(watermarks, keys, "keys", self.watermarks.dtype)
        known = watermarks[watermarks != BEGINNING]
        require((np.abs(known) < self.reach).all(), "keys have come beyond all values")
        self.watermarks[:keys] = watermarks


@kernel
def reach(point: int, keys: int, runs: Any, reached: Any) -> None:
    offset, size, start, slot, first = runs.offset, runs.size, runs.start, runs.slot, runs.first
    for code in range(keys):
        for place in range(offset[code] + size[code] - 1, offset[code] - 1, -1):
            if first[slot[place]] < point:
                reached[code] = max(reached[code], start[place])
                break


@kernel
def needed_of_all(windows: Any, watermarks: Any, keys: int) -> Any:
    """For each key, the least start of a slice that an open instance can need."""
    least = watermarks.copy()
    for code in range(keys):
        if watermarks[code] > BEGINNING:
            least[code] = needed_from(windows, watermarks[code])
    return least
