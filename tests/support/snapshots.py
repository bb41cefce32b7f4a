"""Operators of every family of windows and every regime, each in the middle of its work.

`python -m tests.support.snapshots FOLDER` writes a snapshot of each that the folder does not have
yet, and what comes after it. Files that are there stay: they were written by the release that they
stand for, and every later one has to read them.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import slicewise as sw
from slicewise.errors import SlicewiseError
from slicewise.tuning import tuned

Step = tuple[str, Any]
EXPECTED = "expected.json"


class Turns(sw.UserWindow):
    """Every third event ends an instance and begins the next one."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        begins = int(self.seen % 3 == 0)
        ends = int(begins and self.seen > 0)
        self.seen += 1
        return begins, ends


class Weighted(sw.Aggregate):
    """Compiled, with a parameter."""

    commutative = True

    def __init__(self, column: str, weight: int) -> None:
        super().__init__(column)
        self.weight = weight

    def identity(self) -> int:
        return 0

    def lift(self, x: int) -> int:
        return x * self.weight

    def combine(self, older: int, newer: int) -> int:
        return older + newer

    def lower(self, state: int) -> int:
        return state


class Trail(sw.Aggregate):
    """Interpreted, with states of several plain types."""

    compile = False

    def identity(self) -> Any:
        return ((), {}, None)

    def lift(self, x: Any) -> Any:
        return ((x,), {str(x): 1}, dt.date(2024, 1, 1))

    def combine(self, older: Any, newer: Any) -> Any:
        counts = dict(older[1])
        for name, count in newer[1].items():
            counts[name] = counts.get(name, 0) + count
        return (older[0] + newer[0], counts, newer[2] or older[2])

    def lower(self, state: Any) -> Any:
        return f"{state[0]} {sorted(state[1].items())} {state[2]}"


@dataclass(frozen=True)
class Case:
    """An operator, what it has seen, and what comes then."""

    made: dict[str, Any]
    before: list[Step]
    then: list[Step] = field(default_factory=list)
    trusted: bool = False  # its snapshot may hold what only pickle says
    thresholds: dict[str, Any] = field(default_factory=dict)

    def operator(self) -> sw.Operator:
        """The operator in the middle of its work."""
        op = sw.Operator(**self.made)
        with tuned(**self.thresholds):
            played(op, self.before)
        return op


def played(op: sw.Operator, steps: list[Step]) -> list[Any]:
    """The results of steps, as JSON has them."""
    found: list[Any] = []
    for verb, given in steps:
        found += getattr(op, verb)(given) or []
    rows = [
        [r.key, r.window, r.start, r.end, r.values, r.revision, r.retracted]
        for r in found
        if not (r.retracted and r.values.clear())
    ]
    said: list[Any] = json.loads(json.dumps(rows, default=str))
    return said


# Times never fall by more than 3, so none is late with a lateness of 20 and watermarks 10 behind.
TIMES = [0, 2, 1, 5, 4, 7, 7, 9, 12, 10, 13, 16, 21, 20, 22, 25, 24, 31, 33, 32, 40, 41, 44, 43]


def events(begin: int, end: int, *, ordered: bool = False) -> dict[str, list[Any]]:
    """The events of these numbers."""
    times = sorted(TIMES) if ordered else TIMES
    numbers = range(begin, end)
    return {
        "t": [times[n] for n in numbers],
        "x": [None if n % 7 == 3 else (n * 5) % 11 for n in numbers],
        "y": [n * 0.25 - 2 for n in numbers],
        "s": ["abc"[n % 3] * (n % 4) for n in numbers],
        "k": ["a" if n % 5 else None for n in numbers],
        "flag": [n % 4 == 1 for n in numbers],
        "km": [times[n] * 2 for n in numbers],
        "miles": [times[n] * 0.75 for n in numbers],
    }


FAMILIES: dict[str, Any] = {
    "time": lambda: [
        sw.tumbling(10),
        sw.sliding(12, 5, origin=1),
        sw.cumulate(12, 5),
        sw.fixed(5, 30),
    ],
    "session": lambda: [sw.session(2), sw.session(4)],
    "bounded": lambda: [sw.session(3, max_length=8)],
    "rows": lambda: [sw.sliding(sw.rows(4), sw.rows(3)), sw.tumbling(sw.rows(2))],
    "opened": lambda: [sw.sliding(10, sw.rows(3))],
    "last": lambda: [sw.sliding(sw.rows(3), 5)],
    "units": lambda: [sw.tumbling(sw.units(10, on="km")), sw.sliding(*[sw.units(9, on="km")] * 2)],
    "fractions": lambda: [sw.tumbling(sw.units(2.5, on="miles"))],
    "flagged": lambda: [sw.punctuated("flag"), sw.threshold("flag")],
    "delta": lambda: [sw.delta("x", by=4), sw.delta("y", by=1.5)],
    "user": lambda: [Turns()],
    "mixed": lambda: [
        sw.tumbling(10),
        sw.session(3),
        sw.tumbling(sw.rows(3)),
        sw.threshold("flag"),
    ],
}

REGIMES: dict[str, dict[str, Any]] = {
    "on_close": {},
    "revised": {"lateness": 20},
    "final": {"lateness": 20, "emit": "final"},
    "on_update": {"lateness": 20, "emit": "on_update"},
    "ordered": {"ordered": True},
}

AGGS: list[Any] = [sw.agg.sum("x"), sw.agg.mean("y"), sw.agg.count()]


def steps(*, behind: int, ordered: bool = False) -> dict[str, Any]:
    """Events with watermarks so far behind them, in two parts."""

    def part(begin: int, end: int) -> list[Step]:
        given = [("process", events(n, n + 4, ordered=ordered)) for n in range(begin, end, 4)]
        if ordered:
            return [*given]
        made: list[Step] = []
        for step in given:
            made += [step, ("advance", max(step[1]["t"]) - behind)]
        return made

    end: list[Step] = [] if ordered else [("advance", math.inf)]
    return {"before": part(0, 16), "then": [*part(16, 24), *end]}


def cases() -> Iterator[tuple[str, Case]]:
    """Every case with its name."""
    for family, windows in FAMILIES.items():
        for regime, settings in REGIMES.items():
            made = {"windows": windows(), "aggs": AGGS, "time": "t", "by": "k", **settings}
            try:
                sw.Operator(**made)
            except SlicewiseError:
                continue  # this family has no such regime
            behind = 3 if "lateness" not in settings else 1
            done = steps(behind=behind, ordered=regime == "ordered")
            yield f"{family}-{regime}", Case(made, **done, trusted=family == "user")
    yield from _special()


def _special() -> Iterator[tuple[str, Case]]:
    plain = steps(behind=3)
    made: dict[str, Any] = {"windows": [sw.sliding(10, 5)], "aggs": AGGS, "time": "t", "by": "k"}
    yield "eager", Case({**made, "store": "eager", "lateness": 20}, **steps(behind=1))
    yield "merger", Case({**made, "merger": "two_stacks"}, **plain)
    yield "pairs", Case({**made, "partials": "pairs"}, **plain)
    yield "no_key", Case({**made, "by": None}, **plain)
    yield "number_key", Case({**made, "by": "x"}, **plain)
    yield "fraction_key", Case({**made, "by": "y"}, **plain)
    yield "two_keys", Case({**made, "by": ["k", "flag"]}, **plain)
    yield "waiting", Case({**made, "windows": FAMILIES["mixed"](), "by": None}, **steps(behind=9))
    for regime in ("on_close", "final", "ordered"):
        # Slices are kept by time, though there are few keys.
        how = {"windows": FAMILIES["time"](), "by": ["k", "flag"], **REGIMES[regime]}
        done = steps(behind=3 if regime == "on_close" else 1, ordered=regime == "ordered")
        few = {"keys_by_time": 1, "events_by_time": 0, "moved_per_event": 10**9}
        yield f"bands-{regime}", Case({**made, **how}, **done, thresholds=few)
    yield "nothing_yet", Case(made, [], [*plain["before"], *plain["then"]])
    compiled = ["product", "range", "var", "std", "skew", "min", "max", "geomean", "min_count"]
    aggs = [getattr(sw.agg, name)("y") for name in compiled]
    aggs += [sw.agg.cov("x", "y"), sw.agg.corr("x", "y"), sw.agg.weighted_mean("y", "x")]
    yield "numbers", Case({**made, "aggs": aggs}, **plain)
    aggs = [getattr(sw.agg, name)("s") for name in ("first", "last", "collect", "mode", "min")]
    aggs += [sw.agg.collect_distinct("x"), sw.agg.median("x"), sw.agg.quantile("y", 0.9)]
    aggs += [sw.agg.top_k("x", 2), sw.agg.argmin("y", "s"), sw.agg.concat("s", sep=",")]
    aggs += [sw.agg.count_distinct("s"), sw.agg.first_n("s", 2), sw.agg.last_n("x", 2)]
    yield "objects", Case({**made, "aggs": aggs}, **plain)
    yield "own_aggs", Case({**made, "aggs": [Weighted("x", 3), Trail("s")]}, **plain)
    yield "typed", Case({**made, "aggs": [sw.agg.sum("d"), sw.agg.max("w")]}, **_typed())
    windows = [sw.tumbling("10s"), sw.session("3s")]
    yield "timestamps", Case({**made, "windows": windows, "aggs": AGGS}, **_stamped())


def _stamped() -> dict[str, Any]:
    """The same events at seconds of a day."""

    def at(seconds: float) -> Any:
        return (
            seconds
            if math.isinf(seconds)
            else dt.datetime(2024, 1, 1) + seconds * dt.timedelta(0, 1)
        )

    def turned(step: Step) -> Step:
        verb, given = step
        if verb == "advance":
            return verb, at(given)
        return verb, {**given, "t": [at(t) for t in given["t"]]}

    return {name: [*map(turned, part)] for name, part in steps(behind=3).items()}


def _typed() -> dict[str, Any]:
    """The same events with columns of other types."""

    def turned(step: Step) -> Step:
        verb, given = step
        if verb == "advance":
            return step
        more = {
            "d": pa.array(given["x"], pa.decimal128(10, 2)),
            "w": pa.array([t * 1000 for t in given["t"]], pa.timestamp("ms", "Europe/Berlin")),
        }
        return verb, {**given, **more}

    return {name: [*map(turned, part)] for name, part in steps(behind=3).items()}


def write(folder: Path) -> None:
    """Write the snapshots that are not there yet, and what comes after them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / EXPECTED
    expected = json.loads(path.read_text()) if path.exists() else {}
    for name, case in cases():
        if name not in expected:
            op = case.operator()
            (folder / f"{name}.snapshot").write_bytes(op.snapshot())
            expected[name] = played(op, case.then)
            assert not op.late, name  # which events are late is a matter of rules that may change
    lines = ",\n".join(
        f"{json.dumps(n)}:{json.dumps(e, separators=(',', ':'))}" for n, e in expected.items()
    )
    path.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    # By its name, because classes are found again by the module that they are in.
    from tests.support import snapshots

    snapshots.write(Path(sys.argv[1]))
