"""Parallel boundary aggregator (PBA): the suffixes of a chunk are made by another thread.

As in `SBA`, a window is an aggregate up to a boundary (`lcs`) and one from there on (`csa`). Here
the calling thread only ever extends `csa` and merges at most three parts, while a second thread
turns each finished chunk into suffixes. A chunk is a little more than half a window long (Theorem
1), so that its suffixes are ready before the first window that needs them.

The array form has the whole input, so no chunk is ever waited for, which is what the sizes of
Theorems 1 and 2 are for. Chunk and window have the same length there: a window is two parts and
costs 3 combines in all, where chunks of Theorem 1 make three parts and cost 4. One thread goes up
through a chunk with the prefixes, the other one down with the suffixes, through the very same
results; they start at the two ends and from the middle on each merges what the other left there.
Both threads run compiled code without the interpreter lock.

Needs:   associative `combine`; event order is kept.
Cost:    at most 3 combines per slide with a query in the calling thread, amortised under 3; one
         more in the other thread.
Memory:  n + 2 states, as suffixes take the place of items, and n numbers.
Source:  doi:10.1145/3447548.3467360 (Zhang, Akbarinia, Toumani: Efficient incremental computation
         of aggregations over sliding windows), Section 4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, prepend, store
from slicewise.mergers.base import FlatMerger, Properties
from slicewise.mergers.boundary import grow, item

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa

    from slicewise.aggregates.base import Aggregate
    from slicewise.mergers.compiled import CompiledMerger


def chunk_size_count(length: int, every: int = 1) -> int:
    """Slices per chunk for windows of `length` events every `every` events (Theorem 1).

    `PBA` takes it for windows that slide by one event, and an operator for its windows over rows
    and advancing columns. Whoever inserts slices of `every` events gives the size to `PBA` as
    `chunk`. `sw.slide` has all values from the start, so that its two threads never wait for one
    another's chunk to be complete: there a chunk is a window, whatever the slide.

    >>> chunk_size_count(10, 2), chunk_size_count(32, 1)
    (4, 17)
    """
    slices, rest = divmod(length, every)
    if slices <= every + rest + 1:
        return slices
    return (every * (slices + 1) + rest + 1) // (every + 1)


def chunk_size_time(length: float, every: float, combine_time: float) -> int:
    """Slices per chunk for windows of time, when one combine takes `combine_time` (Theorem 2).

    All three are in the same unit. An operator takes it for its windows of time; whoever inserts
    slices of time gives the size to `PBA` as `chunk`.

    >>> chunk_size_time(3600.0, 1.0, 1e-6), chunk_size_time(20, 1, 1)
    (3600, 14)
    """
    slices, rest = int(length // every), length % every
    slack = every * rest + combine_time if rest else 0
    if slices <= (every + 2 * combine_time + slack) / combine_time:
        return slices
    needed = slices * (every + combine_time) + every + 2 * combine_time + slack
    return int(needed // (every + 2 * combine_time))


# p[3] is the end of the oldest chunk that is closed, and p[9] where it begins; p[4] is where the
# open one begins, and p[7] how many items it may have (0: any number, until an event leaves).
# Suffixes are made up to p[5]. p[8] tells whether there are closed chunks behind the oldest one,
# whose aggregate is the second state behind the buffer; the first one is that of the open chunk.
# p[10] is the size of chunks where that was given. The end of the chunk that begins in slot i is
# p[11 + i].
# A closed chunk has its aggregate in its first slot, and suffixes in the others.


@kernel
def insert(p: Any, S: Any, state: Any) -> None:
    """Extend the open chunk, and close it when it is large enough."""
    running = p[2] + 1
    store(S, p[1] & p[2], state)
    if p[1] > p[4]:
        store(S, running, combine(load(S, running), state))
    else:
        store(S, running, state)
        if p[10] > 0:
            p[7] = p[10]
    p[1] += 1
    if p[7] > 0 and p[1] - p[4] >= p[7]:
        close(p, S)


@kernel
def close(p: Any, S: Any) -> None:
    """Let the open chunk end here: a boundary."""
    mask, begin = p[2], p[4]
    total = load(S, mask + 1)
    store(S, begin & mask, total)
    p[11 + (begin & mask)] = p[1]
    if p[3] == p[0]:
        p[3], p[9] = p[1], begin
    elif p[8] == 0:
        p[8] = 1
        store(S, mask + 2, total)
    else:
        store(S, mask + 2, combine(load(S, mask + 2), total))
    p[4] = p[1]
    p[7] = p[10] if p[10] > 0 else (p[1] - p[0] + 2) // 2  # Theorem 1, for slides of one item


@kernel
def evict(p: Any, S: Any) -> None:
    """Take the oldest event away; behind the last one of its chunk the next chunk is the oldest."""
    if p[3] == p[0]:
        close(p, S)
    p[0] += 1
    if p[0] < p[3]:
        return
    p[5] = max(p[5], p[3])
    p[8] = 0
    if p[3] == p[4]:
        return
    mask = p[2]
    p[9] = p[3]
    p[3] = p[11 + (p[3] & mask)]
    begin = p[3]
    while begin < p[4]:
        if p[8] == 0:
            store(S, mask + 2, load(S, begin & mask))
            p[8] = 1
        else:
            store(S, mask + 2, combine(load(S, mask + 2), load(S, begin & mask)))
        begin = p[11 + (begin & mask)]


@kernel
def query(p: Any, S: Any) -> Any:
    """At most three parts: a suffix of the oldest chunk, closed chunks, and the open one."""
    if p[0] == p[1]:
        return identity()
    mask = p[2]
    if p[3] == p[0]:
        return load(S, mask + 1)
    if p[5] < p[3] and p[0] > p[9]:
        # The other thread, if there is one, has not done it.
        suffix = load(S, (p[3] - 1) & mask)
        for i in range(p[3] - 2, p[0] - 1, -1):
            suffix = combine(load(S, i & mask), suffix)
            store(S, i & mask, suffix)
        p[5] = p[3]
    answer = load(S, p[0] & mask)
    if p[8] == 1:
        answer = combine(answer, load(S, mask + 2))
    if p[1] > p[4]:
        answer = combine(answer, load(S, mask + 1))
    return answer


@kernel
def work_ahead(p: Any, S: Any) -> None:
    """Make the suffixes of chunks that are closed; nothing else touches these meanwhile."""
    mask, end = p[2], p[4]
    while p[5] < end:
        begin = p[5]
        after = p[11 + (begin & mask)]
        suffix = load(S, (after - 1) & mask)
        for i in range(after - 2, begin, -1):
            suffix = combine(load(S, i & mask), suffix)
            store(S, i & mask, suffix)
        p[5] = after


@kernel
def move(p: Any, S: Any, q: Any, T: Any) -> None:
    """Carry the window over."""
    for i in range(p[0], p[1]):
        store(T, i & q[2], load(S, i & p[2]))
    for i in range(1, 3):
        store(T, q[2] + i, load(S, p[2] + i))
    q[11 + (p[9] & q[2])] = p[3]
    begin = p[3]
    while begin < p[4]:
        after = p[11 + (begin & p[2])]
        q[11 + (begin & q[2])] = after
        begin = after
    for i in range(11):
        if i != 2:
            q[i] = p[i]


class PBA(FlatMerger):
    """Suffix aggregates made by another thread; at most three combines a slide in this one.

    Give the `length` of the window when it is fixed: chunks then have the best size from the
    start. Otherwise the first chunk is what there is when an event leaves, and the next ones follow
    the window as it is at each boundary. `chunk` sets how many items a chunk has: of slices, the
    size by `chunk_size_count` or `chunk_size_time`.

    >>> import slicewise as sw
    >>> merger = sw.mergers.PBA(sw.agg.max(), length=4)
    >>> merger.insert_many([5, 4, 6, 3])
    >>> merger.evict_many(3)
    >>> merger.query(), len(merger)
    (3, 1)
    """

    name = "pba"
    kernels = (insert, evict, query, move, close, work_ahead)
    cursors = 10
    chunked = True
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="3",
        memory="n + 2",
        source="doi:10.1145/3447548.3467360",
    )

    def __init__(
        self, aggregate: Aggregate, *, length: int | None = None, chunk: int | None = None
    ) -> None:
        super().__init__(aggregate)
        self._p[self.cursors] = _chunk_of(length, chunk)
        self._other: ThreadPoolExecutor | None = None
        self._ahead: Future[None] | None = None
        self._given = 0  # the end of the last chunk that the other thread was given

    @classmethod
    def slots(cls, capacity: int) -> int:
        return capacity + 2

    @classmethod
    def numbers(cls, capacity: int) -> int:
        return capacity + 1

    @classmethod
    def compiled(
        cls,
        aggregate: Aggregate,
        *types: pa.DataType,
        length: int | None = None,
        chunk: int | None = None,
    ) -> CompiledMerger:
        """A window over columns of these Arrow types, in compiled code in both threads.

        `length` and `chunk` are those of `PBA` itself.
        """
        from slicewise.mergers.compiled import CompiledMerger

        size = _chunk_of(length, chunk)
        return CompiledMerger(cls, aggregate, types, length=length, chunk=size)

    @classmethod
    def needs_ahead(cls, p: Any, leaving: int) -> bool:
        # The slots of a chunk are free when it has gone.
        return bool(p[5] < p[3] and (p[0] > p[9] if leaving == 0 else p[0] + leaving >= p[3]))

    def insert_state(self, state: Any) -> None:
        super().insert_state(state)
        self._hand_on()

    def _hand_on(self) -> None:
        """Give chunks that were closed to the other thread."""
        end = self._p[4]
        if end <= self._given:
            return
        if self._other is None:
            from concurrent.futures import ThreadPoolExecutor

            self._other = ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba")
        self._given = end
        self._ahead = self._other.submit(self._run["work_ahead"], self._p, self._S)

    def _wait(self) -> None:
        """Let the other thread end; an error of its own is raised here."""
        if self._ahead is not None:
            self._ahead.result()

    def _resize(self, capacity: int) -> None:
        self._wait()
        super()._resize(capacity)

    def _evict(self) -> None:
        p = self._p
        if p[3] == p[0]:
            self._run["close"](p, self._S)
            self._hand_on()
        if self.needs_ahead(p, 1):
            self._wait()
        super()._evict()

    def query_state(self) -> Any:
        if self.needs_ahead(self._p, 0):
            self._wait()
        return super().query_state()


def _chunk_of(length: int | None, chunk: int | None) -> int:
    """The size of chunks: the given one, that of a known length, or 0."""
    from slicewise.spans import Rows

    if chunk is not None:
        return Rows(chunk).count
    return 0 if length is None else chunk_size_count(Rows(length).count)


# The array form: `items` are the first and the end of whole chunks, `ends` has a state per chunk.
# Each thread runs its kernel twice, and the other one is done with the first part in between.


@kernel
def rise(
    X: Any, valid: Any, S: Any, length: int, items: Any, part: int, ends: Any, out: Any
) -> None:
    """Prefixes: alone in the lower half of a chunk (part 1), then meeting the suffixes (part 2)."""
    first, stop = items
    for start in range(first, stop, length):
        end = min(start + length, stop)
        chunk, upto = (start - first) // length, min(end, start + length - 1)
        middle = start + max(1, (upto - start) // 2)
        if start == 0:
            if part == 1:
                grow(X, valid, S, end, out)
        elif part == 1:
            csa = item(X, valid, S, start)
            store(out, start - first, csa)
            for i in range(start + 1, middle):
                csa = combine(csa, item(X, valid, S, i))
                store(out, i - first, csa)
            store(ends, chunk, csa)
        else:
            csa = load(ends, chunk)
            for i in range(middle, upto):
                csa = combine(csa, item(X, valid, S, i))
                store(out, i - first, combine(load(out, i - first), csa))
            if end == start + length:  # the window of the last item is the chunk itself
                store(out, end - 1 - first, combine(csa, item(X, valid, S, end - 1)))


@kernel
def fall(
    X: Any, valid: Any, S: Any, length: int, items: Any, part: int, ends: Any, out: Any
) -> None:
    """Suffixes of the chunk before: alone in the upper half (part 1), then below it (part 2)."""
    first, stop = items
    back = length - 1  # from a window's last item to its first
    for start in range(max(first, length), stop, length):
        end = min(start + length, stop)
        chunk, upto = (start - first) // length, min(end, start + length - 1)
        middle = start + max(1, (upto - start) // 2)
        if part == 1:
            lcs = item(X, valid, S, start - 1)
            for j in range(start - 2, upto - 1 - back, -1):
                lcs = prepend(item(X, valid, S, j), lcs)
            for i in range(upto - 1, middle - 1, -1):
                if i - back < start - 1:
                    lcs = prepend(item(X, valid, S, i - back), lcs)
                store(out, i - first, lcs)
            store(ends, chunk, lcs)
        else:
            lcs = load(ends, chunk)
            for i in range(middle - 1, start - 1, -1):
                if i - back < start - 1:
                    lcs = prepend(item(X, valid, S, i - back), lcs)
                store(out, i - first, combine(lcs, load(out, i - first)))
