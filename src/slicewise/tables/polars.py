"""polars DataFrames and LazyFrames: null is null, and NaN is NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from slicewise.columns import Column, Source


class PolarsTable:
    """A DataFrame; a LazyFrame is collected first, and the result is lazy again."""

    nan_is_null = False

    def __init__(self, data: pl.DataFrame | pl.LazyFrame) -> None:
        self.lazy = isinstance(data, pl.LazyFrame)
        self.data = data.collect() if isinstance(data, pl.LazyFrame) else data

    @property
    def names(self) -> Sequence[Any]:
        return self.data.columns

    def arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        return self.data.get_column(name).to_arrow()

    def column(self, name: str) -> Column:
        return Column.from_arrow(self.arrow(name))

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> pl.DataFrame | pl.LazyFrame:
        result = pl.from_arrow(table)
        assert isinstance(result, pl.DataFrame)
        result = result.with_columns(self._like(series, like) for series in result)
        return result.lazy() if self.lazy else result

    def _like(self, series: pl.Series, like: Mapping[str, Source]) -> pl.Series:
        source = like.get(series.name)
        dtype = self.data.schema[source.column] if source and source.picked else None
        return series.cast(dtype) if isinstance(dtype, pl.Enum | pl.Categorical) else series

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> pl.DataFrame | pl.LazyFrame:
        added = [pl.Series(name, pl.from_arrow(column.to_arrow())) for name, column in new.items()]
        result = self.data.with_columns(self._like(series, like or {}) for series in added)
        return result.lazy() if self.lazy else result

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> pl.DataFrame | pl.LazyFrame:
        result = self.data.select(names)[places]
        return result.lazy() if self.lazy else result
