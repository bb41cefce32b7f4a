"""Types of Spark that hold the values of two others unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def widened(known: DataType, new: DataType) -> DataType | None:
    """Returns the type that takes the values of both as they are, or `None` if there is none.

    Whole numbers become wider whole numbers, floats doubles and decimals longer decimals. Whole
    numbers do not become floats: large ones would be rounded.

    >>> from pyspark.sql.types import DoubleType, IntegerType, LongType
    >>> widened(IntegerType(), LongType()), widened(LongType(), DoubleType())
    (LongType(), None)
    """
    from pyspark.sql import types as T

    if known == new or isinstance(new, T.NullType):
        return known
    if isinstance(known, T.NullType):
        return new
    for ranks in (
        (T.ByteType, T.ShortType, T.IntegerType, T.LongType),
        (T.FloatType, T.DoubleType),
    ):
        if isinstance(known, ranks) and isinstance(new, ranks):
            return max(known, new, key=lambda kind: ranks.index(type(kind)))
    if isinstance(known, T.DecimalType) and isinstance(new, T.DecimalType):
        scale = max(known.scale, new.scale)
        digits = max(known.precision - known.scale, new.precision - new.scale) + scale
        return T.DecimalType(digits, scale) if digits <= 38 else None
    if isinstance(known, T.StringType) and isinstance(new, T.StringType):
        return known
    if isinstance(known, T.ArrayType) and isinstance(new, T.ArrayType):
        inner = widened(known.elementType, new.elementType)
        return None if inner is None else T.ArrayType(inner)
    if isinstance(known, T.MapType) and isinstance(new, T.MapType):
        key, value = widened(known.keyType, new.keyType), widened(known.valueType, new.valueType)
        return None if key is None or value is None else T.MapType(key, value)
    if isinstance(known, T.StructType) and isinstance(new, T.StructType):
        if known.names != new.names:
            return None
        fields = []
        for one, other in zip(known.fields, new.fields, strict=True):
            inner = widened(one.dataType, other.dataType)
            if inner is None:
                return None
            fields.append(T.StructField(one.name, inner))
        return T.StructType(fields)
    return None
