"""Events that were refused: those that came too late, fell behind or are bad.

They are counted, and stay until they are taken. So that nobody who never asks for them runs out of
memory, the newest so many are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from slicewise.columns import pylist
from slicewise.errors import SpanError
from slicewise.slicing.progress import Stats
from slicewise.slicing.state.blob import BlobReader, BlobWriter, table_bytes, table_of

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS = ("bad", "late_dropped", "late_partly", "behind")
# Refused events that are kept unless somebody says otherwise.
MOST = 100_000


class Quarantine:
    """The newest `most` refused events, in tables from the oldest to the newest (`None`: all).

    `forgotten` counts those that were let go. `bad`, `late_dropped`, `late_partly` and `behind`
    count why events were refused, as `op.stats` says them.
    """

    version = 1

    def __init__(self, most: int | None = MOST) -> None:
        self.most = most
        self.bad = self.late_dropped = self.late_partly = self.behind = 0
        self.forgotten = 0
        self.tables: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def add(self, table: pa.Table) -> None:
        """Take refused events."""
        tables = [*self.tables, table]
        # A table is joined to those of its size, so that there are few of them and each row is
        # copied a few times.
        while len(tables) > 1 and tables[-2].num_rows <= tables[-1].num_rows:
            joined = _joined(tables[-2:])
            if joined is None:
                break
            tables[-2:] = [joined]
        more = 0 if self.most is None else sum(one.num_rows for one in tables) - self.most
        gone = max(more, 0)
        while more > 0:
            oldest = tables.pop(0)
            if oldest.num_rows > more:
                # It keeps the memory of the whole, which is at most as much again as is wanted.
                tables.insert(0, oldest.slice(more))
            more -= oldest.num_rows
        self.tables, self.forgotten = tables, self.forgotten + gone

    def rows(self) -> list[dict[str, Any]]:
        """The events as Python values."""
        return [row for table in self.tables for row in pylist(table)]

    def take(self) -> pa.Table | None:
        """The events as one table, which are then forgotten; `None` if there are none."""
        import pyarrow as pa

        if not self.tables:
            return None
        table = pa.concat_tables(self.tables, promote_options="permissive")
        self.tables = []
        return table

    def count(self, stats: Stats) -> None:
        """Add the numbers of refused events to the stats of an operator."""
        for name in COUNTS:
            setattr(stats, name, getattr(self, name))
        stats.late_forgotten = self.forgotten

    def dump(self, out: BlobWriter) -> list[Any]:
        """The places of the tables in the blob; the counts are among the stats of the operator."""
        return [out.put_bytes(table_bytes(table)) for table in self.tables]

    def load(self, node: Iterable[Any], stats: Mapping[str, int], source: BlobReader) -> None:
        """Go on with the tables and the counts of a snapshot."""
        self.tables = [table_of(source.get_bytes(place), any_text=True) for place in node]
        for name in COUNTS:
            setattr(self, name, stats.get(name, 0))  # older ones count less
        self.forgotten = stats.get("late_forgotten", 0)


def checked_most(given: Any) -> int | None:
    """How many refused events are kept."""
    if given is None or (type(given) is int and given >= 0):
        return given
    raise SpanError(
        "`max_late` is how many refused events are kept until they are taken: a whole number from "
        f"0 on, or `None` for all of them; given: {given!r}."
    )


def _joined(tables: list[pa.Table]) -> pa.Table | None:
    """Two tables as one, if their columns agree."""
    import pyarrow as pa

    if tables[0].schema != tables[1].schema:
        return None
    return pa.concat_tables(tables).combine_chunks()
