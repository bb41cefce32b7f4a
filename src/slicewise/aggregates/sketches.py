"""Approximate answers in states of bounded size: algebraic, commutative, not invertible.

Counts and quantiles come from Apache DataSketches (the extra `sketches`). Few values are kept as
they are, so small windows are answered exactly and an event does not cost a sketch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from slicewise.aggregates.base import Aggregate, given, is_integer
from slicewise.aggregates.bound import Bound, bound_columns
from slicewise.aggregates.distribution import Quantile, checked_q
from slicewise.aggregates.interpreted import interpreted
from slicewise.aggregates.multiset import Multiset
from slicewise.aggregates.sums import interpreted_floats, number_kind
from slicewise.errors import AggregateError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 256  # up to this many values no sketch is made
REASON = "its state is a sketch, not a fixed number of numbers"


@cache
def datasketches(aggregate: str) -> ModuleType:
    """The package `datasketches`."""
    try:
        import datasketches as package
    except ImportError as error:
        raise MissingDependencyError(
            f"`{aggregate}` needs the package `datasketches`: pip install 'slicewise[sketches]'."
        ) from error
    return cast(ModuleType, package)


class ApproxCountDistinct(Aggregate):
    """About how many different values a column has: a HyperLogLog sketch of 2**`lg_k` registers.

    The default of 12 means a standard error of 1.6 %; up to 256 different values it is exact.

    Args:
        column: The name of the column, of any type.
        lg_k: The logarithm of the number of registers, from 4 to 21.

    >>> import slicewise as sw
    >>> sw.agg.approx_count_distinct("x").fold([3, 1, 3, None])
    2
    """

    commutative = True

    def __init__(self, column: str | None = None, *, lg_k: int = 12) -> None:
        super().__init__(*given(column))
        if not is_integer(lg_k) or not 4 <= lg_k <= 21:
            raise AggregateError(
                f"`lg_k` of `{self.name}` is the logarithm of the number of registers, an integer "
                f"from 4 to 21; given: {lg_k!r}."
            )
        self.lg_k = lg_k

    def identity(self) -> Any:
        datasketches(self.name)  # fail before the first event, not when a sketch is needed
        return frozenset()

    def lift(self, value: Any) -> Any:
        return frozenset((hashable(value),))

    def combine(self, older: Any, newer: Any) -> Any:
        if isinstance(older, frozenset) and isinstance(newer, frozenset):
            values = older | newer
            return values if len(values) <= EXACT else self._pack(self._union(values))
        return self._pack(self._union(older, newer))

    def lower(self, state: Any) -> int:
        if isinstance(state, frozenset):
            return len(state)
        sketch = datasketches(self.name).hll_sketch.deserialize(state)
        return round(float(sketch.get_estimate()))

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        datasketches(self.name)
        return interpreted(self, pa.int64(), REASON)

    def _union(self, *states: Any) -> Any:
        package = datasketches(self.name)
        union = package.hll_union(self.lg_k)
        for state in states:
            if isinstance(state, frozenset):
                sketch = package.hll_sketch(self.lg_k)
                for value in state:
                    sketch.update(value)
            else:
                sketch = package.hll_sketch.deserialize(state)
            union.update(sketch)
        return union.get_result(package.tgt_hll_type.HLL_8)

    @staticmethod
    def _pack(sketch: Any) -> bytes:
        # Bytes, because a state is pickled, compared and never changed; a sketch allows none.
        return bytes(sketch.serialize_compact())


class ApproxQuantile(Aggregate):
    """About the `q`-quantile of a column: a KLL sketch; null when there is no value.

    `k=200` means an error of 1.3 % in rank; up to 256 values it is exact. NaN is greater than
    every other number.

    Args:
        column: The name of a column of numbers.
        q: The place of the quantile, from 0 to 1.
        k: The size of the sketch: larger is more exact.

    >>> import slicewise as sw
    >>> sw.agg.approx_quantile("x", 0.5).fold([1, 2, 9])
    2.0
    """

    commutative = True
    takes = ("numbers",)

    example = MappingProxyType({"q": 0.9})

    def __init__(
        self, column: str | float | None = None, q: float | None = None, *, k: int = 200
    ) -> None:
        if q is None and isinstance(column, float | int):
            column, q = None, column
        super().__init__(*given(cast("str | None", column)))
        self.q = checked_q(self, q)
        if not is_integer(k) or not 8 <= k <= 65535:
            raise AggregateError(
                f"`k` of `{self.name}` sets the size of the sketch, an integer from 8 to 65535; "
                f"given: {k!r}."
            )
        self.k = k

    # A state is a tuple of few values, or a pair: the sketch of the numbers, and how many NaNs are
    # beside it, since a sketch skips them. A sketch alone, as in older snapshots, has none.

    def identity(self) -> Any:
        datasketches(self.name)
        return ()

    def lift(self, value: Any) -> Any:
        return (float(value),)

    def combine(self, older: Any, newer: Any) -> Any:
        if not older or not newer:
            return older or newer
        if is_few(older) and is_few(newer) and len(older) + len(newer) <= EXACT:
            return older + newer
        return self._union(older, newer)

    def lower(self, state: Any) -> float | None:
        if not state:
            return None
        if is_few(state):
            exact = Quantile(q=self.q)
            return exact.lower(Multiset((state,)))
        sketch, nans = self._parts(state)
        total = sketch.n + nans
        if self.q * (total - 1) > sketch.n - 1:  # where the exact quantile meets a NaN
            return math.nan
        return float(sketch.get_quantile(min(1.0, self.q * total / sketch.n), True))

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        (column,) = bound_columns(self)
        number_kind(self, column, types[0])
        datasketches(self.name)
        return interpreted_floats(self, REASON)

    def _union(self, older: Any, newer: Any) -> tuple[bytes, int]:
        union, nans = self._parts(older)
        other, more = self._parts(newer)
        union.merge(other)
        return bytes(union.serialize()), nans + more

    def _parts(self, state: Any) -> tuple[Any, int]:
        """The sketch of a state, which may be changed, and the number of NaNs beside it."""
        kind = datasketches(self.name).kll_doubles_sketch
        if not is_few(state):
            packed, nans = (state, 0) if isinstance(state, bytes) else state
            return kind.deserialize(packed), nans
        sketch = kind(self.k)
        numbers = [value for value in state if value == value]
        for value in numbers:
            sketch.update(value)
        return sketch, len(state) - len(numbers)


def is_few(state: Any) -> bool:
    """Return whether a state of `approx_quantile` still has the values themselves."""
    return isinstance(state, tuple) and not isinstance(state[0], bytes)


def hashable(value: Any) -> int | float | str:
    """A value for sketches to hash; equal values stay equal: NaN is NaN and -0.0 is 0.0."""
    if isinstance(value, float):
        return value + 0.0 if value == value else "nan"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return value if isinstance(value, str) else repr(value)
