"""A Spark session on this machine, for trying things: small, and silent."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "slicewise.spark.daemon",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def start_spark(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a Spark session on this machine that prints nothing of its own.

    It runs two tasks at a time (`local[2]`), shuffles into two partitions, shows times in UTC, and
    has no web pages. `settings` are those of Spark, added to these or in their place. Java says
    nothing on the terminal, neither warnings nor errors; what goes wrong in a query is still raised
    as an error of Python. For work, make a session of your own: every verb takes any.

    >>> from slicewise.spark.local import start_spark
    >>> spark = start_spark({"spark.sql.shuffle.partitions": "4"})  # doctest: +SKIP
    """
    builder = SparkSession.builder.appName("slicewise")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    with _without_errors_of_children(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


@contextmanager
def _without_errors_of_children() -> Iterator[None]:
    """Let processes that start meanwhile write their errors nowhere, for as long as they live."""
    sys.stderr.flush()
    shown = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.close(nowhere)
        os.close(shown)
