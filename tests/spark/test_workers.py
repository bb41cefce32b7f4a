"""What runs on workers, without Spark: however a partition is cut, the answer is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.bound import share
from slicewise.errors import AggregateError
from slicewise.slicing.locate.by_time import Edges
from slicewise.spark.asked import outputs
from slicewise.spark.batch.ordered import FeedOrdered
from slicewise.spark.batch.rolling_rows import PLACE, SPANS_PER_RANGE, RollOrdered, moment_bits
from slicewise.spark.batch.series import STEP
from slicewise.spark.batch.slices import CombineSlices, MergeSlices
from slicewise.spark.batch.states import PART, SLICE, state_names, state_type
from slicewise.spark.query import Query, result_types
from slicewise.testing import windowed_rows
from slicewise.testing.strategies import Row, events, windows
from slicewise.tuning import Tuning, tuned
from slicewise.windows import Cumulate, Fixed, Periodic, Window
from tests.support.spark import Slow, Touchy, assert_same, every_aggregate

TYPES = {
    "k": pa.string(),
    "t": pa.int64(),
    "x": pa.int64(),
    "s": pa.string(),
    "km": pa.int64(),
    "flag": pa.bool_(),
}
COMMUTING = [sw.agg.sum("x"), sw.agg.count(), sw.agg.max("x"), sw.agg.median("x"), sw.agg.std("x")]
ORDERED = [sw.agg.collect("s"), sw.agg.first("x"), sw.agg.sum("x")]
DEPENDENT = [agg for agg in every_aggregate() if not agg.commutative]

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.fixture(scope="module")
def small_parts() -> Iterator[None]:
    """Parts so small that everything is cut."""
    with tuned(combiner_slices=8, merged_results=5):
        yield


@pytest.fixture
def untraced() -> Iterator[None]:
    """A snapshot takes the place of rows at once."""
    with tuned(traced_bytes=0):
        yield


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(list(TYPES.items())))


def query_of(defined: list[Window], aggs: list[sw.Aggregate], by: list[str]) -> Query:
    return Query.of(defined, aggs, "t", by, TYPES)


def schema_of(query: Query) -> pa.Schema:
    fields = [(name, TYPES[name]) for name in query.by]
    bound = pa.float64() if any(_fraction(w) for w in query.windows) else pa.int64()
    fields += [("window", pa.string()), ("start", bound), ("end", bound)]
    kinds = result_types(query.bounds(), TYPES)
    return pa.schema([*fields, *zip([a.output for a in query.aggs], kinds, strict=True)])


def _fraction(window: Window) -> bool:
    return any(isinstance(getattr(window, name, 0), float) for name in ("length", "every"))


def rows_of(batches: Any, by: list[str]) -> dict[Any, Row]:
    found = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        identity = (
            tuple(row.pop(n) for n in by),
            row.pop("window"),
            row.pop("start"),
            row.pop("end"),
        )
        assert identity not in found
        found[identity] = row
    return found


def run(task: Any, table: pa.Table, size: int) -> list[pa.RecordBatch]:
    """The batches that a task makes of a table that comes in batches of `size` rows."""
    with tuned(rows_joined=size):
        return list(task(iter(table.combine_chunks().to_batches(max_chunksize=size))))


def sorted_by(table: pa.Table, *names: str) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in names]) if table.num_rows else table


keys = st.sampled_from([[], ["k"], ["k", "flag"]])


@settings(max_examples=60)
@given(windows(), events(), st.sampled_from([COMMUTING, ORDERED]), keys, st.integers(1, 9))
def test_sorted_rows_are_answered_key_by_key(
    defined: list[Window], rows: list[Row], aggs: Any, by: list[str], size: int
) -> None:
    query = query_of(defined, aggs, by)
    table = sorted_by(table_of(rows), *by, "t", "x", "s", "km", "flag")
    made = run(FeedOrdered(query, schema_of(query)), table, size)
    expected = windowed_rows(table.to_pylist(), windows=defined, aggs=aggs, time="t", by=by)
    assert_same(rows_of(made, by), expected)


def free(defined: list[Window]) -> list[Window]:
    kept: list[Window] = [
        w for w in defined if isinstance(w, Periodic | Cumulate | Fixed) and w.axis is None
    ]
    return kept or [sw.sliding(7, 3)]


def slices_schema(query: Query) -> pa.Schema:
    fields = [(name, TYPES[name]) for name in query.by]
    fields += [(SLICE, pa.int64()), (PART, pa.int64())]
    components = share(query.bounds())
    for component, names in zip(components, state_names(components), strict=True):
        kinds = map(state_type, component.algebra.dtypes)
        fields += zip(names, kinds, strict=True)
    return pa.schema(fields)


@settings(max_examples=60)
@given(windows(), events(), keys, st.integers(1, 9), st.integers(1, 3))
def test_slices_made_apart_are_merged_to_windows(
    defined: list[Window], rows: list[Row], by: list[str], size: int, partitions: int
) -> None:
    query = query_of(free(defined), COMMUTING, by)
    schema = slices_schema(query)
    combine, merge = CombineSlices(query, schema), MergeSlices(query, schema_of(query))
    parts = [run(combine, table_of(rows[k::partitions]), size) for k in range(partitions)]
    table = pa.Table.from_batches([batch for part in parts for batch in part], schema)
    made = run(merge, sorted_by(table, *by, SLICE), size)
    expected = windowed_rows(rows, windows=query.windows, aggs=COMMUTING, time="t", by=by)
    assert_same(rows_of(made, by), expected)


@settings(max_examples=60)
@given(windows(), events(), keys, st.integers(1, 9), st.integers(1, 3))
def test_slices_made_of_rows_in_order_keep_it(
    defined: list[Window], rows: list[Row], by: list[str], size: int, partitions: int
) -> None:
    query = query_of(free(defined), DEPENDENT, by)
    schema = slices_schema(query)
    combine, merge = CombineSlices(query, schema), MergeSlices(query, schema_of(query))
    # A partition has all rows of a slice of a key.
    edges = Edges(query.windows)
    apart: list[list[Row]] = [[] for _ in range(partitions)]
    for row in rows:
        near = () if row["t"] is None else edges.between(row["t"], row["t"])
        name = repr(([int(edge) for edge in near if edge <= row["t"]], [row[key] for key in by]))
        apart[crc32(name.encode()) % partitions].append(row)
    order = (*by, "t", "x", "s", "km", "flag")
    with tuned(combiner_slices=0):  # whatever a batch makes is handed on
        parts = [run(combine, sorted_by(table_of(part), *order), size) for part in apart]
    # Spark sorts what comes in any order.
    table = pa.Table.from_batches([batch for part in parts[::-1] for batch in part[::-1]], schema)
    made = run(merge, sorted_by(table, *by, SLICE, PART), size)
    given = sorted_by(table_of(rows), *order).to_pylist()
    expected = windowed_rows(given, windows=query.windows, aggs=DEPENDENT, time="t", by=by)
    assert_same(rows_of(made, by), expected)


def in_series(query: Query) -> pa.Schema:
    """The schema of series of a query's results."""
    names, schema = {agg.output for agg in query.aggs}, schema_of(query)
    kinds = [pa.list_(field.type) if field.name in names else field.type for field in schema]
    return pa.schema([*zip(schema.names, kinds, strict=True), (STEP, pa.int64())])


def apart(batches: list[pa.RecordBatch], query: Query) -> Any:
    """The instances of series, as Spark takes them apart."""
    names, rows = [agg.output for agg in query.aggs], []
    for row in (row for batch in batches for row in batch.to_pylist()):
        step = row.pop(STEP)
        for place, values in enumerate(zip(*(row[name] for name in names), strict=True)):
            passed = {name: row[name] + place * step for name in ("start", "end")}
            rows.append({**row, **passed, **dict(zip(names, values, strict=True))})
    return pa.Table.from_pylist(rows, schema_of(query)).to_batches()


@settings(max_examples=60)
@given(windows(), events(), keys, st.integers(1, 9))
def test_series_have_the_same_instances_as_rows(
    defined: list[Window], rows: list[Row], by: list[str], size: int
) -> None:
    periodic: list[Window] = [w for w in free(defined) if isinstance(w, Periodic)]
    query = query_of(periodic or [sw.sliding(9, 2)], COMMUTING, by)
    schema = slices_schema(query)
    combined = run(CombineSlices(query, schema), table_of(rows), 100)
    table = pa.Table.from_batches(combined, schema)
    merge = MergeSlices(query, in_series(query), series=True)
    made = apart(run(merge, sorted_by(table, *by, SLICE), size), query)
    expected = windowed_rows(rows, windows=query.windows, aggs=COMMUTING, time="t", by=by)
    assert_same(rows_of(made, by), expected)


def test_a_series_does_not_grow_without_end() -> None:
    query = query_of([sw.sliding(1000, 1)], [sw.agg.count()], ["k"])
    rows: list[Row] = [{"k": k, "t": t, "x": 1} for k in "ab" for t in (0, 5000)]
    table = pa.Table.from_batches(
        run(CombineSlices(query, slices_schema(query)), table_of(rows), 10)
    )
    with tuned(merged_results=1 << 17):
        merge = MergeSlices(query, in_series(query), series=True)
        made = run(merge, sorted_by(table, "k", SLICE), 10)
    sizes = [len(row["count"]) for batch in made for row in batch.to_pylist()]
    assert sizes == [512, 488] * 4
    assert len(rows_of(apart(made, query), ["k"])) == 4000


def test_one_slice_in_very_many_instances_is_answered_in_parts() -> None:
    query = query_of([sw.sliding(1000, 1)], [sw.agg.count()], ["k"])
    rows: list[Row] = [{"k": k, "t": t, "x": 1} for k in "ab" for t in (0, 5000)]
    combine = CombineSlices(query, slices_schema(query))
    table = pa.Table.from_batches(run(combine, table_of(rows), 10))
    made = run(MergeSlices(query, schema_of(query)), sorted_by(table, "k", SLICE), 10)
    assert max(batch.num_rows for batch in made) < 50
    assert len(rows_of(made, ["k"])) == 4000


def test_results_of_objects_are_made_in_smaller_parts() -> None:
    rows: list[Row] = [{"k": k, "t": t, "x": 1} for k in "abc" for t in range(100)]
    for agg, largest in ((sw.agg.collect("x"), 30), (sw.agg.first("x"), 3 * 109)):
        query = query_of([sw.sliding(10, 1)], [agg], ["k"])
        table = pa.Table.from_batches(
            run(CombineSlices(query, slices_schema(query)), table_of(rows), 500)
        )
        with tuned(merged_results=1 << 18, merged_objects=30):
            merge = MergeSlices(query, schema_of(query))
            made = run(merge, sorted_by(table, "k", SLICE, PART), 500)
        assert largest // 2 < max(batch.num_rows for batch in made) <= largest
        assert sum(batch.num_rows for batch in made) == 3 * 109


@settings(max_examples=60)
@given(
    events(),
    st.sampled_from([[3], [1, 6], [sw.rows(3)], [sw.rows(2), 4], [sw.rows(1)]]),
    st.sampled_from([COMMUTING, ORDERED]),
    keys,
    st.integers(1, 9),
)
def test_rolling_carries_what_windows_reach_back_to(
    rows: list[Row], over: Any, aggs: Any, by: list[str], size: int
) -> None:
    table = sorted_by(table_of([{**row, "km": n} for n, row in enumerate(rows)]), *by, "t", "km")
    spans = tuple(sw.spans.span(one) for one in over)
    query = query_of([], aggs, by)
    kinds = [kind for kind in result_types(query.bounds(), TYPES) for _ in spans]
    new = pa.schema(list(zip(outputs(aggs, spans), kinds, strict=True)))
    reach = max((one for one in over if isinstance(one, int)), default=0)
    made = run(RollOrdered(query, spans, reach, new, cut=False), table, size)
    found = [row for batch in made for row in batch.to_pylist()]
    expected = sw.rolling(table, by=by or None, time="t", over=over, aggs=aggs)
    assert_same(dict(enumerate(found)), dict(enumerate(expected.to_pylist())))


@settings(max_examples=60)
@given(
    events(),
    st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True),
    st.sampled_from([COMMUTING, ORDERED]),
    keys,
    st.integers(1, 9),
    st.sampled_from([1, 2, 1 << 20]),
)
def test_ranges_that_share_a_bucket_are_told_apart(
    rows: list[Row], over: list[int], aggs: Any, by: list[str], size: int, buckets: int
) -> None:
    rows = [{**row, "km": n} for n, row in enumerate(rows)]
    spans, reach = tuple(sw.spans.span(one) for one in over), max(over)
    shift, length = moment_bits(reach), SPANS_PER_RANGE * reach
    cut: list[Row] = []
    for row in rows:
        if row["t"] is None:
            cut.append({**row, PLACE: None})
            continue
        first = row["t"] // length * length
        # The next range looks back to the end of this one.
        reached = [first + length] if row["t"] - first > length - reach else []
        for begin in [first, *reached]:
            bucket = crc32(repr((begin, [row[key] for key in by])).encode()) % buckets
            cut.append({**row, PLACE: (bucket << shift) | (row["t"] - begin + reach)})
    table = table_of(cut).append_column(PLACE, pa.array([row[PLACE] for row in cut], pa.int64()))
    query = query_of([], aggs, by)
    kinds = [kind for kind in result_types(query.bounds(), TYPES) for _ in spans]
    new = pa.schema(list(zip(outputs(aggs, spans), kinds, strict=True)))
    task = RollOrdered(query, spans, reach, new, cut=True)
    made = run(task, sorted_by(table, PLACE, "t", "km"), size)
    found = sorted((row for batch in made for row in batch.to_pylist()), key=lambda r: r["km"])
    expected = sw.rolling(table_of(rows), by=by or None, time="t", over=over, aggs=aggs)
    assert_same(dict(enumerate(found)), dict(enumerate(expected.to_pylist())))


def test_rolling_answers_rows_without_a_time_with_nulls() -> None:
    rows: list[Row] = [
        {"k": "a", "t": None, "x": 1},
        {"k": "a", "t": 1, "x": 2},
        {"k": "b", "t": None, "x": 3},
    ]
    query = query_of([], [sw.agg.sum("x")], ["k"])
    new = pa.schema([("x_sum_5", pa.int64())])
    for size in (1, 2, 3):
        made = run(RollOrdered(query, (sw.spans.span(5),), 5, new, cut=False), table_of(rows), size)
        found = [row["x_sum_5"] for batch in made for row in batch.to_pylist()]
        assert found == [None, 2, None]


def run_combined(query: Query, rows: list[Row], size: int) -> None:
    schema = slices_schema(query)
    # Two partitions: some states of a slice meet only after the shuffle.
    made = [run(CombineSlices(query, schema), table_of(rows[k::2]), size) for k in range(2)]
    table = pa.Table.from_batches([batch for part in made for batch in part], schema)
    run(MergeSlices(query, schema_of(query)), sorted_by(table, "k", SLICE), size)


def run_ordered(query: Query, rows: list[Row], size: int) -> None:
    run(FeedOrdered(query, schema_of(query)), sorted_by(table_of(rows), "k", "t"), size)


def run_rolling(query: Query, rows: list[Row], size: int) -> None:
    new = pa.schema([(name, pa.float64()) for name in outputs(query.aggs, [sw.spans.span(10)])])
    task = RollOrdered(query, (sw.spans.span(10),), 10, new, cut=False)
    run(task, sorted_by(table_of(rows), "k", "t"), size)


@pytest.mark.parametrize("way", [run_combined, run_ordered, run_rolling])
@pytest.mark.parametrize("method", ["lift", "combine", "lower"])
@pytest.mark.parametrize("kind", [Touchy, Slow])
def test_an_error_in_any_method_tells_its_message_key_and_aggregate(
    way: Any, method: str, kind: Any
) -> None:
    # Only the key "b" has a window of more than 30; no slice and no batch of its own has.
    times = [(key, time) for key in "abcd" for time in range(0, 20, 2)]
    rows: list[Row] = [
        {"k": key, "t": time, "x": 7 if key == "b" and time < 12 else 1, "km": 1}
        for key, time in times
    ]
    if method == "lift":
        rows[13]["x"] = 99
    # What does not fail has the same code and comes first.
    query = query_of([sw.sliding(10, 5)], [kind("km", method), kind("x", method)], ["k"])
    assert [bound.compiled for bound in query.bounds()] == [kind is Touchy] * 2
    whole = Tuning().traced_bytes
    for size, trace in ((1, 0), (3, 0), (3, whole), (100, whole)):
        with tuned(traced_bytes=trace), pytest.raises(AggregateError) as caught:
            way(query, rows, size)
        name = query.aggs[1].output
        assert str(caught.value) == (
            f"The aggregate {name!r} failed for the key 'b': ValueError: too much for {method}"
        )


@pytest.mark.usefixtures("untraced")
def test_an_error_of_states_that_met_in_one_slice_tells_the_key() -> None:
    rows: list[Row] = [
        {"k": key, "t": 0, "x": 6 if key == "b" else 1, "km": 1} for key in "abc" * 6
    ]
    for kind in (Touchy, Slow):
        query = query_of([sw.sliding(10, 5)], [kind("km", "combine"), kind("x", "combine")], ["k"])
        combine = CombineSlices(query, slices_schema(query))
        for size in (1, 2, 5, 20):
            with pytest.raises(AggregateError, match=r"'x_\w+' failed for the key 'b'.*too much"):
                run(combine, table_of(rows), size)
