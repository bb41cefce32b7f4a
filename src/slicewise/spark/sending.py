"""Tasks on their way to Python workers, and the Python that those run.

Which Python workers are is not always that of the program: Spark takes the one that PYSPARK_PYTHON
names when the session starts, or else the first `python3` of each machine. Where workers are on the
machine of the program, the right one is chosen, or a wrong one found, when a query is made.
Elsewhere the task itself says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.base import Aggregate
from slicewise.arguments import listed
from slicewise.errors import CapabilityError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PYTHON = "PYSPARK_PYTHON"
# What Spark takes where nothing is said.
DEFAULT = "python3"
NEEDED = ("slicewise", "numpy", "numba", "pyarrow")
# Prints the version of a Python and which of the modules it lacks; importing them takes longer.
PROBE = (
    "import sys; from importlib.util import find_spec; "
    "print('%d.%d' % sys.version_info[:2], *(m for m in sys.argv[1:] if find_spec(m) is None))"
)


def map_in_arrow(frame: DataFrame, task: Any, schema: StructType | str) -> DataFrame:
    """`frame.mapInArrow(task, schema)`, by workers that can run the task."""
    return frame.mapInArrow(sent(frame, task), schema)


def sent(frame: DataFrame, task: Any) -> Callable[..., Any]:
    """A task as a function that workers of the DataFrame's session can run.

    Refuses a task that cannot be pickled, and workers of which it is known that they cannot run it.
    """
    check_workers(frame.sparkSession)
    return portable(pickled_task(task), getattr(task, "__name__", type(task).__name__))


def pickled_task(task: Any) -> bytes:
    """A task as it is sent to workers; refuses what cannot be pickled, before any job."""
    try:
        return pickled(task)
    except Exception as error:
        culprit = _culprit(task)
        raise CapabilityError(
            f"{culprit} cannot be sent to Spark's workers: {error}. Let it hold plain values, and "
            "make locks, connections and open files where they are used."
        ) from error


def _culprit(task: Any) -> str:
    query = getattr(getattr(task, "keeper", task), "query", task)
    for what, name in (("The aggregate", "aggs"), ("The window", "windows")):
        for item in listed(getattr(query, name, None) or ()):
            try:
                pickled(item)
            except Exception:
                known = item.output if isinstance(item, Aggregate) else item.name
                return f"{what} {known!r}"
    return "The query"


def pickled(item: Any) -> bytes:
    """The bytes of an object as they would be sent to a worker."""
    from pyspark import cloudpickle

    made: bytes = cloudpickle.dumps(item)  # type: ignore[no-untyped-call]  # pyspark gives no types
    return made


def portable(content: bytes, name: str) -> Callable[..., Any]:
    """A function that any Python can read; one that cannot read the content says so in a sentence.

    Spark shows what a worker raises. It pickles this function whole, because nothing else can
    import it by name, so it may not use anything from this module.
    """
    loaded: list[Any] = []
    python = f"{sys.executable} ({sys.version_info.major}.{sys.version_info.minor})"

    def run(*args: Any) -> Any:
        import pickle

        if not loaded:
            try:
                loaded.append(pickle.loads(content))
            except ModuleNotFoundError as error:
                import sys

                lacking = str(error.name).partition(".")[0]
                raise ModuleNotFoundError(
                    f"The Python of Spark's workers, {sys.executable}, has no module "
                    f"{lacking!r}; the program runs {python}. Install the same packages on "
                    "every worker, or start Spark with the environment variable PYSPARK_PYTHON "
                    "set to a Python that has them."
                ) from None
        return loaded[0](*args)

    run.__name__ = run.__qualname__ = name
    return run


def check_workers(session: Any) -> None:
    """Let workers on this machine run the Python of the program, or one that has the package.

    Nothing is known of the machines of a cluster, nor of a Spark Connect server elsewhere, and
    Databricks looks after its Pythons itself.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    try:
        context = session.sparkContext
    except Exception:  # Spark Connect has none, and others may keep it to themselves
        context = None
    if context is None:
        # A server that this process started has the environment of this process.
        if "SPARK_LOCAL_REMOTE" in os.environ:
            chosen = os.environ.get(PYTHON) or os.environ.get("PYSPARK_DRIVER_PYTHON") or DEFAULT
            _check_python(chosen)
        return
    if not context.master.startswith("local"):
        return
    if context.pythonExec == DEFAULT and PYTHON not in os.environ and sys.executable:
        context.pythonExec = sys.executable
    # Packages may also be sent along, as files.
    if context.pythonExec != sys.executable and not (context.listFiles or context.listArchives):
        _check_python(context.pythonExec)


def _check_python(chosen: str) -> None:
    """Refuse a Python on this machine that cannot run our tasks."""
    path = shutil.which(chosen)
    if path == sys.executable:
        return
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    version, *lacking = _probed(path) if path else ("",)
    if not version:
        what = "cannot be started"
    elif version != ours:
        what = f"has version {version} and not {ours}"
    elif lacking:
        what = f"has no module {lacking[0]!r}"
    else:
        return
    raise CapabilityError(
        f"Spark's workers run {path or chosen}, which {what}; this program runs {sys.executable}. "
        f"Set the environment variable {PYTHON} to {sys.executable} before Spark starts."
    )


@cache
def _probed(path: str) -> list[str]:
    """The version of a Python, empty if it does not start, and the modules that it lacks."""
    command = [path, "-c", PROBE, *NEEDED]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [""]
    return done.stdout.split() or [""]
