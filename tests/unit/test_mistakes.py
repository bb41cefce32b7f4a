"""Usual mistakes with names, and the way out that their messages tell."""

from __future__ import annotations

import datetime as dt
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import slicewise as sw
from slicewise.errors import (
    AggregateError,
    ArgumentError,
    ColumnError,
    ColumnTypeError,
    MissingNameError,
)

TABLE: dict[str, Any] = {"Time": [1, 2], "price": [1.0, 2.0], "sensor_id": ["a", "b"]}
SUM, WINDOW = sw.agg.sum("price"), sw.tumbling(5)


# Attributes.


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("avg", "'mean'"),
        ("stddev", "'std'"),
        ("variance", "'var'"),
        ("nunique", "'count_distinct'"),
        ("percentile", "'quantile'"),
        ("percentile_approx", "'approx_quantile'"),
        ("collect_list", "'collect'"),
        ("collect_set", "'collect_distinct'"),
        ("max_by", "'argmax'"),
        ("SUM", "'sum'"),
        ("medain", "'median'"),
        ("arg_max", "'argmax'"),
        ("p95", "`sw.agg.quantile(column, 0.95)`"),
        ("p5", "`sw.agg.quantile(column, 0.05)`"),
        ("p99_9", "`sw.agg.quantile(column, 0.999)`"),
    ],
)
def test_an_aggregate_that_there_is_not_names_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(MissingNameError) as caught:
        getattr(sw.agg, name)
    assert str(caught.value) == f"There is no `sw.agg.{name}`. Did you mean {meant}?"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tumble", "'tumbling'"),
        ("hopping", "'sliding'"),
        ("Session", "'session'"),
        ("sesion", "'session'"),
        ("window", "'windowed'"),
        ("user_window", "'UserWindow'"),
        ("aggs", "'agg'"),
        ("sum", "`sw.agg.sum`"),
    ],
)
def test_a_public_name_that_there_is_not_names_the_one_that_was_meant(
    name: str, meant: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(sw, name)
    assert str(caught.value) == f"There is no `sw.{name}`. Did you mean {meant}?"


def test_a_name_that_is_like_no_other_is_only_refused() -> None:
    with pytest.raises(MissingNameError, match=r"^There is no `sw\.nope`\.$"):
        getattr(sw, "nope")  # noqa: B009 - type checkers refuse the plain form
    assert not hasattr(sw, "__wrapped__")
    assert not hasattr(sw.agg, "__path__")


def test_public_names_are_listed_once() -> None:
    names = dir(sw)
    assert sorted([*sw.__all__, "__version__"]) == names
    assert len(set(names)) == len(names)
    assert dir(sw.agg) == sorted({agg.name for agg in sw.agg.REGISTRY})
    for name in names:
        assert getattr(sw, name) is not None


# Arguments.


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("group_by", "by"),
        ("groupBy", "by"),
        ("keys", "by"),
        ("on", "time"),
        ("timestamp", "time"),
        ("tiem", "time"),
        ("window", "windows"),
        ("agg", "aggs"),
        ("allowed_lateness", "lateness"),
        ("order_by", "order"),
        ("output_mode", "emit"),
    ],
)
def test_an_argument_of_windowed_that_there_is_not_names_the_one_that_was_meant(
    given: str, meant: str
) -> None:
    message = (
        f"`windowed` has no argument `{given}`. For `{given}`, did you mean `{meant}`? "
        "It takes: data, by, time, windows, aggs"
    )
    query: dict[str, Any] = {given: 1}
    with pytest.raises(ArgumentError) as caught:
        sw.windowed(TABLE, **query)
    assert str(caught.value).startswith(message)
    with pytest.raises(ArgumentError, match=f"did you mean `{meant}`"):
        sw.windowed_by(**query)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sw.rolling(TABLE, on="Time", window=3, aggs=SUM),  # type: ignore[call-arg]
            "`rolling` has no argument `on` or `window`. For `on`, did you mean `time`? For "
            "`window`, did you mean `over`?",
        ),
        (
            lambda: sw.sliding("1h", step="1m"),  # type: ignore[call-arg]
            "`sliding` has no argument `step`. For `step`, did you mean `every`? It takes: length, "
            "every, origin, name.",
        ),
        (
            lambda: sw.tumbling(size="1h"),  # type: ignore[call-arg]
            "`tumbling` has no argument `size`. For `size`, did you mean `length`?",
        ),
        (
            lambda: sw.session(timeout="1h"),  # type: ignore[call-arg]
            "`session` has no argument `timeout`. For `timeout`, did you mean `gap`?",
        ),
        (
            lambda: sw.Operator(window=[WINDOW], aggs=[SUM], time="t"),  # type: ignore[call-arg]
            "`Operator` has no argument `window`. For `window`, did you mean `windows`?",
        ),
        (
            lambda: sw.slide([1], agg=SUM, length=1),  # type: ignore[call-arg]
            "`slide` has no argument `agg`. For `agg`, did you mean `aggregate`?",
        ),
        (
            lambda: sw.agg.quantile("x", percentile=0.9),  # type: ignore[call-arg]
            "`quantile` has no argument `percentile`. For `percentile`, did you mean `q`? It "
            "takes: column, q.",
        ),
        (
            lambda: sw.agg.sum("x", frobnicate="y"),
            "`sum` has no argument `frobnicate`. It takes: column.",
        ),
        (
            lambda: sw.windowed_by(windows=WINDOW, aggs=SUM),  # type: ignore[call-arg]
            "`windowed_by`: missing a required argument: 'time'. It takes: by, time, windows",
        ),
        (
            lambda: sw.rolling_by(tim="t", over=5, aggs=SUM),  # type: ignore[call-arg]
            "`rolling_by` has no argument `tim`. For `tim`, did you mean `time`?",
        ),
    ],
)
def test_an_argument_that_there_is_not_is_refused_with_the_nearest(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_functions_keep_their_signatures_and_are_pickled_by_name() -> None:
    arguments = list(inspect.signature(sw.windowed).parameters)
    assert arguments[:5] == ["data", "by", "time", "windows", "aggs"]
    assert list(inspect.signature(sw.windowed_by).parameters) == arguments[1:]
    assert list(inspect.signature(sw.rolling_by).parameters) == [
        *list(inspect.signature(sw.rolling).parameters)[1:]
    ]
    for function in (sw.windowed, sw.windowed_by, sw.tumbling):
        assert pickle.loads(pickle.dumps(function)) is function


def test_signatures_of_aggregates_say_what_is_needed() -> None:
    found = {agg.name: str(inspect.signature(type(agg))) for agg in sw.agg.REGISTRY}
    assert found["sum"] == "(column: str)"
    assert found["argmax"] == "(value: str, who: str)"
    assert list(inspect.signature(sw.agg.quantile).parameters) == ["column", "q"]
    for agg in sw.agg.REGISTRY:
        signature = inspect.signature(type(agg))
        needed = [p.name for p in signature.parameters.values() if p.default is p.empty]
        assert len(needed) >= agg.arity or agg.name == "count", agg.name
        assert type(agg)(*agg.columns, **agg.example) == agg


def test_columns_of_aggregates_may_be_named() -> None:
    assert sw.agg.sum(column="x") == sw.agg.sum("x")
    assert sw.agg.argmin(who="b", value="a") == sw.agg.argmin("a", "b")
    with pytest.raises(AggregateError, match="`argmin` takes 2 columns"):
        sw.agg.argmin("a")


# Columns.


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"time": "time"}, "There is no column 'time'.* Did you mean 'Time'"),
        ({"by": "sensorId"}, "There is no column 'sensorId'.* Did you mean 'sensor_id'"),
        ({"aggs": sw.agg.sum("prise")}, "There is no column 'prise'.* Did you mean 'price'"),
        ({"aggs": sw.agg.sum("volume")}, r"There is no column 'volume'; the table has:[^?]*$"),
    ],
)
def test_a_column_that_there_is_not_names_the_one_that_was_meant(
    query: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"time": "Time", "aggs": SUM} | query
    with pytest.raises(ColumnError, match=message):
        sw.windowed(TABLE, windows=WINDOW, **given)
    with pytest.raises(ColumnError, match=message):
        sw.rolling(TABLE, over=5, **given)


def test_an_operator_names_the_column_that_was_meant() -> None:
    op = sw.Operator(windows=[WINDOW], aggs=[SUM], time="time")
    with pytest.raises(ColumnError, match=r"no column 'time' in the batch.* Did you mean 'Time'"):
        op.process(TABLE)
    with pytest.raises(ColumnError, match=r"no column 'price', which .* Did you mean 'Price'"):
        sw.slide({"Price": [1, 2]}, SUM, 2)


# What is given in place of names, aggregates and tables.


def plain(found: Any) -> Any:
    return found.to_dicts() if isinstance(found, pl.DataFrame) else found


@pytest.mark.parametrize("verb", ["windowed", "rolling"])
def test_plain_columns_of_polars_stand_for_their_names(verb: str) -> None:
    frame = pl.DataFrame(TABLE)
    more: dict[str, Any] = {"windows": WINDOW} if verb == "windowed" else {"over": 5}
    ask = getattr(sw, verb)
    names: dict[str, Any] = {"by": ["sensor_id"], "time": "Time", "order": "price", "aggs": SUM}
    columns: dict[str, Any] = {
        "by": [pl.col("sensor_id")],
        "time": pl.col("Time"),
        "order": pl.col("price"),
        "aggs": sw.agg.sum(pl.col("price")),  # type: ignore[arg-type]  # a name is what is meant
    }
    assert plain(ask(frame, **names, **more)) == plain(ask(frame, **columns, **more))
    for expression in (pl.col("Time") + 1, pl.col("Time", "price"), pl.all(), pl.col("^T.*$")):
        with pytest.raises(ColumnTypeError, match="`time` takes names of columns such as 'price'"):
            ask(frame, **columns | {"time": expression}, **more)
    for series in (frame["sensor_id"], frame["sensor_id"].to_pandas()):
        with pytest.raises(ColumnTypeError, match=r"given: a Series. Write its name, 'sensor_id'"):
            ask(frame, **names | {"by": series}, **more)
    with pytest.raises(AggregateError, match=r"given: <Expr .*An expression cannot be merged"):
        ask(frame, **names | {"aggs": pl.col("price").mean()}, **more)


def test_an_operator_takes_plain_columns_and_refuses_others() -> None:
    op = sw.Operator(
        windows=[WINDOW],
        aggs=SUM,  # type: ignore[arg-type]  # one alone is taken too
        time=pl.col("Time"),  # type: ignore[arg-type]  # a name is what is meant
        by=pl.col("sensor_id"),  # type: ignore[arg-type]  # likewise
    )
    op.process(TABLE)
    assert [result.key for result in op.advance(10)] == ["a", "b"]
    with pytest.raises(ColumnError, match="`by` names each column once; 'k' is in it 2 times"):
        sw.Operator(windows=[WINDOW], aggs=[SUM], time="t", by=["k", "k"])


@pytest.mark.parametrize("verb", ["windowed", "rolling", "Operator"])
@pytest.mark.parametrize(
    ("aggs", "message"),
    [
        ([], "needs at least one aggregate in `aggs`; given: none"),
        ("mean", r"given: 'mean'. Did you mean `sw.agg.mean\('price'\)`"),
        (["avg"], r"given: 'avg'. Did you mean `sw.agg.mean\('price'\)`"),
        (sw.agg.max, r"Call it with the name of its column: `sw.agg.max\('price'\)`"),
        (max, r"given: <built-in function max>. Did you mean `sw.agg.max\('price'\)`"),
        ({"price": "mean"}, r"`aggs` takes aggregates such as `sw.agg.max\('price'\)`; given: {"),
        (sw.agg.max(), "`max` must name its input column here"),
    ],
)
def test_what_is_no_aggregate_is_told_the_way_out(verb: str, aggs: Any, message: str) -> None:
    asks: dict[str, Callable[[], Any]] = {
        "windowed": lambda: sw.windowed(TABLE, time="Time", windows=WINDOW, aggs=aggs),
        "rolling": lambda: sw.rolling(TABLE, time="Time", over=5, aggs=aggs),
        "Operator": lambda: sw.Operator(windows=[WINDOW], aggs=aggs, time="Time"),
    }
    with pytest.raises(AggregateError, match=message):
        asks[verb]()


def test_keys_that_come_twice_are_refused() -> None:
    message = "`by` names each column once; 'price' is in it 2 times. Leave one out"
    twice = ["price", "price"]
    with pytest.raises(ColumnError, match=message):
        sw.windowed(TABLE, by=twice, time="Time", windows=WINDOW, aggs=SUM)
    with pytest.raises(ColumnError, match=message):
        sw.rolling(TABLE, by=twice, time="Time", over=5, aggs=SUM)


def test_one_event_may_be_a_dict_of_single_values() -> None:
    op = sw.Operator(windows=[WINDOW], aggs=[sw.agg.sum("x")], time="t", by="k")
    op.process({"t": 1, "x": 2, "k": "a"})
    op.process({"t": 2, "x": None, "k": "a"})
    op.process({"t": [3], "x": [4], "k": ["a"]})
    assert [(r.key, r.values["x_sum"]) for r in op.advance(9)] == [("a", 6)]
    pairs = sw.Operator(windows=[WINDOW], aggs=[sw.agg.sum("x")], time="t", by="k")
    pairs.process({"t": 1, "x": 2, "k": (7, 1)})
    assert [r.key for r in pairs.advance(9)] == [(7, 1)]
    moments = sw.Operator(windows=[sw.tumbling("1h")], aggs=[sw.agg.count()], time="t")
    moments.process({"t": dt.datetime(2024, 1, 1), "x": np.float64(2.0)})
    assert [r.values["count"] for r in moments.advance(2**60)] == [1]


def test_a_table_of_single_values_is_told_to_be_a_list() -> None:
    with pytest.raises(
        ColumnTypeError, match=r"for each column; given: 1 for 't'. Put it into a l"
    ):
        sw.windowed({"t": 1, "x": 2}, time="t", windows=WINDOW, aggs=SUM)


def test_draining_without_spark_names_the_extra() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
import slicewise as sw
try:
    sw.drain("folder")
except sw.errors.MissingDependencyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "`sw.drain` needs PySpark: pip install 'slicewise[spark]'.\n"
