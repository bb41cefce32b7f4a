"""What `sw.slide` is given, as columns, and its results as the same kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.bound import bound_columns
from slicewise.columns import Column
from slicewise.errors import AggregateError, ColumnError, ColumnTypeError
from slicewise.suggestions import meant

# From results, one after every so many values, to what the user gets.
GiveBack = Callable[[Column, int], Any]


def given_columns(values: Any, aggregate: Aggregate) -> tuple[dict[str, Column], GiveBack]:
    """The input by the aggregate's names, and how to give results back as the same kind."""
    names = bound_columns(aggregate)
    if isinstance(values, Mapping) and aggregate.columns:
        for name in names:
            if name not in values:
                raise ColumnError(
                    f"There is no column {name!r}, which `{aggregate.name}` reads; the columns "
                    f"are {', '.join(map(repr, values)) or 'none'}.{meant(name, values)}"
                )
        arrays = [values[name] for name in names]
    elif isinstance(values, Mapping):
        arrays = list(values.values())
    else:
        arrays = list(values) if isinstance(values, tuple) else [values]
    if len(arrays) != len(names):
        raise AggregateError(
            f"`{aggregate.name}` takes {len(names)} column{'s' * (len(names) != 1)}; given: "
            f"{len(arrays)}. Several columns come as a tuple of arrays."
        )
    found = [_column(array) for array in arrays]
    if len({len(column) for column, _ in found}) > 1:
        sizes = ", ".join(str(len(column)) for column, _ in found)
        raise ColumnTypeError(f"Columns must be of equal length; given: {sizes} values.")
    columns = {name: column for name, (column, _) in zip(names, found, strict=True)}
    return columns, found[0][1]


def _column(array: Any) -> tuple[Column, GiveBack]:
    import pyarrow as pa

    # A series can only come from a program that imported its library.
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    try:
        if isinstance(array, pa.Array | pa.ChunkedArray):
            return Column.from_arrow(array), lambda found, _: found.to_arrow()
        if isinstance(array, np.ndarray) and array.ndim == 1:
            return Column.from_numpy(array), lambda found, _: found.to_numpy()
        if isinstance(array, list):
            return Column.from_arrow(pa.array(array)), lambda found, _: found.tolist()
        if pandas is not None and isinstance(array, pandas.Series):
            column = Column.from_arrow(pa.array(array, from_pandas=True))
            return column, lambda found, every: pandas.Series(
                found.to_numpy(), index=array.index[every - 1 :: every], name=array.name
            )
        if polars is not None and isinstance(array, polars.Series):
            column = Column.from_arrow(array.to_arrow())
            return column, lambda found, _: polars.Series(
                array.name, polars.from_arrow(found.to_arrow())
            )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(
            f"The values of a column must be of one type that Arrow knows: {error}"
        ) from error
    given = (
        f"{array.ndim}-dimensional array" if isinstance(array, np.ndarray) else repr(type(array))
    )
    raise ColumnTypeError(
        "`slide` takes a one-dimensional numpy array, a Series, an Arrow array or a list, a tuple "
        f"of those for several columns, or a dict; given: {given}. Tables go to `sw.rolling`."
    )
