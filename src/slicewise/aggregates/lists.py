"""All values in event order: collected or joined. Not commutative; invertible by dropping a head.

States are ropes: a combine of long runs only notes the two parts, and what `lower` costs is the
length of its result. Joining tuples at every combine would be quadratic in the length of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.base import Aggregate, given
from slicewise.aggregates.bound import Bound, bound_columns
from slicewise.aggregates.interpreted import interpreted
from slicewise.errors import AggregateError, ColumnTypeError

if TYPE_CHECKING:
    import pyarrow as pa

# Runs up to this length are copied, so that a rope is not one node per event.
CHUNK = 32


class Rope:
    """A run of values that is never changed: a tuple of them, or an older and a newer part.

    >>> list(Rope((1, 2)) + Rope((3,)))
    [1, 2, 3]
    """

    __slots__ = ("halves", "size", "values")

    def __init__(
        self, values: tuple[Any, ...] = (), halves: tuple[Rope, Rope] | None = None
    ) -> None:
        self.values = values
        self.halves = halves
        self.size: int = len(values) if halves is None else halves[0].size + halves[1].size

    def __len__(self) -> int:
        return self.size

    def __add__(self, newer: Rope) -> Rope:
        if not self.size or not newer.size:
            return self if self.size else newer
        if self.size + newer.size <= CHUNK:
            return Rope(tuple(self) + tuple(newer))
        # Events come one by one, at the new end or, in scans backwards, at the old one: let the
        # outermost part grow to a chunk before a new node is made.
        if self.halves is not None and self.halves[1].size + newer.size <= CHUNK:
            return Rope(halves=(self.halves[0], self.halves[1] + newer))
        if newer.halves is not None and self.size + newer.halves[0].size <= CHUNK:
            return Rope(halves=(self + newer.halves[0], newer.halves[1]))
        return Rope(halves=(self, newer))

    def leaves(self) -> Iterator[tuple[Any, ...]]:
        """The values, oldest first, as the tuples that hold them."""
        waiting = [self]  # a rope is as deep as it is long, too deep for recursion
        while waiting:
            rope = waiting.pop()
            if rope.halves is None:
                yield rope.values
            else:
                waiting += reversed(rope.halves)

    def __iter__(self) -> Iterator[Any]:
        for leaf in self.leaves():
            yield from leaf

    def drop(self, count: int) -> Rope:
        """The rope without its `count` oldest values."""
        return Rope(tuple(self)[count:]) if count else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rope):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Rope({tuple(self)!r})"

    def __reduce__(self) -> tuple[type[Rope], tuple[tuple[Any, ...]]]:
        return Rope, (tuple(self),)


class Collect(Aggregate):
    """All values of a column in event order, as a list; empty when there is none.

    Args:
        column: The name of the column, of any type.

    >>> import slicewise as sw
    >>> sw.agg.collect("x").fold([3, None, 1])
    [3, 1]
    """

    kind = "holistic"

    def identity(self) -> Rope:
        return Rope()

    def lift(self, value: Any) -> Rope:
        return Rope((value,))

    def combine(self, older: Rope, newer: Rope) -> Rope:
        return older + newer

    def invert(self, total: Rope, oldest: Rope) -> Rope:
        return total.drop(len(oldest))

    def lower(self, state: Rope) -> Any:
        return list(state)

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        return interpreted(self, pa.list_(types[0]), "a list of values is not a number")


class Concat(Collect):
    """The strings of a column joined in event order; null when there is none.

    Args:
        column: The name of a column of texts.
        sep: The text between two values.

    >>> import slicewise as sw
    >>> sw.agg.concat("s", sep="-").fold(["a", None, "b"])
    'a-b'
    """

    takes = ("strings",)

    example = MappingProxyType({"sep": ","})

    def __init__(self, column: str | None = None, *, sep: str = "") -> None:
        super().__init__(*given(column))
        if not isinstance(sep, str):
            raise AggregateError(
                f"`sep` of `concat` is the string between two values; given: {sep!r}."
            )
        self.sep = sep

    def lower(self, state: Rope) -> str | None:
        return self.sep.join(state) if len(state) else None

    def bind(self, types: Sequence[pa.DataType]) -> Bound:
        import pyarrow as pa

        kind = types[0]
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            (column,) = bound_columns(self)
            raise ColumnTypeError(
                f"`concat` joins strings; {column!r} holds {kind}. Cast the column to string, or "
                "use `collect`, which takes any type."
            )
        return interpreted(self, kind, "strings are not numbers")
