"""The Reactive Aggregator: FlatFAT driven by insert, evict and trigger events.

Insertions and evictions between two triggers are gathered; an event that comes and goes between
them never enters the tree. A trigger brings the tree up to date in one batch and submits the
result if it is a new one (the `IStream` of the paper).

Needs:   associative `combine`; event order is kept.
Cost:    at most m (1 + log(n/m)) combines for m changes between triggers, as `FlatFAT`: log n for
         one slide, amortised.
Memory:  2n states, n rounded up to a power of two.
Source:  doi:10.14778/2752939.2752940 (Tangwongsan, Hirzel, Schneider, Wu: General incremental
         sliding-window aggregation), Section 5
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slicewise.mergers.base import Merger
from slicewise.mergers.flatfat import FlatFAT

if TYPE_CHECKING:
    from slicewise.aggregates.base import Aggregate

NOTHING: Any = object()


class ReactiveAggregator(Merger):
    """Gathers events, and submits what is new at a trigger.

    >>> import slicewise as sw
    >>> results = []
    >>> aggregator = sw.mergers.ReactiveAggregator(sw.agg.max(), submit=results.append)
    >>> aggregator.insert_many([4, 7, 3])
    >>> aggregator.trigger()
    >>> aggregator.evict()
    >>> aggregator.trigger()  # still 7
    >>> aggregator.evict()
    >>> aggregator.trigger()
    >>> results
    [7, 3]
    """

    name = "reactive_aggregator"
    properties = FlatFAT.properties

    def __init__(
        self, aggregate: Aggregate, submit: Callable[[Any], Any] = lambda result: None
    ) -> None:
        super().__init__(aggregate)
        self.tree = FlatFAT(aggregate)
        self._arrived: deque[Any] = deque()
        self._submit = submit
        self._submitted: Any = NOTHING

    def insert_state(self, state: Any) -> None:
        self._arrived.append(state)

    def _evict(self) -> None:
        if len(self.tree):
            self.tree.evict()
        else:
            self._arrived.popleft()

    def evict_at(self, *positions: int) -> None:
        """Take the events at these positions away, whatever their age; the oldest is at 0."""
        self._enter()
        self.tree.evict_at(*positions)

    def trigger(self) -> None:
        """Bring the tree up to date and submit the result if it differs from the last one."""
        result = self.query()
        before, self._submitted = self._submitted, result
        both_nan = result != result and before != before
        if before is NOTHING or (result != before and not both_nan):
            self._submit(result)

    def query_state(self) -> Any:
        self._enter()
        return self.tree.query_state()

    def suffix_state(self, last: int) -> Any:
        self._enter()
        return self.tree.suffix_state(last)

    def __len__(self) -> int:
        return len(self.tree) + len(self._arrived)

    def _enter(self) -> None:
        while self._arrived:
            self.tree.insert_state(self._arrived.popleft())
