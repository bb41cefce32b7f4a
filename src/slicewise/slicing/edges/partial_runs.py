"""Running windows over an array of events by a plan of partials.

Two kernels: one folds events into partials, the other feeds partials to a merger and asks it for
windows, which always end with the newest partial. The second one counts its combines and also runs
on states of nothing, so that techniques and mergers can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import States, bound_columns, read, share, states_of
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import OPEN, kernel
from slicewise.codegen.prelude import combine, load, store
from slicewise.codegen.tally import tallied
from slicewise.columns import Column
from slicewise.errors import CapabilityError
from slicewise.mergers import CATALOGUE
from slicewise.mergers.base import FlatMerger, arrays_for
from slicewise.mergers.boundary import item
from slicewise.slicing.edges.partials import PartialPlan, Technique, plan_partials
from slicewise.windows import Window


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What a plan does on the events `0` to `rows - 1`, one row per complete window instance.

    Instances are in the order of their ends. Instance `i` of `window[i]` is merged from the
    partials `first[i]` to `complete[i] - 1` and, when `cut[i]`, from the part of the next one that
    lies before its end. `keep[j]` is the oldest partial still needed when partial `j` comes.
    """

    bounds: np.ndarray
    window: np.ndarray
    start: np.ndarray
    end: np.ndarray
    first: np.ndarray
    complete: np.ndarray
    cut: np.ndarray
    keep: np.ndarray

    @property
    def partials(self) -> int:
        """How many partials are made."""
        return len(self.bounds) - 1

    @property
    def peak(self) -> int:
        """The most partials that are kept at a time."""
        return int((np.arange(len(self.keep)) - self.keep).max(initial=0)) + 1


def schedule(plan: PartialPlan, rows: int) -> Schedule:
    """Which partials and which instances `rows` events make."""
    bounds = np.append(plan.cuts(0, rows), rows)
    windows, starts, ends = [], [], []
    needed = bounds[:-1].copy()
    for number, window in enumerate(plan.windows):
        length, every, origin = int(window.length), int(window.every), int(window.origin)
        begins = np.arange(origin % every, rows - length + 1, every)
        windows.append(np.full(len(begins), number))
        starts.append(begins)
        ends.append(begins + length)
        opened = (bounds[:-1] - origin - length) // every * every + every + origin
        needed = np.minimum(needed, np.maximum(opened, origin % every))
    start, end = np.concatenate(starts), np.concatenate(ends)
    order = np.argsort(end, kind="stable")
    start, end = start[order], end[order]
    complete = np.searchsorted(bounds, end, "right") - 1
    return Schedule(
        bounds,
        np.concatenate(windows)[order],
        start,
        end,
        np.searchsorted(bounds, start),
        complete,
        bounds[complete] != end,
        np.searchsorted(bounds, needed),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Answers of count windows in the order of their ends, and what they took."""

    window: np.ndarray
    start: np.ndarray
    end: np.ndarray
    values: Column
    partials: int
    peak: int


def run_partials(
    values: Any,
    aggregate: Aggregate,
    windows: Sequence[Window],
    *,
    technique: Technique = "cutty",
    merger: str | None = None,
) -> Answered:
    """All complete instances of count windows over an array, by shared partials.

    `values` is a numpy or Arrow array, or a dict of the columns that the aggregate names. `merger`
    is `"recalc"` for a lazy store, or one that answers for any newest part: `"flatfat"`, `"bint"`,
    `"flatfit"`. `None` is what the paper of the technique takes: FlatFAT for Cutty and Pairs+,
    recalculation for Panes and Pairs.

    >>> import numpy as np
    >>> import slicewise as sw
    >>> windows = [sw.sliding(sw.rows(4), every=sw.rows(3)), sw.tumbling(sw.rows(5))]
    >>> found = run_partials(np.arange(10), sw.agg.sum(), windows)
    >>> list(zip(found.window.tolist(), found.start.tolist(), found.values.tolist()))
    [(0, 0, 6), (1, 0, 10), (0, 3, 18), (0, 6, 30), (1, 5, 35)]
    >>> found.partials, found.peak
    (5, 3)
    """
    plan = plan_partials(windows, technique)
    columns = _columns(values, aggregate)
    rows = len(next(iter(columns.values())))
    steps = schedule(plan, rows)
    cls = _merger(plan, merger)
    bound = aggregate.bind([column.type for column in columns.values()])
    components = share([bound])
    states: list[States] = []
    for component in components:
        algebra = component.algebra
        X, valid = read(component, columns, rows)
        P, tails = algebra.new(steps.partials), algebra.new(len(steps.end))
        fold_partials.specialise(algebra)(X, valid, steps.bounds, steps.end, P, tails)
        states.append(_answer(cls, algebra, steps, P, tails)[0])
    needed = [states_of(c, components, states) for c in bound.components]
    return Answered(
        steps.window,
        steps.start,
        steps.end,
        bound.lower(needed),
        steps.partials,
        steps.peak,
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """What a technique costs: combines in the store and for answers, partials, and the most kept.

    Folding events into partials costs the same with every technique and is not counted.
    """

    combines: int
    partials: int
    peak: int


def count_combines(
    windows: Sequence[Window],
    rows: int,
    *,
    technique: Technique = "cutty",
    merger: str | None = None,
) -> Counts:
    """The combines of `run_partials` after folding, counted by running it on empty states.

    >>> import slicewise as sw
    >>> windows = [sw.sliding(sw.rows(10), every=sw.rows(3))]
    >>> count_combines(windows, 1000, technique="pairs")
    Counts(combines=1986, partials=667, peak=7)
    >>> count_combines(windows, 1000, technique="cutty", merger="recalc")
    Counts(combines=993, partials=334, peak=4)
    """
    plan = plan_partials(windows, technique)
    steps = schedule(plan, rows)
    P, tails = EMPTY.new(steps.partials), EMPTY.new(len(steps.end))
    _, combines = _answer(_merger(plan, merger), EMPTY, steps, P, tails)
    return Counts(combines, steps.partials, steps.peak)


def _nothing(*states: None) -> None:
    return None


# States of nothing: the mergers that answer for newest parts never look at what they combine.
EMPTY = Algebra("empty", functions=(("identity", _nothing), ("combine", _nothing)))


def _columns(values: Any, aggregate: Aggregate) -> dict[str, Column]:
    from slicewise.slicing.ingest.events import column_of

    names = bound_columns(aggregate)
    if isinstance(values, Mapping):
        return {name: column_of(name, values[name]) for name in names}
    return {name: column_of(name, values) for name in names}


def _merger(plan: PartialPlan, name: str | None) -> type[FlatMerger]:
    if name is None:
        name = "flatfat" if plan.eager else "recalc"
    entry = CATALOGUE.get(name)
    able = [n for n, e in CATALOGUE.items() if n == "recalc" or (e.suffixes and e.compiled)]
    if entry is None or name not in able:
        raise CapabilityError(
            "Windows that share partials ask a merger for newest parts of several lengths, which "
            f"{', '.join(map(repr, able))} can answer; given: {name!r}."
        )
    cls = entry.cls
    assert issubclass(cls, FlatMerger)
    return cls


def _answer(
    cls: type[FlatMerger], algebra: Algebra, steps: Schedule, P: States, tails: States
) -> tuple[States, int]:
    """The states of all instances, and the combines that they took."""
    p, S = arrays_for(cls, algebra, steps.peak)
    out = algebra.new(len(steps.end))
    merging = tuple(map(tallied, cls.kernels_for(algebra)))
    work = len(steps.end) * steps.peak  # by `recalc`, and no more by the others
    run = tallied(answer).specialise(algebra, merging, work=work)
    run(P, tails, (steps.cut, steps.first, steps.complete, steps.keep), p, S, out)
    return out, int(p[-1])


insert: Any = OPEN
evict: Any = OPEN
suffix: Any = OPEN


@kernel
def fold_partials(X: Any, valid: Any, bounds: Any, ends: Any, P: Any, tails: Any) -> None:
    """Fold events between bounds, and note how far a partial is where a window ends within it."""
    q = 0
    for j in range(bounds.shape[0] - 1):
        stop = bounds[j + 1]
        state = item(X, valid, None, bounds[j])
        done = bounds[j] + 1
        while q < ends.shape[0] and ends[q] < stop:
            for i in range(done, ends[q]):
                state = combine(state, item(X, valid, None, i))
            done = max(done, ends[q])
            store(tails, q, state)
            q += 1
        for i in range(done, stop):
            state = combine(state, item(X, valid, None, i))
        store(P, j, state)
        while q < ends.shape[0] and ends[q] == stop:
            q += 1


@kernel
def answer(P: Any, tails: Any, steps: Any, p: Any, S: Any, out: Any) -> None:
    """Feed partials to the merger and ask for windows as they end."""
    cut, first, complete, keep = steps
    done = 0
    for q in range(first.shape[0]):
        while done < complete[q]:
            while p[0] < keep[done]:
                evict(p, S)
            insert(p, S, load(P, done))
            done += 1
        if done == first[q]:
            store(out, q, load(tails, q))
        elif cut[q]:
            store(out, q, combine(suffix(p, S, done - first[q]), load(tails, q)))
        else:
            store(out, q, suffix(p, S, done - first[q]))
