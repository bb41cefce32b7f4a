"""Snapshots that earlier releases wrote go on with the results that they would have had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from tests.support.snapshots import EXPECTED, cases, played

FOLDER = Path(__file__).parents[1] / "data" / "snapshots"
CASES = dict(cases())
WANTED: dict[str, Any] = json.loads((FOLDER / EXPECTED).read_text())


@pytest.mark.parametrize("name", WANTED)
def test_a_snapshot_of_an_earlier_release_goes_on(name: str) -> None:
    blob = (FOLDER / f"{name}.snapshot").read_bytes()
    op = sw.Operator.restore(blob, trusted=CASES[name].trusted)
    assert in_order(name, played(op, CASES[name].then)) == in_order(name, WANTED[name])
    assert not op.late


def in_order(name: str, rows: list[Any]) -> list[str]:
    """Rows without the order of their keys; bounds of the last events at a time are left out.

    Those were row positions once.
    """
    shown = [[*row[:2], *row[4:]] for row in rows] if name.startswith("last-") else rows
    return sorted(map(json.dumps, shown))


def test_there_is_a_snapshot_of_each_family_and_regime() -> None:
    assert CASES.keys() == WANTED.keys()
