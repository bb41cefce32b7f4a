"""Bloom filters: which values a window may have held. Algebraic, commutative, not invertible.

Written here because the Python package of Apache DataSketches has none.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.base import Aggregate, given, is_integer
from slicewise.aggregates.bound import Bound
from slicewise.aggregates.interpreted import interpreted
from slicewise.errors import AggregateError

if TYPE_CHECKING:
    import pyarrow as pa


class Bloom(Aggregate):
    """A filter as bytes, to ask with `contains` whether a value was among those of a column.

    It never misses one that was; with up to `capacity` different values it is wrong about others
    with probability `error`. Bytes from the same two settings can be compared and stored.

    Args:
        column: The name of the column, of any type.
        capacity: How many different values to expect.
        error: How many of all other values may seem to be there.

    >>> import slicewise as sw
    >>> bits = sw.agg.bloom("user").fold(["ann", "bob", None])
    >>> sw.agg.bloom.contains(bits, "bob"), sw.agg.bloom.contains(bits, "eve")
    (True, False)
    """

    commutative = True

    def __init__(
        self, column: str | None = None, *, capacity: int = 1000, error: float = 0.01
    ) -> None:
        super().__init__(*given(column))
        if not is_integer(capacity) or capacity < 1:
            raise AggregateError(
                "`capacity` of `bloom` is how many different values to expect, an integer from 1 "
                f"on; given: {capacity!r}."
            )
        if not 0 < error < 1:
            raise AggregateError(
                "`error` of `bloom` is the probability of a wrong yes, between 0 and 1; given: "
                f"{error!r}."
            )
        self.capacity = capacity
        self.error = error

    @property
    def size(self) -> int:
        """How many bits the filter has, a multiple of 8."""
        bits = -self.capacity * math.log(self.error) / math.log(2) ** 2
        return 8 * math.ceil(bits / 8)

    @property
    def hashes(self) -> int:
        """How many bits a value sets."""
        return min(255, max(1, round(-math.log2(self.error))))

    def identity(self) -> int:
        return 0

    def lift(self, value: Any) -> int:
        state = 0
        for bit in places(value, self.size, self.hashes):
            state |= 1 << bit
        return state

    def combine(self, older: int, newer: int) -> int:
        return older | newer

    def lower(self, state: int) -> bytes:
        return bytes([self.hashes]) + state.to_bytes(self.size // 8, "little")

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        # Python objects, so that `contains` can be asked with a date as with a number.
        reason = "its state is a set of bits, not a fixed number of numbers"
        return interpreted(self, pa.binary(), reason, part="objects")

    @staticmethod
    def contains(bits: bytes, value: Any) -> bool:
        """Return whether the filter may have seen `value`; `False` is certain."""
        hashes, body = bits[0], bits[1:]
        return all(body[bit >> 3] >> (bit & 7) & 1 for bit in places(value, 8 * len(body), hashes))


def places(value: Any, size: int, hashes: int) -> list[int]:
    """The bits of a value: two hashes make all of them (doi:10.1002/rsa.20208)."""
    digest = hashlib.blake2b(_bytes(value), digest_size=16).digest()
    first = int.from_bytes(digest[:8], "little")
    step = int.from_bytes(digest[8:], "little") | 1
    return [(first + k * step) % size for k in range(hashes)]


def _bytes(value: Any) -> bytes:
    """The bytes to hash; equal numbers have the same whatever their type."""
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, str):
        return b"s" + value.encode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return b"n" + str(int(value)).encode()
    return b"o" + (value.isoformat() if hasattr(value, "isoformat") else repr(value)).encode()
