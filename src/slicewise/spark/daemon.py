"""Python workers of Spark that start with all that our tasks need in memory.

Spark forks its workers from one Python process. Where that has imported what they need, a worker
begins at once, and all of them share the memory of the modules:

    SparkSession.builder.config("spark.python.daemon.module", "slicewise.spark.daemon")
"""

from __future__ import annotations

import sys

from pyspark.daemon import manager

if __name__ == "__main__":
    # Spark starts processes for other purposes too, one by one.
    if sys.argv[1:] == ["pyspark.worker"]:
        import pandas  # noqa: F401

        import slicewise.codegen.jit
        import slicewise.slicing.operator
        import slicewise.spark.rolling_stream
        import slicewise.spark.windowed_stream  # noqa: F401
    manager()
