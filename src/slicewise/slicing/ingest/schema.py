"""The types of columns, learned from the first batch, and the aggregates bound to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.bound import Bound, bound_columns, reads
from slicewise.aggregates.policy import ErrorPolicy
from slicewise.limits import EVER
from slicewise.slicing.families.window_set import WindowSet
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.ingest.reach import Reach, reach_of
from slicewise.slicing.settings import Settings, guessed
from slicewise.slicing.state.checks import check_time_type, check_zones

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.slicing.state.blob import BlobReader, BlobWriter


class Schema:
    """The types of the columns that are read, and of times.

    `columns` is `None` before the first batch, and another object whenever types change. `untyped`
    are the columns that have had nothing but nulls: their types are guesses. `bounds` are the
    aggregates bound to the types, under the policy for `errors`. `kept` are the columns of events
    that wait: what aggregates read, and what decides ties. `reach` is the least and the greatest
    time of events that are taken, in microseconds: the bounds of their instances can be said in the
    type of the results.
    """

    version = 1

    def __init__(self, settings: Settings, windows: WindowSet) -> None:
        self.settings, self.windows = settings, windows
        self.errors = ErrorPolicy()
        self.time: pa.DataType | None = None
        self.columns: dict[str, pa.DataType] | None = None
        self.untyped: set[str] = set()
        self.bounds: list[Bound] = []
        self.kept: list[str] = []
        self.reach: Reach = EVER

    def find_reach(self) -> None:
        """Work out the reach for the windows and the type of times that there are now."""
        self.reach = EVER if self.time is None else reach_of(self.windows.defined, self.time)

    def first_types(self, columns: Columns) -> tuple[dict[str, pa.DataType], set[str]]:
        """The types of the columns of a first batch, and those of them that are guessed."""
        import pyarrow as pa

        types = {name: columns.type_of(name) for name in self.windows.facts.columns}
        untyped = {name for name, kind in types.items() if pa.types.is_null(kind)}
        aggs, windows = self.settings.aggs, self.windows.defined
        return types | {name: guessed(name, aggs, windows) for name in untyped}, untyped

    def new_types(self, columns: Columns) -> dict[str, pa.DataType]:
        """The types of columns that had nothing but nulls before and have more in this batch."""
        import pyarrow as pa

        found = {name: columns.type_of(name) for name in self.untyped if name in columns}
        return {name: kind for name, kind in found.items() if not pa.types.is_null(kind)}

    def bound_to(self, types: Mapping[str, pa.DataType]) -> list[Bound]:
        """The aggregates bound to these types; nothing is changed."""
        import pyarrow as pa

        return [
            self.errors.applied(
                a.bind([types[c] for c in a.columns] or [pa.int64()] * len(bound_columns(a)))
            )
            for a in self.settings.aggs
        ]

    def adopt(self, types: dict[str, pa.DataType], untyped: set[str], bounds: list[Bound]) -> None:
        """Take over types and what follows from them."""
        self.columns, self.untyped, self.bounds = types, untyped, bounds
        components = (c for bound in bounds for c in bound.components)
        read = (name for c in components for name in reads(c))
        self.kept = list(dict.fromkeys([*read, *self.settings.order]))

    def value_types(self) -> list[pa.DataType]:
        """The types of the results, as far as they are known without one."""
        return [b.lower([c.algebra.new(0) for c in b.components]).type for b in self.bounds]

    def dump(self, out: BlobWriter) -> Any:
        """The types as an Arrow schema in the blob."""
        import pyarrow as pa

        if self.columns is None and self.time is None:
            return None
        fields = [pa.field(f"column:{name}", kind) for name, kind in (self.columns or {}).items()]
        if self.time is not None:
            fields.append(pa.field("time", self.time))
        return {
            "schema": out.put_bytes(pa.schema(fields).serialize().to_pybytes()),
            "bound": self.columns is not None,
            "untyped": sorted(self.untyped),
        }

    def load(self, node: Any, source: BlobReader, more: Mapping[str, pa.DataType]) -> None:
        """Go on with the types of a snapshot, and with `more` of columns that it did not read."""
        import pyarrow as pa

        schema = pa.ipc.read_schema(pa.py_buffer(source.get_bytes(node["schema"])))
        kinds = {field.name: field.type for field in schema}
        check_zones(kinds.values())
        self.time = kinds.pop("time", None)
        check_time_type(self.time)
        self.find_reach()
        if node["bound"]:
            known = {name.removeprefix("column:"): kind for name, kind in kinds.items()}
            types = {**more, **known}
            untyped = {name for name in node["untyped"] if name in types}
            self.adopt(types, untyped, self.bound_to(types))
