"""Events of one key in no order: many at once find the slices that few find one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.testing import assert_same_rows

WINDOWS = [sw.tumbling(70), sw.sliding(90, every=40), sw.cumulate(300, every=50)]


def late(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Times of which a fifth come late, with gaps that hold no event, and values."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(-3000, 3000, size))
    times[times > 1000] += 5000
    order = np.argsort(np.arange(size) + 400 * (draw.random(size) < 0.2), kind="stable")
    return times[order], draw.standard_normal(size)


def answers(size: int, lateness: int, windows: list[Any]) -> list[Any]:
    """Rows of an operator that is fed in batches of a size and changes its windows on the way."""
    times, values = late(3, 8000)
    op = sw.Operator(
        windows=windows, aggs=[sw.agg.sum("x"), sw.agg.count()], time="t", lateness=lateness
    )
    found = []
    for begin in range(0, 8000, 2000):
        for at in range(begin, begin + 2000, size):
            op.process({"t": times[at : at + size], "x": values[at : at + size]})
        found += op.advance(int(times[: begin + 2000].max()) - 600)
        if begin == 2000:
            op.remove_window(windows[0].name)
            op.add_window(sw.tumbling(33))
    return found


@pytest.mark.parametrize("lateness", [0, 2000])
@pytest.mark.parametrize(
    "windows",
    [WINDOWS, [*WINDOWS, sw.fixed(-2500, 400)], [sw.tumbling(50), sw.session(2), sw.session(5)]],
)
def test_large_batches_find_the_slices_of_small_ones(lateness: int, windows: list[Any]) -> None:
    one_by_one = answers(2, lateness, windows)
    assert len(one_by_one) > 100
    assert_same_rows(answers(2000, lateness, windows), one_by_one)
