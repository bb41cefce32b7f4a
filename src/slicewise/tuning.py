"""The thresholds that decide between ways to the same result, in one place.

None of them changes a result, only how soon it is there and how much memory it takes. Whoever
decides asks `active()` when the decision is made, which is once per call and never per event.
Numbers that kernels compile in are constants beside those kernels.

Tests set thresholds for a while, so that small inputs go the ways of large ones:

>>> with tuned(keys_by_time=1):
...     active().keys_by_time
1
>>> active().keys_by_time
1024

Each fast way notes that it was taken, once per call, so that a test can tell (`paths_taken` of
`slicewise.testing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

FastPath = Literal[
    "bands",  # events were added to slices by time
    "bands closed",  # instances came from slices by time
    "rounds",  # `rolling` went from round to round, keys side by side
    "series",  # results travelled to Spark in series
    "suffixes ahead",  # a second thread made the suffixes of PBA between watermarks
    "two threads",  # `slide` shared its work with a second thread
    "text table",  # keys were looked up in a table of texts
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Thresholds between ways; the defaults are what was measured to be best."""

    # Kernels run as plain Python for calls with arrays of at most so many places, until each has
    # taken so many seconds of processor time: to compile one takes 0.1 to 1.5 s (measured), and to
    # load the compiler half a second. Otherwise all run as plain Python, or all are compiled.
    kernels: Literal["by work", "plain", "compiled"] = "by work"
    plain_places: int = 1 << 15
    plain_seconds: float = 0.3
    # The same where the compiler is in memory already: small parts of large jobs are soon compiled.
    plain_seconds_loaded: float = 0.02

    # Slices by time instead of by key: with at least so many keys, and so many events in a batch,
    # to which every so many keys add one (measured: the more keys, the fewer events it takes; 1024
    # keys are faster by time by a seventh in small batches and by half in large ones, 500 slower).
    keys_by_time: int = 1024
    events_by_time: int = 4096
    keys_per_event: int = 8
    # Slices that a change of the store may move for each event that came since the last change.
    moved_per_event: int = 1
    # Bands of time that a batch may make: so many, or one for so many events. A band costs some
    # microseconds whatever it holds, so there must not be many with little in them.
    few_bands: int = 64
    full_band: int = 64
    most_bands: int = 1 << 12
    # Events that are put in order of time together.
    events_banded: int = 1 << 18
    # Bands are added anew for each end of a window; where that takes more combines than this for
    # each result, as with long windows that slide by little, slices are read by key.
    combines_per_result: int = 16
    # Keys that are closed together: their states stay in the processor's cache.
    keys_closed: int = 1 << 13

    # Edges of windows are listed with more progressions than this, and no more edges than this
    # times the events; otherwise they are worked out one by one, once per slice.
    listed_progressions: int = 8
    edges_per_event: int = 2
    # Slices that may be moved for each event of a batch that is not in order, to make places in
    # the middle of runs: by then it takes less time to put the rest in order.
    moves_per_event: int = 64

    # Housekeeping waits until there is enough to be found: slices before any are dropped, keys
    # before any are forgotten, instances that were handed out before any are let go, events that
    # are kept before any are let go.
    evict_at_least: int = 256
    forget_at_least: int = 4096
    prune_at_least: int = 1024
    keep_at_least: int = 4096
    # Batches that wait become one below so many events.
    join_below: int = 4096
    # With more keys than this, slices become one only now and then: each key has to be looked at.
    fuse_keys: int = 1024
    # Instances are counted before they are listed where more than this hold an event; others make
    # no more instances than there is memory for their slices.
    counted_overlap: int = 1024

    # Pieces: compiled code does not hear Ctrl-C, and so many take it well below a second. Rows of
    # a table that `windowed` takes at a time, rows that are sorted by key and time (measured: 80 ns
    # a row), results that are sorted, values that become Python objects, values or combines of a
    # merger.
    rows_taken: int = 1 << 22
    rows_sorted: int = 1 << 22
    results_sorted: int = 1 << 18
    objects_made: int = 1 << 16
    combines_done: int = 1 << 25

    # Keys next to each other, round by round, for `rolling`: with so many rows and keys at the
    # least, also where few are done side by side (below, nothing is won that is worth a loop of its
    # own).
    rounds_rows: int = 1 << 15
    rounds_keys: int = 32
    # Keys that are done side by side at most: their states stay in the nearest cache. States behind
    # a boundary that stay in cache.
    side_by_side: int = 1 << 10
    rounds_states: int = 1 << 17
    # Rows of `rolling` whose states stay in the processor's cache until they are results. Python
    # objects may be as large as their window, so few of them are alive at a time. States that
    # become results at a time stay in the nearest cache.
    rolling_block: int = 1 << 16
    rolling_objects: int = 1 << 8
    rolling_tile: int = 1 << 10

    # Numbers in the states of a block of `slide`: they stay in cache, and calling Python costs
    # little; so many times as many when there is nothing to keep in cache.
    slide_block: int = 1 << 17
    slide_through: int = 8
    # A second thread pays for windows of so many items and states of so many numbers: a chunk
    # takes longer than waking the thread, and a combine is not bound by memory.
    threads_length: int = 1 << 13
    threads_fields: int = 6
    # Processors that may be used; 0 stands for all that this process may run on.
    processors: int = 0
    # Seconds that one combine takes, for the size of PBA's chunks over windows of time (Theorem 2).
    combine_time: float = 1e-8

    # Spark: an expression with more progressions of edges than this is slower than Python.
    native_progressions: int = 32
    # Results go to Spark in series where so many instances hold an event: so many results each
    # event makes at the least.
    series_overlap: int = 4
    # Slices that a combiner keeps before it hands them on. Results that are made at a time, few
    # enough to stay in a cache; where states are objects, each may be a list of values.
    combiner_slices: int = 1 << 17
    merged_results: int = 1 << 17
    merged_objects: int = 1 << 13
    # About how many results of events in order are made before they are handed on, and rows that
    # are taken at a time at the least.
    ordered_results: int = 1 << 22
    ordered_rows: int = 1 << 10
    # Kernels want long batches and memory wants short ones: batches are joined up to so many rows
    # and bytes. Rows of a batch of results, and of results of a stream that are packed together.
    rows_joined: int = 1 << 16
    bytes_joined: int = 1 << 25
    rows_out: int = 1 << 16
    rows_packed: int = 1 << 17
    # Bytes of rows that are kept, to tell which of them raised an error, before a snapshot takes
    # their place.
    traced_bytes: int = 1 << 26
    # Rows that are sent to a database at a time.
    rows_sent: int = 10_000


_active = Tuning()


def active() -> Tuning:
    """The thresholds of now."""
    return _active


@contextmanager
def tuned(**changes: Any) -> Iterator[Tuning]:
    """Thresholds changed for all threads of this process as long as the context lasts.

    Contexts may end in any order: each takes back what it changed and nothing else.
    """
    before = _active
    tune(**changes)
    try:
        yield _active
    finally:
        tune(**{name: getattr(before, name) for name in changes})


def tune(**changes: Any) -> None:
    """Change thresholds for good, in a process that is not the user's own."""
    global _active
    _active = replace(_active, **changes)


taken: Counter[str] = Counter()


def took(path: FastPath) -> None:
    """Note that a fast path was taken."""
    taken[path] += 1
