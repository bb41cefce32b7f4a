"""The parts of an operator: what they own is their own, and a snapshot leaves it as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.errors import SnapshotError
from slicewise.slicing.plan import Plan
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.store.time_major import TimeMajorStore
from slicewise.tuning import tuned

PACKAGE = Path(sw.__file__).parent
# What named tuples offer to everybody has an underscore so that it is no name of a field.
NAMED_TUPLES = ("_replace", "_fields", "_asdict", "_make")
# Numba has no public way to say where machine code is kept.
OF_OTHERS = {("codegen/jit.py", "_cache")}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def private_reads(name: str, tree: ast.AST) -> Iterator[str]:
    """Private attributes of anything but the object or the class whose method it is."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        base = ast.unparse(node.value)
        own = base in ("self", "cls") or base.startswith("super(")
        known = node.attr.startswith("__") or node.attr in NAMED_TUPLES
        if not own and not known and (name, node.attr) not in OF_OTHERS:
            yield f"{name}, line {node.lineno}: {ast.unparse(node)}"


def test_no_module_reads_a_private_field_of_another_object() -> None:
    assert [found for name, tree in trees() for found in private_reads(name, tree)] == []


@pytest.mark.parametrize("source", ["op._keys", "self.op._keys = 5", "f(x)._keys", "ones[0]._y()"])
def test_a_read_of_a_private_field_is_found(source: str) -> None:
    assert len(list(private_reads("a.py", ast.parse(source)))) == 1


def lines_of_code(source: str) -> int:
    """Lines that are neither blank nor comments nor in a docstring."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            documented |= {*range(first.lineno, (first.end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(n not in documented and line.strip()[:1] not in ("", "#") for n, line in lines)


def test_the_operator_is_a_table_of_contents() -> None:
    source = (PACKAGE / "slicing" / "operator.py").read_text(encoding="utf-8")
    assert lines_of_code(source) < 200


def test_every_field_of_the_plan_is_used_by_what_runs() -> None:
    read = set()
    for name, tree in trees():
        if name.startswith("slicing/") and name not in (
            "slicing/plan.py",
            "slicing/emit/explain.py",
        ):
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("plan"):
                    read.add(node.attr)
    # The settings are what it was made from; further decisions follow from the groups.
    assert {field.name for field in fields(Plan)} - {"settings"} <= read


# Snapshots.

# Memory that is used again, and answers that are the same whenever they are asked for.
MEMOS = ["_scratch", "_every", "_zeros", "_fresh", "_arrays", "_nothing"]
# How far sessions of a greatest length are told, which moves whenever anyone asks for it.
MEMOS += ["_anchors"]


def kept(thing: Any, path: str, found: dict[str, Any], seen: set[int]) -> dict[str, Any]:
    """All arrays and plain values that belong to a thing, by where they are."""
    if isinstance(thing, np.ndarray):
        found[path] = thing.tolist()
    elif isinstance(thing, int | float | str | None):
        found[path] = thing
    elif id(thing) not in seen:
        seen.add(id(thing))
        items: Any = ()
        if isinstance(thing, dict):
            items = thing.items()
        elif isinstance(thing, list | tuple | set):
            items = enumerate(thing)
        elif type(thing).__module__.startswith(("slicewise.slicing", "slicewise.arrays")):
            slots = getattr(type(thing), "__slots__", ())
            items = [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
            items += getattr(thing, "__dict__", {}).items()
        for name, value in items:
            if name not in MEMOS:
                kept(value, f"{path}.{name}", found, seen)
    return found


def state_of(op: sw.Operator) -> dict[str, Any]:
    return kept(op.parts, "", {}, set())


class Steps(sw.UserWindow):
    """An instance for each ten of time in which there are events."""

    turn = -1

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        before, self.turn = self.turn, time // 10
        return (0, 0) if before == self.turn else (1, int(before >= 0))


REGIMES: dict[str, dict[str, Any]] = {
    "time": {"windows": [sw.tumbling(10), sw.sliding(30, 7), sw.session(5)]},
    "time, many keys": {"windows": [sw.sliding(30, 7)], "emit": "final"},
    "revised": {"windows": [sw.tumbling(10), sw.session(4)], "lateness": 20},
    "rows": {"windows": [sw.tumbling(sw.rows(3)), sw.punctuated("f")], "lateness": 20},
    "rows in order": {"windows": [sw.tumbling(sw.rows(3)), sw.session(4, max_length=9)]},
    "one's own": {"windows": [Steps()], "emit": "final"},
    "column": {"windows": [sw.tumbling(sw.units(8, on="km"))]},
    "sorted": {"windows": [sw.tumbling(10)], "aggs": [sw.agg.last("x")]},
    "early": {"windows": [sw.sliding(20, 5)], "emit": "on_update", "lateness": 5},
    "trees": {"windows": [sw.sliding(40, 2)], "store": "eager"},
}


def fed(name: str) -> sw.Operator:
    random = np.random.default_rng(3)
    made: dict[str, Any] = {"aggs": [sw.agg.sum("x")], "time": "t", "by": "k", **REGIMES[name]}
    op = sw.Operator(**made)
    for turn in range(4):
        times = random.integers(20 * turn, 20 * turn + 30, 60)
        op.process(
            {
                "t": times,
                "k": random.integers(10 * turn, 10 * turn + 20, 60),
                "x": random.integers(0, 9, 60),
                "f": random.integers(0, 2, 60).astype(bool),
                "km": np.arange(60 * turn, 60 * turn + 60),
            }
        )
        op.advance(20 * turn + 10)
    return op


@pytest.mark.parametrize("name", REGIMES)
def test_a_snapshot_changes_nothing_and_converts_nothing(name: str) -> None:
    few = {"keys_by_time": 1, "events_by_time": 0, "moved_per_event": 10**9}
    with tuned(**few if "many keys" in name else {}):
        op = fed(name)
        by_time = [isinstance(g.slices, TimeMajorStore) for g in op.parts.slices.groups.values()]
        assert any(by_time) == ("many keys" in name)
        before = state_of(op)
        assert len(before) > 50
        blob = op.snapshot()
        assert state_of(op) == before
        assert op.snapshot() == blob
        again = sw.Operator.restore(blob, windows=REGIMES[name]["windows"])
        groups = again.parts.slices.groups.values()
        assert [isinstance(g.slices, TimeMajorStore) for g in groups] == by_time
        assert again.advance(1000) == op.advance(1000)


def test_a_snapshot_has_slices_that_are_needed_and_no_others() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", by="k")
    for turn in range(20):
        op.process({"t": [10 * turn], "k": [turn], "x": [1]})
        op.advance(10 * turn)
    assert op.stats.slices > 5  # they are let go now and then
    again = sw.Operator.restore(op.snapshot())
    assert (again.stats.slices, len(again.parts.keys)) == (1, 1)


def test_a_part_of_a_later_version_is_refused() -> None:
    op = fed("time")
    source = BlobReader(op.snapshot())
    assert set(source.header["parts"].values()) == {1}
    header = {**source.header, "parts": {"slices": 2}}
    with pytest.raises(SnapshotError, match="The part 'slices' of the snapshot has version 2"):
        sw.Operator.restore(BlobWriter().blob(header))
