"""Python processes of Spark, which run one task after the other."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from slicewise.tuning import tune

P = ParamSpec("P")
T = TypeVar("T")

_facts = 0


def in_worker(task: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """A task that leaves its process quick to tidy up after this one and those to come.

    It uses as many processors as Spark gives a task, which is one unless `spark.task.cpus` says
    more.
    """

    @wraps(task)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        from pyspark import TaskContext

        here = TaskContext.get()
        if here is not None:
            tune(processors=here.cpus())
        yield from task(*args, **kwargs)
        freeze_modules()

    return run


def freeze_modules() -> None:
    """Keep what was imported out of the garbage collection that follows every task.

    Spark's workers collect all garbage after each task. That visits every object of every module,
    which takes longer than the whole of a small task: a tenth of a second with compiled kernels,
    for each of the tasks of a micro-batch. Modules stay for the life of the process, so there is
    nothing to be found in them. The process of a driver is left as it is.
    """
    global _facts
    from pyspark import TaskContext

    if len(sys.modules) == _facts or TaskContext.get() is None:
        return
    gc.collect()  # what is garbage by now would stay for ever
    gc.freeze()
    _facts = len(sys.modules)
