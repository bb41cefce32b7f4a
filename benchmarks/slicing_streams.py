"""The streams of the slicing benchmark, and how systems are fed with them and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

import slicewise as sw
from slicewise.aggregates.base import Aggregate
from slicewise.slicing.ingest.events import column_of

EVENTS = 10_000_000
APART = 10  # microseconds between events
BATCH = 100_000
SECOND = 1_000_000
FOREVER = 2**61


def lengths(count: int) -> list[int]:
    """The lengths of concurrent tumbling windows, spread evenly from 1 to 20 s."""
    return [int(x) for x in np.linspace(SECOND, 20 * SECOND, count)]


@dataclass(frozen=True)
class Stream:
    """Events in the order in which they arrive; the watermark is `delay` behind the newest.

    `keys` are codes, or an Arrow array of texts.
    """

    times: np.ndarray
    values: np.ndarray
    keys: Any = None
    delay: int = 0
    batch: int = BATCH
    texts: Any = None

    def __len__(self) -> int:
        return len(self.times)

    def first(self, events: int) -> Stream:
        """The stream's beginning."""
        keys = None if self.keys is None else self.keys[:events]
        head = (self.times[:events], self.values[:events], keys)
        texts = None if self.texts is None else self.texts[:events]
        return Stream(*head, self.delay, self.batch, texts)

    @cached_property
    def second(self) -> np.ndarray:
        """A second column, for aggregates that take two."""
        return np.roll(self.values, 7)

    @cached_property
    def parts(self) -> list[tuple[slice, int]]:
        """The rows of each micro-batch, and the watermark that follows it."""
        newest, found = -FOREVER, []
        for begin in range(0, len(self), self.batch):
            rows = slice(begin, begin + self.batch)
            newest = max(newest, int(self.times[rows].max()))
            found.append((rows, newest - self.delay))
        return found


def in_order(events: int = EVENTS) -> Stream:
    values = np.random.default_rng(1).standard_normal(events)
    return Stream(np.arange(events) * APART, values)


def disordered(
    fraction: float, delay: int, events: int = EVENTS, keys: Any = None, apart: int = APART
) -> Stream:
    """A share of the events arrives late, by up to `delay`; the watermark leaves none behind."""
    random = np.random.default_rng(2)
    values = random.standard_normal(events)
    times = np.arange(events) * apart
    late = random.random(events) < fraction
    arrival = times + np.where(late, random.integers(1, delay + 1, events) if delay else 0, 0)
    order = np.argsort(arrival, kind="stable")
    return Stream(times[order], values[order], keys, delay, SECOND // apart)


def operator(
    windows: Sequence[Any], aggregate: Aggregate | None = None, **options: Any
) -> sw.Operator:
    aggs = [aggregate or sw.agg.sum("x")]
    return sw.Operator(windows=windows, aggs=aggs, time="t", **options)


def batches(stream: Stream) -> Iterator[tuple[dict[str, Any], int]]:
    for rows, watermark in stream.parts:
        batch = {"t": stream.times[rows], "x": stream.values[rows], "y": stream.second[rows]}
        if stream.keys is not None:
            batch["key"] = stream.keys[rows]
        if stream.texts is not None:
            batch["s"] = stream.texts[rows]
        yield batch, watermark


Step = tuple[int, Callable[[], Any]]  # how many events, and what takes them and gives results


def feed(op: sw.Operator, stream: Stream) -> Iterator[Step]:
    """The micro-batches of a stream for an operator."""

    def step(batch: dict[str, Any], watermark: int) -> Any:
        op.process(batch)
        return op.advance_arrow(watermark)

    for batch, watermark in batches(stream):
        yield len(batch["t"]), partial(step, batch, watermark)


def feed_rival(rival: Any, stream: Stream) -> Iterator[Step]:
    """The same for a rival. Columns are made beforehand: it has no front door to pay for."""
    none = np.zeros(stream.batch, np.int64)

    def step(columns: Any, times: np.ndarray, keys: Any, watermark: int) -> Any:
        rival.process(columns, times, none[: len(times)] if keys is None else keys)
        return rival.advance(watermark)

    steps = []
    for batch, watermark in batches(stream):
        columns = {name: column_of(name, batch[name]) for name in ("x", "y", "s") if name in batch}
        steps.append(partial(step, columns, batch["t"], batch.get("key"), watermark))
    yield from ((len(one.args[1]), one) for one in steps)


def results(steps: Iterable[Step]) -> list[Any]:
    """What comes of a stream."""
    return [step() for _, step in steps]


def rate(steps: Iterable[Step], budget: float = FOREVER) -> float:
    """Events per second, within a budget of seconds.

    Results are let go, as by one who sends them on: keeping them all would measure how fast the
    machine finds new memory.
    """
    ready = iter(steps)
    first = next(ready)  # a rival's columns are made now
    begin, done = time.perf_counter(), 0
    for events, step in chain([first], ready):
        step()
        done += events
        if time.perf_counter() - begin > budget:
            break
    return done / (time.perf_counter() - begin)


def rows_of(results: Sequence[Any], names: Sequence[str]) -> tuple[np.ndarray, list[Any]]:
    """Window numbers, starts and keys of an operator's results in order, and the values."""
    table = pa.concat_tables(results)
    number = {name: k for k, name in enumerate(names)}
    window = np.array([number.get(name, -1) for name in table["window"].to_pylist()])
    key = table["key"].to_numpy() if "key" in table.column_names else window * 0
    value = table[table.column_names[-3]].to_pylist()
    return _sorted(window, table["start"].to_numpy(), key, value)


def rows_of_rival(results: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    parts = [np.concatenate([getattr(r, n) for r in results]) for n in ("window", "start", "key")]
    return _sorted(*parts, [value for r in results for value in r.value.to_pylist()])


def _sorted(
    window: np.ndarray, start: np.ndarray, key: np.ndarray, value: list[Any]
) -> tuple[np.ndarray, list[Any]]:
    keep = np.flatnonzero(window >= 0)  # windows that the rival does not have are left out
    order = keep[np.lexsort((start[keep], key[keep], window[keep]))]
    return np.stack([window[order], start[order], key[order]]), [value[k] for k in order]


def same(
    ours: tuple[np.ndarray, list[Any]],
    theirs: tuple[np.ndarray, list[Any]],
    *,
    exact: bool = True,
) -> bool:
    """Whether two sets of rows agree; floats up to rounding, values only when they are `exact`."""
    if not len(ours[1]) or not np.array_equal(ours[0], theirs[0]):
        return False
    if exact and {type(value) for value in (*ours[1], *theirs[1])} == {float}:
        return _close(*(np.array(side[1]) for side in (ours, theirs)))
    return not exact or all(map(_close, ours[1], theirs[1]))


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float | np.ndarray) and isinstance(b, float | np.ndarray):
        return bool(np.isclose(a, b, rtol=1e-9, atol=1e-6, equal_nan=True).all())
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(_close, a.values(), b.values()))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_close, a, b))
    return bool(a == b)


def rates(systems: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The best rate of each, in turns, so that noise meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            found[name].append(run())
    return {name: max(values) for name, values in found.items()}
