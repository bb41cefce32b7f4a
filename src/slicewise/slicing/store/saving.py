"""States of slices in a snapshot: how they are written, and how they are found again.

A snapshot names each component by its algebra, its types and the columns that it reads. An operator
that is restored has the same components in the same order. One that goes on with other aggregates
looks for each of its components among those of the snapshot; what is not there begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound, Component, States, place_of
from slicewise.aggregates.components import rows
from slicewise.errors import SnapshotError
from slicewise.limits import REACH
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.state.checks import codes, exactly, require
from slicewise.slicing.state.plain import pack, unpack

ROWS = rows()


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of each slice beside its start, its rows and its states.

    Slices that are `single_rows` have an arrival number and no stop. `times` says that the first
    and the last event time of a slice are kept, and `ordered` that those of neighbours do not
    overlap. No slice begins as far as `reach` from zero.
    """

    single_rows: bool = False
    times: bool = True
    ordered: bool = False
    reach: float = REACH


def put_states(
    components: Sequence[Component],
    states: Sequence[States | None],
    chosen: np.ndarray,
    out: BlobWriter,
) -> list[Any]:
    """Write the states of the `chosen` slots; returns one node for each component."""
    nodes = []
    for component, S in zip(components, states, strict=True):
        node = _said(component)
        node["provides"] = [[_said(small), list(fields)] for small, fields in component.provides]
        if S is None:
            node["fields"] = None
        elif component.algebra.compiled:
            node["fields"] = [out.put(array[chosen]) for array in S]
        else:
            node["objects"] = pack(S[0][chosen].tolist(), out)
        nodes.append(node)
    return nodes


def _said(component: Component) -> dict[str, Any]:
    """The words that tell a component from others."""
    return {
        "algebra": component.algebra.name,
        "dtypes": list(component.algebra.dtypes),
        "inputs": [[item.column, item.part] for item in component.inputs],
    }


@dataclass(slots=True)
class Found:
    """Where a snapshot has the states of components.

    `sources` has for each of the `components` its node and the fields to read of it, all if
    `None`; a component without a source has seen no event. `since` has the aggregates, by number,
    that know events from a time on.
    """

    components: list[Component]
    sources: list[tuple[Any, list[int] | None] | None]
    since: dict[int, int]


def find_same(components: Sequence[Component], bounds: Sequence[Bound], node: Any) -> Found:
    """Find the states of components that are those of the snapshot, or refuse it."""
    since = {int(number): since for number, since in node["since"].items()}
    codes(np.array([*since], np.int64), len(bounds), "aggregates that begin later")
    saved = node["components"]
    before = [(one["algebra"], one["dtypes"]) for one in saved]
    now = [(c.algebra.name, list(c.algebra.dtypes)) for c in components]
    if before != now:
        raise SnapshotError(
            f"The states of the snapshot are {_states_in_words(before)}, and these aggregates keep "
            f"{_states_in_words(now)}. Their code has changed since: restore with the code that "
            "wrote the snapshot."
        )
    return Found(list(components), [(one, None) for one in saved], since)


def find_known(bounds: Sequence[Bound], node: Any, since: int) -> Found:
    """Find the states of components that the snapshot knows.

    Aggregates with one that it does not know have seen the events from `since` on.
    """
    saved = node["components"]
    wanted = dict.fromkeys(c for bound in bounds for c in bound.components)
    found = {component: _find(component, saved) for component in wanted}
    new = {small for c in wanted if not found[c] for small, _ in c.provides}
    old = {small for c in wanted if found[c] for small, _ in c.provides}
    # One that is known is not read from one that is not.
    components = [c for c in wanted if c not in old and not (c in new and found[c] is None)]
    sources = [found[c] for c in components]
    known_since = {int(number): time for number, time in node["since"].items()}
    outputs = dict(enumerate(node["outputs"]))
    begun: dict[int, int] = {}
    for number, bound in enumerate(bounds):
        if any(sources[place_of(c, components)[0]] is None for c in bound.components):
            begun[number] = since
        for before, time in known_since.items():
            if outputs.get(before) == bound.aggregate.output:
                begun[number] = max(begun.get(number, time), time)
    return Found(components, sources, begun)


def _find(component: Component, saved: list[Any]) -> tuple[Any, list[int] | None] | None:
    """The saved component with the states of this one, and in which fields if not all."""
    said = _said(component)
    for node in saved:
        if all(node[name] == said[name] for name in said):
            return node, None
        if node["algebra"] == said["algebra"] and node["inputs"] == said["inputs"]:
            raise SnapshotError(
                f"The states of {said['algebra']} were {' '.join(node['dtypes'])} and are now "
                f"{' '.join(said['dtypes'])}: its code or the types of its columns have changed. "
                "Give the aggregate another name to begin anew with it, or go on with the old code."
            )
    for node in saved:
        for small, fields in node["provides"]:
            if all(small[name] == said[name] for name in said) and node["fields"] is not None:
                return node, fields
    return None


def get_states(
    algebra: Any, found: tuple[Any, list[int] | None], count: int, room: int, source: BlobReader
) -> States | None:
    """Read the states of `count` slices into arrays of `room`; `None` for those of the rows."""
    node, chosen = found
    if "objects" in node:
        objects = unpack(node["objects"], source)
        require(len(objects) == count and not algebra.compiled, "states are not those of slices")
        # From a generator, because numpy would take tuples of one length for a table.
        return (np.fromiter(chain(objects, repeat(None, room - count)), object, room),)
    if node["fields"] is None:
        require(not count or algebra == ROWS.algebra, "slices have no states")
        return None
    fields = [node["fields"][k] for k in chosen] if chosen is not None else node["fields"]
    require(algebra.compiled, "states are not those of slices")
    states: States = algebra.new(room)
    for array, place in zip(states, fields, strict=True):
        array[:count] = exactly(source.get(place), count, "states", array.dtype)
    return states


def _states_in_words(states: Sequence[tuple[str, list[str]]]) -> str:
    return ", ".join(f"{name} ({' '.join(dtypes)})" for name, dtypes in states) or "none"
