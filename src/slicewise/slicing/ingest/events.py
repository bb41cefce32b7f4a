"""What an operator is fed: batches of many kinds as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.columns import (
    Column,
    array_of,
    arrow_table,
    has_text,
    plain_type,
    readable,
    unreadable,
    without_views,
)
from slicewise.errors import ColumnError, ColumnTypeError
from slicewise.spans import MICROSECONDS
from slicewise.suggestions import meant
from slicewise.times import UNITS

if TYPE_CHECKING:
    import pyarrow as pa


class Columns(Mapping[str, Column]):
    """The columns of a batch, each converted when it is first asked for."""

    def __init__(self, batch: Any) -> None:
        self._raw = raw_columns(batch)
        self._made: dict[str, Column] = {}
        sizes = {len(values) for values in self._raw.values()}
        if len(sizes) > 1:
            shown = ", ".join(f"{name}: {len(v)}" for name, v in self._raw.items())
            raise ColumnTypeError(f"The columns of a batch have one length; given: {shown}.")
        self.rows = sizes.pop() if sizes else 0

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            if name not in self._raw:
                known = ", ".join(map(repr, self._raw)) or "none"
                raise ColumnError(
                    f"There is no column {name!r} in the batch; it has: {known}."
                    f"{meant(name, self._raw)}"
                )
            self._made[name] = column_of(name, self._given(name))
        return self._made[name]

    def _given(self, name: str) -> Any:
        """A column as it was given: an array of Arrow, or one of numpy that holds numbers."""
        given = self._raw[name] = as_array(name, self._raw[name])
        return given

    def arrow(self, name: str) -> pa.Array:
        """A column as Arrow array: keys are never turned into Python objects."""
        import pyarrow as pa

        raw = self._raw.get(name)
        if name in self._made or not isinstance(raw, pa.Array | pa.ChunkedArray):
            return self[name].to_arrow()
        raw = without_views(raw)
        if isinstance(raw, pa.ChunkedArray):
            raw = raw.unify_dictionaries().combine_chunks()
        return raw

    def type_of(self, name: str) -> pa.DataType:
        """The type of a column, which need not be converted for that."""
        import pyarrow as pa

        raw = self._raw.get(name)
        if name in self._made or not isinstance(raw, pa.Array | pa.ChunkedArray):
            return self[name].type
        kind = plain_type(raw.type)
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def __iter__(self) -> Any:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def put(self, name: str, column: Column) -> None:
        """Let `column` stand for the one of that name."""
        self._made[name] = column

    def unreadable(self, name: str) -> np.ndarray | None:
        """Which rows have texts that are no UTF-8, which are null from here on; `None`: none."""
        given = self._given(name) if name in self._raw else None
        bad = None if given is None or isinstance(given, np.ndarray) else unreadable(given)
        if bad is not None:
            self._made[name] = readable(given, bad)
        return bad

    def table(self, rows: np.ndarray) -> pa.Table:
        """Some rows, with all their columns."""
        import pyarrow as pa

        return pa.table({name: self._taken(name, rows) for name in self._raw})

    def _taken(self, name: str, rows: np.ndarray) -> pa.Array | pa.ChunkedArray:
        import pyarrow as pa

        raw = self._given(name)
        if isinstance(raw, pa.Array | pa.ChunkedArray) and has_text(raw.type):
            # As it came: texts need not be read to be handed out.
            plain = without_views(raw).take(pa.array(rows))
            return plain.cast(plain.type.value_type) if _is_dictionary(plain) else plain
        return self[name].take(rows).to_arrow()


def _is_dictionary(array: pa.Array | pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(array.type))


def raw_columns(batch: Any) -> dict[str, Any]:
    """The columns of a batch by name: arrays of numpy or Arrow, or lists."""
    import pyarrow as pa

    if isinstance(batch, Mapping):
        single = any(map(is_single, batch.values()))
        return {name: [value] for name, value in batch.items()} if single else dict(batch)
    if isinstance(batch, pa.RecordBatch | pa.Table):
        check_unique(batch.column_names)
        return dict(zip(batch.column_names, batch.columns, strict=True))
    if isinstance(batch, np.ndarray) and batch.dtype.names:
        return {name: batch[name] for name in batch.dtype.names}
    if hasattr(batch, "__arrow_c_stream__"):
        check_unique(getattr(batch, "columns", ()))
    try:
        table = arrow_table(batch)
    except UnicodeEncodeError:  # pandas has columns of texts that no UTF-8 can say
        return {name: as_array(name, batch[name].to_numpy(object)) for name in batch.columns}
    if table is not None:
        check_unique(table.column_names)
        names = [name for name in table.column_names if not name.startswith("__index_level_")]
        return {name: table[name] for name in names}
    if isinstance(batch, Iterable) and not isinstance(batch, str | bytes):
        rows = list(batch)
        if all(isinstance(row, Mapping) for row in rows):
            found = dict.fromkeys(name for row in rows for name in row)
            return {name: [row.get(name) for row in rows] for name in found}
    raise ColumnTypeError(
        "A batch is a dict of columns, an Arrow, pandas or polars table, another one that speaks "
        f"Arrow, or rows as dicts; given: {type(batch).__name__}."
    )


def is_single(value: Any) -> bool:
    """Return whether something in a dict is one value, not a column: then the dict is one event.

    >>> is_single(5), is_single("a"), is_single(None), is_single([5])
    (True, True, True, False)
    """
    return isinstance(value, str | bytes) or not hasattr(value, "__len__")


def check_unique(names: Iterable[Any]) -> None:
    """Refuse a batch in which a name stands for several columns."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        shown = ", ".join(map(repr, twice))
        raise ColumnError(
            f"Each column of a batch has a name of its own; several are named {shown}. Rename "
            "them, or leave out what is not needed."
        )


def column_of(name: str, values: Any) -> Column:
    """The column of an array or a list."""
    return Column.of(as_array(name, values))


def as_array(name: str, values: Any) -> Any:
    """An array of Arrow, or one of numpy that holds numbers, of a column as it was given."""
    import pyarrow as pa

    try:
        return array_of(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ColumnTypeError(
            f"A column holds values of one type; {name!r} does not: {error}."
        ) from error


def times_column(
    values: np.ndarray, kind: pa.DataType, grain: int, nothing: np.ndarray | None = None
) -> pa.Array:
    """Microseconds as times of the type of a time column, if that can hold multiples of `grain`.

    Otherwise they are of its kind with microseconds: a date then becomes a timestamp. They are null
    where there is `nothing`.
    """
    import pyarrow as pa

    types, day = pa.types, MICROSECONDS["d"]
    if types.is_timestamp(kind) or types.is_date(kind):
        fine = pa.timestamp("us", kind.tz if types.is_timestamp(kind) else None)
    elif types.is_duration(kind) or types.is_time(kind):
        fine = pa.duration("us")  # the end of a day is no time of day
    else:
        return pa.array(values, mask=nothing)
    moments = pa.array(values, mask=nothing).cast(fine)
    coarse = day if types.is_date(kind) else UNITS[kind.unit][0]
    return moments if types.is_time(kind) or grain % coarse else moments.cast(kind)


def check_same_times(before: pa.DataType, now: pa.DataType, name: str) -> None:
    """Refuse numbers after moments and moments after numbers: they do not count the same units."""
    import pyarrow as pa

    if pa.types.is_null(now):
        return
    if pa.types.is_temporal(before) != pa.types.is_temporal(now):
        raise ColumnTypeError(
            f"A time column holds moments or numbers and stays with them; {name!r} was {before} "
            f"and is now {now}. Cast the column before it is given."
        )


def fitted(column: Column, kind: pa.DataType, name: str) -> Column:
    """The column as the type it had in the first batch."""
    import pyarrow as pa

    if column.type == kind:
        return column
    try:
        return Column.from_arrow(column.to_arrow().cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(
            f"A column keeps its type; {name!r} was {kind} and is now {column.type}, and not every "
            f"value can be cast ({error}). Cast the column before it is given."
        ) from error
