"""Window aggregation for Python and Spark: many windows, any aggregate, one pass.

The verbs take a table of pandas, polars, Arrow or Python, or a DataFrame of Spark:

- `windowed`: one row for every window instance; `windowed_by` for `df.transform`.
- `rolling`: each row with aggregates over the time or rows before it; `rolling_by` likewise.
- `slide`: the same over plain arrays.
- `fold`, `upsert`, `drain`: the answer of a stream, a table that has it, what is still open.
- `explain`: how a query runs on Spark. `warm`: compiles it ahead.
- `Operator`: a stream in this process, fed by hand.

Windows are `tumbling`, `sliding`, `cumulate`, `session`, `punctuated`, `threshold`, `delta`,
`fixed` and your own `UserWindow`; lengths are durations such as "10m", plain numbers, `rows(n)` and
`units(n, on=column)`. Aggregates are in `agg`, and your own are subclasses of `Aggregate`.

>>> import slicewise as sw
>>> table = {"t": [1, 4, 12], "x": [3, 1, 4]}
>>> sw.windowed(table, time="t", windows=sw.tumbling(10), aggs=sw.agg.sum("x"))["x_sum"]
[4, 4]
"""

import importlib
from typing import TYPE_CHECKING, Any

from slicewise import agg, errors
from slicewise.aggregates.base import Aggregate
from slicewise.spans import rows, units
from slicewise.suggestions import missing_name
from slicewise.verbs import explain, fold, rolling, rolling_by, windowed, windowed_by
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
from slicewise.windows.delta import delta

if TYPE_CHECKING:
    from slicewise import mergers, testing
    from slicewise.mergers.slide import slide
    from slicewise.slicing.emit.emission import Result
    from slicewise.slicing.operator import Operator
    from slicewise.spark.sinks.upsert import upsert
    from slicewise.spark.stream.draining import drain
    from slicewise.warming import warm

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Operator",
    "Result",
    "UserWindow",
    "agg",
    "cumulate",
    "delta",
    "drain",
    "errors",
    "explain",
    "fixed",
    "fold",
    "mergers",
    "punctuated",
    "rolling",
    "rolling_by",
    "rows",
    "session",
    "slide",
    "sliding",
    "testing",
    "threshold",
    "tumbling",
    "units",
    "upsert",
    "warm",
    "windowed",
    "windowed_by",
]

# What loads when it is first asked for, so that importing the package stays quick. A module that
# shares the name of a function here would replace it once it is imported; none does.
_LATE = {
    "Operator": "slicewise.slicing.operator",
    "Result": "slicewise.slicing.emit.emission",
    "drain": "slicewise.spark.stream.draining",
    "mergers": None,
    "slide": "slicewise.mergers.slide",
    "testing": None,
    "upsert": "slicewise.spark.sinks.upsert",
    "warm": "slicewise.warming",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


# Type checkers know what there is, and would take any name for one if they saw this.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATE:
            # `sw.agg` has built-in names such as `sum`, and some look for them here.
            hint = f" Did you mean `sw.agg.{name}`?" if name in agg.__all__ else ""
            raise missing_name("sw", name, __all__, hint)
        module = _LATE[name]
        if module is None:
            return importlib.import_module(f"slicewise.{name}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value
