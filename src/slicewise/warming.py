"""Compiling ahead: for images, for the nodes of a cluster, before the first query of a service."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.arguments import checked_aggregates, listed
from slicewise.codegen.progress import COMPILING
from slicewise.errors import ColumnTypeError
from slicewise.names import column_name, column_names
from slicewise.slicing.operator import Operator
from slicewise.spans import Rows
from slicewise.spans import span as as_span
from slicewise.suggestions import taking_names
from slicewise.tuning import tuned
from slicewise.verbs import rolling, windowed
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

MINUTE = 60_000_000
# Made-up tables: rows, and keys. In the last one, slices are kept by time.
FEW_KEYS, MANY_KEYS = (1000, 7), (6000, 300)
NULLS = 5  # every so many values are null


class Warmed(NamedTuple):
    """What `warm` did: how many functions it compiled, and the seconds that it took."""

    functions: int
    seconds: float


@taking_names
def warm(
    *,
    windows: Window | Sequence[Window] = (),
    aggs: Aggregate | Sequence[Aggregate],
    types: Mapping[str, Any] | None = None,
    by: str | Sequence[str] | None = None,
    time: str = "time",
    over: Any = None,
) -> Warmed:
    """Compile what `sw.windowed`, `sw.Operator` and `sw.rolling` run for a query over many rows.

    The machine code is kept in the cache folder, so a process that finds it there compiles nothing:
    call it when an image is built, or before the first query of a service. `windows`, `aggs` and
    `by` are those of the query. `types` names the types of columns, as text or as Arrow types;
    columns of which it says nothing hold `float64`, keys texts, and times what goes with the
    lengths of the windows. `over` are the spans of `sw.rolling`: one of time and one of rows stand
    for all, which is what they are when nothing is given.

    Args:
        windows: A window such as `sw.tumbling("10m")`, or several with different names.
        aggs: An aggregate of `sw.agg` or of one's own, or several.
        types: The types of columns by name, as text or as Arrow types.
        by: The key column, or several; without it all rows have one key.
        time: The column with the times of events.
        over: The spans of `sw.rolling`.

    >>> import slicewise as sw
    >>> made = sw.warm(windows=sw.tumbling("1m"), aggs=sw.agg.max("x"), types={"x": "int64"})
    >>> made.functions >= 0 and made.seconds > 0
    True
    >>> sw.warm(windows=sw.tumbling("1h"), aggs=sw.agg.max("x"), types={"x": "int64"}).functions
    0
    """
    began, before = clock.perf_counter(), COMPILING.functions
    defined, chosen = listed(windows), checked_aggregates("warm", aggs)
    if defined:
        Operator(windows=defined, aggs=chosen, time=time, by=by)  # which refuses what cannot be
    made = _Tables(defined, chosen, types or {}, by, time, over)
    with warnings.catch_warnings(), tuned(kernels="compiled"):
        warnings.simplefilter("ignore")  # what is wrong with rows that nobody has
        for table in made.tables():
            made.run(table)
    return Warmed(COMPILING.functions - before, clock.perf_counter() - began)


class _Tables:
    """A query and tables of random rows that take it the ways of large ones."""

    def __init__(
        self,
        windows: list[Window],
        aggs: list[Aggregate],
        types: Mapping[str, Any],
        by: str | Sequence[str] | None,
        time: str,
        over: Any,
    ) -> None:
        import pyarrow as pa

        self.windows, self.aggs = windows, aggs
        self.keys, self.time = column_names("by", by), column_name("time", time)
        self.random = np.random.default_rng(0)
        timed = [window for window in windows if window.times]
        moments = not timed or any(window.durations for window in timed)
        lengths = [length for window in timed for length in window.times if length > 0]
        self.length = max(lengths, default=MINUTE)
        self.types: dict[str, pa.DataType] = dict.fromkeys(
            (name for agg in aggs for name in agg.columns), pa.float64()
        )
        for window in windows:
            condition = window.traits.condition
            marks = [condition] if isinstance(condition, str) else []
            self.types |= dict.fromkeys(window.reads or (), pa.float64())
            self.types |= dict.fromkeys(marks, pa.bool_())
        self.types |= dict.fromkeys(self.keys, pa.string())
        self.types[self.time] = pa.timestamp("us") if moments else pa.int64()
        self.types |= {name: arrow_type(name, given) for name, given in types.items()}
        self.axes = {w.traits.axis for w in windows if w.traits.axis is not None}
        self.spans = listed(over) if over is not None else self._spans()

    def _spans(self) -> list[Any]:
        """A span of time and one of rows: the code for others is the same."""
        import pyarrow as pa

        if pa.types.is_timestamp(self.types[self.time]):
            return [as_span(f"{MINUTE}us"), Rows(2)]
        return [self.length, Rows(2)]

    def tables(self) -> Iterator[pa.Table]:
        """Tables in order, and in disorder with nulls and ties, of few keys and of many."""
        for rows, keys in (FEW_KEYS, MANY_KEYS) if self.keys else (FEW_KEYS,):
            made = self._table(rows, keys, nulls=False)
            yield made
            made = self._table(rows, keys, nulls=True)
            yield made.take(self.random.permutation(rows))

    def _table(self, rows: int, keys: int, *, nulls: bool) -> pa.Table:
        import pyarrow as pa

        numbers = np.arange(rows)
        columns = {}
        for name, kind in self.types.items():
            if name == self.time:
                ties = 3 if nulls else 1  # events of the same time
                values = pa.array(numbers // ties * self.step(rows) * ties).cast(kind)
            elif name in self.axes:
                values = pa.array(numbers).cast(kind)
            else:
                some = self.random.integers(0, keys if name in self.keys else 100, rows)
                values = sample(some, kind)
                if nulls and name not in self.keys:
                    values = values.take(pa.array(numbers, mask=numbers % NULLS == 0))
            columns[name] = values
        return pa.table(columns)

    def step(self, rows: int) -> int:
        """From the time of one event to the next: some instances of each window are over."""
        return max(1, 8 * self.length // rows)

    def run(self, table: pa.Table) -> None:
        """Ask all that the query may be asked of."""
        query: dict[str, Any] = {"by": self.keys or None, "time": self.time, "aggs": self.aggs}
        if self.spans:
            rolling(table, over=self.spans, **query)
        if not self.windows:
            return
        windowed(table, windows=self.windows, **query)
        rows = table.num_rows
        for lateness in (0, self._lateness()):
            op = Operator(windows=self.windows, lateness=lateness, **query)
            for first in range(0, rows, rows // 4):
                op.process(table.slice(first, rows // 4))
                op.advance_arrow(first * self.step(rows))
            op.advance(float("inf"))

    def _lateness(self) -> Any:
        import pyarrow as pa

        moments = pa.types.is_timestamp(self.types[self.time])
        return f"{self.length}us" if moments else self.length


def arrow_type(name: str, given: Any) -> pa.DataType:
    """The Arrow type of a column, which may be given as text."""
    import pyarrow as pa

    if isinstance(given, pa.DataType):
        return given
    try:
        return pa.type_for_alias(given)
    except (TypeError, ValueError) as error:
        raise ColumnTypeError(
            f"`types` gives Arrow types or their names, such as 'float64', 'int64', 'string' or "
            f"'timestamp[us]'; given for {name!r}: {given!r}."
        ) from error


def sample(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Values of an Arrow type, one for each of some small numbers."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return pa.array(numbers % 2 == 0)
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return pa.array(numbers).cast(pa.timestamp("s")).cast(kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(numbers).cast(pa.string()).cast(kind)
    return pa.array(numbers).cast(kind)
