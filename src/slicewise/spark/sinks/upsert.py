"""A table that is kept equal to the folded answer of a stream."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slicewise.errors import TargetError
from slicewise.names import column_names
from slicewise.spark.sinks.postgres_address import SCHEMES
from slicewise.suggestions import taking_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A scheme has two letters at least, so that no drive of Windows is one.
SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]+):(?P<rest>.*)", re.DOTALL)
GLOB = re.compile(r"[\[\]{}?*]")
KNOWN = "a folder for Parquet files, 'sqlite:///<file>' or 'postgresql://<server>/<database>'"


class Upsert(Protocol):
    """A function for `foreachBatch` that keeps a table; it can be called again with any batch."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Bring the emitted rows of a micro-batch into the table, all of them or none."""

    def read(self, spark: SparkSession) -> DataFrame:
        """The current answer as a DataFrame."""


@taking_names
def upsert(
    target: str | Path, *, table: str | None = None, by: str | Sequence[str] | None = None
) -> Upsert:
    """Returns a function for `foreachBatch` that keeps `target` equal to `sw.fold` of all rows.

    `target` is `"sqlite:///<file>"` (four slashes before an absolute path) or
    `"postgresql://<user>@<server>/<database>"`, with the name of a `table`, or a folder, in which
    Parquet files are kept: a path, or an address such as `"file:///data/answers"`. The keys are the
    columns before `window`; `by` names them if they are elsewhere.

    A micro-batch may come twice, or after a newer one: a row is only replaced by a greater
    revision, and the revision of a retracted instance is remembered. All rows of a micro-batch
    appear at once. A column keeps its type: a batch with another type for it is refused as a whole.

    Args:
        target: A folder for Parquet files, or the address of a database.
        table: The name of the table in a database.
        by: The key columns, if they are not those before `window`.

    >>> import slicewise as sw
    >>> keep = sw.upsert("sqlite:///answers.db", table="windows")
    >>> keep  # stream.writeStream.foreachBatch(keep).start()
    upsert('sqlite:///answers.db', table='windows')
    """
    keys = None if by is None else column_names("by", by)
    text = str(target)
    found = SCHEME.fullmatch(text)
    scheme = found["scheme"].lower() if found else "file"
    if scheme == "sqlite" or scheme in SCHEMES:
        from slicewise.spark.sinks.sql_stores import PostgresUpsert, SqliteUpsert

        if not isinstance(table, str):
            raise TargetError(
                f"`upsert` into a database needs the name of a `table`; given: {table}."
            )
        kind = SqliteUpsert if scheme == "sqlite" else PostgresUpsert
        return kind(text, table, keys)
    if scheme != "file":
        # What follows the scheme may hold a password.
        raise TargetError(
            f"`upsert` knows {KNOWN}; given: an address that begins with '{scheme}:'. A folder of "
            "HDFS or of an object store has to be mounted as a path of the operating system, since "
            "the driver publishes a version of the table by renaming a folder; a relative path "
            "with a colon is given as an absolute one."
        )
    if not text or (not found and re.search(r"password\s*=", text, re.IGNORECASE)):
        given = "text that seems to hold a password" if text else "nothing"
        raise TargetError(f"`upsert` knows {KNOWN}; given: {given}.")
    if table is not None:
        raise TargetError(
            f"A folder is a table by itself, so `table` is for databases; given: {table!r}."
        )
    from slicewise.spark.sinks.parquet_store import ParquetUpsert

    path = local_path(found["rest"], windows=os.name == "nt") if found else text
    return ParquetUpsert(checked_folder(path, text), keys)


def checked_folder(path: str, text: str) -> Path:
    """The absolute path of a folder, given as `text`; refuses one that Spark cannot read."""
    folder = Path(path)
    if folder.drive.startswith("\\\\"):
        raise TargetError(
            "Spark takes no path of a network share on Windows. Map the share to a letter, and "
            f"give a path that begins with it; given: {text!r}."
        )
    folder = folder.absolute()
    if ":" in str(folder) and GLOB.search(str(folder)):
        raise TargetError(
            "Spark reads no folder with a colon and one of `[ ] { } ? *` in its path; given: "
            f"{str(folder)!r}. Choose another name."
        )
    return folder


def local_path(rest: str, *, windows: bool) -> str:
    """Returns the path of an address of a folder, of which `rest` is what follows `file:`.

    >>> local_path("///data/answers", windows=False), local_path("/C:/answers", windows=True)
    ('/data/answers', 'C:/answers')
    """
    found = re.fullmatch(r"(?://(?:localhost)?)?(?P<path>/(?!/).*)", rest, re.DOTALL)
    if found is None or "%" in rest:
        raise TargetError(
            "The address of a folder is 'file:' with an absolute path, such as "
            "'file:///data/answers', on this machine and without percent signs, which Python and "
            f"Spark read differently; given: {'file:' + rest!r}. Give the path by itself instead."
        )
    path = found["path"]
    return path[1:] if windows and re.match(r"/[A-Za-z]:", path) else path
