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
Memory:  (3n + 13) / 2 states.
Source:  doi:10.1145/3447548.3467360 (Zhang, Akbarinia, Toumani: Efficient incremental computation
         of aggregations over sliding windows), Section 4
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from slicewise import tuning
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load, prepend, store
from slicewise.mergers.base import Merger, Properties
from slicewise.mergers.boundary import grow, item

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from slicewise.aggregates.base import Aggregate


def chunk_size_count(length: int, every: int = 1) -> int:
    """Slices per chunk for windows of `length` events every `every` events (Theorem 1).

    `PBA` takes it for windows that slide by one event. With longer slides it is for whoever inserts
    slices of `every` events and gives the size to `PBA` as `chunk`. `sw.slide` has all values from
    the start, so that its two threads never wait for one another's chunk to be complete: there a
    chunk is a window, whatever the slide.

    >>> chunk_size_count(10, 2), chunk_size_count(32, 1)
    (4, 17)
    """
    slices, rest = divmod(length, every)
    if slices <= every + rest + 1:
        return slices
    return (every * (slices + 1) + rest + 1) // (every + 1)


def chunk_size_time(length: float, every: float, combine_time: float) -> int:
    """Slices per chunk for windows of time, when one combine takes `combine_time` (Theorem 2).

    All three are in the same unit. Nothing in the library measures time between slides while it
    merges by `PBA`; who inserts slices of time knows both and gives the size to `PBA` as `chunk`.

    >>> chunk_size_time(3600.0, 1.0, 1e-6), chunk_size_time(20, 1, 1)
    (3600, 14)
    """
    slices, rest = int(length // every), length % every
    slack = every * rest + combine_time if rest else 0
    if slices <= (every + 2 * combine_time + slack) / combine_time:
        return slices
    needed = slices * (every + combine_time) + every + 2 * combine_time + slack
    return int(needed // (every + 2 * combine_time))


NOTHING: Any = object()


class Chunk:
    """Events between two boundaries: `states[i]` becomes the aggregate from `i` to the end.

    `after` becomes the aggregate of the chunks that follow this one.
    """

    __slots__ = ("after", "done", "states", "total")

    def __init__(self, states: list[Any], total: Any) -> None:
        self.states = states
        self.total = total
        self.after: Any = NOTHING
        self.done: Future[None] | None = None


class PBA(Merger):
    """Suffix aggregates made by another thread; at most three combines a slide in this one.

    Give the `length` of the window when it is fixed: chunks then have the best size from the
    start. Otherwise they follow the window as it is at each boundary. `chunk` sets how many items
    a chunk has: of slices, the size by `chunk_size_count` or `chunk_size_time`.

    >>> import slicewise as sw
    >>> merger = sw.mergers.PBA(sw.agg.max(), length=4)
    >>> merger.insert_many([5, 4, 6, 3])
    >>> merger.evict_many(3)
    >>> merger.query(), len(merger)
    (3, 1)
    """

    name = "pba"
    properties = Properties(
        needs="associative",
        amortised="3",
        worst="3",
        memory="(3n + 13) / 2",
        source="doi:10.1145/3447548.3467360",
    )

    def __init__(
        self, aggregate: Aggregate, *, length: int | None = None, chunk: int | None = None
    ) -> None:
        from slicewise.spans import Rows

        super().__init__(aggregate)
        self._length = None if length is None else Rows(length).count
        self._chunk = None if chunk is None else Rows(chunk).count
        self._closed: deque[Chunk] = deque()
        self._open: list[Any] = []
        self._csa: Any = NOTHING
        self._middle: Any = NOTHING  # the closed chunks but the oldest one
        self._gone = 0  # events of the oldest closed chunk that were evicted
        self._size = 0
        self._room = self._chunk_size()
        self._other: ThreadPoolExecutor | None = None

    def _chunk_size(self) -> int:
        if self._chunk is not None:
            return self._chunk
        if self._length is not None:
            return chunk_size_count(self._length)
        return max(tuning.active().chunk_least, chunk_size_count(max(1, self._size)))

    def insert_state(self, state: Any) -> None:
        self._csa = state if self._csa is NOTHING else self.aggregate.combine(self._csa, state)
        self._open.append(state)
        self._size += 1
        if len(self._open) >= self._room:
            self._close()

    def _close(self) -> None:
        """A boundary: the open chunk goes to the other thread."""
        chunk = Chunk(self._open, self._csa)
        if self._closed:
            self._middle = _join(self.aggregate, self._middle, chunk.total)
        self._closed.append(chunk)
        if self._other is None:
            from concurrent.futures import ThreadPoolExecutor

            self._other = ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba")
        chunk.done = self._other.submit(_suffixes, self.aggregate, tuple(self._closed))
        self._open, self._csa = [], NOTHING
        self._room = self._chunk_size()

    def _evict(self) -> None:
        if not self._closed:
            self._close()
        self._size -= 1
        self._gone += 1
        if self._gone < len(self._closed[0].states):
            return
        self._closed.popleft()
        self._gone = 0
        self._middle = NOTHING
        if len(self._closed) > 1:
            _wait(self._closed[-1])
            self._middle = self._closed[0].after

    def query_state(self) -> Any:
        state = NOTHING
        if self._closed:
            oldest = self._closed[0]
            if self._gone:
                _wait(oldest)
                state = oldest.states[self._gone]
            else:
                state = oldest.total
        state = _join(self.aggregate, state, self._middle)
        state = _join(self.aggregate, state, self._csa)
        return self.aggregate.identity() if state is NOTHING else state

    def __len__(self) -> int:
        return self._size


def _join(aggregate: Aggregate, older: Any, newer: Any) -> Any:
    if older is NOTHING or newer is NOTHING:
        return newer if older is NOTHING else older
    return aggregate.combine(older, newer)


def _wait(chunk: Chunk) -> None:
    assert chunk.done is not None
    chunk.done.result()


def _suffixes(aggregate: Aggregate, chunks: tuple[Chunk, ...]) -> None:
    """In the other thread: the suffixes of the newest chunk, and what follows each chunk."""
    newest = chunks[-1]
    states = newest.states
    for i in range(len(states) - 2, 0, -1):
        states[i] = aggregate.combine(states[i], states[i + 1])
    after = NOTHING
    for k in range(len(chunks) - 2, -1, -1):
        after = _join(aggregate, chunks[k + 1].total, after)
        chunks[k].after = after


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
