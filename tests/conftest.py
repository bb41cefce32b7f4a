"""Settings for the whole test run."""

import os
import sys
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from hypothesis import settings

from slicewise.errors import MissingDependencyError
from slicewise.tuning import tuned

CI = os.environ.get("CI", "").lower() in ("1", "true")

# The first call of a compiled function takes seconds, so a deadline per example would only measure
# the compiler.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if CI else "local")

# Otherwise Spark starts its workers with the first python3 in PATH, which may lack the packages.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

# Java programs that live for seconds are quicker without the slower, better compiler. Checkpoints
# on a local disk start `chmod` for every file, which is quicker without a helper in between.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)
# Also for programs that start a Spark of their own: documents, examples, scripts.
DAEMON = "--conf spark.python.daemon.module=slicewise.spark.daemon pyspark-shell"
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", DAEMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernels",
        choices=["compiled", "plain", "by work"],
        help="how kernels run: compiled, as plain Python, or as users have them, by their work; by "
        "default compiled, and by their work in tests of Spark",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Inputs of tests are small, yet most tests are for what large ones run: compiled kernels.

    Those of Spark are for what runs in its workers, and what they compare it with may run as it is
    quickest.
    """
    default = "by work" if item.get_closest_marker("spark") else "compiled"
    with tuned(kernels=item.config.getoption("--kernels") or default):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip what needs a package that this Python cannot have yet; in CI it must be there."""
    try:
        return (yield)
    except MissingDependencyError as error:
        if CI or find_spec("datasketches") is not None or "slicewise[sketches]" not in str(error):
            raise
        pytest.skip("needs the extra `sketches`")
