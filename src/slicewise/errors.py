"""The errors of Slicewise: one family, each also the built-in error it refines.

Every message says the rule, what was given and what to do.

>>> issubclass(SpanError, SlicewiseError) and issubclass(SpanError, ValueError)
True
"""

import inspect
import warnings


class SlicewiseError(Exception):
    """Base of every error that Slicewise raises on purpose."""


class SpanError(SlicewiseError, ValueError):
    """A length, slide, gap or number of rows that cannot be one."""


class WindowError(SlicewiseError, ValueError):
    """A window definition that has no meaning."""


class AggregateError(SlicewiseError, ValueError):
    """An aggregate that is built or used in a way that has no meaning."""


class LawError(SlicewiseError, AssertionError):
    """An aggregate breaks a law of the algebra; the message says which, and on what."""


class CapabilityError(SlicewiseError, TypeError):
    """Something was asked of an algorithm that it cannot do; the message names one that can."""


class ArgumentError(SlicewiseError, TypeError):
    """A named argument that a function does not have; the message names the nearest."""


class MissingNameError(SlicewiseError, AttributeError):
    """A public name that there is not; the message names the nearest."""


class ColumnError(SlicewiseError, KeyError):
    """A column that is not there, or a name that several columns have."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


class ColumnTypeError(SlicewiseError, TypeError):
    """A column, value or table of a type that cannot be used here."""


class OrderError(SlicewiseError, ValueError):
    """Events were promised in the order of time and did not come so."""


class SnapshotError(SlicewiseError, ValueError):
    """A snapshot that cannot be read, or that belongs to other windows or aggregates."""


class TornError(SlicewiseError, RuntimeError):
    """An operator of which a call was cut short; it has to be restored from a snapshot."""


class EmptyWindowError(SlicewiseError, IndexError):
    """An event was taken from a window that holds none."""


class OverflowedError(SlicewiseError, OverflowError):
    """An exact integer result that does not fit in 64 bits."""


class MissingDependencyError(SlicewiseError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class TargetError(SlicewiseError, ValueError):
    """A table that `sw.upsert` cannot keep; the message says why."""


class BadRowsWarning(UserWarning):
    """Rows of a table were left out because they have no usable time."""


class UnitWarning(UserWarning):
    """Numbers as times look like seconds or the like since the epoch, and nobody said so."""


class CacheWarning(UserWarning):
    """Machine code is not kept where it was meant to be; the message says why."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the line that called into this package: Python shows a warning once for a line."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].split(".")[0] == "slicewise":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
