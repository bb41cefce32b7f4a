"""FiBA, the finger B-tree aggregator: events out of order, by time.

A B-tree in time order whose outermost leaves, the fingers, are at hand. Aggregates are kept so
that a change at distance d from the nearer end of the window touches about log d nodes, and a
query combines three of them. Bulk insertion changes the tree first and then renews every touched
node once; bulk eviction cuts the tree along one path and joins what remains.

Needs:   associative `combine`; events are kept in (time, arrival) order.
Cost:    amortised O(log d) combines for an event d from the nearer end, so O(1) in order;
         m events at once O(m log(d/m)); evicting the m oldest O(log m); a query 2;
         `query(last=k)` and `query_between` O(log n).
Memory:  at most 3n states: the events, and two aggregates per node.
Source:  doi:10.14778/3339490.3339499 (Tangwongsan, Hirzel, Schneider: Optimal and general
         out-of-order sliding-window aggregation); doi:10.14778/3611479.3611521 (the same: ... with
         efficient bulk evictions and insertions)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from slicewise.errors import AggregateError, ColumnTypeError, EmptyWindowError
from slicewise.mergers.base import Merger, Properties, is_count
from slicewise.mergers.fiba_node import Node

if TYPE_CHECKING:
    from slicewise.aggregates.base import Aggregate

Path = list[tuple[Node, int]]


class FiBA(Merger):
    """A window in time order, whatever order events come in; ties keep the order of arrival.

    >>> import slicewise as sw
    >>> merger = sw.mergers.FiBA(sw.agg.collect())
    >>> merger.insert("c", time=30)
    >>> merger.insert_many("ba", times=[20, 10])
    >>> merger.query(), merger.query(last=1), merger.query_between(10, 30)
    (['a', 'b', 'c'], ['c'], ['a', 'b'])
    >>> merger.evict_before(20)
    >>> merger.query(), len(merger), merger.oldest, merger.newest
    (['b', 'c'], 2, 20, 30)
    """

    name = "fiba"
    properties = Properties(
        needs="associative",
        amortised="log d",
        worst="log n",
        memory="3n",
        source="doi:10.14778/3339490.3339499",
        suffixes=True,
        bulk=True,
        unordered=True,
    )

    def __init__(self, aggregate: Aggregate, *, min_arity: int = 2) -> None:
        super().__init__(aggregate)
        if not is_count(min_arity, 2, math.inf):
            raise AggregateError(
                f"`min_arity`, the fewest children of a node, is at least 2; given: {min_arity!r}."
            )
        self._fewest = min_arity
        self._size = 0
        self._root = self._oldest = self._newest = Node(0, [], [], [])
        self._root.left = self._root.right = True
        self._changed: list[Node] = []

    def __len__(self) -> int:
        return self._size

    @property
    def oldest(self) -> Any:
        """The time of the oldest event."""
        self._not_empty("oldest")
        return self._oldest.times[0]

    @property
    def newest(self) -> Any:
        """The time of the newest event."""
        self._not_empty("newest")
        return self._newest.times[-1]

    def _not_empty(self, what: str) -> None:
        if not self._size:
            raise EmptyWindowError(
                f"`{what}` is the time of an event, and this window holds none. Ask `len()` first."
            )

    # Insertion.

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event at its time, after those of the same time; by default at the newest."""
        self._place(self.lift(value), time)
        self._renew()

    def insert_many(self, values: Iterable[Any], times: Iterable[Any] | None = None) -> None:
        """Add events in the order of arrival, each at its time; in any order of times."""
        states = [self.lift(value) for value in values]
        stamps = [None] * len(states) if times is None else list(times)
        if len(stamps) != len(states):
            raise AggregateError(
                f"`insert_many` takes one time per value; given: {len(states)} values and "
                f"{len(stamps)} times."
            )
        try:
            for state, time in zip(states, stamps):
                self._place(state, time)
        finally:
            self._renew()

    def insert_state(self, state: Any) -> None:
        self._place(state, None)
        self._renew()

    def _place(self, state: Any, time: Any) -> None:
        """Put an event into its leaf; aggregates are left for `_renew`."""
        if time is None:
            time = self._newest.times[-1] if self._size else 0
        self._check_time(time)
        leaf = self._near(time)
        while leaf.children:
            leaf = leaf.children[bisect_right(leaf.times, time)]
        at = bisect_right(leaf.times, time)
        leaf.times.insert(at, time)
        leaf.states.insert(at, state)
        self._size += 1
        self._changed.append(leaf)
        self._split_up(leaf)

    def _check_time(self, time: Any) -> None:
        """Refuse what is in no order with the times of the window."""
        try:
            if time != time:
                raise TypeError("it is not in any order")
            _ = self._size and time < self._newest.times[-1]
        except TypeError as error:
            raise ColumnTypeError(
                f"Events are ordered by time, and {time!r} cannot be a time here: {error}. "
                "Give all events times of one type."
            ) from error

    def _near(self, time: Any) -> Node:
        """The lowest node on a spine whose subtree is the place for `time`."""
        old, new = self._oldest, self._newest
        while old.parent is not None and new.parent is not None:
            if new.times[0] <= time:
                return new
            if time < old.times[-1]:
                return old
            old, new = old.parent, new.parent
        return self._root

    def _split_up(self, node: Node) -> None:
        """Split a node that is too wide, and then its ancestors that become so."""
        while node.arity > 2 * self._fewest:
            newer, time, state = node.split()
            if self._newest is node:
                self._newest = newer
            parent = node.parent
            if parent is None:
                parent = Node(node.height + 1, [time], [state], [node, newer])
                parent.left, parent.right = node.left, newer.right
                if self._root is node:
                    self._root = parent
            else:
                newer.parent = parent
                at = parent.children.index(node)
                parent.times.insert(at, time)
                parent.states.insert(at, state)
                parent.children.insert(at + 1, newer)
            self._changed += (node, newer, parent)
            node = parent

    # Eviction.

    def _evict(self) -> None:
        self._evict_many(1)

    def _evict_many(self, count: int) -> None:
        if count:
            self._cut(self._path_by_count(count))

    def evict_before(self, time: Any) -> None:
        """Take all events with a time before `time` away."""
        self._check_time(time)
        if self._size and self._oldest.times[0] < time:
            self._cut(self._path_by_time(time))

    def _path_by_count(self, count: int) -> Path:
        """From a node on the left spine down to where `count` events have been passed."""
        node, below = self._oldest, 0
        while count > below + node.size and node.parent is not None:
            below += node.size
            node = node.parent
        path: Path = []
        while node.children:
            at = 0
            inside = below if node.left else node.children[0].size
            while count > inside and at < len(node.times):
                count -= inside + 1
                at += 1
                inside = node.children[at].size
            path.append((node, at))
            node = node.children[at]
        path.append((node, count))
        return path

    def _path_by_time(self, time: Any) -> Path:
        node = self._oldest
        while node.parent is not None and node.times[-1] < time:
            node = node.parent
        path: Path = []
        while node.children:
            path.append((node, bisect_left(node.times, time)))
            node = node.children[path[-1][1]]
        path.append((node, bisect_left(node.times, time)))
        return path

    def _passed(self, path: Path) -> int:
        """How many events are older than the end of `path`."""
        passed = 0
        for node, at in path:
            passed += at + sum(child.size for child in node.children[:at])
            if at and node.left and node.children:  # the sizes on a spine exclude what is below
                below = node.children[0]
                while below.children:
                    below = below.children[0]
                    passed += below.size
        return passed

    def _cut(self, path: Path) -> None:
        """Drop everything older than the end of `path` and make the rest a B-tree again."""
        self._size -= self._passed(path)
        top = path[0][0]
        anchor, height = top.parent, top.height
        rest = self._rest_of(path)
        while anchor is not None and (rest.height < height or rest.arity < self._fewest):
            above, height = anchor.parent, anchor.height
            rest = self._rest_of([(anchor, 0)], rest)
            anchor = above
        rest.parent = anchor
        if anchor is None:
            if rest is not self._root and rest.children:
                self._changed.append(rest.children[-1])
            self._root = rest
            rest.right = True
        else:
            anchor.children[0] = rest
        while True:
            rest.left = True
            self._changed.append(rest)
            if not rest.children:
                break
            rest = rest.children[0]
        self._oldest = rest
        self._renew()

    def _rest_of(self, path: Path, rest: Node | None = None) -> Node:
        """The tree of what remains to the right of `path`, in front of it `rest`."""
        for node, at in reversed(path):
            node.parent = None
            if rest is None:
                del node.times[:at], node.states[:at]
                rest = node
            elif at < len(node.times):
                time, state = node.times[at], node.states[at]
                del node.times[: at + 1], node.states[: at + 1], node.children[: at + 1]
                newer = node if node.times else node.children[0]
                newer.parent = None
                rest = self._join(rest, time, state, newer)
        assert rest is not None
        return rest

    def _join(self, older: Node, time: Any, state: Any, newer: Node) -> Node:
        """One tree of two with an entry between; `older` is not the higher one."""
        node = newer
        while node.height > older.height:
            node = node.children[0]
        node.adopt_front(older, time, state)
        self._split_up(node)
        while node.parent is not None:
            node = node.parent
        return node

    # Aggregates.

    def _renew(self) -> None:
        """Make the aggregates again that the changed nodes have a part in, each one once."""
        combine = self.aggregate.combine
        levels: list[dict[Node, None]] = [{} for _ in range(self._root.height + 2)]
        for node in self._changed:
            if node.parent is not None or node is self._root:  # others were joined away
                levels[node.height][node] = None
        self._changed.clear()
        tops: dict[str, Node] = {}
        for level in levels:
            for node in level:
                node.renew_own(combine)
                if node.parent is None:
                    continue
                if node.left or node.right:
                    tops["left" if node.left else "right"] = node
                else:
                    levels[node.height + 1][node.parent] = None
        for side, node in tops.items():
            node.renew_spine(combine)
            while node.children:
                node = node.children[0 if side == "left" else -1]
                node.renew_spine(combine)

    # Queries.

    def query_state(self) -> Any:
        if not self._size:
            return self.aggregate.identity()
        if not self._root.children:
            return self._root.agg
        combine = self.aggregate.combine
        return combine(combine(self._oldest.agg, self._root.agg), self._newest.agg)

    def suffix_state(self, last: int) -> Any:
        if last == self._size:
            return self.query_state()
        parts: list[Any] = []  # from new to old
        node, down = self._newest, False
        while last:
            taken = min(last, node.size)
            if taken == node.size:
                parts.append(node.own)
            else:
                self._newest_of(node, taken, parts)
            last -= taken
            down = down or node.parent is None
            if last:
                node = node.children[0] if node.parent is None or down else node.parent
        return self._fold(parts[::-1])

    def _newest_of(self, node: Node, last: int, parts: list[Any]) -> None:
        """Append the states of the newest `last` events of the node's own part."""
        for state, child in node.parts():
            if not last:
                return
            if child is not None and child.size > last:
                self._newest_of(child, last, parts)
                return
            parts.append(state)
            last -= child.size if child is not None else 1

    def query_between(self, start: Any, end: Any) -> Any:
        """The aggregate of the events with a time from `start` to before `end`."""
        self._check_time(start)
        self._check_time(end)
        parts: list[Any] = []
        if self._size and start < end:
            self._between(self._root, (start,), (end,), parts)
        return self.aggregate.lower(self._fold(parts))

    def _between(
        self, node: Node, start: tuple[Any, ...], end: tuple[Any, ...], parts: list[Any]
    ) -> None:
        """Append the states from `start` to `end`; an empty tuple is an open side."""
        if not (start or end or node.left or node.right):
            parts.append(node.agg)
            return
        first = bisect_left(node.times, start[0]) if start else 0
        last = bisect_left(node.times, end[0]) if end else len(node.times)
        for i in range(first, last + 1):
            if node.children:
                child_end = end if i == last else ()
                self._between(node.children[i], start if i == first else (), child_end, parts)
            if i < last:
                parts.append(node.states[i])

    def _fold(self, parts: list[Any]) -> Any:
        return reduce(self.aggregate.combine, parts) if parts else self.aggregate.identity()
