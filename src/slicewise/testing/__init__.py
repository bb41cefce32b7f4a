"""What tests trust: the slow, obvious twins."""

from slicewise.testing.oracle import Emitted, Oracle, assert_same_rows, fold, windowed_rows

__all__ = ["Emitted", "Oracle", "assert_same_rows", "fold", "windowed_rows"]
