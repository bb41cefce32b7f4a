"""Window aggregation for Python and Spark: many windows, any aggregate, one pass."""

from slicewise import agg, errors
from slicewise.aggregates.base import Aggregate
from slicewise.slide import slide
from slicewise.spans import rows, units
from slicewise.verbs import rolling
from slicewise.windows import (
    UserWindow,
    cumulate,
    fixed,
    punctuated,
    session,
    sliding,
    threshold,
    tumbling,
)

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "UserWindow",
    "agg",
    "cumulate",
    "errors",
    "fixed",
    "punctuated",
    "rolling",
    "rows",
    "session",
    "slide",
    "sliding",
    "threshold",
    "tumbling",
    "units",
]
