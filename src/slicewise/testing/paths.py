"""Which fast paths a piece of code took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from slicewise import tuning


@contextmanager
def paths_taken() -> Iterator[Counter[str]]:
    """Count the calls that took each fast path; the count is complete when the context ends.

    Paths have the names of `slicewise.tuning.FastPath`. All threads of this process count.

    >>> import slicewise as sw
    >>> with paths_taken() as taken:
    ...     sums = sw.slide([0.5] * 100_000, sw.agg.sum(), 10_000, algorithm="pba")
    >>> taken["two threads"]  # a sum and the number of its values
    2
    """
    before, found = tuning.taken.copy(), Counter[str]()
    yield found
    found.update(tuning.taken - before)
