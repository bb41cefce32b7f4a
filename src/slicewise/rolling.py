"""Rolling aggregation: for every row the aggregate over the span that ends with it.

Rows are brought into the order of (key, time, arrival) once. The windows of one span are then
runs of neighbouring rows whose first and last row only ever move forward, also from one key to
the next, so a boundary aggregator in the manner of SBA (KDD 2021) does them all in one sweep:
behind the boundary suffix aggregates, after it one running aggregate, and a window is one of each.
When the first row of a window passes the boundary, the boundary moves to the window's end.

Needs:   associative `combine`; event order is kept. Nothing is ever subtracted.
Cost:    at most 3 combines per row, span and component, whatever the span.
Memory:  one copy of the columns in order; states of the longest window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates import components as parts
from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    Component,
    States,
    read,
    share,
    states_of,
)
from slicewise.codegen.algebra import NOTHING
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, store
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.grouping import Groups, encode, gather, group, room, scatter
from slicewise.mergers.sba import event
from slicewise.spans import Rows, Span, Units
from slicewise.times import Times

if TYPE_CHECKING:
    import pyarrow as pa

# States of a block stay in the processor's cache until they are results. Python objects may be
# as large as their window, so few of them are alive at a time.
BLOCK = 1 << 15
OBJECTS = 1 << 8
LOWEST = -(2**63)


def rolling_columns(
    keys: Sequence[pa.Array | pa.ChunkedArray],
    times: Times,
    columns: Mapping[str, Column],
    spans: Sequence[Span],
    aggs: Sequence[Aggregate],
) -> list[Column]:
    """The results of each aggregate over each span, rows as they came: all spans of the first
    aggregate, then of the second, and so on.

    Rows without a usable time are null, and in nobody's window.
    """  # noqa: D205 - one sentence
    lengths = [length_of(span, times) for span in spans]
    bounds = [agg.bind([columns[name].type for name in agg.columns]) for agg in aggs]
    codes, count = encode(keys)
    values, rows = times.values, None
    if times.valid is not None:
        rows = np.flatnonzero(times.valid)
        values, codes = values[rows], None if codes is None else codes[rows]
    groups = group(codes, count, values)
    order = groups.order
    if rows is not None:
        order = rows if order is None else rows[order]
    if order is not None:
        used = {name for agg in aggs for name in agg.columns}
        columns = {name: gather(columns[name], order) for name in used}

    outputs = [[Output(times.valid, order, len(times.values)) for _ in spans] for _ in aggs]
    for compiled in (True, False):
        some = [k for k, bound in enumerate(bounds) if bound.compiled == compiled]
        if not some:
            continue
        sweep = Sweep([bounds[k] for k in some], groups, columns, BLOCK if compiled else OBJECTS)
        for n, (span, length) in enumerate(zip(spans, lengths, strict=True)):
            for begin, results in sweep.run(length, by_rows=isinstance(span, Rows)):
                for k, result in zip(some, results, strict=True):
                    outputs[k][n].put(begin, result)
    return [output.column() for of_aggregate in outputs for output in of_aggregate]


def length_of(span: Span, times: Times) -> int:
    """A span in rows, or in the unit of the times; refuses what rolling cannot look back over."""
    if isinstance(span, Rows):
        return span.count
    if isinstance(span, Units):
        raise SpanError(
            f"`rolling` looks back in time or in rows; given: units({span.count}, on={span.on!r}). "
            f"Name that column as the time, `time={span.on!r}`, and give the span as {span.count}."
        )
    return times.length(span)


class Output:
    """A column of results in the order of the input; they come block by block in `order`.

    Rows that are not `usable` have no result and are null.
    """

    def __init__(self, usable: np.ndarray | None, order: np.ndarray | None, size: int) -> None:
        self._usable, self._order, self._size = usable, order, size
        self._column: Column | None = None

    def put(self, begin: int, results: Column) -> None:
        """Results of the rows from `begin` on."""
        if self._column is None:
            values = room(self._size, results.values.dtype)
            valid = None if self._usable is None else self._usable.copy()
            self._column = Column(values, valid, results.type)
        if self._column.type != results.type:
            results = self._agree(results)
        if results.valid is not None and self._column.valid is None:
            everything = np.ones(self._size, np.bool_)
            self._column = Column(self._column.values, everything, self._column.type)
        self._place(begin, results.values, self._column.values)
        if self._column.valid is not None:
            there = results.valid
            there = np.ones(len(results), np.bool_) if there is None else there
            self._place(begin, there, self._column.valid)

    def _place(self, begin: int, values: np.ndarray, target: np.ndarray) -> None:
        stop = begin + len(values)
        if self._order is None:
            target[begin:stop] = values
        else:
            scatter(values, self._order[begin:stop], target)

    def _agree(self, results: Column) -> Column:
        """Bring what is here and `results` to one type: Arrow infers that of Python objects."""
        import pyarrow as pa

        assert self._column is not None
        schemas = [pa.schema([("x", column.type)]) for column in (self._column, results)]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        # Not safe, because the rows to come hold anything.
        known = Column.from_arrow(self._column.to_arrow().cast(kind, safe=False))
        valid = None if known.valid is None else known.valid.copy()
        self._column = Column(known.values.copy(), valid, kind)
        return Column.from_arrow(results.to_arrow().cast(kind))

    def column(self) -> Column:
        assert self._column is not None
        return self._column


class Rolled:
    """A component that is swept over the windows of a span.

    `cursor` holds the boundary and the row whose suffix is first in `suffixes`; `newer` is the
    one state of the rows after the boundary.
    """

    def __init__(self, component: Component, X: Any, valid: np.ndarray | None) -> None:
        self.algebra = component.algebra
        self.positional = valid is None and self.algebra == parts.rows().algebra
        self.X, self.valid = X, valid
        self.kernel = roll.specialise(self.algebra)
        self.reset()

    def reset(self) -> None:
        """Begin a new sweep."""
        self.suffixes, self.newer = self.algebra.new(0), self.algebra.new(1)
        self.cursor = np.zeros(2, np.int64)

    def states(self, block: Block) -> States:
        """The states over the windows of the next rows."""
        if self.positional:
            return (block.counts,)
        known = len(self.suffixes[0])
        if block.longest > known:
            room = self.algebra.new(max(block.longest, 2 * known))
            for array, old in zip(room, self.suffixes, strict=True):
                array[:known] = old
            self.suffixes = room
        out = self.algebra.new(len(block.firsts))
        # Python reads lists faster than arrays.
        firsts, ends = block.lists() if not self.algebra.compiled else (block.firsts, block.ends)
        self.kernel(
            self.X, self.valid, firsts, ends, block.begin,
            self.cursor, self.suffixes, self.newer, out,
        )  # fmt: skip
        return out


class Block:
    """Rows from `begin` on; their windows begin with `firsts` and stop before `ends`.

    Without `ends` each window ends with its own row. `longest` is the most rows in a window.
    """

    def __init__(
        self, begin: int, firsts: np.ndarray, ends: np.ndarray | None, longest: int
    ) -> None:
        self.begin, self.firsts, self.ends, self.longest = begin, firsts, ends, longest

    @cached_property
    def counts(self) -> np.ndarray:
        """How many rows each window has."""
        ends = self.ends
        if ends is None:
            ends = np.arange(self.begin + 1, self.begin + len(self.firsts) + 1)
        counts: np.ndarray = ends - self.firsts
        return counts

    def lists(self) -> tuple[list[int], list[int] | None]:
        return self.firsts.tolist(), None if self.ends is None else self.ends.tolist()


class Sweep:
    """Aggregates over all windows of a span, block by block."""

    def __init__(
        self, bounds: Sequence[Bound], groups: Groups, columns: Mapping[str, Column], block: int
    ) -> None:
        self.groups = groups
        self.block = block
        self.size = len(groups.times)
        kept = share(bounds)
        self.rolled = [Rolled(c, *read(c, columns, self.size)) for c in kept]
        # Where each aggregate finds its states, looked up once and not for every block.
        places = [tuple((k, n) for n in range(len(c.algebra.dtypes))) for k, c in enumerate(kept)]
        self.lowers = [
            (bound.lower, [states_of(c, kept, places) for c in bound.components])  # type: ignore[arg-type]  # places stand for the arrays that will be there
            for bound in bounds
        ]
        self.ends: np.ndarray | None = None
        if groups.ties:
            self.ends = np.empty(self.size, np.int64)
            tie_ends.specialise(NOTHING)(groups.times, groups.starts, self.ends)

    def run(self, length: int, *, by_rows: bool) -> Iterator[tuple[int, list[Column]]]:
        """The next row, and the results from there on: one column per aggregate.

        Even when there is no row there is one block, so that the types of results are known.
        """
        for component in self.rolled:
            component.reset()
        for block in self._blocks(length, by_rows=by_rows):
            states = [component.states(block) for component in self.rolled]
            yield (
                block.begin,
                [
                    lower([tuple(states[k][n] for k, n in place) for place in places])
                    for lower, places in self.lowers
                ],
            )

    def _blocks(self, length: int, *, by_rows: bool) -> Iterator[Block]:
        times, starts = self.groups.times, self.groups.starts
        ends = None if by_rows else self.ends
        by_count, by_time = row_firsts.specialise(NOTHING), time_firsts.specialise(NOTHING)
        cursor = np.zeros(2, np.int64)
        begin = 0
        while begin < self.size or begin == 0:
            stop = min(begin + self.block, self.size)
            if ends is not None:
                stop = int(ends[stop - 1])  # rows of one time stay together
            firsts = np.empty(stop - begin, np.int64)
            if by_rows:
                by_count(starts, length, cursor, begin, firsts)
                longest = min(length, self.size)
            else:
                longest = by_time(times, starts, length, ends, cursor, begin, firsts)
            yield Block(begin, firsts, None if ends is None else ends[begin:stop], longest)
            begin = max(stop, 1)


@kernel
def tie_ends(times: Any, starts: Any, ends: Any) -> None:
    """For each row, one more than the last row of its key with the same time."""
    for g in range(len(starts) - 1):
        end = starts[g + 1]
        for i in range(starts[g + 1] - 1, starts[g] - 1, -1):
            if times[i] != times[end - 1]:
                end = i + 1
            ends[i] = end


@kernel
def time_firsts(
    times: Any, starts: Any, length: int, ends: Any, cursor: Any, begin: int, firsts: Any
) -> int:
    """The first row of the window `(t - length, t]` of each row from `begin` on.

    The cursor holds the key and the first row that the row before had. Returns how many rows the
    longest window has.
    """
    g, first, longest = cursor[0], cursor[1], 1
    for k in range(len(firsts)):
        while starts[g + 1] <= begin + k:
            g += 1
            first = starts[g]
        time = times[begin + k]
        if time >= LOWEST + length:  # otherwise every time is later than `time - length`
            while times[first] <= time - length:
                first += 1
        firsts[k] = first
        end = begin + k + 1
        if ends is not None:
            end = ends[begin + k]
        longest = max(longest, end - first)
    cursor[0], cursor[1] = g, first
    return longest


@kernel
def row_firsts(starts: Any, count: int, cursor: Any, begin: int, firsts: Any) -> None:
    """The first of the last `count` rows of the key, for each row from `begin` on."""
    g = cursor[0]
    for k in range(len(firsts)):
        while starts[g + 1] <= begin + k:
            g += 1
        firsts[k] = max(starts[g], begin + k + 1 - count)
    cursor[0] = g


@kernel
def roll(
    X: Any, valid: Any, firsts: Any, ends: Any, begin: int,
    cursor: Any, suffixes: Any, newest: Any, out: Any,
) -> None:  # fmt: skip
    """States of the windows of the rows from `begin` on."""
    boundary, base = cursor[0], cursor[1]
    newer = identity() if begin == 0 else load(newest, 0)
    i, stop = begin, begin + len(firsts)
    while i < stop:
        first = firsts[i - begin]
        end = i + 1
        if ends is not None:
            end = ends[i - begin]
        if first >= boundary:
            total = event(X, valid, end - 1)
            store(suffixes, end - 1 - first, total)
            for j in range(end - 2, first - 1, -1):
                total = combine(event(X, valid, j), total)
                store(suffixes, j - first, total)
            boundary, base = end, first
            newer = identity()
        else:
            for j in range(i, end):
                newer = combine(newer, event(X, valid, j))
            total = combine(load(suffixes, first - base), newer)
        for j in range(i, end):
            store(out, j - begin, total)
        i = end
    cursor[0], cursor[1] = boundary, base
    store(newest, 0, newer)
