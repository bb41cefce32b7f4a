"""Slices that are kept by time give the answers of slices that are kept by key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.bound import Bound
from slicewise.slicing.emit import output
from slicewise.slicing.state.resume import resume
from slicewise.testing import Oracle, paths_taken
from slicewise.testing.strategies import KINDS, Step, steps
from slicewise.tuning import tuned
from slicewise.windows import Window
from tests.support.bands import AGGREGATES, FREE, assert_follows, by_time, free_windows
from tests.support.parts import put_together, taken_apart


@pytest.fixture(scope="module", autouse=True)
def _not_in_vain() -> Iterator[None]:
    """Random examples keep slices by time, and instances close from them."""
    with paths_taken() as taken:
        yield
    assert taken["bands"] > 100
    assert taken["bands closed"] > 100


def test_the_kinds_of_windows_without_context_are_known_by_name() -> None:
    assert set(FREE) <= set(KINDS)


@given(
    free_windows(),
    st.sampled_from(AGGREGATES),
    steps(),
    st.sampled_from([("on_close", 0), ("final", 0), ("final", 9)]),
)
def test_instances_of_all_keys_close_as_they_are_defined_to(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step], how: tuple[Any, int]
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    made |= {"emit": how[0], "lateness": how[1]}
    with by_time():
        assert_follows(sw.Operator(**made), Oracle(**made), script)


@given(free_windows(), st.sampled_from(AGGREGATES), steps(ordered=True))
def test_events_in_order_close_instances_as_they_come(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step]
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    made["ordered"] = True
    with by_time():
        assert_follows(sw.Operator(**made), Oracle(**made), script)


@given(free_windows(), steps(), st.integers(0, 3), st.integers(0, 3))
def test_few_bands_and_merging_by_key_are_other_ways_to_the_same(
    defined: list[Window], script: list[Step], few: int, combines: int
) -> None:
    # Bands become too many now and then, and so do combines: slices go to and fro.
    made: dict[str, Any] = {"windows": defined, "aggs": AGGREGATES[1], "time": "t", "by": "k"}
    with by_time(
        few_bands=few, full_band=2, combines_per_result=combines, events_banded=4, keys_closed=2
    ):
        assert_follows(sw.Operator(**made), Oracle(**made), script)


@given(free_windows(), steps(), st.integers(0, 5))
def test_a_snapshot_in_between_changes_nothing(
    defined: list[Window], script: list[Step], after: int
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": AGGREGATES[0], "time": "t", "by": "k"}
    with by_time():
        op, oracle = sw.Operator(**made), Oracle(**made)
        assert_follows(op, oracle, script[:after])
        assert_follows(sw.Operator.restore(op.snapshot()), oracle, script[after:])


def stream(events: int, keys: int, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    times = np.arange(events) + random.integers(-50, 50, events)
    return {
        "t": times,
        "k": random.integers(0, keys, events),
        "x": random.integers(-9, 9, events).astype(float),
    }


def answers(op: sw.Operator, batches: list[dict[str, np.ndarray]]) -> pa.Table:
    found = []
    for batch in batches:
        op.process(batch)
        found.append(op.advance_arrow(int(batch["t"].max()) - 100))
    found.append(op.advance_arrow(math.inf))
    order = [(name, "ascending") for name in ("window", "start", "end", "k")]
    return pa.concat_tables(found).sort_by(order).combine_chunks()


def both_ways(batches: list[dict[str, np.ndarray]], **made: Any) -> pa.Table:
    """The answers, which are the same by key and by time."""
    made = {"time": "t", "by": "k", **made}
    plain = sw.Operator(**made)
    with tuned(keys_by_time=10**9):
        expected = answers(plain, batches)
    op = sw.Operator(**made)
    with by_time(), paths_taken() as taken:
        assert answers(op, batches).equals(expected)
    assert taken["bands"]
    assert op.stats.slices == plain.stats.slices == 0
    return expected


@given(free_windows(), st.sampled_from(AGGREGATES), steps())
def test_slices_by_time_outlast_a_snapshot_after_every_step(
    defined: list[Window], aggs: list[sw.Aggregate], script: list[Step]
) -> None:
    made: dict[str, Any] = {"windows": defined, "aggs": aggs, "time": "t", "by": "k"}
    with by_time():
        op, oracle = sw.Operator(**made), Oracle(**made)
        for step in script:
            assert_follows(op, oracle, [step])
            again = sw.Operator.restore(op.snapshot())
            if op.stats.slices:
                assert again.snapshot() == op.snapshot()
            op = again


def in_rounds(rounds: int, keys: int) -> list[dict[str, np.ndarray]]:
    parts = [stream(6000, keys, seed) for seed in range(rounds)]
    return [{**part, "t": part["t"] // 10 + 600 * n} for n, part in enumerate(parts)]


MANY: dict[str, Any] = {
    "windows": [sw.sliding(900, every=300), sw.tumbling(200)],
    "aggs": [sw.agg.sum("x"), sw.agg.mean("x")],
    "time": "t",
    "by": "k",
}
TYPES = {"t": pa.int64(), "k": pa.int64(), "x": pa.float64()}


def is_by_time(blob: bytes) -> bool:
    """Return whether a snapshot has slices by time."""
    (kept,) = taken_apart(blob)[0]["tracks"]
    return "bands" in kept


def test_a_snapshot_changes_nothing_and_gives_the_store_by_time_back() -> None:
    first, second = in_rounds(2, 1200)
    op = sw.Operator(**MANY)
    op.process(first)
    op.advance(300)
    blob = op.snapshot()
    assert is_by_time(blob)
    assert op.snapshot() == blob
    again = sw.Operator.restore(blob)
    assert again.snapshot() == blob
    assert again.stats == op.stats
    with paths_taken() as taken:
        assert answers(op, [second]).equals(answers(again, [second]))
    assert taken["bands"] == 2
    assert taken["bands closed"] == 4


def test_a_stream_keeps_the_store_by_time_from_one_micro_batch_to_the_next() -> None:
    batches = in_rounds(6, 1200)
    plain = sw.Operator(**MANY)
    op = sw.Operator(**MANY)
    with paths_taken() as taken:
        for batch in batches:
            op.process(batch)
            plain.process(batch)
            low = int(batch["t"].min())
            assert op.advance_arrow(low).equals(plain.advance_arrow(low))
            op = resume(sw.Operator(**MANY), op.snapshot(), TYPES)
    assert taken["bands"] == 12  # of each micro-batch in both, and nothing is moved in between


@pytest.mark.parametrize("change", ["a window more", "a window less", "an aggregate more"])
def test_slices_by_time_go_on_with_other_definitions(change: str) -> None:
    first, second = in_rounds(2, 1200)
    made = dict(MANY)
    if change == "a window more":
        made["windows"] = [*MANY["windows"], sw.tumbling(600)]
    elif change == "a window less":
        made["windows"] = MANY["windows"][:1]
    else:
        made["aggs"] = [*MANY["aggs"], sw.agg.max("x")]
    results = []
    for limits in ({}, {"keys_by_time": 10**9}):
        with tuned(**limits):
            op = sw.Operator(**MANY)
            op.process(first)
            op.advance(300)
            assert is_by_time(op.snapshot()) == (not limits)
            results.append(answers(resume(sw.Operator(**made), op.snapshot(), TYPES), [second]))
    by_time_, by_key = results
    assert by_time_.equals(by_key)
    assert len(by_key) > 1200


def test_events_before_a_snapshot_count_towards_a_change_of_the_store() -> None:
    op = sw.Operator(windows=[sw.tumbling(10**6)], aggs=[sw.agg.sum("x")], time="t", by="k")
    with tuned(keys_by_time=10**9):
        op.process(stream(4000, 3000))
    blob = op.snapshot()
    header, body = taken_apart(blob)
    del header["tracks"][0]["choice"]  # as earlier releases wrote it
    for given_, wanted in ((blob, True), (put_together(header, bytes(body)), False)):
        again = sw.Operator.restore(given_)
        with tuned(events_by_time=0):
            again.process(stream(1000, 3000, 2))
        assert is_by_time(again.snapshot()) == wanted


def test_many_keys_are_kept_by_time_without_being_asked_to() -> None:
    op = sw.Operator(windows=[sw.tumbling(500)], aggs=[sw.agg.sum("x")], time="t", by="k")
    with paths_taken() as taken:
        op.process(stream(20_000, 3000))
    assert taken["bands"] == 1
    assert op.stats.slices > 10_000
    op.advance(0)
    assert op.stats.slices > 10_000


def test_results_that_may_be_revised_are_kept_by_key() -> None:
    op = sw.Operator(
        windows=[sw.tumbling(500)], aggs=[sw.agg.sum("x")], time="t", by="k", lateness=5
    )
    with paths_taken() as taken:
        op.process(stream(20_000, 3000))
    assert not taken["bands"]


@pytest.mark.parametrize("keys", [3, 700, 40_000])
def test_batches_of_many_sizes_give_the_same_by_key_and_by_time(keys: int) -> None:
    whole = stream(30_000, keys)
    cuts = [0, 10, 11, 4000, 4100, 20_000, 30_000]
    parts = [{n: c[a:z] for n, c in whole.items()} for a, z in pairwise(cuts)]
    table = both_ways(
        parts,
        windows=[
            sw.tumbling(700),
            sw.sliding(1000, every=300),
            sw.cumulate(900, every=200),
            sw.fixed(5000, 900),
        ],
        aggs=[sw.agg.sum("x"), sw.agg.count(), sw.agg.mean("x"), sw.agg.max("x")],
    )
    assert len(table) > keys


def test_a_count_of_a_column_parts_from_the_rows_with_its_first_null() -> None:
    first, second, third = (stream(3000, 50, seed) for seed in (1, 2, 3))
    second["t"] += 1000
    third["t"] += 2000
    second["x"] = pa.array(second["x"], mask=second["x"] > 3)
    both_ways(
        [first, second, third],
        windows=[sw.sliding(2500, every=500)],
        aggs=[sw.agg.sum("x"), sw.agg.count("x"), sw.agg.count()],
    )


def test_long_windows_that_slide_by_little_are_merged_key_by_key() -> None:
    op = sw.Operator(
        windows=[sw.sliding(2000, every=1)], aggs=[sw.agg.max("x")], time="t", by="k", store="lazy"
    )
    with by_time(few_bands=10**4, most_bands=10**4), paths_taken() as taken:
        op.process(stream(6000, 20))
        assert op.advance(5000)
    assert taken["bands"] == 1
    assert not taken["bands closed"]


def test_large_blocks_repeat_a_piece_for_columns_of_one_value() -> None:
    keys = 3 * output.PIECE + 5
    batch = {"t": np.arange(keys) % 20, "k": np.arange(keys), "x": np.ones(keys)}
    for kind in (pa.int64(), pa.timestamp("ms"), pa.date32()):
        plain = pa.int32() if kind == pa.date32() else pa.int64()
        given_ = {**batch, "t": pa.array(batch["t"]).cast(plain).cast(kind)}
        windows = [sw.tumbling("40d", name="all"), sw.tumbling("1s")]
        if kind == pa.int64():
            windows = [sw.tumbling(40, name="all"), sw.tumbling(10)]
        op = sw.Operator(windows=windows, aggs=[sw.agg.sum("x")], time="t", by="k")
        with paths_taken() as taken:
            op.process(given_)
            table = op.advance_arrow(math.inf)
        assert taken["bands"] == taken["bands closed"] == 1
        assert len(table) == 2 * keys
        table.validate(full=True)
        few = sw.Operator(windows=windows, aggs=[sw.agg.sum("x")], time="t", by="k")
        few.process({name: column[:40] for name, column in given_.items()})
        theirs = few.advance_arrow(math.inf)
        assert table.schema == theirs.schema
        order = [("window", "ascending"), ("k", "ascending")]
        ours = table.filter(pc.less(table["k"], 40)).sort_by(order)
        assert ours.combine_chunks().equals(theirs.sort_by(order).combine_chunks())


def bounds() -> list[Bound]:
    return [
        aggregate("x").bind([kind])
        for aggregate in (sw.agg.sum, sw.agg.min, sw.agg.max, sw.agg.range)
        for kind in (pa.float64(), pa.int64(), pa.int32())
    ]


@pytest.mark.parametrize("bound", bounds(), ids=lambda b: b.aggregate.name)
def test_counts_of_which_only_the_sign_matters_may_all_be_one(bound: Bound) -> None:
    assert bound.if_any
    states = [
        tuple(np.arange(1, 9).astype(dtype) for dtype in c.algebra.dtypes) for c in bound.components
    ]
    ones = (np.broadcast_to(np.int64(1), 8),)
    assert bound.lower(states).tolist() == bound.lower([ones, *states[1:]]).tolist()
