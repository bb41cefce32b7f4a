"""The arguments of a verb that are about streams.

A bounded DataFrame takes them too, and refuses what a stream would, so that one definition runs on
both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slicewise.errors import CapabilityError, SpanError
from slicewise.times import Measure, as_length

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

# What Spark notes at a column for `withWatermark`, in milliseconds.
WATERMARK = "spark.watermarkDelayMs"
# The default of `max_ahead`, which numbers as times do without.
MAX_AHEAD = "1d"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The arguments as they were given; `sw.windowed` says what they mean."""

    watermark: Any = None
    lateness: Any = 0
    emit: Any = None
    buckets: Any = None
    keep_late: bool = False
    max_ahead: Any = MAX_AHEAD
    metrics: Any = None

    @property
    def emission(self) -> Any:
        """When results are emitted: unless it was said, when their windows close."""
        return self.emit or "on_close"

    def checked(self, measure: Measure) -> StreamSettings:
        """The settings that these mean beside a time column; refuses what means nothing."""
        if self.buckets is not None and (
            type(self.buckets) is not int or not 0 < self.buckets <= 1 << 15
        ):
            raise SpanError(
                "`buckets` is a number of groups of keys, from 1 to 32768; given: "
                f"{self.buckets!r}."
            )
        if self.metrics is not None and not (isinstance(self.metrics, str) and self.metrics):
            raise CapabilityError(
                f"`metrics` is the name under which a stream reports; given: {self.metrics!r}."
            )
        delay = None
        if self.watermark is not None:
            delay = measure.length("`watermark`", as_length("watermark", self.watermark))
        ahead = ahead_of(self.max_ahead, measure)
        measure.length("`lateness`", as_length("lateness", self.lateness))
        return StreamSettings(delay, ahead, self.buckets, self.keep_late, self.metrics)


@dataclass(frozen=True)
class StreamSettings:
    """What a stream does beside windows and aggregates.

    Lengths are in units of the time column. `delay` is how far the watermark is behind the newest
    event, `None` as long as nobody said it. `max_ahead` is `None` when no event is too far ahead,
    `buckets` when there is one per partition of the state, and `metrics` when nobody gave a name.
    """

    delay: int | None
    max_ahead: int | None
    buckets: int | None
    keep_late: bool
    metrics: str | None

    def behind(self, time: StructField) -> StreamSettings:
        """The settings with a delay of the watermark, given here or by Spark's `withWatermark`."""
        noted = time.metadata.get(WATERMARK)
        delay = self.delay if noted is None else 1000 * int(noted)  # it is about timestamps
        if delay is None:
            raise SpanError(
                "A stream needs a watermark: how far behind the newest event others may still "
                "come. Give it, such as `watermark='10 minutes'` (`watermark='0s'` if no event is "
                f"ever behind), or call `withWatermark({time.name!r}, '10 minutes')` before."
            )
        if self.delay not in (None, delay):
            raise SpanError(
                f"The watermark is given twice: `withWatermark` has it {delay} microseconds behind "
                f"in {time.name!r}, and `watermark=` {self.delay}. Leave one of them out."
            )
        return replace(self, delay=delay)


def ahead_of(given: Any, measure: Measure) -> int | None:
    """How far ahead of the clock an event may be, in units of the time column; `None`: any way."""
    if given is None:
        return None
    length = as_length("max_ahead", given)
    if measure.moments or measure.unit is not None:
        return measure.length("`max_ahead`", length)
    if given != MAX_AHEAD:
        raise SpanError(
            "`max_ahead` says how far ahead of the clock an event may be, and numbers of no unit "
            f"have nothing to do with it: the time column {measure.name!r} holds {measure.holds}. "
            "Leave `max_ahead` out, say with `unit` what the numbers mean, or make the column a "
            "timestamp."
        )
    return None
