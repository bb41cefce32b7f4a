"""Random events close windows of every kind: a law that holds of no result shows nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import slicewise as sw
from slicewise.testing import windowed_rows
from slicewise.testing.strategies import KINDS, Row, events
from slicewise.windows import Window


@pytest.mark.parametrize("kind", KINDS)
def test_random_events_close_windows_of_every_kind(kind: str) -> None:
    sizes = []

    @settings(max_examples=60, derandomize=True, database=None)
    @given(KINDS[kind]("w"), events())
    def answered(window: Window, rows: list[Row]) -> None:
        found = windowed_rows(rows, windows=[window], aggs=[sw.agg.count()], time="t", by="k")
        sizes.append(len(found))

    answered()
    assert sum(size > 0 for size in sizes) > len(sizes) / 5
    assert max(sizes) > 0 if kind.startswith("fixed") else max(sizes) > 2
