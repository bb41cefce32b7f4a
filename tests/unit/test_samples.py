"""Made-up events: the same for the same seed, and as disordered as asked for."""

from __future__ import annotations

import numpy as np
import pytest

from slicewise.errors import SpanError
from slicewise.samples import football


def test_a_seed_decides_the_match() -> None:
    first, again, other = (football(5_000, seed=seed) for seed in (1, 1, 2))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["t"] != other["t"]).any()
    assert (first["speed"] != other["speed"]).any()


@pytest.mark.parametrize("disorder", [0.0, 0.2, 0.5])
def test_the_share_of_events_that_arrives_late_is_as_asked(disorder: float) -> None:
    times = football(50_000, seed=3, disorder=disorder)["t"]
    behind = np.maximum.accumulate(times) - times
    # An event that is late by less than the distance to the next one is not overtaken.
    assert (behind > 0).mean() == pytest.approx(disorder, abs=0.01)
    assert behind.max() <= 2_000_000


def test_a_match_without_sense_is_refused() -> None:
    with pytest.raises(SpanError, match=r"a disorder from 0 to 1 .*disorder=2"):
        football(10, disorder=2)
