"""Aggregates over whole columns, by all the ways there are."""

from typing import Any

import pyarrow as pa

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import bound_columns, read
from slicewise.columns import Column
from slicewise.testing.laws import fold_all


def run_bound(agg: Aggregate, arrays: list[pa.Array]) -> Any:
    """The result over all events by the components, in the way of a slice."""
    columns = {n: Column.from_arrow(a) for n, a in zip(bound_columns(agg), arrays, strict=True)}
    bound = agg.bind([array.type for array in arrays])
    states = []
    for component in bound.components:
        X, valid = read(component, columns, len(arrays[0]))
        out = component.algebra.new(1)
        fold_all.specialise(component.algebra)(X, valid, len(arrays[0]), out)
        states.append(out)
    return bound.lower(states).tolist()[0]
