"""What tests trust: the laws of aggregates, and the slow, obvious twins."""

from slicewise.testing.laws import check_aggregate
from slicewise.testing.oracle import Emitted, Oracle, assert_same_rows, fold, windowed_rows

__all__ = ["Emitted", "Oracle", "assert_same_rows", "check_aggregate", "fold", "windowed_rows"]
