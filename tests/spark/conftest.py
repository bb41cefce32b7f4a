"""One Spark session for all tests, started when the first of them needs it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

SPARK = tuple(map(int, version("pyspark").split(".")[:2]))


def pytest_configure(config: pytest.Config) -> None:
    if SPARK < (4, 2):
        # The PySpark of those does not close what results came through.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, on its way up and down
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "3")
            # A zone with changes to and from summer time, far from UTC.
            .config("spark.sql.session.timeZone", "America/New_York")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@pytest.fixture
def settings(spark: Any) -> Any:
    """Settings of the session for the length of a `with`."""

    @contextmanager
    def changed(**values: Any) -> Iterator[None]:
        given = {name.replace("__", "."): value for name, value in values.items()}
        before = {name: spark.conf.get(name) for name in given}
        for name, value in given.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)

    return changed
