"""Mergers that are fed by hand in compiled code: values of known types, best many at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import OPEN, Kernel, kernel
from slicewise.codegen.prelude import store
from slicewise.errors import CapabilityError, ColumnTypeError, EmptyWindowError
from slicewise.mergers.base import FlatMerger, arrays_for, is_count
from slicewise.mergers.boundary import item

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa

    from slicewise.aggregates.base import Aggregate


class CompiledMerger:
    """A window of values of known Arrow types, merged by an algorithm of the catalogue.

    Its results are those of the merger that it is made from. A call takes some tens
    of microseconds, however many values it brings, so they are best inserted many at a time (in
    hundreds, a maximum takes half a microsecond for each). PBA has its second thread, which runs
    beside this one.

    >>> import numpy as np, pyarrow as pa, slicewise as sw
    >>> merger = sw.mergers.PBA.compiled(sw.agg.max(), pa.float64(), length=4)
    >>> merger.insert_many(np.array([5.0, 4.0, 6.0, 3.0]))
    >>> merger.evict_many(3)
    >>> merger.query(), len(merger)
    (3.0, 1)
    """

    def __init__(
        self,
        cls: type[FlatMerger],
        aggregate: Aggregate,
        types: Sequence[pa.DataType],
        *,
        length: int | None = None,
        chunk: int = 0,
    ) -> None:
        from slicewise.aggregates.bound import share

        cls.check(aggregate)
        self.cls, self.aggregate, self.types = cls, aggregate, list(types)
        self._bound = aggregate.bind(self.types)
        if not self._bound.compiled:
            raise CapabilityError(
                f"`{aggregate.name}` is not compiled here: {self._bound.reason}. Feed "
                f"`{cls.__name__}` itself, which takes any values."
            )
        self._components = share([self._bound])
        room = 8 if length is None else length
        self._parts = [_Part(cls, c.algebra, room, chunk) for c in self._components]

    def insert(self, value: Any) -> None:
        """Add one event at the new end; of several columns it is a tuple."""
        one = self.aggregate.arity == 1
        self.insert_many([value] if one else tuple([part] for part in value))

    def insert_many(self, values: Any) -> None:
        """Add events in order: an array or a list, or a tuple of those for several columns."""
        import pyarrow as pa

        from slicewise.aggregates.bound import read
        from slicewise.columns import Column
        from slicewise.mergers.given import given_columns

        columns, _ = given_columns(values, self.aggregate)
        for (name, column), kind in zip(columns.items(), self.types, strict=True):
            if column.type != kind:
                try:
                    columns[name] = Column.from_arrow(column.to_arrow().cast(kind))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise ColumnTypeError(
                        f"This merger takes values of {kind}; given: {column.type}: {error}"
                    ) from error
        rows = len(next(iter(columns.values())))
        for part, component in zip(self._parts, self._components, strict=True):
            part.take_in(*read(component, columns, rows), rows)

    def evict(self) -> None:
        """Take the oldest event away."""
        self.evict_many(1)

    def evict_many(self, count: int) -> None:
        """Take the `count` oldest events away."""
        if not is_count(count, 0, len(self)):
            raise EmptyWindowError(
                f"`evict_many` takes between 0 and all {len(self)} events of the window; "
                f"given: {count!r}."
            )
        for part in self._parts:
            part.let_go(count)

    def query(self) -> Any:
        """The aggregate of the window."""
        from slicewise.aggregates.bound import states_of

        states = [part.answer() for part in self._parts]
        own = [states_of(c, self._components, states) for c in self._bound.components]
        return self._bound.lower(own).tolist()[0]

    def __len__(self) -> int:
        return len(self._parts[0])


class _Part:
    """The window of one component."""

    def __init__(self, cls: type[FlatMerger], algebra: Algebra, room: int, chunk: int) -> None:
        self.cls, self.algebra = cls, algebra
        self.p, self.S = arrays_for(cls, algebra, room)
        if cls.chunked:
            self.p[cls.cursors] = chunk
        self.ready: dict[Kernel, Any] = {}  # compiled
        self.other: ThreadPoolExecutor | None = None
        self.ahead: Future[None] | None = None
        self.given = 0  # the end of the last chunk that the other thread was given

    def __len__(self) -> int:
        return int(self.p[1] - self.p[0])

    def kernel(self, name: str) -> Any:
        """The kernel of that name, ready to be called."""
        (found,) = (k for k in self.cls.kernels_for(self.algebra) if k.__name__ == name)
        return found.specialise(self.algebra, work=math.inf)

    def run(self, step: Any, *given: Any) -> None:
        """Run a kernel on the window, and let the other thread have the chunks that it closes."""
        if step not in self.ready:
            using = self.cls.kernels_for(self.algebra)
            self.ready[step] = step.specialise(self.algebra, using, work=math.inf)
        self.ready[step](*given, self.p, self.S)
        if not self.cls.chunked or self.p[4] <= self.given:
            return
        if self.other is None:
            from concurrent.futures import ThreadPoolExecutor

            self.other = ThreadPoolExecutor(1, thread_name_prefix="slicewise-pba")
        self.given = int(self.p[4])
        work = self.kernel("work_ahead")
        self.ahead = self.other.submit(work, self.p, self.S)

    def wait(self, leaving: int) -> None:
        """Let the other thread end where its work is needed before `leaving` events may go."""
        if self.ahead is not None and self.cls.needs_ahead(self.p, leaving):
            self.ahead.result()

    def take_in(self, X: Any, valid: Any, rows: int) -> None:
        """Insert events."""
        needed, capacity = len(self) + rows, int(self.p[2]) + 1
        if needed > capacity:
            if self.ahead is not None:
                self.ahead.result()
            q, T = arrays_for(self.cls, self.algebra, max(needed, capacity + capacity // 8))
            self.kernel("move")(self.p, self.S, q, T)
            self.p, self.S = q, T
        self.run(insert_all, X, valid)

    def let_go(self, count: int) -> None:
        """Evict so many events."""
        self.wait(count)
        self.run(evict_some, count)

    def answer(self) -> Any:
        """The state of the window, as an array of one."""
        self.wait(0)
        out = self.algebra.new(1)
        self.run(query_into, out)
        return out


insert: Any = OPEN
evict: Any = OPEN
query: Any = OPEN


@kernel
def insert_all(X: Any, valid: Any, p: Any, S: Any) -> None:
    """Insert all events."""
    for i in range(X[0].shape[0]):
        insert(p, S, item(X, valid, None, i))


@kernel
def evict_some(count: int, p: Any, S: Any) -> None:
    """Evict `count` events."""
    for _ in range(count):
        evict(p, S)


@kernel
def query_into(out: Any, p: Any, S: Any) -> None:
    """Put the state of the window into `out`."""
    store(out, 0, query(p, S))
