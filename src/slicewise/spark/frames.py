"""DataFrames as the verbs see them: columns, types and times, all known without a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slicewise import tuning
from slicewise.arguments import check_columns
from slicewise.errors import ColumnError, ColumnTypeError
from slicewise.limits import EVER, REACH
from slicewise.slicing.emit.output import position_type
from slicewise.slicing.ingest.reach import Reach
from slicewise.slicing.settings import POSITIONS, TIMES
from slicewise.spans import MICROSECONDS
from slicewise.spark import compat
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

# How texts are compared that have no collation of their own: byte by byte.
PLAIN = "UTF8_BINARY"

NTZ_MICROSECONDS = (
    "cast(cast(cast({} - timestamp_ntz'1970-01-01 00:00:00' as interval second) "
    "as decimal(20, 6)) * 1000000 as bigint)"
)


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def col(name: str) -> Column:
    """The column with exactly this name; dots mean nothing special."""
    from pyspark.sql import functions as F

    return F.col(quoted(name))


class Frame:
    """A DataFrame whose columns travel by position, so that no name of theirs meets one of ours.

    In `rows` they are called `c0`, `c1` and so on. `names` are the user's; `columns` and `schema`
    are the same with names that differ, for where a table needs them.
    """

    def __init__(self, given: DataFrame) -> None:
        from pyspark.sql.types import StructField, StructType

        self.names: list[str] = given.columns
        self.columns = distinct(self.names)
        self.schema = StructType(
            [
                StructField(name, field.dataType, field.nullable, field.metadata)
                for name, field in zip(self.columns, given.schema.fields, strict=True)
            ]
        )
        self.rows = given.toDF(*(f"c{k}" for k in range(len(self.names))))
        self.is_streaming: bool = given.isStreaming
        self._places = {name: f"c{k}" for k, name in enumerate(self.columns)}

    def place(self, name: str) -> str:
        """The name of a column in `rows`."""
        return self._places[name]

    def at(self, name: str) -> Column:
        """A column of `rows`."""
        from pyspark.sql import functions as F

        return F.col(self._places[name])

    def selected(self, names: Iterable[str], rows: DataFrame) -> DataFrame:
        """Columns of some of the rows, under their own names."""
        return rows.select(*(self.at(name).alias(name) for name in names))

    def sorted_by(self, names: Iterable[str]) -> list[Column]:
        """Columns of `rows` to sort by, texts by their bytes as Python does."""
        kinds = [(self.at(name), self.schema[name].dataType) for name in names]
        return [c.cast("binary") if _collation(kind) != PLAIN else c for c, kind in kinds]

    def all_at(self, names: Iterable[str]) -> list[Column]:
        """Several columns of `rows`."""
        return [self.at(name) for name in names]


def distinct(names: Iterable[str]) -> list[str]:
    """Names of which those that came before are numbered.

    >>> distinct(["k", "x", "x", "X"])
    ['k', 'x', 'x (2)', 'X']
    """
    given = list(names)
    found: list[str] = []
    for name in given:
        number, other = 1, name
        while other in found or (number > 1 and other in given):
            number += 1
            other = f"{name} ({number})"
        found.append(other)
    return found


def unused(name: str, taken: Iterable[str]) -> str:
    """A name of ours that none of a user's is.

    >>> unused("__place", ["k", "__place"])
    '__place_'
    """
    known = set(taken)
    while name in known:
        name += "_"
    return name


def checked(frame: Frame, wanted: Sequence[str]) -> None:
    """Refuse columns that are not there and names that mean two columns."""
    check_names(frame.names, wanted)


def check_names(known: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse names that are not known, or known twice."""
    check_columns(known, wanted)
    for name in wanted:
        if known.count(name) > 1:
            raise ColumnError(
                f"The DataFrame has {known.count(name)} columns named {name!r}, so it is not clear "
                "which one is meant. Rename them first."
            )


def arrow_types(frame: Frame, names: Iterable[str]) -> dict[str, pa.DataType]:
    """The Arrow types with which columns reach Python."""
    return {name: arrow_type(name, frame.schema[name].dataType) for name in names}


def arrow_type(name: str, kind: DataType) -> pa.DataType:
    """The Arrow type of a column; refuses those that Arrow has no equal of."""
    from pyspark.errors import PySparkException

    try:
        return compat.to_arrow_type(kind)
    except PySparkException as error:
        raise ColumnTypeError(
            f"The column {name!r} holds {kind.simpleString()}, which cannot be sent to Python as "
            "Arrow. Cast it first, or leave it out."
        ) from error


def spark_type(name: str, kind: pa.DataType) -> DataType:
    """The Spark type of a result."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_timestamp(kind) and kind.unit != "us":
        kind = pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        kind = pa.duration("us")
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise ColumnTypeError(
            f"The results of {name!r} are {kind}, for which Spark has no type."
        ) from error


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of a function whose results have this schema."""
    return compat.to_arrow_schema(schema)


def check_keys(frame: Frame, by: Sequence[str]) -> None:
    """Refuse keys that Spark cannot compare, or compares otherwise than by what they hold."""
    for name in by:
        kind = frame.schema[name].dataType
        if not _compared(kind):
            raise ColumnTypeError(
                f"Keys are compared, which Spark cannot do with maps and variants; {name!r} holds "
                f"{kind.simpleString()}. Use one of its fields, or a text made of it."
            )
        if collated := _collations(kind):
            raise ColumnTypeError(
                f"Keys are the same when they hold the same, and texts with the collation "
                f"{collated[0]} are the same to Spark when they do not; {name!r} holds "
                f"{kind.simpleString()}. Make it plain text first: `F.collate({name!r}, "
                f"'{PLAIN}')` tells all apart, and `F.lower` of that has one form for upper and "
                "lower case."
            )


def _compared(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, ArrayType):
        return _compared(kind.elementType)
    if isinstance(kind, StructType):
        return all(_compared(field.dataType) for field in kind)
    return not isinstance(kind, MapType | VariantType)


def _collations(kind: DataType) -> list[str]:
    """The collations in a type by which Spark takes texts for the same that differ."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        return _collations(kind.elementType)
    if isinstance(kind, StructType):
        return [name for field in kind for name in _collations(field.dataType)]
    return [] if _collation(kind) == PLAIN else [_collation(kind)]


def _collation(kind: DataType) -> str:
    found: str = getattr(kind, "collation", PLAIN)
    return found


def microseconds(frame: Frame, name: str) -> Column:
    """The time column as a bigint, in microseconds unless it holds numbers; null if unusable."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    kind, column = frame.schema[name].dataType, frame.at(name)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):
        return F.expr(NTZ_MICROSECONDS.format(frame.place(name)))
    if isinstance(kind, T.DateType):
        return F.unix_date(column).cast("bigint") * MICROSECONDS["d"]
    if isinstance(kind, T.IntegralType):
        whole = column.cast("bigint")
        return F.when((whole > -REACH) & (whole < REACH), whole)
    if isinstance(kind, T.FloatType | T.DoubleType):
        usable = (F.abs(column) < float(REACH)) & (F.floor(column).cast("double") == column)
        return F.when(usable, column.cast("bigint"))
    raise time_error(name, kind)


def within_reach(time: Column, reach: Reach) -> Column:
    """Times in microseconds, null where they are out of reach, as unusable ones are."""
    from pyspark.sql import functions as F

    return time if reach == EVER else F.when(time.between(*reach), time)


def check_time(frame: Frame, name: str) -> None:
    """Refuse a time column that holds no times."""
    from pyspark.sql import types as T

    kind = frame.schema[name].dataType
    if not isinstance(
        kind,
        T.TimestampType
        | T.TimestampNTZType
        | T.DateType
        | T.IntegralType
        | T.FloatType
        | T.DoubleType,
    ):
        raise time_error(name, kind)


def time_error(name: str, kind: DataType) -> ColumnTypeError:
    """The error about a time column that holds no times."""
    return ColumnTypeError(
        f"A time column holds timestamps, dates or whole numbers; {name!r} holds "
        f"{kind.simpleString()}. Cast it first, for example with `F.to_timestamp`."
    )


def tie_breakers(
    frame: Frame, order: Sequence[str], names: Iterable[str], known: set[str]
) -> tuple[str, ...]:
    """Columns that order rows of equal time: a DataFrame has no order of its own.

    First those of `order`, then `names` other than `known`, as far as they can be sorted by. Rows
    that agree in all of them are the same to every aggregate.
    """
    for name in order:
        if not _compared(kind := frame.schema[name].dataType):
            raise ColumnTypeError(
                f"`order` takes columns that can be sorted, which maps and variants cannot; "
                f"{name!r} holds {kind.simpleString()}. Use a field of it, or a text made of it."
            )
    own = [n for n in names if n not in known and _compared(frame.schema[n].dataType)]
    return tuple(dict.fromkeys([*order, *own]))


def bounds_types(
    time: str, windows: Sequence[Window], types: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """The columns that have the bounds of instances, and their types."""
    import pyarrow as pa

    kind, others = types[time], [window for window in windows if not window.timed]
    number = position_type(others, types)
    if not pa.types.is_temporal(kind) or len(others) == len(windows):
        return dict.fromkeys(TIMES, number)
    moment = pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None)
    found = dict.fromkeys(TIMES, moment)
    return found | dict.fromkeys(POSITIONS, number) if others else found


def joined(batches: Iterable[pa.RecordBatch], most: int | None = None) -> Iterator[pa.Table]:
    """Batches joined and cut to tables of not too many rows and bytes."""
    import pyarrow as pa

    limits = tuning.active()
    rows = limits.rows_joined if most is None else min(most, limits.rows_joined)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            piece = batch.slice(begin, rows)
            waiting.append(piece)
            count += piece.num_rows
            size += piece.nbytes
            if count >= rows or size >= limits.bytes_joined:
                yield pa.Table.from_batches(waiting).combine_chunks()
                waiting, count, size = [], 0, 0
    if count:
        yield pa.Table.from_batches(waiting).combine_chunks()


def conformed(columns: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Columns as batches of exactly this schema; Spark reads them by it without a check."""
    yield from fitted(columns, schema).to_batches(max_chunksize=tuning.active().rows_out)


def fitted(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Columns as a table of exactly this schema."""
    import pyarrow as pa

    arrays = [fit(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def fit(array: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """An array as another type that can hold its values."""
    import pyarrow as pa

    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(array.to_pylist(), kind)
