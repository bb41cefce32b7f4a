"""Errors on workers, told with the key and the aggregate that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.base import Aggregate
from slicewise.errors import AggregateError, OverflowedError, SlicewiseError

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def blaming(aggs: Sequence[Aggregate], by: Sequence[str], rows: pa.Table) -> Iterator[None]:
    """Raise an error that comes from a user's aggregate again, with its name and the key.

    The rows are folded key by key by the slow twin, which fails in the same place.
    """
    try:
        yield
    except SlicewiseError:
        raise
    except Exception as error:
        found = _find(aggs, by, rows)
        if found is None:
            raise
        agg, key, cause = found
        where = f" for the key {key!r}" if by else ""
        raise AggregateError(
            f"The aggregate {agg.output!r} failed{where}: {type(cause).__name__}: {cause}"
        ) from error


def is_about_events(
    error: Exception, aggs: Sequence[Aggregate], by: Sequence[str], rows: pa.Table
) -> bool:
    """Whether an error comes from what events hold, and not from code or machines around it.

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
