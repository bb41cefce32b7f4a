"""Tables in this process: what comes in as pandas, polars or Arrow goes out as the same kind."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slicewise.columns import Column, Source, arrow_table
from slicewise.errors import ColumnTypeError

if TYPE_CHECKING:
    import pyarrow as pa


class Table(Protocol):
    """A table of any kind, as the verbs see it."""

    nan_is_null: bool  # in float64 columns, so that nobody has to say which are null

    @property
    def names(self) -> Sequence[Any]:
        """The names of its columns."""

    def arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        """A column as an Arrow array: for keys, which may be dictionaries or strings."""

    def column(self, name: str) -> Column:
        """A column as the core computes with it."""

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> Any:
        """A new table of the user's kind, with these columns.

        `like` has the columns of this table that they come from: values of a categorical column
        become categorical again, and what comes from extension types of pandas becomes such.
        """

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> Any:
        """The table of the user's kind with more columns; its rows stay as they are.

        `like` is the same as for `made`.
        """

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> Any:
        """The table of the user's kind with these of its rows and columns."""


def table_of(data: Any) -> Table:
    """`data` as a `Table`; raises `ColumnTypeError` for what is none."""
    # A table of pandas or polars can only come from a program that imported it.
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        from slicewise.tables.pandas import PandasTable

        return PandasTable(data)
    if polars is not None and isinstance(data, polars.DataFrame | polars.LazyFrame):
        from slicewise.tables.polars import PolarsTable

        return PolarsTable(data)
    import pyarrow as pa

    from slicewise.tables.arrow import ArrowTable, ReaderTable
    from slicewise.tables.plain import DictTable, RecordsTable, RowsTable

    if isinstance(data, pa.Table | pa.RecordBatch):
        return ArrowTable(data)
    if isinstance(data, pa.RecordBatchReader):
        return ReaderTable(data.read_all())
    if isinstance(data, Mapping):
        return DictTable(data)
    if isinstance(data, np.ndarray) and data.dtype.names:
        return RecordsTable(data)
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        return RowsTable(data)
    given = f"{type(data).__module__}.{type(data).__qualname__}"
    if pandas is not None and isinstance(data, pandas.Series):
        given = "a pandas Series, which is one column"
    elif (table := arrow_table(data)) is not None:
        return ArrowTable(table)
    raise ColumnTypeError(
        "A table is a pandas or polars DataFrame, an Arrow table or anything that speaks Arrow (a "
        "relation of DuckDB, a reader of record batches, a dataset), a dict of columns, a list of "
        f"dicts or a structured array of numpy; given: {given}."
    )
