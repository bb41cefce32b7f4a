"""Snapshots by example: what they hold, what they refuse, and how large they are."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import math
import pickle
import struct
import subprocess
import sys
import zlib
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CapabilityError, SnapshotError
from slicewise.slicing.state.blob import MAGIC, BlobReader
from slicewise.slicing.state.snapshot import SETTINGS
from slicewise.testing.oracle import alike
from tests.support.parts import put_together, taken_apart

SUM = sw.agg.sum("x")
MIXED = {
    "x": [3, 1, None, 2, 2, 7],
    "y": [1.5, None, 2.5, 0.5, math.nan, 1.0],
    "s": ["b", "a", None, "c", "a", "b"],
    "d": pa.array([1, 2, None, 4, 5, 6], pa.decimal128(10, 2)),
    "when": [dt.datetime(2024, 1, d + 1) for d in range(6)],
}


def operator(**changes: Any) -> sw.Operator:
    made: Any = {"windows": [sw.tumbling(10)], "aggs": [SUM], "time": "t"} | changes
    return sw.Operator(**made)


def header_of(blob: bytes) -> dict[str, Any]:
    return BlobReader(blob).header


def values_of(op: sw.Operator) -> list[dict[str, Any]]:
    return [result.values for result in op.advance(math.inf)]


COLUMNS = [("x", "y"), ("y", "x"), ("d", "d"), ("s", "x"), ("when", "s")]


def each_aggregate() -> list[Any]:
    """Every registered aggregate over columns of every type that it takes."""
    found = []
    for aggregate in sw.agg.REGISTRY:
        for columns in COLUMNS:
            other = aggregate.alias("found")
            other.columns = columns[: len(aggregate.columns)]
            taken = other.takes * 2
            fits = all(
                take in ("any", "ordered") or (take == "strings") == (column == "s")
                for take, column in zip(taken, other.columns, strict=False)
            ) and not (set(taken[: len(other.columns)]) == {"numbers"} and "when" in columns[:1])
            if fits and (other.columns or columns == COLUMNS[0]):
                found.append(other)
    return found


@pytest.mark.parametrize("aggregate", each_aggregate(), ids=repr)
def test_each_aggregate_goes_on_after_a_snapshot_and_none_is_pickled(aggregate: Any) -> None:
    rows = pa.table({"t": list(range(6)), **MIXED})
    op, steady = operator(aggs=[aggregate]), operator(aggs=[aggregate])
    for begin in (0, 3):
        op.process(rows.slice(begin, 3))
        steady.process(rows.slice(begin, 3))
        blob = op.snapshot()
        assert header_of(blob)["pickled"] == []
        op = sw.Operator.restore(blob)
    assert op.aggs == [aggregate]
    ours, theirs = values_of(op), values_of(steady)
    assert alike(ours, theirs)
    assert [type(row["found"]) for row in ours] == [type(row["found"]) for row in theirs]


def test_a_sketch_goes_on_with_its_nans_and_one_of_an_older_release_with_none() -> None:
    aggregate = sw.agg.approx_quantile("x", 0.9)
    op = operator(windows=[sw.tumbling(10_000)], aggs=[aggregate])
    op.process({"t": list(range(2000)), "x": [*map(float, range(1900)), *[math.nan] * 100]})
    blob = op.snapshot()
    assert header_of(blob)["pickled"] == []
    again = sw.Operator.restore(blob)
    again.process({"t": list(range(2000, 2050)), "x": [math.nan] * 50})
    (row,) = values_of(again)
    assert row["x_approx_quantile"] == pytest.approx(0.9 * 2050, abs=0.03 * 2050)
    sketch, nans = reduce(aggregate.combine, map(aggregate.lift, [*range(1900), math.nan]))
    assert nans == 1
    assert aggregate.combine(sketch, (math.nan,))[1] == 1
    assert aggregate.lower(sketch) == pytest.approx(0.9 * 1900, abs=0.03 * 1900)


def test_an_operator_that_has_seen_nothing_is_restored() -> None:
    op = operator(by=["k", "j"], lateness=5, emit="on_update")
    again = sw.Operator.restore(op.snapshot())
    assert (again.by, again.lateness, again.emit) == (("k", "j"), 5, "on_update")
    again.process({"t": [1], "x": [2], "k": [1], "j": [None]})
    (result,) = again.advance(math.inf)
    assert (result.key, result.values) == ((1, None), {"x_sum": 2})


def test_only_bad_times_are_restored_too() -> None:
    op = operator()
    op.process({"t": [None], "x": [1]})
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": [3], "x": [2]})
    assert values_of(again) == [{"x_sum": 2}]
    assert again.stats.bad == 1
    assert len(again.late) == 1


def test_every_argument_of_an_operator_is_in_its_snapshot() -> None:
    known = {*SETTINGS, "windows", "aggs", "by", "clock", "lateness"}
    assert set(inspect.signature(sw.Operator).parameters) == known


def test_what_a_restored_operator_knows_has_the_same_names() -> None:
    op = operator(windows=[sw.tumbling(5), sw.session(3), sw.punctuated("flag")], by="k")
    op.process({"t": [1, 2], "x": [1, 2], "k": ["a", "b"], "flag": [True, False]})
    op.advance(3)
    again = sw.Operator.restore(op.snapshot())
    assert vars(op).keys() == vars(again).keys()
    for mine, other in zip(
        op.parts.slices.groups.values(), again.parts.slices.groups.values(), strict=True
    ):
        assert vars(mine).keys() == vars(other).keys()
        assert vars(mine.runs).keys() == vars(other.runs).keys()
        assert vars(mine.store).keys() == vars(other.store).keys()


def test_the_header_describes_the_operator() -> None:
    header = header_of(operator(windows=[sw.session("5s")], by="k", lateness="1m").snapshot())
    assert header["windows"][0]["window"] == {
        "kind": "Session",
        "name": "session_5s",
        "gap": 5_000_000,
        "max_length": None,
        "unit": "us",
    }
    assert header["aggs"][0]["name"] == "sum"
    assert (header["by"], header["time"], header["lateness"]) == ("k", "t", 60_000_000)


@pytest.mark.parametrize(
    "key",
    [None, 5, "a", 2.5, math.nan, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), True, b"b"],
    ids=repr,
)
def test_keys_of_any_type_stay_the_same_keys(key: Any) -> None:
    op = operator(by="k")
    kind = pa.array([key]).type
    op.process({"t": [1, 2], "x": [1, 2], "k": pa.array([key, None], kind)})
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": [3], "x": [4], "k": pa.array([key], kind)})
    assert sorted(row["x_sum"] for row in values_of(again)) == ([7] if key is None else [2, 5])


def test_keys_of_which_nothing_is_kept_are_not_written() -> None:
    op = operator(by="k")
    op.process({"t": np.arange(10_000), "x": np.ones(10_000), "k": np.arange(10_000)})
    full = len(op.snapshot())
    op.advance(9_990)
    assert len(op.snapshot()) < full / 20
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": [9_995, 9_996], "x": [1, 1], "k": [3, 9_995]})
    found = {result.key: result.values["x_sum"] for result in again.advance(math.inf)}
    assert found == {3: 1} | dict.fromkeys(range(9_990, 10_000), 1) | {9_995: 2}


def test_positions_of_rows_count_on_for_keys_without_rows() -> None:
    op = operator(windows=[sw.tumbling(sw.rows(2))], by="k")
    op.process({"t": [1, 2], "x": [1, 2], "k": ["a", "a"]})
    op.advance(5)
    again = sw.Operator.restore(op.snapshot())
    again.process({"t": [6, 7], "x": [4, 8], "k": ["a", "a"]})
    assert [(r.start, r.end, r.values["x_sum"]) for r in again.advance(9)] == [(2, 4, 12)]


def test_the_size_follows_what_is_kept() -> None:
    op = operator(windows=[sw.sliding(100, 10)])
    sizes = []
    for begin in range(0, 10_000, 1_000):
        op.process({"t": np.arange(begin, begin + 1_000), "x": np.ones(1_000)})
        op.advance(begin + 1_000)
        sizes.append(len(op.snapshot()))
    assert max(sizes) < 1.2 * min(sizes)
    assert max(sizes) < 3_000


def test_a_slice_costs_a_few_bytes() -> None:
    keys = 20_000
    op = operator(windows=[sw.tumbling(10)], aggs=[SUM, sw.agg.count(), sw.agg.mean("x")], by="k")
    op.process(
        {
            "t": np.tile([3, 13, 23], keys),
            "x": np.ones(3 * keys),
            "k": np.repeat(np.arange(keys), 3),
        }
    )
    assert len(op.snapshot()) < 20 * 3 * keys


@pytest.mark.parametrize("wrong", [b"", b"short", b"x" * 100, MAGIC, MAGIC[:7] + b"x" * 90])
def test_what_is_no_snapshot_is_refused(wrong: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"begins with b'SLICEWIS'.*as they are"):
        sw.Operator.restore(wrong)


def test_something_else_than_bytes_is_refused() -> None:
    with pytest.raises(SnapshotError, match=r"A snapshot is bytes.*given: str"):
        sw.Operator.restore("text")  # type: ignore[arg-type]  # that is the point


def test_a_newer_version_is_refused() -> None:
    blob = bytearray(operator().snapshot())
    blob[8:12] = struct.pack("<I", 9)
    with pytest.raises(
        SnapshotError, match="version 9; this release of Slicewise reads versions up"
    ):
        sw.Operator.restore(bytes(blob))


def filled() -> sw.Operator:
    op = operator(by="k", windows=[sw.tumbling(10), sw.session(3)])
    op.process({"t": [1, 2, 13], "x": [1, 2, 3], "k": ["a", "b", "a"]})
    return op


def test_a_truncated_snapshot_is_refused_wherever_it_ends() -> None:
    blob = filled().snapshot()
    for size in range(len(blob)):
        with pytest.raises(SnapshotError, match=r"damaged|begins with"):
            sw.Operator.restore(blob[:size])
    with pytest.raises(SnapshotError, match=f"should have {len(blob)} bytes and has"):
        sw.Operator.restore(blob + b"more")


def test_a_flipped_bit_is_found_wherever_it_is() -> None:
    blob = filled().snapshot()
    for place in range(len(blob)):
        broken = bytearray(blob)
        broken[place] ^= 1 << (place % 8)
        with pytest.raises(SnapshotError):
            sw.Operator.restore(bytes(broken))


def test_bytes_of_any_kind_are_read() -> None:
    blob = filled().snapshot()
    for same in (bytearray(blob), memoryview(blob)):
        assert len(values_of(sw.Operator.restore(same))) == 6  # type: ignore[arg-type]  # as good


def test_a_lambda_must_be_given_again() -> None:
    op = operator(windows=[sw.threshold(lambda event: event["x"] > 5), sw.tumbling(10)])
    op.process({"t": [1], "x": [7]})
    blob = op.snapshot()
    with pytest.raises(SnapshotError, match=r"'threshold' of the snapshot.*lambda.*windows=\["):
        sw.Operator.restore(blob)
    windows = [sw.tumbling(10), sw.threshold(lambda event: event["x"] > 5)]
    again = sw.Operator.restore(blob, windows=windows)
    again.process({"t": [2], "x": [1]})
    assert [(r.window, r.values["x_sum"]) for r in again.advance(math.inf)] == [
        ("threshold", 7),
        ("tumbling_10", 8),
    ]


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ([sw.tumbling(10)], "has 'session_3' among its windows; given: 'tumbling_10'"),
        ([sw.session(3), sw.tumbling(10), sw.tumbling(7)], "no 'tumbling_7' among its windows"),
        (
            [sw.session(3), sw.tumbling(20, name="tumbling_10")],
            "'tumbling_10' among the given windows is not.*length was 10 and is 20; every was 10",
        ),
        (
            [sw.session(3), sw.session(10, name="tumbling_10")],
            "kind was 'Periodic' and is 'Session'",
        ),
    ],
)
def test_other_windows_than_before_are_refused(windows: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        sw.Operator.restore(filled().snapshot(), windows=windows)


def test_other_aggregates_than_before_are_refused() -> None:
    blob = operator(aggs=[sw.agg.quantile("x", 0.9)]).snapshot()
    sw.Operator.restore(blob, aggs=[sw.agg.quantile("x", 0.9)])
    with pytest.raises(SnapshotError, match="'x_quantile' among the given aggs is not"):
        sw.Operator.restore(blob, aggs=[sw.agg.quantile("x", 0.5)])
    with pytest.raises(SnapshotError, match="has 'x_quantile' among its aggs; given: 'x_sum'"):
        sw.Operator.restore(blob, aggs=[SUM])


class Weighted(sw.Aggregate):
    """Compiled, with a parameter."""

    commutative = True

    def __init__(self, column: str, weight: float) -> None:
        super().__init__(column)
        self.weight = weight

    def identity(self) -> float:
        return 0.0

    def lift(self, x: float) -> float:
        return x * self.weight

    def combine(self, older: float, newer: float) -> float:
        return older + newer

    def lower(self, state: float) -> float:
        return state


class Pair(tuple[Any, Any]):
    """A state of the user's own type."""

    __slots__ = ()


class Ends(sw.Aggregate):
    """Interpreted, with states that only pickle can say."""

    compile = False

    def identity(self) -> Any:
        return None

    def lift(self, x: Any) -> Any:
        return Pair((x, x))

    def combine(self, older: Any, newer: Any) -> Any:
        return Pair((older[0], newer[1])) if older and newer else older or newer

    def lower(self, state: Any) -> Any:
        return None if state is None else list(state)


def test_ones_own_aggregates_are_found_by_their_class() -> None:
    op = operator(aggs=[Weighted("x", 0.5)])
    op.process({"t": [1], "x": [4.0]})
    blob = op.snapshot()
    assert header_of(blob)["aggs"][0]["class"] == f"{__name__}:Weighted"
    again = sw.Operator.restore(blob)
    again.process({"t": [2], "x": [8.0]})
    assert values_of(again) == [{"x_weighted": 6.0}]


def test_states_of_ones_own_types_are_pickled_and_the_header_says_so() -> None:
    op = operator(aggs=[Ends("x")])
    op.process({"t": [1], "x": [4]})
    op.advance(2)
    blob = op.snapshot()
    assert header_of(blob)["pickled"] == [f"{__name__}.Pair"]
    again = sw.Operator.restore(blob, trusted=True)
    again.process({"t": [2], "x": [8]})
    assert values_of(again) == [{"x_ends": [4, 8]}]


def test_an_aggregate_defined_in_a_function_must_be_given_again() -> None:
    class Local(Weighted):
        pass

    op = operator(aggs=[Local("x", 2.0)])
    op.process({"t": [1], "x": [4.0]})
    blob = op.snapshot()
    with pytest.raises(SnapshotError, match=r"aggregate 'x_local'.*inside a function.*aggs=\["):
        sw.Operator.restore(blob)
    assert values_of(sw.Operator.restore(blob, aggs=[Local("x", 2.0)])) == [{"x_local": 8.0}]


def test_an_aggregate_whose_states_have_changed_is_refused() -> None:
    op = operator(aggs=[SUM])
    op.process({"t": [1], "x": [4]})
    blob = op.snapshot()
    broken = changed_header(blob, lambda h: h["tracks"][0]["store"]["components"].pop())
    with pytest.raises(SnapshotError, match="Their code has changed since"):
        sw.Operator.restore(broken)


def changed_header(blob: bytes, change: Any) -> bytes:
    """The same snapshot with another header, and the checksum of that."""
    header, body, unpacked = struct.unpack_from("<QQQ", blob, 16)
    said = json.loads(blob[40 : 40 + header])
    change(said)
    text = json.dumps(said).encode()
    rest = struct.pack("<QQQ", len(text), body, unpacked) + text + blob[40 + header :]
    return blob[:12] + struct.pack("<I", zlib.crc32(rest)) + rest


class Counting(sw.UserWindow):
    """Every third event begins an instance and ends the one before."""

    def __init__(self, every: int = 3) -> None:
        self.every = every
        self.seen = 0
        self.history: list[int] = []

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        begins = int(self.seen % self.every == 0)
        ends = int(begins and self.seen > 0)
        self.seen += 1
        self.history.append(time)
        return begins, ends


def test_ones_own_windows_go_on_where_each_key_stopped() -> None:
    op, steady = (operator(windows=[Counting()], by="k") for _ in range(2))
    for t in range(0, 20, 2):
        batch = {"t": [t, t + 1], "x": [1, 10], "k": ["a", "b"]}
        op.process(batch)
        steady.process(batch)
        op = sw.Operator.restore(op.snapshot())
        assert op.advance(t) == steady.advance(t)
    assert header_of(op.snapshot())["pickled"] == []
    assert op.windows[0].seen == 0  # type: ignore[attr-defined]  # it is a `Counting`


class Once(sw.UserWindow):
    """One instance begins with the first event; what is not needed any more is deleted."""

    def __init__(self) -> None:
        self.waiting = True

    def on_event(self, time: int, event: Any) -> tuple[int, int]:
        if not hasattr(self, "waiting"):
            return 0, 0
        del self.waiting
        return 1, 0


@pytest.mark.parametrize(
    ("window", "refused"),
    [(Counting(), "lacks its {'history'}"), (Once(), "")],
    ids=["damaged", "deleted"],
)
def test_a_copy_of_a_window_lacks_only_what_it_has_deleted(
    window: sw.UserWindow, refused: str
) -> None:
    op = operator(windows=[window])
    op.process({"t": [1], "x": [1]})
    op.advance(5)
    sw.Operator.restore(op.snapshot()).process({"t": [7], "x": [1]})
    header, body = taken_apart(op.snapshot())
    (said,) = header["tracks"][0]["users"].values()
    said["rows"] = json.loads(json.dumps(said["rows"]).replace('"history"', '"story"'))
    damaged = put_together(header, bytes(body))
    if refused:
        with pytest.raises(SnapshotError, match=refused):
            sw.Operator.restore(damaged)
    else:
        sw.Operator.restore(damaged).advance(8)


def test_a_window_of_ones_own_that_cannot_be_pickled_is_named() -> None:
    class Holding(Counting):
        def on_event(self, time: int, event: Any) -> tuple[int, int]:
            self.lock = lambda: None
            return super().on_event(time, event)

    op = operator(windows=[Holding()])
    op.process({"t": [1], "x": [1]})
    op.advance(5)
    with pytest.raises(SnapshotError, match=r"'holding' has on `self`.*cannot be pickled"):
        op.snapshot()


def test_a_clock_must_be_given_again() -> None:
    now = iter(range(100))
    op = operator(time=None, clock=lambda: next(now))
    op.process({"x": [1]})
    blob = op.snapshot()
    with pytest.raises(SnapshotError, match="clock of its own"):
        sw.Operator.restore(blob)
    again = sw.Operator.restore(blob, clock=lambda: 5)
    again.process({"x": [2]})
    assert values_of(again) == [{"x_sum": 3}]
    sw.Operator.restore(operator(time=None).snapshot())


def test_windows_over_columns_cannot_be_added_in_the_middle() -> None:
    op = operator()
    op.process({"t": [1], "x": [1], "km": [5]})
    with pytest.raises(CapabilityError, match="How far 'km' has come is not known"):
        op.add_window(sw.tumbling(sw.units(3, on="km")))


def test_what_was_emitted_over_a_column_is_remembered_in_its_own_measure() -> None:
    # Kilometres are below the watermark long before they are beyond change.
    op = operator(windows=[sw.tumbling(sw.units(10, on="km"))], lateness=1_000)
    op.process({"t": [5_000, 5_001], "x": [1, 1], "km": [5, 15]})
    assert [r.revision for r in op.advance(5_100)] == [0]
    op = sw.Operator.restore(op.snapshot())
    op.process({"t": [4_999], "x": [1], "km": [4]})
    assert [(r.values["x_sum"], r.revision) for r in op.advance(5_100)] == [(2, 1)]


def test_restoring_in_another_process_goes_on(tmp_path: Any) -> None:
    op = filled()
    (tmp_path / "blob").write_bytes(op.snapshot())
    code = (
        "import slicewise as sw, pickle, sys\n"
        "op = sw.Operator.restore(open(sys.argv[1], 'rb').read())\n"
        "results = [(r.key, r.window, r.start, r.values) for r in op.advance(float('inf'))]\n"
        "sys.stdout.buffer.write(pickle.dumps(results))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "blob")], capture_output=True, check=True
    )
    assert pickle.loads(done.stdout) == [
        (r.key, r.window, r.start, r.values) for r in op.advance(math.inf)
    ]


def test_keys_of_which_every_event_is_late_are_known_to_the_slices() -> None:
    op = operator(by="k")
    op.process({"t": [25], "x": [1], "k": [-1]})
    op.advance(20)
    op.process({"t": [1] * 1000, "x": [1] * 1000, "k": list(range(1000))})
    assert [(r.key, r.values["x_sum"]) for r in op.advance(math.inf)] == [(-1, 1)]
    assert op.stats.late_dropped == 1000
