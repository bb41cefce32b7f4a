"""Emitted rows as frames of Spark."""

from __future__ import annotations

from typing import Any

EMITTED_SCHEMA = "k string, window string, start bigint, end bigint, n bigint, revision bigint, "
EMITTED_SCHEMA += "retracted boolean"


def frame(spark: Any, table: dict[str, list[Any]], schema: str) -> Any:
    return spark.createDataFrame([*zip(*table.values(), strict=True)], schema).repartition(3)


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, found.collect()), key=repr)


def expected(table: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return sorted(zip(*table.values(), strict=True), key=repr)
