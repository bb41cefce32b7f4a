"""Window aggregation for Python and Spark: many windows, any aggregate, one pass."""

__version__ = "0.1.0"
