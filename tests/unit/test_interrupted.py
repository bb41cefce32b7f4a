"""Calls of an operator that are cut short, or that several threads make at once."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, SpanError, TornError
from slicewise.slicing.ingest.quarantine import Quarantine

SOURCE = str(Path(sw.__file__).parent)
GUARD = str(Path(SOURCE) / "slicing" / "guard.py")
AGGS = [sw.agg.sum("x"), sw.agg.last("x"), sw.agg.median("x")]
POINTS = 12  # at which each script is cut short


class ByTen(sw.UserWindow):
    """An instance for each ten of time in which there are events."""

    def __init__(self) -> None:
        self.turn = -1

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        before, self.turn = self.turn, time // 10
        return (0, 0) if before == self.turn else (1, int(before >= 0))


SCRIPTS: dict[str, dict[str, Any]] = {
    "time": {"windows": [sw.tumbling(10), sw.sliding(30, 5), sw.cumulate(20, 5)]},
    "revised": {"windows": [sw.tumbling(10), sw.session(4)], "lateness": 20},
    "updated": {"windows": [sw.session(4), sw.tumbling(sw.rows(3))], "emit": "on_update"},
    "final": {"windows": [sw.session(4, max_length=9), sw.sliding(9, sw.rows(2))], "emit": "final"},
    "trees": {"windows": [sw.sliding(40, 2)], "store": "eager"},
    "ordered": {"windows": [sw.tumbling(sw.rows(4)), ByTen()], "ordered": True},
    "column": {"windows": [sw.tumbling(sw.units(8, on="km"))]},
}


def batches() -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    made = []
    for turn in range(4):
        times = np.sort(random.integers(20 * turn, 20 * turn + 25, 30))
        made.append(
            {
                "t": np.minimum(times, 20 * turn + 19),
                "k": [f"key{n}" for n in random.integers(0, 3, 30)],
                "x": random.integers(0, 100, 30).astype(float),
                "km": np.arange(30 * turn, 30 * turn + 30),
            }
        )
    return made


Step = Callable[[sw.Operator], Any]


def script(ordered: bool) -> list[Step]:
    """What is done with an operator: batches, watermarks, a window more and one less."""
    steps: list[Step] = []
    for turn, batch in enumerate(batches()):
        if turn == 2 and not ordered:  # late events
            steps.append(lambda op: op.process({**batches()[0], "t": batches()[0]["t"] + 15}))
        steps.append(lambda op, batch=batch: op.process(batch))  # type: ignore[misc]
        if not ordered:
            steps.append(lambda op, turn=turn: op.advance(20 * turn + 15))  # type: ignore[misc]
        if turn == 1:
            steps.append(lambda op: op.add_window(sw.tumbling(5, name="more")))
        if turn == 2:
            steps.append(lambda op: op.remove_window("more"))
            steps.append(lambda op: op.snapshot() and None)
    steps.append(lambda op: op.advance(10**6))
    return steps


@contextmanager
def cut_at(line: int, error: type[BaseException]) -> Iterator[list[int]]:
    """Raise an error before the line of that number is run here; how many lines there were."""
    count = [0]

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            count[0] += 1
            if count[0] == line:
                raise error("cut short")
        return local

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return local if name.startswith(SOURCE) and name != GUARD else None

    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(None)


def operator(name: str) -> sw.Operator:
    return sw.Operator(**{"aggs": AGGS, "time": "t", "by": "k", **SCRIPTS[name]})


def rows_of(found: list[Any]) -> list[str]:
    """What the steps gave, whichever of them gave it."""
    return sorted(
        repr(row) for rows in found for row in (rows if isinstance(rows, list) else [rows])
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_call_that_is_cut_short_leaves_the_right_answer_or_says_that_it_is_torn(
    name: str, error: type[BaseException]
) -> None:
    steps = script(SCRIPTS[name].get("ordered", False))
    wanted = [step(op) for op in [operator(name)] for step in steps]
    op = operator(name)
    with cut_at(-1, error) as lines:
        assert [step(op) for step in steps] == wanted
    torn = 0
    for line in np.linspace(1, lines[0], POINTS).astype(int).tolist():
        op, found, left = operator(name), [], line
        for step in steps:
            before = op.stats.events
            try:
                with cut_at(left, error) as count:
                    found.append(step(op))
                left -= count[0]
            except error:
                left = -1
                try:
                    # What was not taken is given again.
                    taken = op.stats.events > before
                    found.append(op.advance(op.watermark) if taken else step(op))
                except TornError:
                    torn += 1
                    break
        else:
            given = [rows for rows in found if rows]
            right = rows_of(given) == rows_of([rows for rows in wanted if rows])
            # An error where a window of one's own runs makes its event bad.
            assert right or (op.stats.bad == 1 and op.late), line
            continue
        assert_torn(op)
    assert 0 < torn < POINTS


def assert_torn(op: sw.Operator) -> None:
    """Every call says the same."""
    for call in (
        lambda: op.process({"t": [1], "k": ["a"], "x": [1.0], "km": [1]}),
        lambda: op.advance(10**6),
        lambda: op.advance_arrow(10**6),
        lambda: op.add_window(sw.tumbling(7)),
        lambda: op.remove_window("tumbling_10"),
        op.snapshot,
        op.take_late,
        op.explain,
        lambda: op.late,
        lambda: op.stats,
    ):
        with pytest.raises(TornError, match=r"cut short.*`sw.Operator.restore\(blob\)`"):
            call()


class Curious(sw.Aggregate):
    """An aggregate that calls the operator that it belongs to."""

    commutative = True
    compile = False
    op: sw.Operator

    def identity(self) -> float:
        return 0.0

    def lift(self, value: float) -> float:
        self.op.advance(5)
        return value

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


def test_a_call_from_inside_another_one_is_refused() -> None:
    aggregate = Curious("x")
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[aggregate], time="t")
    aggregate.op = op
    with pytest.raises(CapabilityError, match=r"`advance` of an operator was called from inside"):
        op.process({"t": [1], "x": [1.0]})
    assert (op.stats.bad, op.late) == (1, [{"t": 1, "x": 1.0}])
    assert [result.values for result in op.advance(10)] == [{"x_curious": 0.0}]


def test_threads_that_share_an_operator_wait_for_each_other() -> None:
    windows = [sw.tumbling(10), sw.session(3), sw.sliding(40, 4)]
    op = sw.Operator(windows=windows, aggs=[sw.agg.sum("x")], time="t", by="k", lateness=10**6)
    found: list[Any] = []
    errors: list[BaseException] = []
    together = threading.Barrier(3)

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        together.wait()
        try:
            for turn in range(40):
                times = random.integers(0, 10 * turn + 10, 50)
                keys = random.integers(0, 40 * turn + 40, 50)
                if number:
                    op.process({"t": times, "k": keys, "x": np.ones(50, np.int64)})
                else:
                    found.append(op.advance_arrow(10 * turn))
                assert op.stats.events <= 4000
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert not errors
    found.append(op.advance_arrow(10**7))
    # Before the first event types are not known: a table without rows has none.
    current = sw.fold(pa.concat_tables(table for table in found if table.num_rows))
    totals = current.group_by("window").aggregate([("x_sum", "sum")]).to_pydict()
    assert dict(zip(totals["window"], totals["x_sum_sum"], strict=True)) == {
        "tumbling_10": 4000,
        "session_3": 4000,
        "sliding_40_4": 40000,
    }


def test_the_newest_refused_events_are_kept_and_the_others_counted() -> None:
    op = sw.Operator(windows=[sw.tumbling(10)], aggs=[sw.agg.sum("x")], time="t", max_late=5)
    op.process({"t": [50], "x": [0]})
    op.advance(50)
    for number in range(1, 8):
        op.process({"t": [number], "x": [number]})
    assert [row["x"] for row in op.late] == [3, 4, 5, 6, 7]
    assert (op.stats.late_dropped, op.stats.late_forgotten) == (7, 2)
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": list(range(20)), "x": list(range(20))})
    assert [row["x"] for row in again.late] == [15, 16, 17, 18, 19]
    assert (again.stats.late_dropped, again.stats.late_forgotten) == (27, 22)
    taken = again.take_late()
    assert taken is not None
    assert taken["x"].to_pylist() == [15, 16, 17, 18, 19]
    again.process({"t": [1], "x": [1]})
    assert (len(again.late), again.stats.late_forgotten) == (1, 22)


@pytest.mark.parametrize(("most", "kept"), [(None, 2000), (0, 0), (1500, 1500)])
def test_refused_events_are_kept_in_few_tables(most: int | None, kept: int) -> None:
    quarantine = Quarantine(most)
    for number in range(2000):
        quarantine.add(pa.table({"x": [number]}))
    assert (len(quarantine), quarantine.forgotten) == (kept, 2000 - kept)
    assert [row["x"] for row in quarantine.rows()] == list(range(2000 - kept, 2000))
    assert len(quarantine.tables) < 12


@pytest.mark.parametrize("given", [-1, 2.5, True, "all"])
def test_max_late_is_a_number_of_events(given: Any) -> None:
    with pytest.raises(SpanError, match="`max_late` is how many refused events are kept"):
        sw.Operator(windows=[sw.tumbling(1)], aggs=AGGS, time="t", max_late=given)


@pytest.mark.parametrize("verb", ["windowed", "rolling", "advance"])
def test_ctrl_c_stops_a_long_call_within_a_second(verb: str) -> None:
    """Compiled code does not hear a signal, so it has to be short. Seconds are the processor's."""
    size = 1_000_000
    table = pa.table({"t": np.arange(size) // 2, "x": np.ones(size)})
    query: Any = {"time": "t", "aggs": [sw.agg.max("x")]}

    def work(some: pa.Table) -> None:
        if verb == "windowed":
            sw.windowed(some, windows=sw.sliding(500, every=1), **query)
        elif verb == "rolling":
            sw.rolling(some, over=[500, sw.rows(9)], **query)
        else:
            op = sw.Operator(windows=[sw.tumbling(1)], **query)
            op.process(some)
            op.advance(10**9)

    def for_long() -> None:
        for _ in range(100):
            work(table)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    work(table.slice(0, 100))  # nothing is compiled later
    before = signal.signal(signal.SIGPROF, stop)
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            for_long()
        assert time.process_time() - begun < 1.05
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
