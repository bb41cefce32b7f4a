"""Slices that Spark computes itself: generated code, with a combine before the shuffle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slicewise import tuning
from slicewise.aggregates.bound import Bound, Component, place_of
from slicewise.slicing.ingest.reach import reach_of
from slicewise.slicing.locate.by_time import Edges
from slicewise.spark.batch.states import SLICE, key_names, state_names
from slicewise.spark.frames import Frame, col, microseconds, within_reach
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


def fields(component: Component, at: Callable[[str], Column] = col) -> list[Column] | None:
    """Spark's aggregates for the fields of a component's state; `None` if it has none of them.

    `at` finds a column by its name. A field is null where no event of the slice has a value.
    """
    from pyspark.sql import functions as F

    if component.spark is None:
        return None
    columns = [F.lit(1) if item.part == "rows" else at(item.column) for item in component.inputs]
    return component.spark(F, *columns)


def computes(components: Sequence[Component]) -> bool:
    """Tells if Spark can make the states of all these components."""
    return all(component.spark is not None for component in components)


def result(bound: Bound, kept: Sequence[Component]) -> Column | None:
    """An aggregate's result from the states of one slice; `None` if Spark has no expression."""
    from pyspark.sql import functions as F

    if bound.finish is None or bound.finish.spark is None:
        return None
    names, fields = state_names(kept), []
    for component in bound.components:
        place, some = place_of(component, kept)
        fields.append([F.col(names[place][n]) for n in some or range(len(names[place]))])
    made: Column = bound.finish.spark(F, *fields)
    return made


def few_edges(windows: Sequence[Window]) -> bool:
    """Tells if the edges of these windows make a short expression."""
    edges = Edges(windows)
    return len(edges.steps) + len(edges.singles) <= tuning.active().native_progressions


def slices(
    frame: Frame,
    by: Sequence[str],
    time: str,
    windows: Sequence[Window],
    components: Sequence[Component],
    types: dict[str, pa.DataType],
) -> DataFrame:
    """The states of each (key, slice), once each; keys are called by `key_names`."""
    from pyspark.sql import functions as F

    aggregates = []
    for component, names in zip(components, state_names(components), strict=True):
        made = fields(component, frame.at)
        assert made is not None
        aggregates += [column.alias(name) for column, name in zip(made, names, strict=True)]
    at = f"{SLICE}_time"
    used = dict.fromkeys([*by, *(i.column for c in components for i in c.inputs if i.column)])
    columns = frame.all_at(used)
    times = within_reach(microseconds(frame, time), reach_of(windows, types[time]))
    chosen = frame.rows.select(*columns, times.alias(at))
    sliced = chosen.where(F.col(at).isNotNull()).select(
        *columns, slice_start(F.col(at), windows).alias(SLICE)
    )
    if not any(window.all_edges().progressions for window in windows):
        sliced = sliced.where(F.col(SLICE).isNotNull())  # an event outside of all has no slice
    keys = [frame.at(name).alias(key) for name, key in zip(by, key_names(by), strict=True)]
    return sliced.groupBy(*keys, F.col(SLICE)).agg(*aggregates)


def slice_start(time: Column, windows: Sequence[Window]) -> Column:
    """The last edge at or before a time; null where there is none.

    Where there are more than a few edges, only those of the shortest steps count.
    """
    from pyspark.sql import functions as F

    edges = Edges(windows)
    most = tuning.active().native_progressions
    steps, phases = edges.steps[:most].tolist(), edges.phases[:most].tolist()
    singles = edges.singles[: most - len(steps)].tolist()
    found = [
        time - F.pmod(time - F.lit(phase), F.lit(step).cast("bigint"))
        for step, phase in zip(steps, phases, strict=True)
    ]
    if not found:
        inside = (time >= F.lit(singles[0])) & (time < F.lit(edges.singles.tolist()[-1]))
        found += [F.when(inside, F.lit(singles[0]).cast("bigint"))]
    found += [F.when(time >= F.lit(single), F.lit(single).cast("bigint")) for single in singles]
    if len(found) == 1:
        return found[0]
    # `greatest` skips nulls, so it needs the time itself to be there.
    return F.when(found[0].isNotNull(), F.greatest(*found))
