"""The memory of emitted instances does what a dict of them would do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.slicing.emit.log import Changes, EmissionLog
from slicewise.slicing.families.instances import Instances

Identity = tuple[int, int, Any, Any]


class Twin:
    """The slow, obvious one: a dict from identity to [print, revision, retracted, close]."""

    def __init__(self) -> None:
        self.known: dict[Identity, list[Any]] = {}

    def note(self, found: dict[Identity, int]) -> dict[Identity, int]:
        due = {}
        for identity, rows in found.items():
            memory = self.known.get(identity)
            if memory is None:
                self.known[identity] = [rows, 0, False, identity[3]]
            elif memory[0] == rows and not memory[2]:
                continue
            else:
                self.known[identity] = [rows, memory[1] + 1, False, identity[3]]
            due[identity] = self.known[identity][1]
        return due

    def retract(self, keys: list[int], found: dict[Identity, int], floor: Any) -> dict[Any, int]:
        gone = {}
        for identity, memory in self.known.items():
            here = identity[1] in keys and memory[3] > floor and not memory[2]
            if here and identity not in found:
                memory[1:3] = memory[1] + 1, True
                gone[identity] = memory[1]
        return gone


calls = st.lists(
    st.tuples(
        st.sets(st.integers(0, 4), min_size=1),
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(-3, 3), st.integers(1, 4)),
            unique=True,
        ),
        st.integers(1, 3),
        st.integers(-5, 5),
        st.sampled_from(["nothing", "prune", "forget", "load"]),
    ),
    max_size=8,
)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_instances_are_remembered_revised_retracted_and_forgotten(kind: Any) -> None:
    @given(calls)
    def check(script: list[Any]) -> None:
        emitted, twin = EmissionLog(), Twin()
        for keys, drawn, rows, floor, then in script:
            found = {
                (w, k, kind(s / 2 if kind is np.float64 else s).item(), kind(s + n).item()): rows
                for w, k, s, n in drawn
                if k in keys
            }
            arrays = as_arrays(found, kind)
            due, revisions, seen = emitted.diff(*arrays)
            heads = list(found)
            noted = {heads[i]: int(revisions[i]) for i in np.flatnonzero(due)}
            assert noted == twin.note(found)
            floors = np.full(len(keys), floor, kind)
            chosen = np.array(sorted(keys))
            missing = emitted.missing(np.arange(3), chosen, floors, seen)
            gone = emitted.retracted(missing, kind)
            emitted.record(Changes(*arrays, missing))
            ours = {tuple(row[:4]): row[4] for row in zip(*(g.tolist() for g in gone), strict=True)}
            assert ours == twin.retract(sorted(keys), found, floor)
            if then == "prune":
                emitted.prune(dict.fromkeys(range(3), np.full(5, floor, kind)))
                twin.known = {i: m for i, m in twin.known.items() if m[3] > floor}
            elif then == "forget":
                emitted.forget(1)
                twin.known = {i: m for i, m in twin.known.items() if i[0] != 1}
            elif then == "load":
                entries, emitted = emitted.entries, EmissionLog()
                emitted.load(entries)
            assert emitted.size == len(twin.known)

    check()


def as_arrays(found: dict[Identity, int], kind: Any) -> tuple[Instances, np.ndarray]:
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    window, key = (np.array(column, np.int64) for column in columns[:2])
    start, end = (np.array(column, kind) for column in columns[2:])
    none = np.zeros(len(window), np.int64)
    prints = np.zeros((len(window), 3), np.int64)
    prints[:, 0] = list(found.values())
    return Instances(window, key, start, end, none, none, end), prints


def test_many_instances_are_all_found_again() -> None:
    emitted = EmissionLog()
    size = 20_000
    every = np.arange(size)
    instances = Instances(every % 3, every % 97, every, every + 5, every, every, every + 5)
    prints = np.ones((size, 3), np.int64)
    due, _, _ = emitted.diff(instances, prints)
    assert due.all()
    emitted.record(Changes(instances, prints))
    due, _, seen = emitted.diff(instances, prints)
    assert not due.any()
    assert seen.all()
    half = (instances.take(every[::2]), 2 * prints[::2])
    due, revisions, seen = emitted.diff(*half)
    assert due.all()
    assert (revisions == 1).all()
    keys = np.arange(97)
    missing = emitted.missing(np.arange(3), keys, np.zeros(97, np.int64), seen)
    gone = emitted.retracted(missing, np.int64)
    assert sorted(gone[2].tolist()) == every[1::2].tolist()
    emitted.record(Changes(*half, missing))
    assert not len(emitted.missing(np.arange(3), keys, np.zeros(97, np.int64), seen))
