"""Window aggregation for Python and Spark: many windows, any aggregate, one pass."""

from typing import TYPE_CHECKING, Any

from slicewise import agg, errors, mergers
from slicewise.aggregates.base import Aggregate
from slicewise.slicing.emission import Result
from slicewise.slicing.operator import Operator
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

if TYPE_CHECKING:
    from slicewise import testing

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Operator",
    "Result",
    "UserWindow",
    "agg",
    "cumulate",
    "errors",
    "fixed",
    "mergers",
    "punctuated",
    "rolling",
    "rows",
    "session",
    "slide",
    "sliding",
    "testing",
    "threshold",
    "tumbling",
    "units",
]


def __getattr__(name: str) -> Any:
    # Only tests need it, so it loads when it is asked for.
    if name == "testing":
        import importlib

        return importlib.import_module("slicewise.testing")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
