"""Python workers of Spark that start with all that our tasks need in memory.

Spark forks its workers from one Python process. Where that has imported what they need, a worker
begins at once, and all of them share the memory of the modules:

    SparkSession.builder.config("spark.python.daemon.module", "slicewise.spark.daemon")
"""

from __future__ import annotations

import gc
import sys

from pyspark.daemon import manager


def prepare() -> None:
    """Import and set up what every worker would import and set up on its own."""
    import numba
    import pandas  # noqa: F401

    import slicewise.codegen.jit
    import slicewise.slicing.operator
    import slicewise.spark.stream.rolling
    import slicewise.spark.stream.windowed  # noqa: F401

    numba.njit("void()")(lambda: None)  # the compiler sets itself up when it is first used
    # Spark tells each worker to forget what it knows of folders and zip files, which reads every
    # zip file again, once for each package of it: better forgotten here.
    sys.path_importer_cache.clear()
    # Workers look for garbage after every task: none is here, and looking copies shared memory.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    # Spark starts processes for other purposes too, one by one.
    if sys.argv[1:] == ["pyspark.worker"]:
        prepare()
    manager()
