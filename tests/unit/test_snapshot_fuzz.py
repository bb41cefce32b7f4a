"""Snapshots whose bytes were changed behind a right checksum are refused, or go on."""

from __future__ import annotations

import os

from tests.support.fuzz import failures

# `SLICEWISE_MUTATIONS=100000` tries more of them, `SLICEWISE_MUTATIONS_FROM` others.
MANY = int(os.environ.get("SLICEWISE_MUTATIONS", "2000"))
FIRST = int(os.environ.get("SLICEWISE_MUTATIONS_FROM", "0"))


def test_no_mutation_of_a_snapshot_crashes_or_hangs_the_process() -> None:
    assert [*failures(FIRST, FIRST + MANY)] == []
