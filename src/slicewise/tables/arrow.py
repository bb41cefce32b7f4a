"""Arrow tables, record batches and readers of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.columns import Column, Source, plain_type


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

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> pa.Table | pa.RecordBatch:
        for place, name in enumerate(table.column_names):
            if name in like and like[name].picked:
                column = restored(table.column(place), self.data.column(like[name].column).type)
                table = table.set_column(place, name, column)
        if isinstance(self.data, pa.Table):
            return table
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> pa.Table | pa.RecordBatch:
        fields = list(self.data.schema)
        arrays = [column.to_arrow() for column in new.values()]
        for place, name in enumerate(new):
            if like and name in like and like[name].picked:
                arrays[place] = restored(arrays[place], self.data.column(like[name].column).type)
        fields += [pa.field(n, a.type) for n, a in zip(new, arrays, strict=True)]
        schema = pa.schema(fields, metadata=self.data.schema.metadata)
        return type(self.data).from_arrays([*self.data.columns, *arrays], schema=schema)

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> pa.Table | pa.RecordBatch:
        return self.data.select(list(names)).take(pa.array(places))


class ReaderTable(ArrowTable):
    """A reader of record batches, which is read at once."""

    def made(self, table: pa.Table, like: Mapping[str, Source]) -> pa.RecordBatchReader:
        return super().made(table, like).to_reader()

    def with_columns(
        self,
        new: Mapping[str, Column],
        like: Mapping[str, Source] | None = None,
    ) -> pa.RecordBatchReader:
        return super().with_columns(new, like).to_reader()

    def taken(self, places: np.ndarray, names: Sequence[Any]) -> pa.RecordBatchReader:
        return super().taken(places, names).to_reader()


def restored(array: Any, kind: pa.DataType) -> Any:
    """Values as the type of the column that they are from, if that is a dictionary or of views."""
    encoded = pa.types.is_dictionary(kind) or plain_type(kind) != kind
    return array.cast(kind) if encoded and array.type != kind else array
