"""Errors on workers, told with the key and the aggregate that they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from slicewise import tuning
from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.own import is_own
from slicewise.arrays.grouping import encode
from slicewise.errors import AggregateError, OverflowedError, SlicewiseError
from slicewise.slicing.operator import Operator
from slicewise.slicing.state.resume import resume
from slicewise.spark.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

O = TypeVar("O", bound=Operator)  # noqa: E741 - an operator of some kind
T = TypeVar("T")
Again = Callable[[Query, "pa.Table"], object]


@contextmanager
def blaming(query: Query, rows: pa.Table, again: Again) -> Iterator[None]:
    """Raise an error that comes from a user's aggregate again, with its name and the key.

    `again` does the same work for a query with one of the aggregates, on the rows of some keys.
    """
    try:
        yield
    except SlicewiseError:
        raise
    except Exception as error:
        found = _culprit(query, rows, again)
        if found is None:
            raise
        agg, key, cause = found
        where = f" for the key {key!r}" if query.by else ""
        raise AggregateError(
            f"The aggregate {agg.output!r} failed{where}: {type(cause).__name__}: {cause}"
        ) from error


class Traced(Generic[O]):
    """An operator that can do its work again, to find the aggregate and the key that failed.

    With aggregates of users it keeps the rows that it took, and now and then a snapshot in place
    of them: `combine` may fail on what earlier rows left behind.
    """

    def __init__(self, query: Query, make: Callable[[Query], O]) -> None:
        self.query, self.make = query, make
        self.operator = make(query)
        self.keeps = any(map(is_own, query.aggs))
        self.before: bytes | None = None
        self.rows: list[pa.Table] = []

    def work(self, rows: pa.Table, task: Callable[[O, pa.Table], T]) -> T:
        """The result of `task` with the operator and rows that are new to it."""
        import pyarrow as pa

        if not self.keeps:
            self.rows = []
        elif sum(table.nbytes for table in self.rows) > tuning.active().traced_bytes:
            self.before, self.rows = self._snapshot(), []
        if rows.num_rows or not self.rows:
            self.rows.append(rows)

        def again(query: Query, some: pa.Table) -> object:
            operator = self.make(query)
            if self.before is not None:
                resume(operator, self.before, query.types)
            return task(operator, some)

        with blaming(self.query, pa.concat_tables(self.rows), again):
            return task(self.operator, rows)

    def _snapshot(self) -> bytes | None:
        """The snapshot of the operator; `None` if a user's window keeps what cannot be pickled."""
        try:
            return self.operator.snapshot()
        except Exception:
            return None


def _culprit(query: Query, rows: pa.Table, again: Again) -> tuple[Aggregate, Any, Exception] | None:
    """The first aggregate that fails alone, and the key: keys are halved until one is left."""
    for agg in query.aggs:
        one = query.only(agg)
        if _error(again, one, rows) is None:
            continue
        codes, _ = encode([rows.column(name) for name in query.by])
        keys = np.zeros(rows.num_rows, np.int64) if codes is None else codes
        left = np.unique(keys)
        while len(left) > 1:
            half = left[: len(left) // 2]
            fails = _error(again, one, rows.filter(np.isin(keys, half))) is not None
            left = half if fails else left[len(left) // 2 :]
        own = rows.filter(np.isin(keys, left))
        cause = _error(again, one, own)
        if cause is not None:
            (row,) = own.select(list(query.by)).slice(0, 1).to_pylist()
            key = tuple(row.values())
            return agg, key[0] if len(key) == 1 else key, cause
    return None


def _error(again: Again, query: Query, rows: pa.Table) -> Exception | None:
    """The error of an attempt; what the library itself refuses is none of a user's."""
    try:
        again(query, rows)
    except SlicewiseError:
        return None
    except Exception as error:
        return error
    return None


def is_about_events(
    error: Exception, aggs: Sequence[Aggregate], by: Sequence[str], rows: pa.Table
) -> bool:
    """Tells if an error comes from what events hold, and not from code or machines around it.

    An error of interpreted code says so; of compiled code the slow twin fails on the same events.
    """
    if isinstance(error, SlicewiseError):
        return isinstance(error, OverflowedError)
    if any(note.startswith("raised by") for note in getattr(error, "__notes__", ())):
        return True
    return _find(aggs, by, rows) is not None


def _find(
    aggs: Sequence[Aggregate], by: Sequence[str], rows: pa.Table
) -> tuple[Aggregate, Any, Exception] | None:
    known = set(rows.column_names)
    own = [agg for agg in aggs if known.issuperset(agg.columns)]
    names = dict.fromkeys([*by, *(column for agg in own for column in agg.columns)])
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows.select(list(names)).to_pylist():
        key = tuple(row[name] for name in by)
        groups.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    for key, events in groups.items():
        for agg in own:
            values = [[event[column] for column in agg.columns] for event in events]
            try:
                agg.fold(values if agg.arity > 1 else [v[0] if v else None for v in values])
            except Exception as cause:
                return agg, key, cause
    return None
