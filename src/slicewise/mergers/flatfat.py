"""FlatFAT, the flat fixed-sized aggregator: a complete binary tree over the window in one array.

The leaves are a circular buffer of events, every inner node is the combine of its two children,
and the layout of a heap needs no pointers. Changed leaves are remembered; the next query renews
the nodes above them, level by level and each node once. Half-empty nodes take the child that is
there, so no slot needs a neutral element. When the buffer has wrapped around (the inverted
buffer), old events lie to the right of new ones and the root is in the wrong order: an aggregate
that does not commute is then read as suffix and prefix, and nodes that neither of them can need
are left alone until the buffer is in order again.

Events may also leave out of order. Their slots stay as holes until the buffer is full; then the
window is compacted if at most 3/4 of the slots are taken, and otherwise doubled. It is halved when
less than 1/4 of them are.

Needs:   associative `combine`; event order is kept.
Cost:    m changes since the last query: at most m (1 + log(n/m)) combines. A slide with a query
         costs log n, always of a full buffer and else on average: there the ends of the window
         lie apart, and 2 log n is the most. `prefix`, `suffix` and `query(last=k)` cost at most
         2 log n - 1 more. Resizing is amortised.
Memory:  2n states, n rounded up to a power of two.
Source:  doi:10.14778/2752939.2752940 (Tangwongsan, Hirzel, Schneider, Wu: General incremental
         sliding-window aggregation), Sections 4 and 5
"""

from bisect import insort
from collections.abc import Iterable
from typing import Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.errors import EmptyWindowError, SpanError
from slicewise.mergers.base import FlatMerger, Properties, is_count
from slicewise.mergers.dyadic import span

SMALLEST = 8

# p[3] is the first inserted event and p[4] the first evicted one that the inner nodes do not know
# of yet; p[5] says that the aggregate commutes, and p[6] that it does not and the buffer was
# inverted at the last query. Level and node numbers are those of `dyadic`.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Write a leaf."""
    store(S, p[2] + 1 + (p[1] & p[2]), state)
    p[1] += 1


@kernel
def evict(p: Any, S: Any) -> None:
    """Empty a leaf."""
    p[0] += 1


@kernel
def occupied(p: Any, slot: int, width: int) -> Any:
    """Return `True` if one of the `width` slots from `slot`, an aligned run, is in the window."""
    ahead = (slot - p[0]) & p[2]
    return p[1] > p[0] and (ahead < p[1] - p[0] or ahead + width > p[2] + 1)


@kernel
def inverted(p: Any) -> Any:
    """Return `True` if the buffer has wrapped around: old events lie to the right of new ones."""
    return (p[0] & p[2]) + p[1] - p[0] > p[2] + 1


@kernel
def renew(p: Any, S: Any, root: int, size: int, width: int, number: int) -> None:
    """Make one node of the level of `size` nodes from its children, of `width` slots each.

    The tree lies in `S` from `root` on: 0 but for the trees of an eager store.
    """
    node = size + (number & (size - 1))
    slot = 2 * width * (number & (size - 1))
    if p[6] == 1 and ((slot - p[0]) & p[2]) + 2 * width > p[1] - p[0]:
        return  # of an inverted buffer suffix and prefix are read, which need no half-empty node
    if not occupied(p, slot, width):
        store(S, root + node, load(S, root + 2 * node + 1))
    elif not occupied(p, slot + width, width):
        store(S, root + node, load(S, root + 2 * node))
    else:
        left, right = load(S, root + 2 * node), load(S, root + 2 * node + 1)
        store(S, root + node, combine(left, right))


@kernel
def renew_above(p: Any, S: Any, root: int, low: int, high: int) -> None:
    """Renew the nodes above the events `low` to `high - 1`, level by level and each node once."""
    size, width = p[2] + 1, 1
    while size > 1:
        size >>= 1
        low, high = low >> 1, ((high - 1) >> 1) + 1
        for number in range(low, min(high, low + size)):
            renew(p, S, root, size, width, number)
        width <<= 1


@kernel
def renew_path(p: Any, S: Any, node: int) -> None:
    """Renew the nodes above one leaf of a full buffer: the common case, several times as fast."""
    # The event after the newest is the oldest: a node with both is asked for only if they commute.
    while node > 1 and (node & 1 or p[5] == 1):
        node >>= 1
        store(S, node, combine(load(S, 2 * node), load(S, 2 * node + 1)))


@kernel
def refresh(p: Any, S: Any) -> None:
    """Renew the nodes above the leaves that were inserted or evicted since the last time."""
    size = p[2] + 1
    # Both runs of leaves as numbers of one turn of the circle, the one that ends at the oldest
    # event; a slot that was emptied and filled again is then in both and is merged away.
    a, b = max(p[3], p[0]) - size, p[1] - size
    c, d = max(p[4], p[0] - size), p[0]
    p[3], p[4] = p[1], p[0]
    was_inverted = p[6] == 1
    p[6] = 1 if p[5] == 0 and inverted(p) else 0
    if b - a == 1 and c == a and p[1] - p[0] == size:
        renew_path(p, S, size + (a & (size - 1)))
        return
    if was_inverted and p[6] == 0 and p[1] > p[0]:
        # The nodes that were left out hold an end of the window, and may be asked for now.
        a, c = min(a, b - 1), min(c, d - 1)
    width = 1
    while size > 1 and (a < b or c < d):
        size >>= 1
        if a < b:
            a, b = a >> 1, ((b - 1) >> 1) + 1
        if c < d:
            c, d = c >> 1, ((d - 1) >> 1) + 1
        if a < b and c <= b and c < d:
            a, b = min(a, c), max(b, d)
            c = d
        b, d = min(b, a + size), min(d, c + size)
        if a < b and c < d:
            d = min(d, a + size)
        for number in range(a, b):
            renew(p, S, 0, size, width, number)
        for number in range(c, d):
            renew(p, S, 0, size, width, number)
        width <<= 1


@kernel
def update_above(p: Any, S: Any, slots: Any, count: int) -> None:
    """Renew the nodes above `count` slots, given in ascending order; overwrites `slots`."""
    size, width = p[2] + 1, 1
    while size > 1:
        size >>= 1
        distinct = 0
        for k in range(count):
            number = slots[k] >> 1
            if distinct == 0 or slots[distinct - 1] != number:
                slots[distinct] = number
                distinct += 1
                renew(p, S, 0, size, width, number)
        count = distinct
        width <<= 1


@kernel
def query(p: Any, S: Any) -> Any:
    """The root, or suffix and prefix of an inverted buffer."""
    return suffix(p, S, p[1] - p[0])


@kernel
def suffix(p: Any, S: Any, last: int) -> Any:
    """The state of the newest `last` events."""
    refresh(p, S)
    if last == 0:
        return identity()
    if last == p[1] - p[0] and p[6] == 0:
        return load(S, 1)
    return span(p, S, 0, p[2] + 1, p[1] - last, p[1])


@kernel
def prefix(p: Any, S: Any, first: int) -> Any:
    """The state of the oldest `first` events."""
    if first == 0 or first == p[1] - p[0]:
        return suffix(p, S, first)
    refresh(p, S)
    return span(p, S, 0, p[2] + 1, p[0], p[0] + first)


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the leaves over; the inner nodes are made at the next query."""
    for i in range(p[0], p[1]):
        store(T, q[2] + 1 + (i & q[2]), load(S, p[2] + 1 + (i & p[2])))
    q[0], q[1], q[3], q[4] = p[0], p[1], p[0], p[0]


class FlatFAT(FlatMerger):
    """A flat tree over the window: any newest or oldest part, changes and holes anywhere.

    Positions count from the oldest event, which is 0.

    >>> import slicewise as sw
    >>> merger = sw.mergers.FlatFAT(sw.agg.max())
    >>> merger.insert_many([5.0, 1.0, 4.0, 2.0])
    >>> merger.evict()
    >>> merger.query(), merger.query(last=1), merger.prefix(1), merger.suffix(2), len(merger)
    (4.0, 2.0, 1.0, 2.0, 3)
    >>> merger.update([(0, 9.0), (2, 7.0)])
    >>> merger.evict_at(1)
    >>> merger.query(), merger.query(last=1), len(merger)
    (9.0, 7.0, 2)
    """

    name = "flatfat"
    kernels = (insert, evict, query, suffix, prefix, refresh, update_above, move)
    cursors = 7
    properties = Properties(
        needs="associative",
        amortised="log n",
        worst="2 log n",
        memory="2n",
        source="doi:10.14778/2752939.2752940",
        suffixes=True,
        bulk=True,
    )

    _holes: list[int]  # numbers of events that left out of order, ascending
    _touched: set[int]  # numbers of leaves that were overwritten

    @classmethod
    def slots(cls, capacity: int) -> int:
        return 2 * capacity

    @property
    def capacity(self) -> int:
        """How many events there is room for now: a power of two."""
        return self._p[2] + 1

    def _room(self, capacity: int) -> tuple[list[int], tuple[list[Any], ...]]:
        self._holes, self._touched = [], set()
        p, S = super()._room(capacity)
        p[5] = int(self.aggregate.commutative)
        return p, S

    def insert_state(self, state: Any) -> None:
        full = self._p[1] - self._p[0] == self.capacity
        if full and 4 * len(self) <= 3 * self.capacity:
            self._compact()
        elif full:
            self._resize(2 * self.capacity)
        self._run["insert"](self._p, self._S, state)

    def _evict(self) -> None:
        self._evict_many(1)

    def _evict_many(self, count: int) -> None:
        self._drop_before(self._number(count))
        self._shrink()

    def evict_at(self, *positions: int) -> None:
        """Take the events at these positions away, whatever their age."""
        for number in [self._number(self._position(k)) for k in dict.fromkeys(positions)]:
            self._write(number, self.aggregate.identity())
            insort(self._holes, number)
        self._drop_before(self._number(0))
        self._shrink()

    def update(self, changes: Iterable[tuple[int, Any]]) -> None:
        """Give the events at these positions new values: `(position, value)` each."""
        for position, value in changes:
            self._write(self._number(self._position(position)), self.lift(value))

    def prefix(self, i: int) -> Any:
        """The aggregate of the events before position `i`: the oldest `i`."""
        self._renew()
        first = self._number(self._cut(i)) - self._p[0]
        return self.aggregate.lower(self._run["prefix"](self._p, self._S, first))

    def suffix(self, j: int) -> Any:
        """The aggregate of the events from position `j` on."""
        return self.aggregate.lower(self.suffix_state(len(self) - self._cut(j)))

    def query_state(self) -> Any:
        self._renew()
        return super().query_state()

    def suffix_state(self, last: int) -> Any:
        self._renew()
        return super().suffix_state(self._p[1] - self._number(len(self) - last))

    def __len__(self) -> int:
        return super().__len__() - len(self._holes)

    def _number(self, position: int) -> int:
        """The number of the event at a position; of the window's end, where there is none."""
        number = self._p[0] + position
        for hole in self._holes:
            if hole > number:
                break
            number += 1
        return number

    def _position(self, position: int) -> int:
        if not is_count(position, 0, len(self) - 1):
            raise EmptyWindowError(
                f"A position counts from the oldest event, 0, and this window holds {len(self)}; "
                f"given: {position!r}."
            )
        return position

    def _cut(self, position: int) -> int:
        if not is_count(position, 0, len(self)):
            raise SpanError(
                f"`prefix` and `suffix` cut the window at a position from 0 to {len(self)}; "
                f"given: {position!r}."
            )
        return position

    def _write(self, number: int, state: Any) -> None:
        self._S[0][self.capacity + (number & self._p[2])] = state
        self._touched.add(number)

    def _renew(self) -> None:
        """Renew the nodes above overwritten leaves."""
        if not self._touched:
            return
        slots = sorted({number & self._p[2] for number in self._touched})
        self._touched.clear()
        # What was inserted or evicted meanwhile comes first: these nodes may stand on it.
        self._run["refresh"](self._p, self._S)
        self._run["update_above"](self._p, self._S, slots, len(slots))

    def _drop_before(self, number: int) -> None:
        """Let the window begin at `number`."""
        self._holes = [hole for hole in self._holes if hole >= number]
        self._p[0] = number

    def _shrink(self) -> None:
        capacity = self.capacity
        while capacity > SMALLEST and 4 * len(self) < capacity:
            capacity //= 2
        if capacity < self.capacity:
            self._resize(capacity)

    def _resize(self, capacity: int) -> None:
        self._close_holes()
        super()._resize(capacity)

    def _compact(self) -> None:
        """Close the holes and renew the nodes above every leaf that changed."""
        end = self._p[1]
        first = self._close_holes()
        # The slots at the end are empty now, and what lies above them has to know.
        self._touched.update(range(first, end))

    def _close_holes(self) -> int:
        """Shift the events after the first hole to the left; returns that hole's number."""
        if not self._holes:
            return self._p[1]
        leaves, mask, base = self._S[0], self._p[2], self.capacity
        first = target = self._holes[0]
        holes = set(self._holes)
        for number in range(first, self._p[1]):
            if number not in holes:
                leaves[base + (target & mask)] = leaves[base + (number & mask)]
                target += 1
        self._holes = []
        self._p[1] = target
        self._p[3] = min(self._p[3], target)
        return first
