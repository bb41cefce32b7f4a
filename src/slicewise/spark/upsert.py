"""A table that is kept equal to the folded answer of a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slicewise.errors import TargetError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A scheme has two letters at least, so that no drive of Windows is one.
SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]+)://(?P<rest>.*)", re.DOTALL)
KNOWN = "a folder for Parquet files, 'sqlite:///<file>' or 'postgresql://<server>/<database>'"


class Upsert(Protocol):
    """A function for `foreachBatch` that keeps a table; it can be called again with any batch."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Bring the emitted rows of a micro-batch into the table, all of them or none."""

    def read(self, spark: SparkSession) -> DataFrame:
        """The current answer as a DataFrame."""


def upsert(
    target: str | Path, *, table: str | None = None, by: str | Sequence[str] | None = None
) -> Upsert:
    """A function for `foreachBatch` that keeps `target` equal to `sw.fold` of all emitted rows.

    `target` is `"sqlite:///<file>"` (four slashes before an absolute path) or
    `"postgresql://<user>@<server>/<database>"`, with the name of a `table`, or a folder, in which
    Parquet files are kept. The keys are the columns before `window`; `by` names them if they are
    elsewhere.

    A micro-batch may come twice, or after a newer one: an instance only ever takes a greater
    revision, and of a retracted one the revision is remembered. All rows of a micro-batch appear
    at once.

    >>> import slicewise as sw
    >>> keep = sw.upsert("sqlite:///answers.db", table="windows")
    >>> keep  # stream.writeStream.foreachBatch(keep).start()
    upsert('sqlite:///answers.db', table='windows')
    """
    keys = (by,) if isinstance(by, str) else None if by is None else tuple(by)
    found = SCHEME.fullmatch(str(target))
    scheme = found["scheme"].lower() if found else "file"
    if scheme in ("sqlite", "postgresql", "postgres"):
        from slicewise.spark.sql_stores import PostgresUpsert, SqliteUpsert

        if not isinstance(table, str):
            raise TargetError(
                f"`upsert` into a database needs the name of a `table`; given: {table}."
            )
        kind = SqliteUpsert if scheme == "sqlite" else PostgresUpsert
        return kind(str(target), table, keys)
    if scheme != "file" or not str(target):
        raise TargetError(f"`upsert` knows {KNOWN}; given: {str(target)!r}.")
    if table is not None:
        raise TargetError(
            f"A folder is a table by itself, so `table` is for databases; given: {table!r}."
        )
    from slicewise.spark.parquet_store import ParquetUpsert

    return ParquetUpsert(Path(found["rest"] if found else target).absolute(), keys)
