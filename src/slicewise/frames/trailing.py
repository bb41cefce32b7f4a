"""Rolling aggregation: for every row the aggregate over the span that ends with it.

Rows are brought into the order of (key, time, arrival) once. The windows of one span are then
runs of neighbouring rows whose first and last row only ever move forward, also from one key to
the next, so one sweep of boundary aggregation does them all (`sweep_rows` of `mergers.boundary`).

Each component has a loop of its own. Those that are compiled take turns, a tile of rows at a time,
and their states become results while they are in the processor's cache. Rows that come in rounds
stay where they are: `rounds`.

Needs:   associative `combine`; event order is kept. Nothing is ever subtracted.
Cost:    at most 3 combines per row, span and component, whatever the span.
Memory:  one copy of the columns in order; states of the longest window of each span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import Bound, States, states_of
from slicewise.aggregates.interpreted import no_common_type, typed_nulls
from slicewise.aggregates.laws import check_first_run
from slicewise.arrays.grouping import Groups, encode, group, room
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.product import by_tiles
from slicewise.columns import Column
from slicewise.errors import SpanError
from slicewise.frames.bounds import Block, Bounds
from slicewise.frames.places import Found, Inputs, Places, Results
from slicewise.frames.rounds import in_rounds, roll_in_rounds
from slicewise.mergers.boundary import sweep_rows
from slicewise.spans import Rows, Span, Units
from slicewise.times import Times

if TYPE_CHECKING:
    import pyarrow as pa


def rolling_columns(
    keys: Sequence[pa.Array | pa.ChunkedArray],
    times: Times,
    columns: Mapping[str, Column],
    spans: Sequence[Span],
    aggs: Sequence[Aggregate],
    *,
    nan_is_null: bool = False,
) -> list[Column]:
    """The results of each aggregate over each span, rows as they came: all spans of the first
    aggregate, then of the second, and so on.

    Rows without a usable time are null, and in nobody's window. With `nan_is_null`, float64 are NaN
    where they are null, and not marked.
    """  # noqa: D205 - one sentence
    lengths = [length_of(span, times) for span in spans]
    columns = typed_nulls(columns, aggs)
    check_first_run(aggs, columns)
    bounds = [agg.bind([columns[name].type for name in agg.columns]) for agg in aggs]
    codes, count = encode(keys)
    values, usable = times.values, times.valid
    if usable is not None:
        values, codes = values[usable], None if codes is None else codes[usable]
    ways = [(length, isinstance(s, Rows)) for s, length in zip(spans, lengths, strict=True)]
    used = dict.fromkeys(name for agg in aggs for name in agg.columns)

    turns = in_rounds(bounds, ways, codes, count, values) if usable is None else None
    if turns is not None:
        tuning.took("rounds")
        places = Places(None, None)
        found = roll_in_rounds(bounds, columns, turns, count)
    else:
        groups = group(codes, count, values)
        places = Places(groups, usable)
        columns = {name: places.ordered(columns[name]) for name in used}
        found = roll_by_key(bounds, groups, columns, ways)
    in_turn = [found[n][k] for k in range(len(aggs)) for n in range(len(spans))]
    del columns, found
    # Each result lets go of its memory before the next one asks for as much.
    in_turn.reverse()
    return [places.restored(in_turn.pop(), nan_is_null=nan_is_null) for _ in range(len(in_turn))]


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

    `cursor` holds the boundary and the row whose suffix is first in `suffixes`, `kept` the state
    of the rows from the boundary on.
    """

    def __init__(self, algebra: Algebra, X: Any, valid: np.ndarray | None) -> None:
        self.algebra, self.X, self.valid = algebra, X, valid
        self.kernel = sweep_rows.specialise(algebra)
        self.known = 0
        self.suffixes, self.kept = algebra.new(0), algebra.new(1)
        self.cursor = np.zeros(2, np.int64)

    def reach(self, longest: int) -> None:
        """Have room for the suffixes of windows of so many rows."""
        if longest > self.known:
            size = max(longest, 2 * self.known)
            larger = self.algebra.new(size)
            for array, old in zip(larger, self.suffixes, strict=True):
                array[: self.known] = old
            self.known, self.suffixes = size, larger

    def run(self, block: Block) -> States:
        """The states over the windows of the next rows."""
        self.reach(block.longest)
        firsts: Any = block.firsts
        ends: Any = block.ends
        if not self.algebra.compiled:  # Python reads lists faster than arrays
            firsts, ends = firsts.tolist(), ends.tolist()
        states = self.algebra.new(len(firsts))
        self.kernel(
            self.X,
            self.valid,
            firsts,
            ends,
            block.begin,
            (self.cursor, self.suffixes, self.kept),
            states,
        )
        return states


class Sweep:
    """Aggregates over all windows of several spans, all of the same way of running.

    Spans take turns with each block of rows, which is read from memory once.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        windows: Bounds,
        columns: Mapping[str, Column],
    ) -> None:
        self.bounds, self.windows = bounds, windows
        self.inputs = Inputs(bounds, columns, windows.size)
        if self.inputs.wanted:
            self.tiles = by_tiles(sweep_rows, self.inputs.algebras, self.inputs.wanted)

    def loops(self) -> list[Loop]:
        """A loop for each component."""
        inputs = self.inputs
        return [
            Loop(*one) for one in zip(inputs.algebras, inputs.arrays, inputs.valid, strict=True)
        ]

    def run(self, spans: Sequence[tuple[int, bool]]) -> list[list[Found]]:
        """A column per aggregate for each span: its length, and whether that is in rows."""
        limits = tuning.active()
        size = limits.rolling_block if self.bounds[0].compiled else limits.rolling_objects
        blocks = [self.windows.blocks(length, size, by_rows=rows) for length, rows in spans]
        kind = Finished if self.inputs.wanted else Lowered
        made = [kind(self) for _ in spans]
        for turn in zip_longest(*blocks):
            for one, block in zip(made, turn, strict=True):
                if block is not None:
                    one.take(block)
        return [one.found() for one in made]


class Finished:
    """The results of a span, straight from the loop."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.loops = sweep, sweep.loops()
        self.cursors = tuple(loop.cursor for loop in self.loops)
        self.kept = tuple(array for loop in self.loops for array in loop.kept)
        self.tile = tuning.active().rolling_tile
        size = self.tile + sweep.windows.most_tied
        self.states = tuple(array for loop in self.loops for array in loop.algebra.new(size))
        self.results = Results(sweep.inputs.finishes, sweep.windows.size)

    def take(self, block: Block) -> None:
        """The next rows."""
        for loop in self.loops:
            loop.reach(block.longest)
        suffixes = tuple(array for loop in self.loops for array in loop.suffixes)
        inputs = self.sweep.inputs
        self.sweep.tiles(
            inputs.X,
            inputs.valid,
            (block.firsts, block.ends),
            block.begin,
            self.tile,
            (self.cursors, suffixes, self.kept),
            self.states,
            self.results.part(block.rows),
        )

    def found(self) -> list[Found]:
        """A column of results per aggregate."""
        return self.results.found()


class Lowered:
    """The results of a span, from the states of a block at a time."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.loops = sweep, sweep.loops()
        self.outputs = [Output(sweep.windows.size, bound.aggregate) for bound in sweep.bounds]

    def take(self, block: Block) -> None:
        """The next rows."""
        states = [loop.run(block) for loop in self.loops]
        for bound, output in zip(self.sweep.bounds, self.outputs, strict=True):
            own = [states_of(c, self.sweep.inputs.kept, states) for c in bound.components]
            output.put(block.begin, bound.lower(own))

    def found(self) -> list[Found]:
        """A column of results per aggregate."""
        return [output.found() for output in self.outputs]


def roll_by_key(
    bounds: Sequence[Bound],
    groups: Groups,
    columns: Mapping[str, Column],
    spans: Sequence[tuple[int, bool]],
) -> list[list[Found]]:
    """A column per aggregate for each span, in a sweep for each way of running."""
    windows = Bounds(groups)
    ways = [(bound.compiled, bound.finish is not None) for bound in bounds]
    results: dict[tuple[int, int], Found] = {}
    for way in dict.fromkeys(ways):
        some = [k for k, other in enumerate(ways) if other == way]
        sweep = Sweep([bounds[k] for k in some], windows, columns)
        for n, found in enumerate(sweep.run(spans)):
            results |= {(n, k): one for k, one in zip(some, found, strict=True)}
    return [[results[n, k] for k in range(len(bounds))] for n in range(len(spans))]


class Output:
    """A column of results that come block by block."""

    def __init__(self, size: int, aggregate: Aggregate) -> None:
        self._size, self._aggregate = size, aggregate
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
        try:
            kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except pa.ArrowException as error:
            raise no_common_type(self._aggregate, error) from error
        # Not safe, because the rows to come hold anything.
        known = Column.from_arrow(self._column.to_arrow().cast(kind, safe=False))
        valid = None if known.valid is None else known.valid.copy()
        self._column = Column(known.values.copy(), valid, kind)
        return Column.from_arrow(results.to_arrow().cast(kind))

    def found(self) -> Found:
        """The whole column."""
        assert self._column is not None
        values, valid = self._column.values, self._column.valid
        missing = None if valid is None else ~valid
        if missing is not None and values.dtype.kind == "f":
            values[missing] = np.nan
        return Found(self._column, missing)
