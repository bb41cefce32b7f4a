"""Which times events may have: those of which every window instance can be said in results.

Results are in the type of the time column, and as Python's values too, which know the years 1 to
9999. A tumbling day of the last of December 9999 ends in the year 10000, so an event of that day is
bad, as one without a time is; all others go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slicewise.limits import CALENDAR, EVER, NANOSECONDS
from slicewise.spans import MICROSECONDS
from slicewise.windows import Window

if TYPE_CHECKING:
    import pyarrow as pa

Reach = tuple[int, int]  # the least and the greatest of some times


def limits_of(kind: pa.DataType) -> Reach:
    """The first and last time that results can say for a time column of this type.

    >>> import pyarrow as pa
    >>> limits_of(pa.timestamp("ns"))
    (-9223372036854775, 9223372036854775)
    """
    import pyarrow as pa

    types = pa.types
    first, last = EVER
    if types.is_timestamp(kind) or types.is_date(kind):
        first, last = CALENDAR
        if types.is_timestamp(kind) and kind.tz not in (None, "UTC", "Etc/UTC", "+00:00"):
            # On the clocks of a zone the years begin and end up to a day earlier or later.
            first, last = first + MICROSECONDS["d"], last - MICROSECONDS["d"]
    if (types.is_timestamp(kind) or types.is_duration(kind)) and kind.unit == "ns":
        first, last = max(first, NANOSECONDS[0]), min(last, NANOSECONDS[1])
    return first, last


def reach_of(windows: Iterable[Window], kind: pa.DataType) -> Reach:
    """The least and the greatest time an event may have in these windows."""
    limits = first, last = limits_of(kind)
    if limits == EVER:
        return limits
    for window in windows:
        low, high = window.times_within(*limits)
        first, last = max(first, low), min(last, high)
    return first, last
