"""Columns as the core sees them: a numpy array, a mask of what is there, and an Arrow type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slicewise import tuning
from slicewise.errors import ColumnTypeError

if TYPE_CHECKING:
    import pyarrow as pa


class Source(NamedTuple):
    """The column of a table that a column of results comes from.

    Results that are `picked` are values of it, as keys and maxima are, and no sums or counts.
    """

    column: str
    picked: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one Arrow type.

    `values` are numbers for numbers, int64 for dates, times, timestamps and durations, and Python
    objects for everything else. `valid` is `None` when nothing is null; what `values` holds where
    it is false means nothing.
    """

    values: np.ndarray
    valid: np.ndarray | None
    type: pa.DataType

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def from_arrow(array: pa.Array | pa.ChunkedArray) -> Column:
        """The column of an Arrow array; copies only what Arrow stores differently."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = without_views(array)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # an empty one stays chunked in some versions
            array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        if pa.types.is_float16(array.type):
            array = array.cast(pa.float32())  # nothing computes with half floats
        kind = array.type
        valid = None
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
        if storage(kind) == np.dtype(object):
            values = np.empty(len(array), dtype=object)
            values[:] = array.to_pylist()
            return Column(values, valid, kind)
        if valid is not None:
            array = pc.fill_null(array, pa.scalar(0).cast(pa.int64()).cast(_plain(kind)).cast(kind))
        if pa.types.is_temporal(kind):
            array = array.cast(_plain(kind)).cast(pa.int64())
        return Column(array.to_numpy(zero_copy_only=False), valid, kind)

    @staticmethod
    def from_numpy(values: np.ndarray) -> Column:
        """The column of a numpy array, in which nothing but `None`, NaT and pandas' NA is null."""
        import pyarrow as pa

        if values.dtype.kind in "biuf":
            # Compiled code knows neither half floats nor the other order of bytes.
            native = np.float32 if values.dtype == np.float16 else values.dtype.newbyteorder("=")
            values = values.astype(native, copy=False)
            return Column(values, None, pa.from_numpy_dtype(values.dtype))
        return Column.from_arrow(array_of(values))

    @staticmethod
    def of(array: Any) -> Column:
        """The column of an array of numpy or Arrow."""
        numpy = isinstance(array, np.ndarray)
        return Column.from_numpy(array) if numpy else Column.from_arrow(array)

    def to_arrow(self) -> pa.Array:
        """The Arrow array of this column."""
        import pyarrow as pa

        mask = None if self.valid is None else ~self.valid
        if self.values.dtype == object:
            values = self.values
            if mask is not None:
                values = values.copy()
                values[mask] = None
            return pa.array(values.tolist(), type=self.type)
        if pa.types.is_temporal(self.type):
            plain = _plain(self.type)
            raw = pa.array(self.values, type=pa.int64(), mask=mask)
            return raw.cast(plain).cast(self.type)
        return pa.array(self.values, mask=mask).cast(self.type)

    def to_numpy(self) -> np.ndarray:
        """A numpy array; null is NaN among numbers, and `None` or NaT among other things."""
        import pyarrow as pa

        if self.values.dtype == object or pa.types.is_temporal(self.type):
            return np.asarray(self.to_arrow().to_numpy(zero_copy_only=False))
        if self.valid is None or self.valid.all():
            return self.values
        values = self.values.astype(np.float64)
        values[~self.valid] = np.nan
        return values

    def to_floats(self) -> np.ndarray:
        """The values of a column of numbers as floats, with NaN for null."""
        if self.values.dtype.kind == "O":  # a column that has had nothing but nulls
            return np.full(len(self), np.nan)
        floats = self.values.astype(np.float64)
        return floats if self.valid is None else np.where(self.valid, floats, np.nan)

    def take(self, order: np.ndarray | slice) -> Column:
        """The column with the values at the positions of `order`."""
        valid = None if self.valid is None else self.valid[order]
        return Column(self.values[order], valid, self.type)

    def tolist(self) -> list[Any]:
        """Python values; null is `None`."""
        return python_values(self.to_arrow())


def array_of(values: Any, *, from_pandas: bool = False) -> Any:
    """An array of Arrow with the values of a list or an array; one of numpy that holds numbers.

    The latter stays as it is. Texts of Python that no UTF-8 can say, such as half of a pair of
    surrogates, become texts of Arrow that are no UTF-8.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.dtype.kind if isinstance(values, np.ndarray) else ""
    if isinstance(values, pa.Array | pa.ChunkedArray) or (kind and kind in "biuf"):
        return values
    from_pandas = from_pandas or kind == "O"
    if hasattr(values, "__arrow_c_stream__") and not from_pandas:
        return pa.chunked_array(values)
    try:
        return pa.array(values, from_pandas=from_pandas)
    except UnicodeError:
        given = list(values)
        plain = pa.array(_texts_by(_replaced, given), from_pandas=from_pandas).type
        encoded = pa.array(_texts_by(_encoded, given), from_pandas=from_pandas)
        return encoded.cast(options=pc.CastOptions(plain, allow_invalid_utf8=True))


def _replaced(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _texts_by(made: Callable[[str], Any], value: Any) -> Any:
    """The value with what is `made` of its texts, at any depth."""
    if isinstance(value, str):
        return made(value)
    if isinstance(value, dict):
        return {key: _texts_by(made, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_texts_by(made, one) for one in value]
    return value


def pylist(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as dicts of Python values."""
    names = table.column_names
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(
    array: pa.Array | pa.ChunkedArray, text: Callable[[bytes], Any] = bytes
) -> list[Any]:
    """Python values; null is `None`.

    What Python has no value for stays readable, at any depth: times beyond the years 1 to 9999 are
    text such as "20000-01-01T00:00:00", and texts that are no UTF-8 are what `text` makes of their
    bytes.

    >>> import pyarrow as pa
    >>> python_values(pa.array([0, 600_000_000_000], pa.timestamp("s")))
    [datetime.datetime(1970, 1, 1, 0, 0), '20983-03-30T10:40:00']
    """
    found: list[Any] = []
    size = tuning.active().objects_made
    for begin in range(0, len(array), size):  # Ctrl-C is heard between them
        piece = array.slice(begin, size)
        try:
            found += piece.to_pylist()
        except (ValueError, OverflowError):
            found += [_readable(value, text) for value in piece]
    return found


def _readable(value: pa.Scalar, text: Callable[[bytes], Any]) -> Any:
    """The Python value of a scalar; what stands for it if there is none."""
    import pyarrow as pa

    kind, types = value.type, pa.types
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return text(value.as_buffer().to_pybytes())
        if types.is_timestamp(kind):
            return str(np.datetime64(value.value, kind.unit))
        if types.is_date(kind):
            return str(np.datetime64(value.value, "D" if types.is_date32(kind) else "ms"))
        if types.is_dictionary(kind):
            return _readable(value.value, text)
        if types.is_struct(kind):
            return {name: _readable(value[name], text) for name in value}
        if types.is_map(kind):
            pairs = [_readable(pair, text) for pair in value.values]
            return [(pair["key"], pair["value"]) for pair in pairs]
        if types.is_nested(kind):
            return [_readable(one, text) for one in value.values]
        return str(value)


def has_text(kind: pa.DataType) -> bool:
    """Return whether values of a type hold text, at any depth."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return has_text(kind.value_type)
    inside = (kind.field(k).type for k in range(kind.num_fields))
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or any(map(has_text, inside))
    )


def unreadable(array: pa.Array | pa.ChunkedArray) -> np.ndarray | None:
    """Which values have texts that are no UTF-8, at any depth; `None` if none has."""
    import pyarrow as pa

    if not has_text(array.type):
        return None
    try:
        array.validate(full=True)
        return None
    except pa.ArrowInvalid:
        return np.array([_is_unreadable(value) for value in _decoded(array)], np.bool_)


def readable(array: pa.Array | pa.ChunkedArray, bad: np.ndarray) -> Column:
    """The column of an array in which the `bad` values, which cannot be read, are null."""
    import pyarrow as pa

    plain = _decoded(array)
    kept = plain.filter(pa.array(~bad)).to_pylist()
    values = np.empty(len(bad), object)
    values[~bad] = np.fromiter(kept, object, len(kept))
    valid = ~bad & plain.is_valid().to_numpy(zero_copy_only=False)
    return Column(values, valid, plain.type)


def read_columns(
    names: Iterable[str],
    column: Callable[[str], Column],
    arrow: Callable[[str], pa.Array | pa.ChunkedArray],
) -> tuple[dict[str, Column], np.ndarray | None]:
    """Columns by name, and which rows have a text that is no UTF-8 (`None`: none has).

    `column` makes them. Values with such a text are null; `arrow` has them as they came.
    """
    columns: dict[str, Column] = {}
    found: np.ndarray | None = None
    for name in names:
        try:
            columns[name] = column(name)
        except UnicodeDecodeError:
            array = arrow(name)
            bad = unreadable(array)
            if bad is None:
                raise
            columns[name] = readable(array, bad)
            found = bad if found is None else found | bad
    return columns, found


def arrow_table(data: Any) -> pa.Table | None:
    """The Arrow table of data that hands itself over as one; `None` for other data.

    That is a dataset of Arrow, a lazy frame of polars, and everything with the PyCapsule interface:
    relations of DuckDB, readers of record batches, tables of other libraries.
    """
    import pyarrow as pa

    dataset, polars = sys.modules.get("pyarrow.dataset"), sys.modules.get("polars")
    if dataset is not None and isinstance(data, dataset.Dataset | dataset.Scanner):
        return data.to_table()
    if polars is not None and isinstance(data, polars.LazyFrame):
        return data.collect().to_arrow()
    stream = hasattr(data, "__arrow_c_stream__")
    if not stream and not hasattr(data, "__arrow_c_array__"):
        return None
    try:
        return pa.table(data) if stream else pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise ColumnTypeError(
            f"A table has named columns, and each holds values of one type; {type(data).__name__} "
            f"makes none: {'; '.join(map(str, error.args))}."
        ) from error


def columns_of(
    table: pa.Table, names: Iterable[str]
) -> tuple[dict[str, Column], np.ndarray | None]:
    """Columns of an Arrow table, and which rows have a text that is no UTF-8."""
    return read_columns(names, lambda name: Column.from_arrow(table.column(name)), table.column)


def _decoded(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    plain = without_views(array)
    return plain.cast(plain.type.value_type) if pa.types.is_dictionary(plain.type) else plain


def _is_unreadable(value: pa.Scalar) -> bool:
    """Return whether there is a text in a value that is no UTF-8."""
    try:
        value.as_py()
    except UnicodeDecodeError:
        return True
    except (ValueError, OverflowError):
        return False  # a time that Python does not know
    return False


def without_views(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The array with its texts and bytes in one piece each.

    polars and others hand over views into several pieces, with which Arrow can do little.
    """
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without views, at any depth; other types as they are."""
    import pyarrow as pa

    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(plain_type(kind.value_type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field.with_type(plain_type(kind.value_type))
        return pa.list_(field, kind.list_size)
    if types.is_map(kind):
        key = kind.key_field.with_type(plain_type(kind.key_type))
        return pa.map_(key, kind.item_field.with_type(plain_type(kind.item_type)))
    return kind


def storage(kind: pa.DataType) -> np.dtype[Any]:
    """The numpy type that holds values of an Arrow type in a `Column`."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        plain: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return plain
    if types.is_temporal(kind) and not types.is_interval(kind):
        return np.dtype(np.int64)
    return np.dtype(object)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The integer type of the same width as a temporal type; other types as they are."""
    import pyarrow as pa

    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(kind) else kind
