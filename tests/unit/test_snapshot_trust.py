"""Bytes run no code: what a snapshot may name, what it may hold, and what needs `trusted=True`."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import SnapshotError
from slicewise.slicing.state.blob import BlobReader
from tests.support.parts import put_together, taken_apart

called: list[Any] = []


def note(event: Any = None) -> bool:
    called.append(event)
    return True


class Evil:
    """Runs code when its pickle is read."""

    def __reduce__(self) -> Any:
        return note, ("pickle",)


class Keep(sw.Aggregate):
    """Interpreted: keeps what `make` gives for the first value."""

    compile = False
    make: Any = None

    def identity(self) -> Any:
        return None

    def lift(self, x: Any) -> Any:
        return type(self).make(x)

    def combine(self, older: Any, newer: Any) -> Any:
        return newer if older is None else older

    def lower(self, state: Any) -> Any:
        return None if state is None else repr(state)


class Turns(sw.UserWindow):
    """Every second event begins an instance; keeps plain values of several types."""

    def __init__(self) -> None:
        self.seen = 0
        self.history: dict[str, Any] = {}

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        self.seen += 1
        self.history[str(time)] = (dict(event), {time})
        return self.seen % 2, int(self.seen % 2 and self.seen > 1)


def kept(made: Callable[[Any], Any]) -> sw.Operator:
    """An operator whose states are what `made` gives."""
    Keep.make = staticmethod(made)
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[Keep("x")], time="t")
    op.process({"t": [1, 2, 11, 12], "x": [1, 2, 3, 4]})
    op.advance(12)
    op.process({"t": [21, 25], "x": [1, 2]})
    op.advance(22)
    return op


def results(op: sw.Operator) -> list[Any]:
    return [result.values for result in op.advance(math.inf)]


class Point(NamedTuple):
    x: int
    y: Any


@dataclass
class Plain:
    x: int
    more: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int


class Deeper:
    @dataclass(frozen=True)
    class Inner:
        x: Any


STATES: dict[str, Callable[[Any], Any]] = {
    "named tuple": lambda x: Point(x, Point(x, "a")),
    "dataclass": lambda x: Plain(x, [x, None]),
    "slots": Slotted,
    "nested": lambda x: Deeper.Inner(Counter([x])),
    "counter": lambda x: Counter("abca"),
    "ordered": lambda x: OrderedDict(b=x, a=1),
    "default": lambda x: defaultdict(list, {x: [1]}),
    "deque": lambda x: deque([x, "a"]),
    "complex": lambda x: complex(x, -0.0),
    "bytearray": lambda x: bytearray([x, 3]),
    "scalar": lambda x: np.float64(x),
    "small": lambda x: np.int16(x),
    "datetime64": lambda x: np.datetime64(x, "s"),
    "fraction": lambda x: Fraction(x, 3),
    "uuid": lambda x: uuid.UUID(int=x),
    "mixed": lambda x: [x, "a", b"b", None, Decimal("1.50"), dt.date(2024, 1, x), {x: {1, 2}}],
    "arrays": lambda x: np.array([x, 2.5]),
}


@pytest.mark.parametrize("name", STATES)
def test_plain_states_and_records_of_an_aggregates_module_need_no_trust(name: str) -> None:
    op = kept(STATES[name])
    blob = op.snapshot()
    assert BlobReader(blob).header["pickled"] == []
    assert results(sw.Operator.restore(blob)) == results(op)


def test_events_with_times_of_nanoseconds_need_no_trust() -> None:
    op = sw.Operator(windows=[Turns()], aggs=[sw.agg.collect("t")], time="t")
    times = pa.array([1, 1001, 2001, 3001], pa.timestamp("ns", "Europe/Berlin"))
    op.process({"t": times, "d": pa.array([1, 2, 3, 4], pa.duration("ns"))})
    blob = op.snapshot()
    assert BlobReader(blob).header["pickled"] == []
    assert results(sw.Operator.restore(blob)) == results(op)


def test_what_windows_of_ones_own_keep_needs_no_trust_if_it_is_plain() -> None:
    op = sw.Operator(windows=[Turns()], aggs=[sw.agg.sum("x")], time="t", by="k")
    op.process({"t": [1, 2, 3, 4], "x": [1, 2, 3, 4], "k": ["a", "a", "b", "a"]})
    op.advance(4)
    blob = op.snapshot()
    assert BlobReader(blob).header["pickled"] == []
    again = sw.Operator.restore(blob)
    for one in (op, again):
        one.process({"t": [5], "x": [5], "k": ["a"]})
    assert results(again) == results(op)


class Odd(tuple[Any, ...]):
    """A state that only pickle can say."""

    __slots__ = ()


def test_a_pickled_state_is_read_only_if_it_is_trusted() -> None:
    op = kept(lambda x: Odd((x,)))
    blob = op.snapshot()
    assert BlobReader(blob).header["pickled"] == [f"{__name__}.Odd"]
    with pytest.raises(SnapshotError, match=r"pickled \(.*Odd\).*`trusted=True`"):
        sw.Operator.restore(blob)
    assert results(sw.Operator.restore(blob, trusted=True)) == results(op)


@pytest.mark.parametrize("listed", [True, False])
def test_a_pickle_that_was_put_in_does_not_run(listed: bool) -> None:
    header, body = taken_apart(kept(lambda x: x).snapshot())
    payload = pickle.dumps([Evil()])
    node = {"is": "pickle", "at": [len(body), len(payload)]}
    header["tracks"][0]["store"]["components"][0]["objects"] = node
    header["pickled"] = ["builtins.int"] if listed else []
    blob = put_together(header, bytes(body) + payload)
    called.clear()
    with pytest.raises(SnapshotError, match="pickled"):
        sw.Operator.restore(blob)
    assert not called


def test_a_pickle_in_place_of_what_a_window_keeps_does_not_run() -> None:
    op = sw.Operator(windows=[Turns()], aggs=[sw.agg.sum("x")], time="t")
    op.process({"t": [1], "x": [1]})
    op.advance(2)
    header, body = taken_apart(op.snapshot())
    payload = pickle.dumps(Evil())
    (users,) = [group["users"] for group in header["tracks"]]
    users["0"] = [len(body), len(payload)]
    called.clear()
    with pytest.raises(SnapshotError, match="pickled"):
        sw.Operator.restore(put_together(header, bytes(body) + payload))
    assert not called


def large(event: Mapping[str, Any]) -> bool:
    called.append(event)
    return bool(event["x"] > 5)


def test_a_function_is_found_by_its_name_only_if_it_is_trusted() -> None:
    windows = [sw.threshold(large)]
    op = sw.Operator(windows=windows, aggs=[sw.agg.sum("x")], time="t")
    op.process({"t": [1, 2], "x": [7, 8]})
    blob = op.snapshot()
    with pytest.raises(SnapshotError, match=r"function .*large.*windows=\[.*`trusted=True`"):
        sw.Operator.restore(blob)
    for again in (
        sw.Operator.restore(blob, trusted=True),
        sw.Operator.restore(blob, windows=windows),
    ):
        again.process({"t": [3], "x": [1]})
        assert results(again) == [{"x_sum": 15}]


@pytest.mark.parametrize("path", ["os:getcwd", f"{__name__}:note", "strange_module:run"])
def test_a_function_that_was_put_in_does_not_run(
    path: str, tmp_path: Path, monkeypatch: Any
) -> None:
    strange(tmp_path, monkeypatch)
    op = sw.Operator(windows=[sw.threshold("flag")], aggs=[sw.agg.count()], time="t")
    header, body = taken_apart(op.snapshot())
    header["windows"][0]["window"]["when"] = {"function": path}
    called.clear()
    with pytest.raises(SnapshotError, match="functions run only if the snapshot is trusted"):
        sw.Operator.restore(put_together(header, bytes(body)))
    assert not called
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("subprocess:Popen", "no subclass of `Aggregate`"),
        (f"{__name__}:Evil", "no subclass of `Aggregate`"),
        (f"{__name__}:note", "no subclass of `Aggregate`"),
        (f"{__name__}:Turns", "no subclass of `Aggregate`"),
        (f"{__name__}:None", "not imported here, and a snapshot imports nothing"),
        ("strange_module:Thing", "not imported here, and a snapshot imports nothing"),
    ],
)
def test_nothing_but_aggregates_is_looked_up_and_nothing_imported(
    path: str, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    strange(tmp_path, monkeypatch)
    header, body = taken_apart(kept(lambda x: x).snapshot())
    header["aggs"][0]["class"] = path
    called.clear()
    with pytest.raises(SnapshotError, match=message):
        sw.Operator.restore(put_together(header, bytes(body)))
    assert not called
    assert not (tmp_path / "imported").exists()


def test_nothing_but_windows_is_looked_up() -> None:
    op = sw.Operator(windows=[Turns()], aggs=[sw.agg.sum("x")], time="t")
    header, body = taken_apart(op.snapshot())
    header["windows"][0]["window"]["class"] = f"{__name__}:Keep"
    with pytest.raises(SnapshotError, match="no subclass of `UserWindow`"):
        sw.Operator.restore(put_together(header, bytes(body)))
    for kind in ("Window", "tumbling", "UserWindow", "build", "__name__"):
        header["windows"][0]["window"] = {"kind": kind, "name": "w"}
        with pytest.raises(SnapshotError):
            sw.Operator.restore(put_together(header, bytes(body)))


def test_trusted_bytes_may_name_modules_that_are_not_imported_yet(
    tmp_path: Path, monkeypatch: Any
) -> None:
    strange(tmp_path, monkeypatch)
    import strange_module  # type: ignore[import-not-found]  # it is written by this test

    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[strange_module.Thing("x")], time="t")
    op.process({"t": [1], "x": [5]})
    blob = op.snapshot()
    monkeypatch.delitem(sys.modules, "strange_module")
    with pytest.raises(SnapshotError, match=r"not imported here.*aggs=\[.*`trusted=True`"):
        sw.Operator.restore(blob)
    assert results(sw.Operator.restore(blob, trusted=True)) == [{"x_thing": 5}]


def strange(folder: Path, monkeypatch: Any) -> None:
    """A module that nobody has imported, which tells when it is."""
    (folder / "strange_module.py").write_text(
        "import pathlib\n"
        "import slicewise as sw\n"
        "pathlib.Path(__file__).with_name('imported').touch()\n"
        "class Thing(sw.agg.sum):\n"
        "    pass\n"
        "def run(event):\n"
        "    return True\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "strange_module", raising=False)


@pytest.mark.parametrize("path", ["subprocess:Popen", "tests.support.snapshots:Case", "no:Class"])
def test_states_of_classes_of_other_modules_are_not_made(path: str) -> None:
    header, body = taken_apart(kept(lambda x: Plain(x)).snapshot())
    header["tracks"][0]["store"]["components"][0]["objects"]["class"] = path
    with pytest.raises(
        SnapshotError, match=r"states of the class .*, which is not in the modules of"
    ):
        sw.Operator.restore(put_together(header, bytes(body)))


def test_a_class_of_states_that_has_other_fields_is_refused() -> None:
    header, body = taken_apart(kept(lambda x: Plain(x)).snapshot())
    header["tracks"][0]["store"]["components"][0]["objects"]["names"] = ["x", "other"]
    with pytest.raises(SnapshotError, match=r"the fields of .*Plain were"):
        sw.Operator.restore(put_together(header, bytes(body)))


def test_attributes_of_an_aggregate_are_values_and_no_methods() -> None:
    header, body = taken_apart(kept(lambda x: x).snapshot())
    header["aggs"][0]["attributes"]["combine"] = 5
    with pytest.raises(SnapshotError, match="'combine' is a method of Keep"):
        sw.Operator.restore(put_together(header, bytes(body)))


def test_a_built_in_aggregate_is_checked_by_its_constructor() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.quantile("x", 0.5)], time="t")
    header, body = taken_apart(op.snapshot())
    for name, value in (("q", 1.5), ("q", "x"), ("takes", 5), ("_alias", 5)):
        changed = {**header["aggs"][0]["attributes"], name: value}
        with pytest.raises(SnapshotError):
            sw.Operator.restore(
                put_together(
                    {**header, "aggs": [{**header["aggs"][0], "attributes": changed}]}, bytes(body)
                )
            )
