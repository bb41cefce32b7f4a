"""The arguments of verbs: aggregates, columns and outputs as they are given, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.sums import Count
from slicewise.columns import Source
from slicewise.errors import AggregateError, ColumnError
from slicewise.suggestions import meant, nearest


def listed(given: Any) -> list[Any]:
    """A list of what was given, which may be one thing alone."""
    return list(given) if isinstance(given, list | tuple) else [given]


def checked_aggregates(verb: str, aggs: Any) -> list[Aggregate]:
    """The aggregates, each with the names of its columns."""
    chosen = list(aggs) if isinstance(aggs, Iterator) else listed(aggs)
    if not chosen:
        raise AggregateError(
            f"`{verb}` needs at least one aggregate in `aggs`; given: none. Give aggregates such "
            "as `sw.agg.max('price')`."
        )
    for agg in chosen:
        if not isinstance(agg, Aggregate):
            raise AggregateError(
                f"`aggs` takes aggregates such as `sw.agg.max('price')`; given: {agg!r}."
                f"{_instead(agg)}"
            )
        if not agg.columns and not isinstance(agg, Count):  # which then counts rows
            raise AggregateError(
                f"`{agg.name}` must name its input column here, such as "
                f"`sw.agg.{agg.name}('price')`; given: none."
            )
    return chosen


def _instead(given: Any) -> str:
    """The way out for what is no aggregate, after a space; empty if there is none to tell."""
    from slicewise.agg import __all__ as known

    if isinstance(given, type) and issubclass(given, Aggregate):
        return f" Call it with the name of its column: `sw.agg.{given.name}('price')`."
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    if near := nearest(name, known):
        return f" Did you mean `sw.agg.{near}('price')`?"
    if type(given).__module__.partition(".")[0] in ("polars", "pyspark"):
        return " An expression cannot be merged from slices, which an aggregate of `sw.agg` can."
    return ""


def sources_of(aggs: Sequence[Aggregate]) -> dict[str, Source]:
    """The columns that results come from, by the names of outputs."""
    return {
        agg.output: Source(agg.columns[agg.picks or 0], agg.picks is not None)
        for agg in aggs
        if agg.columns
    }


def check_columns(known: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raise `ColumnError` for the first name that is no column, or that several columns have."""
    for name in wanted:
        if name in known:
            if (count := list(known).count(name)) > 1:
                raise ColumnError(
                    f"The table has {count} columns named {name!r}, so it is not clear which one "
                    "is meant. Rename them, or leave one out."
                )
            continue
        names = ", ".join(repr(k) for k in known) or "none"
        raise ColumnError(
            f"There is no column {name!r}; the table has: {names}.{meant(name, known)}"
        )


def check_outputs(outputs: Sequence[str], known: Sequence[Any]) -> None:
    """Raise `AggregateError` when two columns of the result would have one name."""
    seen = set(known)
    for name in outputs:
        if name in seen:
            what = "the table has already" if name in known else "two results would have"
            raise AggregateError(
                f"Each output column needs a name of its own; {name!r} is one that {what}. "
                "Give the aggregate another with `.alias(...)`."
            )
        seen.add(name)
