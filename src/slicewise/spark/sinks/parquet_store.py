"""A folder of Parquet files that `sw.upsert` keeps.

Every micro-batch writes the table anew, in a folder of its own, which becomes `version-<n>` by a
rename when it is complete. A rename onto a version that exists fails, so a number belongs to one
writer; another one begins again from the version that was faster. The file `current` names the
newest version for other tools. Files are written by the executors.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from slicewise.errors import TargetError
from slicewise.folding import REVISION, Layout
from slicewise.spark.frames import col
from slicewise.spark.sinks.columns import changed_type, check_case
from slicewise.spark.sinks.fold import latest, layout_of, results
from slicewise.spark.sinks.widening import widened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 2
# A reader that began with an older version can finish while so many newer ones are written.
KEPT = 3
# What a version says of itself; Spark does not read files whose names begin so.
ABOUT = "_slicewise.json"


@dataclass(frozen=True, slots=True, repr=False)
class ParquetUpsert:
    """Keeps the table in `folder`, which the driver and all executors must see."""

    folder: Path
    by: tuple[str, ...] | None

    def __repr__(self) -> str:
        return f"upsert({str(self.folder)!r})"

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if batch.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            check_case(batch.columns, "Spark")
        layout = layout_of(batch, "upsert", self.by)
        # Without this the query would run once for the count and once for the write.
        rows = with_revisions(results(batch, layout), layout).persist()
        try:
            if rows.count() or self._newest() is None:
                self._add(rows, layout)
        finally:
            rows.unpersist()

    def read(self, spark: SparkSession) -> DataFrame:
        """The current answer; the DataFrame stays with the version of this moment."""
        newest = self._newest()
        if newest is None:
            raise TargetError(
                f"There is no table in {self.folder} yet: no micro-batch was written."
            )
        stored = self._stored(spark, newest).where(~col("retracted"))
        return stored.drop(*REVISION)

    def _add(self, rows: DataFrame, layout: Layout) -> None:
        """Publish a version with these rows in it, behind whatever others have published."""
        while True:
            before = self._newest()
            number = 1 if before is None else before["version"] + 1
            found = self._joined(rows, layout, before)
            written = self._unfinished(number)
            about = {
                "format": FORMAT,
                "folder": f"version-{number:06d}",
                "version": number,
                "keys": layout.keys,
                "schema": json.loads(found.schema.json()),
            }
            try:
                found.write.partitionBy("retracted").parquet(spark_path(written))
                write_json(written / ABOUT, about)
                if self._publish(written, number):
                    break
            except Exception:
                if self._newest() == before:
                    raise
                # Newer versions came meanwhile, and what was being read may have been removed.
            finally:
                shutil.rmtree(written, ignore_errors=True)
        self._point()
        self._clean(number)

    def _joined(self, rows: DataFrame, layout: Layout, before: dict[str, Any] | None) -> DataFrame:
        """The last revisions of a version and of new rows together."""
        if before is None:
            return latest(rows, layout)
        if before["keys"] != list(layout.keys):
            raise TargetError(
                f"The table in {self.folder} has the keys {before['keys']}; this stream has "
                f"{list(layout.keys)}. Use another folder."
            )
        stored = self._stored(rows.sparkSession, before)
        if rows.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            check_case([*stored.columns, *rows.columns], "Spark")
        stored, rows = self._typed(stored, rows)
        # Aggregates may have come or gone since; where they were not computed they are null.
        both = stored.unionByName(rows, allowMissingColumns=True)
        return latest(both, Layout.of(both.columns, layout.keys, late=False))

    def _typed(self, stored: DataFrame, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Both with types that hold the values of either; refuses what would change values."""
        kinds = {}
        for field in stored.schema:
            if field.name in rows.columns:
                kind = rows.schema[field.name].dataType
                wide = widened(field.dataType, kind)
                if wide is None:
                    known, new = field.dataType.simpleString(), kind.simpleString()
                    raise changed_type(f"The table in {self.folder}", field.name, known, new)
                kinds[field.name] = wide
        first, second = (
            frame.select(
                *(
                    col(name).cast(kinds[name]).alias(name) if name in kinds else col(name)
                    for name in frame.columns
                )
            )
            for frame in (stored, rows)
        )
        return first, second

    def _stored(self, spark: SparkSession, version: dict[str, Any]) -> DataFrame:
        from pyspark.sql.types import StructType

        # The schema is given, since a version without any row has no file to read it from.
        schema = StructType.fromJson(version["schema"])
        path = unglobbed(spark_path(self.folder / version["folder"]))
        stored = spark.read.schema(schema).parquet(path)
        return stored.select(*(col(field.name) for field in schema))

    def _newest(self) -> dict[str, Any] | None:
        """The description of the newest version, or `None` before the first one."""
        while True:
            versions = [*self.folder.glob(f"version-*/{ABOUT}")]
            newest = max(versions, key=lambda path: number_of(path.parent), default=None)
            path = newest or self.folder / "current"
            try:
                found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                if newest is None:
                    return None
                continue  # it was removed meanwhile, so there are newer ones
            if found["format"] != FORMAT:
                raise TargetError(
                    f"The table in {self.folder} was written in format {found['format']}; this "
                    f"version of Slicewise knows format {FORMAT}."
                )
            return found

    def _unfinished(self, number: int) -> Path:
        """A path of one's own for what shall become part of a version."""
        return self.folder / f"writing-{number:06d}-{uuid4().hex}"

    def _publish(self, written: Path, number: int) -> bool:
        """Make a folder the version of this number, unless there is one or newer ones."""
        version = self.folder / f"version-{number:06d}"
        try:
            written.rename(version)
        except OSError:
            if version.exists():
                return False
            raise
        newest = self._newest()
        if newest is None or newest["version"] == number:
            return True
        shutil.rmtree(version, ignore_errors=True)  # its number was taken and removed long ago
        return False

    def _point(self) -> None:
        """Let `current` name the newest version, also when another writer did so just before."""
        while newest := self._newest():
            path = self._unfinished(newest["version"])
            write_json(path, newest)
            path.replace(self.folder / "current")
            if self._newest() == newest:
                return

    def _clean(self, current: int) -> None:
        """Remove versions that are too old, and what interrupted calls have left behind."""
        for pattern in ("version-*", "writing-*"):
            for path in self.folder.glob(pattern):
                if number_of(path) <= current - KEPT:
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)


def number_of(path: Path) -> int:
    """Returns the number of the version that a folder or file belongs to."""
    return int(path.name.split("-")[1])


def spark_path(path: PurePath) -> str:
    r"""Returns the address of a folder as Spark takes it.

    >>> from pathlib import PureWindowsPath
    >>> spark_path(PureWindowsPath(r"C:\data\answers"))
    'file:///C:/data/answers'
    """
    return "file:///" + path.as_posix().lstrip("/")


def unglobbed(path: str) -> str:
    """Returns the path with a backslash before each character that means something to a reader."""
    return "".join("\\" + mark if mark in "[]{}?*\\" else mark for mark in path)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a file that is on the disk when this returns."""
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())


def with_revisions(frame: DataFrame, layout: Layout) -> DataFrame:
    """The rows with `revision` and `retracted`; those of `emit="final"` are never revised."""
    from pyspark.sql import functions as F

    columns = [col(name) for name in layout.columns]
    revision, retracted = map(col, REVISION) if layout.revised else (F.lit(0), F.lit(False))
    return frame.select(
        *columns, revision.cast("bigint").alias("revision"), retracted.alias("retracted")
    )
