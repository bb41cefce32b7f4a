"""Nodes of the finger B-tree: entries in time order, and aggregates that depend on the place.

A node of arity a has a - 1 entries and, unless it is a leaf, a children between and around them.
Its own part is all of that except children on a spine:

    [child 0] entry 0 [child 1] entry 1 ... entry a-2 [child a-1]

    inner node     own part: the whole subtree
    left spine     own part without child 0, and then everything up to the root's right end of it
    right spine    the same mirrored: everything from the root to it, then the own part
    root           own part without the first and the last child

So an aggregate never includes what is at the fingers, and a change near a finger stays near it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Combine = Callable[[Any, Any], Any]


class Node:
    """One node; `left` and `right` say on which spine it is, the root is on both."""

    __slots__ = (
        "agg",
        "children",
        "height",
        "left",
        "own",
        "parent",
        "right",
        "size",
        "states",
        "times",
    )

    def __init__(
        self, height: int, times: list[Any], states: list[Any], children: list[Node]
    ) -> None:
        self.height = height
        self.times = times
        self.states = states
        self.children = children
        self.parent: Node | None = None
        self.left = self.right = False
        self.own: Any = None  # the aggregate of the own part
        self.agg: Any = None  # the aggregate that the place calls for
        self.size = 0  # how many events the own part has
        for child in children:
            child.parent = self

    @property
    def arity(self) -> int:
        return len(self.times) + 1

    def parts(self) -> Iterator[tuple[Any, Node | None]]:
        """The own part from new to old: states of entries, and of children with the child."""
        first = 1 if self.left else 0
        last = self.arity - (2 if self.right else 1)
        for i in range(self.arity - 1, -1, -1):
            if self.children and first <= i <= last:
                yield self.children[i].agg, self.children[i]
            if i:
                yield self.states[i - 1], None

    def renew_own(self, combine: Combine) -> None:
        """Make the aggregate and the size of the own part again."""
        own: Any = None
        self.size = 0
        for state, child in self.parts():
            own = combine(state, own) if self.size else state
            self.size += child.size if child is not None else 1
        self.own = self.agg = own

    def renew_spine(self, combine: Combine) -> None:
        """Make the aggregate of a node on a spine from its own part and its parent's aggregate."""
        parent = self.parent
        if parent is None or parent.parent is None:
            self.agg = self.own
        elif self.left:
            self.agg = combine(self.own, parent.agg)
        else:
            self.agg = combine(parent.agg, self.own)

    def adopt_front(self, node: Node, time: Any, state: Any) -> None:
        """Put the content of `node`, of the same height, and an entry before the own content."""
        self.times[:0] = [*node.times, time]
        self.states[:0] = [*node.states, state]
        self.children[:0] = node.children
        for child in node.children:
            child.parent = self

    def split(self) -> tuple[Node, Any, Any]:
        """Move the newer half into a new node; also the entry between the halves."""
        middle = len(self.times) // 2
        newer = Node(
            self.height,
            self.times[middle + 1 :],
            self.states[middle + 1 :],
            self.children[middle + 1 :],
        )
        newer.right, self.right = self.right, False
        time, state = self.times[middle], self.states[middle]
        del self.times[middle:], self.states[middle:], self.children[middle + 1 :]
        return newer, time, state
