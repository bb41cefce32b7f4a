"""Recalculation: every query folds the whole window.

The obvious way, and the slow twin that tests compare the others with. Nothing is computed when
events come and go, so it is the right choice when there are far fewer queries than events, or
when windows hold a handful of states.

Needs:   associative `combine`; event order is kept.
Cost:    n - 1 combines per query, none otherwise.
Memory:  n states.
Source:  doi:10.1145/1058150.1058158 (Li, Maier, Tufte, Papadimos, Tucker: No pane, no gain), the
         final aggregation over panes; Naive in the FlatFIT paper
"""

from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.mergers.base import FlatMerger, Properties


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Keep the state."""
    store(S, p[1] & p[2], state)
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Forget the oldest state."""
    p[0] += 1


@kernel
def query(p: Any, S: Any) -> Any:
    """Fold all states from old to new."""
    return suffix(p, S, p[1] - p[0])


@kernel
def suffix(p: Any, S: Any, last: int) -> Any:
    """Fold the newest `last` states from old to new."""
    if last == 0:
        return identity()
    total = load(S, (p[1] - last) & p[2])
    for i in range(p[1] - last + 1, p[1]):
        total = combine(total, load(S, i & p[2]))
    return total


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
    q[0], q[1] = p[0], p[1]


class Recalc(FlatMerger):
    """Fold the whole window at every query.

    >>> import slicewise as sw
    >>> merger = sw.mergers.Recalc(sw.agg.max())
    >>> merger.insert_many([3, 1, 4])
    >>> merger.evict()
    >>> merger.query(), len(merger)
    (4, 2)
    """

    name = "recalc"
    kernels = (insert, evict, query, suffix, move)
    properties = Properties(
        needs="associative",
        amortised="n - 1",
        worst="n - 1",
        memory="n",
        source="doi:10.1145/1058150.1058158",
    )
