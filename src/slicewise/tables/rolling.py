"""`sw.rolling` over a table in this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.arguments import (
    check_columns,
    check_outputs,
    checked_aggregates,
    listed,
    sources_of,
)
from slicewise.arrays.ranks import ranks
from slicewise.columns import read_columns
from slicewise.errors import (
    BadRowsWarning,
    SpanError,
    warn,
)
from slicewise.frames.trailing import rolling_columns
from slicewise.names import column_name, column_names
from slicewise.spans import Ticks
from slicewise.spans import span as as_span
from slicewise.tables import table_of
from slicewise.times import times_of, unusable


def rolled(data: Any, *, by: Any, time: str, over: Any, aggs: Any, order: Any, unit: Any) -> Any:
    """The table with a column for each aggregate and span."""
    table = table_of(data)
    spans = [as_span(one) for one in listed(over)]
    chosen = checked_aggregates("rolling", aggs)
    if not spans:
        raise SpanError("`rolling` needs at least one span in `over`; given: none.")
    keys, decides = column_names("by", by), column_names("order", order)
    time = column_name("time", time)
    read = (name for agg in chosen for name in agg.columns)
    check_columns(table.names, [*keys, time, *read, *decides])
    outputs = [f"{agg.output}_{span}" for agg in chosen for span in spans]
    check_outputs(outputs, table.names)
    used = dict.fromkeys(name for agg in chosen for name in agg.columns)

    arrows = {name: table.arrow(name) for name in (*keys, *decides)}
    columns, texts = read_columns((time, *used), table.column, table.arrow)
    places: Any = None
    if decides:
        # What comes first here comes first among rows of one time.
        places = np.argsort(ranks([arrows[name] for name in decides]), kind="stable")
        arrows = {name: array.take(places) for name, array in arrows.items()}
        columns = {name: column.take(places) for name, column in columns.items()}
        texts = None if texts is None else texts[places]
    times = times_of(columns[time], time, unit)
    readable = times.without(texts)
    bad = unusable(columns[time], readable.valid)
    if any(isinstance(span, Ticks) for span in spans):
        times.measure.warn_of_unit(times.values, times.valid)
    results = rolling_columns(
        [arrows[key] for key in keys],
        readable,
        {name: columns[name] for name in used},
        spans,
        chosen,
        nan_is_null=table.nan_is_null,
    )
    if bad:
        warn(
            f"{bad} rows have a time in {time!r} that cannot be used (a fraction, infinite or out "
            "of range), or a text that is no UTF-8: their results are null, and they are in no "
            "window. Round or filter them.",
            BadRowsWarning,
        )
    if places is not None:
        back = np.argsort(places)
        results = [column.take(back) for column in results]
    like = {f"{output}_{span}": c for output, c in sources_of(chosen).items() for span in spans}
    return table.with_columns(dict(zip(outputs, results, strict=True)), like)
