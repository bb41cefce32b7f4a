"""All values of a run of events, sorted and run-length encoded (Scotty, Section 5.4.1).

A multiset is a few sorted runs whose sizes fall geometrically towards both ends. A combine puts
two such sequences side by side and merges only where neighbours are of similar size, so adding
events one by one costs O(log n) each instead of O(n); `whole` merges what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Up to this many values a run is a plain tuple, not yet sorted: arrays do not pay below.
RAW = 64

Run = Any  # a tuple of values, or (values ascending, how often each occurs)


class Multiset:
    """Values and how often each occurs; never changed.

    NaN equals NaN and comes last, -0.0 equals 0.0. Values are numbers, or other things of one
    type with an order.

    >>> both = Multiset.of(3.0) + Multiset.of(1.0) + Multiset.of(3.0)
    >>> [part.tolist() for part in both.whole()]
    [[1.0, 3.0], [1, 2]]
    """

    __slots__ = ("runs",)

    def __init__(self, runs: tuple[Run, ...] = ()) -> None:
        self.runs = runs

    @staticmethod
    def of(value: Any) -> Multiset:
        """The multiset of one value."""
        return Multiset(((value,),))

    def __add__(self, other: Multiset) -> Multiset:
        if not self.runs or not other.runs:
            return self if self.runs else other
        runs = list(self.runs)
        for run in other.runs:
            runs.append(run)
            _balance(runs)
        return Multiset(tuple(runs))

    def __sub__(self, other: Multiset) -> Multiset:
        """The multiset without the values of `other`, which are among its own."""
        values, counts = self.whole()
        taken, times = other.whole()
        left = counts.copy()
        left[_positions(values, taken)] -= times
        kept = left > 0
        return Multiset(((values[kept], left[kept]),) if kept.any() else ())

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """All values, ascending, and how often each occurs."""
        if not self.runs:
            return np.empty(0), np.empty(0, np.int64)
        if len(self.runs) > 1 or not _is_sorted(self.runs[0]):
            # The same multiset in another form: merging again and again would be waste.
            self.runs = (_merge_all(self.runs),)
        values, counts = self.runs[0]
        return values, counts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Multiset):
            return NotImplemented
        (values, counts), (others, times) = self.whole(), other.whole()
        if not np.array_equal(counts, times):
            return False
        return bool(((values == others) | ((values != values) & (others != others))).all())

    def __hash__(self) -> int:
        values, counts = self.whole()
        return hash((len(values), int(counts.sum())))

    def __repr__(self) -> str:
        values, counts = self.whole()
        return f"Multiset({dict(zip(values.tolist(), counts.tolist(), strict=True))})"

    def __reduce__(self) -> Any:
        return Multiset, ((self.whole(),) if self.runs else (),)


def _is_sorted(run: Run) -> bool:
    return len(run) == 2 and isinstance(run[0], np.ndarray)


def _size(run: Run) -> int:
    return len(run[0]) if _is_sorted(run) else len(run)


def _balance(runs: list[Run]) -> None:
    """Merge at the end of `runs` until sizes rise to one peak and fall again, geometrically."""
    while len(runs) > 1:
        last, before = _size(runs[-1]), _size(runs[-2])
        if last <= 2 * before and before <= 2 * last:
            runs[-2:] = [_merge(runs[-2], runs[-1])]
        elif len(runs) > 2 and before < last and before < _size(runs[-3]):
            if last < _size(runs[-3]):
                runs[-2:] = [_merge(runs[-2], runs[-1])]
            else:
                runs[-3:-1] = [_merge(runs[-3], runs[-2])]
        else:
            return


def _merge(older: Run, newer: Run) -> Run:
    if not _is_sorted(older) and not _is_sorted(newer) and len(older) + len(newer) <= RAW:
        return older + newer
    return _merge_all((older, newer))


def _merge_all(runs: tuple[Run, ...]) -> Run:
    """One sorted run. Sorting stably finds the runs and merges them: numpy has timsort."""
    pairs = [run if _is_sorted(run) else (_array(run), np.ones(len(run), np.int64)) for run in runs]
    arrays = [values for values, _ in pairs]
    if any(array.dtype == object for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    values = np.concatenate(arrays)
    counts = np.concatenate([counts for _, counts in pairs])
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    starts = np.ones(len(values), np.bool_)
    # NaN comes last, so where two neighbours differ from themselves both are NaN.
    starts[1:] = (values[1:] != values[:-1]) & (values[:-1] == values[:-1])
    if starts.all():
        return values, counts
    return values[starts], np.add.reduceat(counts, np.flatnonzero(starts))


def _array(values: tuple[Any, ...]) -> np.ndarray:
    """An array of numbers, or of objects where 64-bit numbers would not hold them."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if kinds <= {int, bool}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            return np.array(values, object)
    if kinds <= {int, bool, float}:
        return np.array(values, np.float64)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _positions(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of `wanted` is among the ascending `values`."""
    return np.searchsorted(values, wanted)
