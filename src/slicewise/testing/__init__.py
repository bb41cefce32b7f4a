"""What tests trust: the laws of aggregates, and the slow, obvious twins."""

from slicewise.testing.laws import check_aggregate
from slicewise.testing.oracle import Emitted, Oracle, assert_same_rows, fold, windowed_rows
from slicewise.testing.paths import paths_taken

__all__ = [
    "Emitted",
    "Oracle",
    "assert_same_rows",
    "check_aggregate",
    "fold",
    "paths_taken",
    "windowed_rows",
]
