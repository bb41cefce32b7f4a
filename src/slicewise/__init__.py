"""Window aggregation for Python and Spark: many windows, any aggregate, one pass."""

from slicewise import agg, errors
from slicewise.aggregates.base import Aggregate

__version__ = "0.1.0"

__all__ = ["Aggregate", "agg", "errors"]
