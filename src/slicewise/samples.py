"""Made-up events that look like real ones, for demos, examples and benchmarks.

Seeded, so that every run sees the same events.
"""

from __future__ import annotations

import numpy as np

from slicewise.errors import SpanError

SENSORS = 27
# Sensors of the 2013 DEBS grand challenge report about every 4.8 ms.
PERIOD = 4_800


def football(
    events: int, *, seed: int = 0, disorder: float = 0.2, delay: int = 2_000_000
) -> dict[str, np.ndarray]:
    """Sensors on the players of a football match, in the order of arrival.

    Columns: `t` (microseconds), `sensor`, `speed` (metres per second), `distance` (metres since
    the last report), `kick` (true now and then). Each of the 27 sensors reports about 200 times a
    second and falls silent at times, so there are sessions. A share `disorder` of the events
    arrives late, by up to `delay` microseconds.

    >>> match = football(1000, seed=1)
    >>> len(match["t"]), len(set(match["sensor"].tolist())), bool((np.diff(match["t"]) < 0).any())
    (1000, 27, True)
    """
    if events < 0 or not 0 <= disorder <= 1 or delay < 1:
        raise SpanError(
            "A match has events from 0 on, a disorder from 0 to 1 and a delay of at least 1 "
            f"microsecond; given: events={events}, disorder={disorder}, delay={delay}."
        )
    random = np.random.default_rng(seed)
    reports = 2 * events // SENSORS + 2
    columns = [_sensor(random, sensor, reports) for sensor in range(SENSORS)]
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    names = ("t", "sensor", "speed", "distance", "kick")
    order = np.argsort(joined[0], kind="stable")[:events]
    match = {name: column[order] for name, column in zip(names, joined, strict=True)}
    late = random.random(events) < disorder
    arrival = match["t"] + np.where(late, random.integers(1, delay + 1, events), 0)
    arrived = np.argsort(arrival, kind="stable")
    return {name: column[arrived] for name, column in match.items()}


def _sensor(random: np.random.Generator, sensor: int, reports: int) -> tuple[np.ndarray, ...]:
    """The reports of one sensor: time, sensor, speed, distance, kick."""
    period = PERIOD + int(random.integers(-150, 150))
    # A player stops now and then: about every 40 s, for some seconds.
    silent = np.cumsum(np.where(random.random(reports) < 1.2e-4, 6_000_000, 0))
    times = np.arange(reports) * period + silent + int(random.integers(0, period))
    # Speed drifts: the logarithm is a slow walk around the speed of a jog.
    steps = random.normal(0.0, 0.02, reports)
    walk = np.cumsum(steps) - np.linspace(0.0, 1.0, reports) * steps.sum()
    speed = np.round(np.clip(0.84 * np.exp(walk), 0.03, 9.5), 3)
    distance = np.round(speed * period / 1e6, 6)
    kick = random.random(reports) < 1e-4
    return times.astype(np.int64), np.full(reports, sensor), speed, distance, kick
