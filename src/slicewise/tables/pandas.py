"""pandas DataFrames.

NaN is null on the way in, as everywhere in pandas. On the way out columns are numpy-backed: null
is NaN among numbers, so integers with nulls become float64, and `None` or NaT among others. From
pandas 3 on texts have the type `str`, and null among them is NaN. What comes from columns of
nullable types (`Int64` and the like) or of Arrow has such types again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from slicewise.columns import Column, Source, array_of
from slicewise.errors import ColumnTypeError
from slicewise.limits import LEAST
from slicewise.tables.arrow import restored

# The nullable types of pandas, by those of Arrow that they hold.
NULLABLE: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


class PandasTable:
    """A DataFrame; named levels of its index can be read like columns."""

    nan_is_null = True

    def __init__(self, data: pd.DataFrame) -> None:
        self.data = data

    @property
    def names(self) -> Sequence[Any]:
        columns = list(self.data.columns)
        levels = [name for name in self.data.index.names if name is not None]
        return [*columns, *(name for name in levels if name not in columns)]

    def _series(self, name: str) -> pd.Series[Any]:
        if name not in self.data.columns:
            return self.data.index.get_level_values(name).to_series()
        return self.data[name]

    def arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        try:
            return array_of(self._series(name), from_pandas=True)
        except pa.ArrowException as error:
            raise ColumnTypeError(
                f"The column {name!r} has values of mixed types: {error}"
            ) from error

    def column(self, name: str) -> Column:
        series = self._series(name)
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufMm":
            return _plain(series.to_numpy())
        return Column.from_arrow(self.arrow(name))

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> pd.DataFrame:
        columns = zip(table.column_names, map(Column.from_arrow, table.columns), strict=True)
        return pd.DataFrame({name: self._made(name, column, like) for name, column in columns})

    def _made(self, name: str, column: Column, like: Mapping[str, Source]) -> Any:
        source = like.get(name)
        dtype = None if source is None else self._series(source.column).dtype
        if source is None or not isinstance(dtype, pd.api.extensions.ExtensionDtype):
            return _values(column)
        if source.picked and isinstance(dtype, pd.CategoricalDtype):
            return pd.Categorical(_values(column), dtype=dtype)
        if isinstance(dtype, pd.ArrowDtype):
            array = _null_for_nan(column)
            if source.picked:
                array = restored(array, dtype.pyarrow_dtype)
            return pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))
        kinds = NULLABLE if dtype in NULLABLE.values() else {}
        if isinstance(dtype, pd.StringDtype):
            kinds = {pa.string(): dtype, pa.large_string(): dtype}
        if column.type in kinds:
            return _null_for_nan(column).to_pandas(types_mapper=kinds.get).array
        return _values(column)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> pd.DataFrame:
        # The input is copied, or else who changes the result would change both. What is new is
        # not, and `concat` would do that too.
        known = [self.data.iloc[:, k].array.copy() for k in range(self.data.shape[1])]
        made = [self._made(name, column, like or {}) for name, column in new.items()]
        arrays = [*known, *made]
        frame = pd.DataFrame(dict(enumerate(arrays)), index=self.data.index, copy=False)
        frame.columns = self.data.columns.append(pd.Index(list(new)))
        frame.attrs = dict(self.data.attrs)
        return frame

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> pd.DataFrame:
        columns = [name for name in names if name in self.data.columns]  # others are in the index
        return self.data[columns].iloc[places]


def _null_for_nan(column: Column) -> pa.Array:
    """The Arrow array of results, null where floats are NaN: pandas has no other null for them."""
    if column.values.dtype.kind != "f":
        return column.to_arrow()
    there = ~np.isnan(column.values)
    valid = there if column.valid is None else column.valid & there
    return Column(column.values, valid, column.type).to_arrow()


def _plain(values: np.ndarray) -> Column:
    """The column of a numpy array without objects, by its own memory; NaN and NaT are null."""
    if values.dtype.kind in "Mm":
        kind = pa.from_numpy_dtype(values.dtype)
        counts = values.view(np.int64)
        # The least integer is NaT, so one look at the least tells whether there is any.
        whole = not len(counts) or int(counts.min()) != LEAST
        return Column(counts, None if whole else counts != LEAST, kind)
    column = Column.from_numpy(values)
    if values.dtype.kind == "f" and len(values) and np.isnan(column.values.min()):
        return Column(column.values, ~np.isnan(column.values), column.type)
    return column


def _values(column: Column) -> Any:
    if column.values.dtype.kind in "iuf" and not pa.types.is_temporal(column.type):
        return column.to_numpy()
    series = column.to_arrow().to_pandas()
    # Times with a zone are no numpy type, nor are the texts of pandas 3, whatever values there are.
    kept = isinstance(series.dtype, pd.DatetimeTZDtype | pd.StringDtype)
    return series.array if kept else series.to_numpy()
