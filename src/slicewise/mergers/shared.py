"""Many windows over one array by a shared plan: FlatFIT's Algorithm 1.

Queries are lengths with slides. The plan (`BuildSharedPlan`) covers a composite slide, the least
common multiple of the slides, after which it begins anew. It is cut into fragments where a window
of a query begins or ends (Pairs), and says which queries are answered after each fragment, the
longest first, and how many fragments each takes. One merger that answers for newest parts holds the
fragments; its arrays are as long as the longest query has fragments.

Source:  doi:10.1145/3085504.3085509 (Shein, Chrysanthis, Labrinidis: FlatFIT), Sections 2.3, 3.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.bound import States
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import OPEN, kernel
from slicewise.codegen.prelude import combine, store
from slicewise.mergers.base import FlatMerger, arrays_for
from slicewise.mergers.boundary import item

Query = tuple[int, int]  # the length of its windows, and how far they slide


@dataclass(frozen=True, slots=True, eq=False)
class SharedPlan:
    """The fragments of a composite slide, and the queries that are answered after each.

    Fragment `j` has `fragments[j]` events; the answers after it are those from `begin[j]` to before
    `begin[j + 1]`: number `i` is one of query `query[i]` and takes `partials[i]` fragments.

    The two queries of the paper's Example 1, of 6 events every 2 and of 8 every 4:

    >>> plan = build_shared_plan([(6, 2), (8, 4)], rows=100)
    >>> plan.fragments.tolist(), plan.begin.tolist()
    ([2, 2], [0, 1, 3])
    >>> plan.query.tolist(), plan.partials.tolist(), plan.longest
    ([0, 1, 0], [3, 4, 3], 4)
    """

    fragments: np.ndarray
    begin: np.ndarray
    query: np.ndarray
    partials: np.ndarray

    @property
    def longest(self) -> int:
        """The most fragments that an answer takes (`wSize` in the paper)."""
        return int(self.partials.max(initial=1))


def build_shared_plan(queries: Sequence[Query], rows: int) -> SharedPlan:
    """The plan of queries over `rows` events; what would come after those is left out."""
    composite = lcm(*(every for _, every in queries))
    span = max(1, min(composite, rows))
    places = [np.arange(-below % every, span, every) for n, every in queries for below in (0, n)]
    edges = np.unique(np.concatenate(places))
    ends = np.append(edges[1:], span)

    def fragments_before(place: np.ndarray) -> np.ndarray:
        turns, rest = np.divmod(place, span)
        found: np.ndarray = turns * len(edges) + np.searchsorted(edges, rest)
        return found

    after, query, partials = [], [], []
    for number, (length, every) in enumerate(queries):
        answered = np.flatnonzero(ends % every == 0)
        begins = ends[answered] - length
        if span < composite:
            begins = np.maximum(begins, 0)  # nothing repeats
        after.append(answered)
        query.append(np.full(len(answered), number))
        partials.append(fragments_before(ends[answered]) - fragments_before(begins))
    places_of, numbers, counts = map(np.concatenate, (after, query, partials))
    order = np.lexsort((-counts, places_of))
    begin = np.searchsorted(places_of[order], np.arange(len(ends) + 1))
    return SharedPlan(np.diff(edges, append=span), begin, numbers[order], counts[order])


def answer_together(
    merger: type[FlatMerger], algebra: Algebra, X: Any, valid: Any, queries: Sequence[Query]
) -> list[States]:
    """The states of each query's results, by one merger that all of them ask.

    The merger must answer for newest parts; `FlatFIT` reuses the most.
    """
    rows = len(X[0])
    plan = build_shared_plan(queries, rows)
    p, S = arrays_for(merger, algebra, plan.longest)
    ends = np.cumsum([rows // every for _, every in queries])
    row = np.append(0, ends[:-1])
    out: States = algebra.new(int(ends[-1]))
    work = rows * (1 + len(queries))
    run = answer_by_plan.specialise(algebra, using=merger.kernels_for(algebra), work=work)
    steps = (plan.fragments, plan.begin, plan.query, plan.partials, plan.longest)
    at, done = np.zeros(2, np.int64), 0
    piece = max(1, tuning.active().combines_done // len(queries))
    while done < rows:  # Ctrl-C is heard between pieces
        done = min(done + piece, rows)
        run(X, valid, steps, (done, rows), at, (p, S), row, out)
    return [
        tuple(array[end - rows // every : end] for array in out)
        for end, (_, every) in zip(ends, queries, strict=True)
    ]


insert: Any = OPEN
evict: Any = OPEN
suffix: Any = OPEN


@kernel
def answer_by_plan(
    X: Any, valid: Any, steps: Any, upto: Any, at: Any, merger: Any, row: Any, out: Any
) -> None:
    """Fold fragments that begin before `upto[0]`, of `upto[1]` events, and answer after each.

    `at` is the next event and the next fragment; `row` has the place of each query's next result.
    """
    fragments, begin, query, partials, longest = steps
    stop, rows = upto
    p, S = merger
    i, j = at[0], at[1]
    while i < stop and i + fragments[j] <= rows:
        state = item(X, valid, None, i)
        for k in range(i + 1, i + fragments[j]):
            state = combine(state, item(X, valid, None, k))
        if p[1] - p[0] == longest:
            evict(p, S)
        insert(p, S, state)
        for a in range(begin[j], begin[j + 1]):
            q = query[a]
            store(out, row[q], suffix(p, S, min(partials[a], p[1] - p[0])))
            row[q] += 1
        i += fragments[j]
        j += 1
        if j == fragments.shape[0]:
            j = 0
    at[0], at[1] = i, j
