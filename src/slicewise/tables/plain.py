"""Tables of Python and numpy: dicts of columns, lists of dicts, structured arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.columns import Column, Source, array_of
from slicewise.errors import ColumnTypeError
from slicewise.slicing.ingest.events import is_single, raw_columns
from slicewise.tables.arrow import restored


class DictTable:
    """A dict of columns: lists, numpy arrays or Arrow arrays.

    New columns are Arrow arrays if a column is one, else numpy arrays if a column is one, else
    lists.
    """

    nan_is_null = False

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        single = [name for name, value in data.items() if is_single(value)]
        if single:
            raise ColumnTypeError(
                "A table as a dict has a list or an array for each column; given: "
                f"{data[single[0]]!r} for {single[0]!r}. Put it into a list."
            )
        sizes = {name: len(values) for name, values in data.items()}
        if len(set(sizes.values())) > 1:
            given = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
            raise ColumnTypeError(f"The columns of a table have one length; given: {given}.")

    @property
    def names(self) -> Sequence[Any]:
        return list(self.data)

    def arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        given = self._given(name)
        return Column.from_numpy(given).to_arrow() if isinstance(given, np.ndarray) else given

    def column(self, name: str) -> Column:
        return Column.of(self._given(name))

    def _given(self, name: str) -> Any:
        """An array of Arrow, or one of numpy that holds numbers, of a column."""
        try:
            return array_of(self.data[name])
        except pa.ArrowException as error:
            raise ColumnTypeError(
                f"The column {name!r} has values of mixed types: {error}"
            ) from error

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> dict[str, Any]:
        columns = map(Column.from_arrow, table.columns)
        return self._like_mine(dict(zip(table.column_names, columns, strict=True)), like)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> dict[str, Any]:
        return {**self.data, **self._like_mine(new, like or {})}

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> dict[str, Any]:
        def chosen(values: Any) -> Any:
            if isinstance(values, pa.Array | pa.ChunkedArray):
                return values.take(pa.array(places))
            if isinstance(values, np.ndarray):
                return values[places]
            return [values[place] for place in places.tolist()]

        return {name: chosen(self.data[name]) for name in names}

    def _like_mine(self, new: Mapping[str, Column], like: Mapping[str, Source]) -> dict[str, Any]:
        known = self.data.values()
        if any(isinstance(values, pa.Array | pa.ChunkedArray) for values in known):
            arrays = {name: column.to_arrow() for name, column in new.items()}
            for name in like.keys() & arrays.keys():
                source = self.data[like[name].column]
                if like[name].picked and isinstance(source, pa.Array | pa.ChunkedArray):
                    arrays[name] = restored(arrays[name], source.type)
            return arrays
        if any(isinstance(values, np.ndarray) for values in known):
            return {name: column.to_numpy() for name, column in new.items()}
        return {name: column.tolist() for name, column in new.items()}


class RowsTable(DictTable):
    """A list of dicts, one for each row; what a row has no value for is null."""

    def __init__(self, rows: list[Mapping[str, Any]]) -> None:
        super().__init__(raw_columns(rows))
        self.rows = rows

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> Any:
        return rows_of(super().made(table, like))

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> Any:
        added = rows_of({name: column.tolist() for name, column in new.items()})
        return [{**row, **more} for row, more in zip(self.rows, added, strict=True)]

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> Any:
        rows = [self.rows[place] for place in places.tolist()]
        return [{name: row.get(name) for name in names} for row in rows]


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of lists of equal length.

    >>> rows_of({"t": [1, 2], "x": [3, 4]})
    [{'t': 1, 'x': 3}, {'t': 2, 'x': 4}]
    """
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class RecordsTable(DictTable):
    """A structured array of numpy."""

    def __init__(self, records: np.ndarray) -> None:
        names: tuple[str, ...] = records.dtype.names or ()
        super().__init__({name: records[name] for name in names})
        self.records = records

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> Any:
        columns = super().made(table, like)
        for name, source in like.items():
            kind = self.records.dtype[source.column]
            if source.picked and kind.kind == "U" and None not in columns[name]:
                columns[name] = columns[name].astype(kind)  # a text of limited length again
        return self._records(columns)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> Any:
        return self._records(super().with_columns(new, like))

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> Any:
        return self.records[list(names)][places]

    def _records(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Columns as records, of the kind of array that was given."""
        size = len(next(iter(columns.values())))
        made = np.empty(size, [(name, array.dtype) for name, array in columns.items()])
        for name, array in columns.items():
            made[name] = array
        return made.view(type(self.records))
