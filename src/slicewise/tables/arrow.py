"""Arrow tables, record batches, and dicts of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.columns import Column, array_of, plain_type
from slicewise.errors import ColumnTypeError
from slicewise.slicing.ingest.events import is_single


class ArrowTable:
    """An Arrow table or record batch."""

    nan_is_null = False

    def __init__(self, data: pa.Table | pa.RecordBatch) -> None:
        self.data = data

    @property
    def names(self) -> Sequence[Any]:
        names: list[str] = self.data.schema.names
        return names

    def arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        return self.data.column(name)

    def column(self, name: str) -> Column:
        return Column.from_arrow(self.data.column(name))

    def made(self, table: pa.Table, like: Mapping[str, str]) -> pa.Table | pa.RecordBatch:
        for place, name in enumerate(table.column_names):
            if name in like:
                column = restored(table.column(place), self.data.column(like[name]).type)
                table = table.set_column(place, name, column)
        if isinstance(self.data, pa.Table):
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, str] | None = None,
    ) -> pa.Table | pa.RecordBatch:
        fields = list(self.data.schema)
        arrays = [column.to_arrow() for column in new.values()]
        for place, name in enumerate(new):
            if like and name in like:
                arrays[place] = restored(arrays[place], self.data.column(like[name]).type)
        fields += [pa.field(n, a.type) for n, a in zip(new, arrays, strict=True)]
        schema = pa.schema(fields, metadata=self.data.schema.metadata)
        return type(self.data).from_arrays([*self.data.columns, *arrays], schema=schema)

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> pa.Table | pa.RecordBatch:
        return self.data.select(list(names)).take(pa.array(places))


def restored(array: Any, kind: pa.DataType) -> Any:
    """Values as the type of the column that they are from, if that is a dictionary or of views."""
    encoded = pa.types.is_dictionary(kind) or plain_type(kind) != kind
    return array.cast(kind) if encoded and array.type != kind else array


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

    def made(self, table: pa.Table, like: Mapping[str, str]) -> dict[str, Any]:
        columns = map(Column.from_arrow, table.columns)
        return self._like_mine(dict(zip(table.column_names, columns, strict=True)), like)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, str] | None = None,
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

    def _like_mine(self, new: Mapping[str, Column], like: Mapping[str, str]) -> dict[str, Any]:
        known = self.data.values()
        if any(isinstance(values, pa.Array | pa.ChunkedArray) for values in known):
            arrays = {name: column.to_arrow() for name, column in new.items()}
            for name in like.keys() & arrays.keys():
                source = self.data[like[name]]
                if isinstance(source, pa.Array | pa.ChunkedArray):
                    arrays[name] = restored(arrays[name], source.type)
            return arrays
        if any(isinstance(values, np.ndarray) for values in known):
            return {name: column.to_numpy() for name, column in new.items()}
        return {name: column.tolist() for name, column in new.items()}
