"""Rolling aggregation: for every row the aggregate over the span that ends with it.

Rows are brought into the order of (key, time, arrival) once. The windows of one span are then
runs of neighbouring rows whose first and last row only ever move forward, also from one key to
the next, so a boundary aggregator in the manner of SBA (KDD 2021) does them all in one sweep:
behind the boundary suffix aggregates, after it one running aggregate, and a window is one of each.
When the first row of a window passes the boundary, the boundary moves to the window's end.

A window that only grew is the one before and the new rows; the running aggregate catches up when it
is needed. All compiled components go through one loop, which writes results, not states.

Needs:   associative `combine`; event order is kept. Nothing is ever subtracted.
Cost:    at most 3 combines per row, span and component, whatever the span.
Memory:  one copy of the columns in order; states of the longest window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.base import (
    Aggregate,
    Bound,
    States,
    place_of,
    read,
    share,
    states_of,
)
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, identity, load, put_results, store
from slicewise.codegen.product import product
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.grouping import Groups, encode, gather, group, inverse, room
from slicewise.mergers.sba import event
from slicewise.spans import Rows, Span, Units
from slicewise.times import Times
from slicewise.trailing_bounds import Block, Bounds

if TYPE_CHECKING:
    import pyarrow as pa

# States of a block stay in the processor's cache until they are results. Python objects may be
# as large as their window, so few of them are alive at a time.
BLOCK = 1 << 15
OBJECTS = 1 << 8
# States that become results at a time: they stay in the cache that is nearest.
TILE = 1 << 9


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

    places = None if order is None else inverse(order, len(times.values))

    results: dict[tuple[int, int], Column] = {}
    for sweep, some in sweeps(bounds, groups, columns):
        for n, (span, length) in enumerate(zip(spans, lengths, strict=True)):
            found = sweep.run(length, by_rows=isinstance(span, Rows))
            for k, column in zip(some, found, strict=True):
                results[k, n] = placed(column, order, places, times.valid)
            del found, column  # the room that they take is wanted for the next span
    return [results[k, n] for k in range(len(aggs)) for n in range(len(spans))]


def placed(
    column: Column,
    order: np.ndarray | None,
    places: np.ndarray | None,
    usable: np.ndarray | None,
) -> Column:
    """The rows of `column` at the places where the input has them; null where none is usable.

    Reading from many places and writing in order is two to four times faster than the reverse.
    """
    if order is None or places is None:
        return column
    if not len(column):
        values = np.zeros(len(places), column.values.dtype)
        return Column(values, usable, column.type)
    made = gather(Column(column.values, None, column.type), places)
    valid = usable
    if column.valid is not None:
        valid = np.ones(len(places), np.bool_) if usable is None else usable.copy()
        valid[order[np.flatnonzero(~column.valid)]] = False  # mostly there are few
    return Column(made.values, valid, made.type)


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


class Loop:
    """An algebra that goes over the windows of a span, block by block.

    `cursor` holds the boundary, the row whose suffix is first in `suffixes`, the first row of the
    window before, and the first row that is not in the running state. `kept` holds that state and
    the one of the window before.
    """

    def __init__(self, algebra: Algebra, X: Any, valid: np.ndarray | None) -> None:
        self.algebra, self.X, self.valid = algebra, X, valid
        self.kernel = roll.specialise(algebra)
        self.reset()

    def reset(self) -> None:
        """Begin with the first row."""
        self.known = 0
        self.suffixes, self.kept = self.algebra.new(0), self.algebra.new(2)
        self.cursor = np.array([0, 0, -1, 0])

    def run(self, block: Block, states: States, out: Any) -> None:
        """The states over the windows of the next rows; their results go to `out`, if any."""
        if block.longest > self.known:
            size = max(block.longest, 2 * self.known)
            larger = self.algebra.new(size)
            for array, old in zip(larger, self.suffixes, strict=True):
                array[: self.known] = old
            self.known, self.suffixes = size, larger
        firsts: Any = block.firsts
        ends: Any = block.ends
        if not self.algebra.compiled:  # Python reads lists faster than arrays
            firsts, ends = firsts.tolist(), None if ends is None else ends.tolist()
        self.kernel(
            self.X, self.valid, firsts, ends, block.begin,
            self.cursor, self.suffixes, self.kept, states, out,
        )  # fmt: skip


class Sweep:
    """Aggregates over all windows of a span, all of the same way of running."""

    def __init__(
        self, bounds: Sequence[Bound], windows: Bounds, columns: Mapping[str, Column]
    ) -> None:
        self.bounds, self.windows = bounds, windows
        self.kept = share(bounds)
        inputs = [read(component, columns, windows.size) for component in self.kept]
        algebras = [component.algebra for component in self.kept]
        self.finishes = [bound.finish for bound in bounds if bound.finish is not None]
        if not bounds[0].compiled:
            self.loops = [Loop(a, *given) for a, given in zip(algebras, inputs, strict=True)]
            return
        X = [array for arrays, _ in inputs for array in arrays]
        # All have a mask or none, so that there are two kinds to compile and not more.
        masked = any(valid is not None for _, valid in inputs)
        if masked:
            everything = np.ones(windows.size, np.bool_)
            X += [everything if valid is None else valid for _, valid in inputs]
        wanted = [
            (bound.finish, [place_of(c, self.kept) for c in bound.components])
            for bound in bounds
            if bound.finish is not None
        ]
        self.loops = [Loop(product(algebras, wanted, masked=masked), tuple(X), None)]

    def run(self, length: int, *, by_rows: bool) -> list[Column]:
        """A column of results per aggregate, rows in the order of (key, time, arrival)."""
        for loop in self.loops:
            loop.reset()
        size = BLOCK if self.bounds[0].compiled else OBJECTS
        blocks = self.windows.blocks(length, size, by_rows=by_rows)
        return self._finished(blocks) if self.finishes else self._lowered(blocks)

    def _finished(self, blocks: Iterator[Block]) -> list[Column]:
        """Results straight from the loop."""
        size = self.windows.size
        values = [room(size, finish.dtype) for finish in self.finishes]
        valid = [np.ones(size, np.bool_) for _ in values]
        (loop,) = self.loops
        states = loop.algebra.new(TILE)
        for block in blocks:
            out = tuple(array[block.rows] for array in [*values, *valid])
            loop.run(block, states, out)
        return [
            Column(of, None if there.all() else there, finish.type)
            for of, there, finish in zip(values, valid, self.finishes, strict=True)
        ]

    def _lowered(self, blocks: Iterator[Block]) -> list[Column]:
        """Results from the states of a block at a time."""
        outputs = [Output(self.windows.size) for _ in self.bounds]
        for block in blocks:
            arrays: list[np.ndarray] = []
            for loop in self.loops:
                out = loop.algebra.new(len(block.firsts))
                loop.run(block, out, ())
                arrays += out
            of = iter(arrays)
            states = [tuple(islice(of, len(c.algebra.dtypes))) for c in self.kept]
            for bound, output in zip(self.bounds, outputs, strict=True):
                own = [states_of(c, self.kept, states) for c in bound.components]
                output.put(block.begin, bound.lower(own))
        return [output.column() for output in outputs]


def sweeps(
    bounds: Sequence[Bound], groups: Groups, columns: Mapping[str, Column]
) -> Iterator[tuple[Sweep, list[int]]]:
    """A sweep for each way of running, and which of the aggregates go with it."""
    windows = Bounds(groups)
    ways = [(bound.compiled, bound.finish is not None) for bound in bounds]
    for way in dict.fromkeys(ways):
        some = [k for k, other in enumerate(ways) if other == way]
        yield Sweep([bounds[k] for k in some], windows, columns), some


class Output:
    """A column of results that come block by block."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._column: Column | None = None

    def put(self, begin: int, results: Column) -> None:
        """Results of the rows from `begin` on."""
        if self._column is None:
            self._column = Column(room(self._size, results.values.dtype), None, results.type)
        if self._column.type != results.type:
            results = self._agree(results)
        if results.valid is not None and self._column.valid is None:
            everything = np.ones(self._size, np.bool_)
            self._column = Column(self._column.values, everything, self._column.type)
        rows = slice(begin, begin + len(results))
        self._column.values[rows] = results.values
        if self._column.valid is not None:
            self._column.valid[rows] = True if results.valid is None else results.valid

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


@kernel
def roll(
    X: Any, valid: Any, firsts: Any, ends: Any, begin: int,
    cursor: Any, suffixes: Any, kept: Any, states: Any, out: Any,
) -> None:  # fmt: skip
    """The states of the windows of the rows from `begin` on; their results whenever it is full."""
    room, filled, done = len(states[0]), 0, 0
    boundary, base, last, upto = cursor[0], cursor[1], cursor[2], cursor[3]
    newer = identity() if begin == 0 else load(kept, 0)
    total = identity() if begin == 0 else load(kept, 1)
    i, stop = begin, begin + len(firsts)
    while i < stop:
        first = firsts[i - begin]
        end = i + 1
        if ends is not None:
            end = ends[i - begin]
        if first == last:
            for j in range(i, end):
                total = combine(total, event(X, valid, j))
        elif first >= boundary:
            total = event(X, valid, end - 1)
            store(suffixes, end - 1 - first, total)
            for j in range(end - 2, first - 1, -1):
                total = combine(event(X, valid, j), total)
                store(suffixes, j - first, total)
            boundary, base, upto = end, first, end
            newer = identity()
        else:
            for j in range(upto, end):
                newer = combine(newer, event(X, valid, j))
            upto = end
            total = combine(load(suffixes, first - base), newer)
        last = first
        for _ in range(i, end):
            store(states, filled, total)
            filled += 1
            if filled == room:
                put_results(states, filled, out, done)
                done, filled = done + filled, 0
        i = end
    put_results(states, filled, out, done)
    cursor[0], cursor[1], cursor[2], cursor[3] = boundary, base, last, upto
    store(kept, 0, newer)
    store(kept, 1, total)
