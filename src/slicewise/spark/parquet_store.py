"""A folder of Parquet files that `sw.upsert` keeps.

Every micro-batch writes the table anew, in a folder of its own, `version-<n>`. Then the file
`current`, which names that folder, is replaced at once, so a reader sees a whole version or the
one before. Files are written by the executors.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.errors import TargetError
from slicewise.folding import REVISION, Layout
from slicewise.spark.fold import latest, layout_of, results
from slicewise.spark.frames import col

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
# A reader that began with an older version can finish while so many newer ones are written.
KEPT = 3


@dataclass(frozen=True, slots=True, repr=False)
class ParquetUpsert:
    """Keeps the table in `folder`, which the driver and all executors must see."""

    folder: Path
    by: tuple[str, ...] | None

    def __repr__(self) -> str:
        return f"upsert({str(self.folder)!r})"

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        layout = layout_of(batch, "upsert", self.by)
        # Without this the query would run once for the count and once for the write.
        rows = with_revisions(results(batch, layout), layout).persist()
        try:
            before = self._current()
            if rows.count() or before is None:
                self._write(rows, layout, before)
        finally:
            rows.unpersist()

    def read(self, spark: SparkSession) -> DataFrame:
        """The current answer; the DataFrame stays with the version of this moment."""
        current = self._current()
        if current is None:
            raise TargetError(
                f"There is no table in {self.folder} yet: no micro-batch was written."
            )
        stored = self._stored(spark, current).where(~col("retracted"))
        return stored.drop(*REVISION)

    def _write(self, rows: DataFrame, layout: Layout, before: dict[str, Any] | None) -> None:
        number = 1
        if before is not None:
            number = before["version"] + 1
            if before["keys"] != list(layout.keys):
                raise TargetError(
                    f"The table in {self.folder} has the keys {before['keys']}; this stream has "
                    f"{list(layout.keys)}. Use another folder."
                )
            # Aggregates may have come or gone since; where they were not computed they are null.
            stored = self._stored(rows.sparkSession, before)
            rows = stored.unionByName(rows, allowMissingColumns=True)
            layout = Layout.of(rows.columns, layout.keys, late=False)
        found = latest(rows, layout)
        # What an interrupted call has left behind is overwritten.
        found.write.mode("overwrite").partitionBy("retracted").parquet(self._uri(number))
        schema = json.loads(found.schema.json())
        self._point({"version": number, "keys": layout.keys, "schema": schema})
        self._clean(number)

    def _stored(self, spark: SparkSession, current: dict[str, Any]) -> DataFrame:
        from pyspark.sql.types import StructType

        # The schema is given, since a version without any row has no file to read it from.
        schema = StructType.fromJson(current["schema"])
        stored = spark.read.schema(schema).parquet(self._uri(current["version"]))
        return stored.select(*(col(field.name) for field in schema))

    def _uri(self, version: int) -> str:
        return f"file://{self.folder}/version-{version:06d}"

    def _current(self) -> dict[str, Any] | None:
        """What `current` says, or `None` before the first version."""
        try:
            text = (self.folder / "current").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        current: dict[str, Any] = json.loads(text)
        if current["format"] != FORMAT:
            raise TargetError(
                f"The table in {self.folder} was written in format {current['format']}; this "
                f"version of Slicewise knows format {FORMAT}."
            )
        return current

    def _point(self, current: dict[str, Any]) -> None:
        path = self.folder / "current.new"
        with path.open("w", encoding="utf-8") as file:
            folder = f"version-{current['version']:06d}"
            json.dump({"format": FORMAT, "folder": folder, **current}, file)
            file.flush()
            os.fsync(file.fileno())
        path.replace(self.folder / "current")

    def _clean(self, current: int) -> None:
        for folder in self.folder.glob("version-*"):
            if int(folder.name.removeprefix("version-")) <= current - KEPT:
                shutil.rmtree(folder, ignore_errors=True)


def with_revisions(frame: DataFrame, layout: Layout) -> DataFrame:
    """The rows with `revision` and `retracted`; those of `emit="final"` are never revised."""
    from pyspark.sql import functions as F

    columns = [col(name) for name in layout.columns]
    revision, retracted = map(col, REVISION) if layout.revised else (F.lit(0), F.lit(False))
    return frame.select(
        *columns, revision.cast("bigint").alias("revision"), retracted.alias("retracted")
    )
