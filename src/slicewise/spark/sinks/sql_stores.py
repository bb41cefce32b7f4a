"""Tables in SQLite and PostgreSQL that `sw.upsert` keeps.

`<table>_revisions` has one row per window instance, the retracted ones too; the view `<table>` is
the current answer. One transaction takes a micro-batch, so that readers see all of it or nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from slicewise import tuning
from slicewise.errors import CapabilityError, MissingDependencyError, TargetError
from slicewise.folding import REVISION, Layout, latest_rows
from slicewise.spark.sinks.columns import changed_type, check_case
from slicewise.spark.sinks.fold import layout_of, results
from slicewise.spark.sinks.postgres_address import PostgresAddress
from slicewise.spark.sinks.sql_values import (
    as_json,
    as_text,
    digests,
    family,
    plain_values,
    without_nul,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# The name of an instance as one short text: in SQL no null equals another, so that a unique index
# over the keys would let a null key in again and again.
IDENTITY = "slicewise_instance"
# PostgreSQL cuts names at so many bytes, and `_revisions` is appended to that of a table.
LONGEST = 63
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,51}")


@dataclass(frozen=True, repr=False)
class SqlUpsert(ABC):
    """Keeps a table in a database. Rows of a micro-batch pass through the driver."""

    url: str
    table: str
    by: tuple[str, ...] | None

    mark: ClassVar[str]
    kinds: ClassVar[Mapping[str, str]]

    def __post_init__(self) -> None:
        parts = self.table.split(".")
        if len(parts) > self._depth() or not all(map(NAME.fullmatch, parts)):
            also = ", after a schema and a dot if it is in one" if self._depth() > 1 else ""
            raise TargetError(
                "The name of a table has at most 52 letters, digits and underscores, with no digit "
                f"first{also}; given: {self.table!r}."
            )

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        layout = layout_of(batch, "upsert", self.by)
        # One action, or else the query would run twice.
        self.take(results(batch, layout).toArrow())

    def read(self, spark: SparkSession) -> DataFrame:
        raise CapabilityError(
            f"A table in a database is read by the database: `select * from {self.table}`. "
            "`sw.upsert(folder).read(spark)` reads a folder."
        )

    def take(self, emitted: pa.Table) -> None:
        """Bring emitted rows, without dropped events among them, into the table."""
        layout = Layout.of(emitted.column_names, self.by, late=False)
        rows = emitted.take(latest_rows(layout, emitted.column))
        with self.transaction() as cursor:
            columns = self._prepare(cursor, layout, rows.schema)
            statement = self.statement(columns)
            size = tuning.active().rows_sent
            for begin in range(0, rows.num_rows, size):
                cursor.executemany(
                    statement, self._values(rows.slice(begin, size), layout, columns)
                )

    # --- SQL -----------------------------------------------------------------------------------

    @property
    def _all(self) -> str:
        return self._quoted(self.table + "_revisions")

    def statement(self, columns: Sequence[str]) -> str:
        """Insert a row, or take its values if it is newer than what is there."""
        names = [self._named(name) for name in (IDENTITY, *columns)]
        marks = ", ".join([self.mark] * len(names))
        new = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        return (
            f"insert into {self._all} ({', '.join(names)}) values ({marks}) "
            f"on conflict ({names[0]}) do update set {new} "
            f"where excluded.{self._named('revision')} > {self._all}.{self._named('revision')}"
        )

    def _prepare(self, cursor: Any, layout: Layout, schema: pa.Schema) -> list[str]:
        """Make the table, or add the columns that it lacks; returns its columns.

        Whatever the table cannot take as it is, is refused before anything is written.
        """
        named = (*layout.identity, *layout.values)  # keys first, wherever they come from
        wanted = {name: self.kinds[family(schema.field(name).type)] for name in named}
        self._check_names(named)
        if not self.exists(cursor, self.table + "_revisions"):
            if self.exists(cursor, self.table):
                raise TargetError(
                    f"The database has a table {self.table!r} that `sw.upsert` did not make. Give "
                    "another name."
                )
            kinds = {IDENTITY: self.kinds["text"] + " primary key", **wanted}
            kinds |= {"revision": self.kinds["integer"] + " not null"}
            kinds |= {"retracted": self.kinds["boolean"] + " not null"}
            defined = ", ".join(f"{_doubled(name)} {kind}" for name, kind in kinds.items())
            cursor.execute(f"create table {self._all} ({defined})")
            self.show(cursor, named)
            return [*named, *REVISION]
        stored = self.stored(cursor)
        known = [*stored][1:]
        self.check_names([*known, *named])
        keys = known[: known.index("window")]
        if keys != list(layout.keys):
            raise TargetError(
                f"The table {self.table!r} has the keys {keys}; this stream has "
                f"{list(layout.keys)}. Use another table."
            )
        self._check_types(stored, wanted, schema)
        added = [name for name in named if name not in known]
        for name in added:
            cursor.execute(f"alter table {self._all} add column {_doubled(name)} {wanted[name]}")
        columns = [*known, *added]
        if added:
            self.show(cursor, [name for name in columns if name not in REVISION])
        return columns

    def _check_names(self, named: Sequence[str]) -> None:
        for name in named:
            if name in (IDENTITY, *REVISION) or "\0" in name:
                raise TargetError(
                    f"A table of `sw.upsert` can have no column {name!r}: {IDENTITY!r}, "
                    f"{REVISION[0]!r} and {REVISION[1]!r} are its own, and databases take no name "
                    "with a NUL character. Rename the column."
                )
        self.check_names([IDENTITY, *named, *REVISION])

    def _check_types(
        self, stored: Mapping[str, str], wanted: Mapping[str, str], schema: pa.Schema
    ) -> None:
        """Refuse values that the database would round or read differently.

        Columns whose type a user has changed take what the database can make of the values.
        """
        import pyarrow as pa

        for name, kind in wanted.items():
            known = stored.get(name, kind)
            if known == kind or known not in self.kinds.values():
                continue
            if not pa.types.is_null(schema.field(name).type):
                raise changed_type(f"The table {self.table!r}", name, known, kind)

    def _selection(self, columns: Sequence[str]) -> str:
        shown = ", ".join(map(_doubled, columns))
        return f"{self._quoted(self.table)} as select {shown} from {self._all} where not retracted"

    def _quoted(self, table: str) -> str:
        return ".".join(map(_doubled, table.split(".")))

    def _named(self, column: str) -> str:
        """A column's name in a statement that takes values."""
        return _doubled(column)

    def _values(
        self, rows: pa.Table, layout: Layout, columns: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        found = {name: plain_values(rows.column(name)) for name in rows.column_names}
        count = rows.num_rows
        if not layout.revised:
            found |= {"revision": [0] * count, "retracted": [False] * count}
        identity = digests([found[name] for name in layout.identity])
        nothing = [None] * count  # an aggregate that the stream no longer has
        stored = [[*map(self.value, found[n])] if n in found else nothing for n in columns]
        return zip(identity, *stored, strict=True)

    # --- what differs among databases ----------------------------------------------------------

    def _depth(self) -> int:
        """How many parts the name of a table may have."""
        return 1

    @contextmanager
    @abstractmethod
    def transaction(self) -> Iterator[Any]:
        """A cursor; what it did is there as a whole when the block ends, or not at all."""

    @abstractmethod
    def exists(self, cursor: Any, name: str) -> bool:
        """Tells if there is a table or view of this name."""

    @abstractmethod
    def check_names(self, names: Sequence[str]) -> None:
        """Refuse columns whose names the database would not keep apart."""

    @abstractmethod
    def stored(self, cursor: Any) -> dict[str, str]:
        """The columns of the table behind the view, each with its type, in their order."""

    @abstractmethod
    def show(self, cursor: Any, columns: Sequence[str]) -> None:
        """Make the view of the current answer, with these columns."""

    @abstractmethod
    def value(self, value: Any) -> Any:
        """A value as the driver takes it."""


@dataclass(frozen=True, repr=False)
class SqliteUpsert(SqlUpsert):
    """SQLite, by the driver of Python's own library."""

    mark: ClassVar[str] = "?"
    kinds: ClassVar[Mapping[str, str]] = {
        "integer": "integer",
        "boolean": "boolean",
        "float": "real",
        "bytes": "blob",
        "text": "text",
        # Texts to SQLite, which goes by the last word.
        **{name: f"{name} text" for name in ("decimal", "instant", "timestamp", "date", "time")},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._file():
            raise TargetError(
                "SQLite is named by its file, such as 'sqlite:///answers.db', with four slashes "
                "before an absolute path; the given address names none in this way."
            )

    def __repr__(self) -> str:
        return f"upsert({self.url!r}, table={self.table!r})"

    def _file(self) -> str:
        """The path behind `sqlite:///`; one slash more begins an absolute path."""
        return self.url[len("sqlite:///") :] if self.url[9:10] == "/" else ""

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        import sqlite3

        with closing(sqlite3.connect(self._file(), timeout=60, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            with connection:  # commits, or rolls back on an error
                yield connection.cursor()

    def exists(self, cursor: Any, name: str) -> bool:
        known = "select name from sqlite_master where lower(name) = lower(?)"
        found = cursor.execute(known, (name,)).fetchone()
        if found is not None and found[0] != name:
            raise TargetError(
                f"The database has {found[0]!r}, which SQLite does not tell from {name!r}: the "
                "names differ only in case. Give another name of a `table`, or that one."
            )
        return found is not None

    def check_names(self, names: Sequence[str]) -> None:
        check_case(names, "SQLite")

    def stored(self, cursor: Any) -> dict[str, str]:
        found = cursor.execute(f"pragma table_info({self._all})")
        return {name: kind.lower() for _, name, kind, *_ in found}

    def show(self, cursor: Any, columns: Sequence[str]) -> None:
        cursor.execute(f"drop view if exists {self._quoted(self.table)}")
        cursor.execute(f"create view {self._selection(columns)}")

    def value(self, value: Any) -> Any:
        return as_text(value)


@dataclass(frozen=True, repr=False)
class PostgresUpsert(SqlUpsert):
    """PostgreSQL, by the driver psycopg."""

    mark: ClassVar[str] = "%s"
    kinds: ClassVar[Mapping[str, str]] = {
        "integer": "bigint",
        "boolean": "boolean",
        "float": "double precision",
        "bytes": "bytea",
        "decimal": "numeric",
        "instant": "timestamp with time zone",
        "timestamp": "timestamp without time zone",
        "date": "date",
        "time": "time without time zone",
        "text": "text",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _psycopg()
        PostgresAddress.of(self.url)  # refuses one that cannot be read

    def __repr__(self) -> str:
        return f"upsert({PostgresAddress.of(self.url)!r}, table={self.table!r})"

    def _depth(self) -> int:
        return 2

    def _named(self, column: str) -> str:
        return _doubled(column).replace("%", "%%")

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        psycopg = _psycopg()
        options = PostgresAddress.of(self.url).options
        with psycopg.connect(**options) as connection, connection.cursor() as cursor:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            # Writers of one table take turns: two would make it at once, or wait for each other's
            # rows. The lock goes by the name without its schema, which another may have left out.
            lock = f"slicewise {self.table.split('.')[-1]}"
            cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
            yield cursor

    def exists(self, cursor: Any, name: str) -> bool:
        cursor.execute("select to_regclass(%s)", (self._quoted(name),))
        return cursor.fetchone()[0] is not None

    def check_names(self, names: Sequence[str]) -> None:
        for name in names:
            if len(name.encode()) > LONGEST:
                raise TargetError(
                    f"PostgreSQL cuts names after {LONGEST} bytes, and the column {name!r} has "
                    f"{len(name.encode())}. Rename it, an aggregate with `.alias(...)`."
                )

    def stored(self, cursor: Any) -> dict[str, str]:
        cursor.execute(
            "select attname, format_type(atttypid, null) from pg_attribute where attnum > 0 "
            "and attrelid = to_regclass(%s) and not attisdropped order by attnum",
            (self._all,),
        )
        return dict(cursor.fetchall())

    def show(self, cursor: Any, columns: Sequence[str]) -> None:
        # New columns come last, so that views which others made of this one stay.
        cursor.execute(f"create or replace view {self._selection(columns)}")

    def value(self, value: Any) -> Any:
        return without_nul(as_json(value))


def _doubled(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise MissingDependencyError(
            "`sw.upsert` into PostgreSQL needs psycopg: pip install 'slicewise[postgres]'."
        ) from error
    return psycopg
