"""The verbs: what one does with a table, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

from slicewise.aggregates.base import Aggregate
from slicewise.errors import (
    ColumnTypeError,
    WindowError,
)
from slicewise.suggestions import taking_names, taking_names_of
from slicewise.times import as_length
from slicewise.windows import Window

Data = TypeVar("Data")


class Transform(Protocol):
    """A function from a table to another of the same kind, for `df.transform`."""

    def __call__(self, data: Data) -> Data: ...


@taking_names
def rolling(
    data: Data,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    over: Any,
    aggs: Aggregate | Sequence[Aggregate],
    order: str | Sequence[str] | None = None,
    watermark: Any = None,
    buckets: int | None = None,
    keep_late: bool = False,
    max_ahead: Any = "1d",
    metrics: str | None = None,
    unit: str | None = None,
) -> Data:
    """Returns `data` with a column for each aggregate and span: its value over `(t - span, t]`.

    A row sees the rows of its own key (`by`, one column or several; null is a key like any other)
    whose time is in the span that ends with its own time, among them all rows of the very same
    time. `sw.rows(n)` is the last `n` rows of the key in the order of (time, arrival), ending with
    the row itself. Rows may come in any order and stay in it. A row without a usable time gets
    nulls and is in no window; if its time is not null but cannot be used, such as half a unit or
    infinity, a `BadRowsWarning` says how many such rows there are. `order` is a column, or several,
    that orders rows of equal time, as in `sw.windowed`.

    The row itself is in every frame. So `sw.agg.first` over `sw.rows(2)` is no lag: the first row
    of a key, and a row after a null, get their own value, from which a model must not learn.

    `over` is a span or a list of spans: over timestamps a duration (`"10m"`, a `timedelta`), over
    plain numbers a whole number of their units, or `sw.rows(n)`. `unit` (`"s"`, `"ms"`, `"us"` or
    `"ns"`) says what plain numbers mean, so that durations can be taken there too. The new columns
    are called `<output of the aggregate>_<span>`.

    On a streaming DataFrame each row comes out once the watermark, which is `watermark` behind the
    newest event, has passed it; this and the other arguments are those of `sw.windowed` on a
    stream.

    Args:
        data: A table of any kind, or a DataFrame of Spark, batch or streaming.
        by: The key column, or several; without it all rows have one key.
        time: The column with the times of events.
        over: A span such as `"10m"` or `sw.rows(100)`, or several.
        aggs: An aggregate of `sw.agg` or of one's own, or several.
        order: A column, or several, that orders events of equal time.
        watermark: On a stream, how far behind the newest event others may still come.
        buckets: On a stream, into how many groups keys are dealt.
        keep_late: On a stream, hands out dropped events in a column `late`.
        max_ahead: On a stream, how far ahead of the clock an event may be.
        metrics: On a stream, the name under which it reports; `"slicewise"` unless given.
        unit: What plain numbers as times mean: `"s"`, `"ms"`, `"us"` or `"ns"`.

    >>> import slicewise as sw
    >>> table = {"t": [1, 2, 2, 9], "x": [3, 1, 4, 2]}
    >>> found = sw.rolling(table, time="t", over=[5, sw.rows(2)], aggs=sw.agg.sum("x"))
    >>> found["x_sum_5"], found["x_sum_2rows"]
    ([3, 8, 8, 2], [3, 4, 5, 6])
    """
    query = {"by": by, "time": time, "over": over, "aggs": aggs, "order": order, "unit": unit}
    made: Data
    if not is_spark(data):
        from slicewise.tables.rolling import rolled

        made = rolled(data, **query)
        return made
    from slicewise.spark.batch.rolling import rolling as bounded
    from slicewise.spark.options import StreamOptions
    from slicewise.spark.stream.rolling import rolling_stream

    query["options"] = StreamOptions(
        watermark=watermark,
        buckets=buckets,
        keep_late=keep_late,
        max_ahead=max_ahead,
        metrics=metrics,
    )
    made = rolling_stream(data, **query) if data.isStreaming else bounded(data, **query)  # type: ignore[attr-defined]  # a DataFrame
    return made


@taking_names
def windowed(
    data: Data,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    windows: Window | Sequence[Window],
    aggs: Aggregate | Sequence[Aggregate],
    order: str | Sequence[str] | None = None,
    watermark: Any = None,
    lateness: Any = 0,
    emit: str | None = None,
    buckets: int | None = None,
    keep_late: bool = False,
    max_ahead: Any = "1d",
    metrics: str | None = None,
    unit: str | None = None,
    merger: str | None = None,
    store: Literal["lazy", "eager"] | None = None,
    partials: Literal["cutty", "pairs", "pairs+", "panes"] | None = None,
) -> Data:
    """Returns a table with one row for each window instance and a column for each aggregate.

    The table is of the same kind as `data`. Its columns are the keys, `window` (the name), `start`,
    `end`, and one per aggregate; its rows are sorted by key (null first), by window in the order
    given, by start and by end. All windows are computed in one pass over the rows, which may come
    in any order.

    Windows over timestamps have durations as lengths, windows over plain numbers plain numbers;
    `unit` (`"s"`, `"ms"`, `"us"` or `"ns"`) says what plain numbers mean, so that durations can be
    taken there too.

    `start` and `end` are times like the time column where windows measure time. Windows over rows
    or an advancing column have numbers there; beside windows of timestamps and the like they have
    them in `start_position` and `end_position`, columns that follow `end` then. A row without a
    usable time is in no window; a `BadRowsWarning` says how many.

    `order` is a column, or several, that orders events of equal time, where order matters: null is
    the least and NaN the greatest. Events that agree in it, or all of equal time without it, are
    in the order of the table. A DataFrame of Spark has none, so there the values of the columns
    that the query reads decide: `sw.rolling` reads all of them.

    A table is a stream whose watermark ends at infinity, so the other arguments change nothing
    there: they are for streams, and taken so that one definition runs on both. On a streaming
    DataFrame the watermark is `watermark` behind the newest event, or as far as `withWatermark` on
    the time column says, and one of them must be given; `lateness` says for how long windows still
    take events after they have closed; `emit` is `"on_close"` (default), `"final"` or
    `"on_update"`. `keep_late` hands out dropped events in a column `late`; an event further ahead
    of the clock than `max_ahead` is one of them. `buckets` is the number of groups of keys that
    state is kept in, by default one per shuffle partition. Each micro-batch reports its figures
    under the name `metrics`, by default `"slicewise"`.

    `merger`, `store` and `partials` say how slices are merged, kept and cut, as in `sw.Operator`;
    no answer depends on it. They are refused where a bounded DataFrame of Spark needs no operator.

    Args:
        data: A table of any kind, or a DataFrame of Spark, batch or streaming.
        by: The key column, or several; without it all rows have one key.
        time: The column with the times of events.
        windows: A window such as `sw.tumbling("10m")`, or several with different names.
        aggs: An aggregate of `sw.agg` or of one's own, or several.
        order: A column, or several, that orders events of equal time.
        watermark: On a stream, how far behind the newest event others may still come.
        lateness: How long after they close windows still take events.
        emit: `"on_close"` (default), `"final"` or `"on_update"`: when results are emitted.
        buckets: On a stream, into how many groups keys are dealt.
        keep_late: On a stream, hands out dropped events in a column `late`.
        max_ahead: On a stream, how far ahead of the clock an event may be.
        metrics: On a stream, the name under which it reports; `"slicewise"` unless given.
        unit: What plain numbers as times mean: `"s"`, `"ms"`, `"us"` or `"ns"`.
        merger: The name of a merger in `sw.mergers.CATALOGUE`; `None` lets the planner choose.
        store: `"lazy"` or `"eager"`: merge slices when windows close, or keep trees over them.
        partials: How periodic windows cut slices: Cutty's way unless given.

    >>> import slicewise as sw
    >>> table = {"t": [1, 4, 12, 13], "x": [3, 1, 4, 2]}
    >>> found = sw.windowed(
    ...     table, time="t", windows=[sw.tumbling(10), sw.session(5)], aggs=sw.agg.sum("x")
    ... )
    >>> for row in zip(found["window"], found["start"], found["end"], found["x_sum"]):
    ...     print(*row)
    tumbling_10 0 10 4
    tumbling_10 10 20 6
    session_5 1 9 4
    session_5 12 18 6
    """
    from slicewise.slicing.settings import Merging

    check_streaming(emit, lateness)
    query: dict[str, Any] = {"by": by, "time": time, "windows": windows, "aggs": aggs}
    query |= {"order": order, "unit": unit, "merging": Merging(merger, store, partials)}
    made: Data
    if not is_spark(data):
        from slicewise.tables.windowed import in_windows

        made = in_windows(data, **query, delays={"lateness": lateness, "watermark": watermark})
        return made
    from slicewise.spark.batch.windowed import windowed as bounded
    from slicewise.spark.options import StreamOptions
    from slicewise.spark.stream.windowed import windowed_stream

    query["options"] = StreamOptions(
        watermark=watermark,
        lateness=lateness,
        emit=emit,
        buckets=buckets,
        keep_late=keep_late,
        max_ahead=max_ahead,
        metrics=metrics,
    )
    made = windowed_stream(data, **query) if data.isStreaming else bounded(data, **query)  # type: ignore[attr-defined]  # a DataFrame
    return made


@taking_names
def fold(data: Data, by: str | Sequence[str] | None = None) -> Data:
    """Returns the current answer: of the rows that a stream emitted, those that still hold.

    Of each window instance (the keys, `window`, `start` and `end`) the last revision stays, unless
    it is a retraction; the columns `revision`, `retracted` and `late` go, and so do the dropped
    events in `late`. Rows may come in any order, and twice; those that stay keep their order. Rows
    of `emit="final"` have no revisions, so they stay as they are.

    The keys are the columns before `window`; `by` names them if they are elsewhere.

    Args:
        data: Emitted rows: a table of any kind, or a DataFrame of Spark.
        by: The key columns, if they are not those before `window`.

    >>> import slicewise as sw
    >>> op = sw.Operator(windows=[sw.session(5)], aggs=[sw.agg.sum("x")], time="t", lateness=100)
    >>> op.process({"t": [0, 9], "x": [1, 2]})
    >>> first = op.advance_arrow(20)
    >>> op.process({"t": [4], "x": [10]})  # late: it joins the two sessions
    >>> import pyarrow as pa
    >>> sw.fold(pa.concat_tables([first, op.advance_arrow(20)])).to_pylist()
    [{'window': 'session_5', 'start': 0, 'end': 14, 'x_sum': 13}]
    """
    if is_spark(data):
        from slicewise.spark.sinks.fold import fold as on_spark

        answered: Data = on_spark(data, by)
        return answered
    from slicewise.folding import Layout, current_rows, hands_out_late
    from slicewise.tables import table_of

    table = table_of(data)
    layout = Layout.of(table.names, by, late=hands_out_late(table.names, table.arrow))
    if not layout.revised and not layout.late:
        return data
    made: Data = table.taken(current_rows(layout, table.arrow), layout.columns)
    return made


@taking_names_of(windowed)
def windowed_by(**query: Any) -> Transform:
    """Returns a function that applies `sw.windowed` with these arguments, for `df.transform`.

    Args:
        **query: The arguments of `sw.windowed` but for `data`: `by`, `time`, `windows`, `aggs`,
            `order`, `watermark`, `lateness`, `emit`, `buckets`, `keep_late`, `max_ahead`,
            `metrics`, `unit`, `merger`, `store` and `partials`.

    >>> import slicewise as sw
    >>> totals = sw.windowed_by(time="t", windows=sw.tumbling(10), aggs=sw.agg.sum("x"))
    >>> totals({"t": [1, 4, 12], "x": [3, 1, 4]})["x_sum"]
    [4, 4]
    """

    def transform(data: Data) -> Data:
        return windowed(data, **query)

    return transform


@taking_names_of(rolling)
def rolling_by(**query: Any) -> Transform:
    """Returns a function that applies `sw.rolling` with these arguments, for `df.transform`.

    Args:
        **query: The arguments of `sw.rolling` but for `data`: `by`, `time`, `over`, `aggs`,
            `order`, `watermark`, `buckets`, `keep_late`, `max_ahead`, `metrics` and `unit`.

    >>> import slicewise as sw
    >>> features = sw.rolling_by(time="t", over=[5, 10], aggs=sw.agg.max("x"))
    >>> features({"t": [1, 4, 12], "x": [3, 1, 4]})["x_max_10"]
    [3, 3, 4]
    """

    def transform(data: Data) -> Data:
        return rolling(data, **query)

    return transform


@taking_names
def explain(
    data: Any,
    *,
    by: str | Sequence[str] | None = None,
    time: str,
    windows: Any = None,
    over: Any = None,
    aggs: Any,
    order: str | Sequence[str] | None = None,
    watermark: Any = None,
    lateness: Any = 0,
    emit: str | None = None,
    buckets: int | None = None,
    keep_late: bool = False,
    max_ahead: Any = "1d",
    metrics: str | None = None,
    unit: str | None = None,
    merger: str | None = None,
    store: Literal["lazy", "eager"] | None = None,
    partials: Literal["cutty", "pairs", "pairs+", "panes"] | None = None,
) -> str:
    """Explain in words what `sw.windowed` (with `windows`) or `sw.rolling` (with `over`) would do.

    It takes their arguments, so that a query can be explained as it stands. For a Spark DataFrame
    it says what runs where: what Spark computes, what crosses to Python, and which aggregates are
    compiled. No job is started.

    Args:
        data: A DataFrame of Spark, batch or streaming.
        by: The key column, or several; without it all rows have one key.
        time: The column with the times of events.
        windows: The windows of `sw.windowed`; leave them out to explain `sw.rolling`.
        over: The spans of `sw.rolling`; leave them out to explain `sw.windowed`.
        aggs: An aggregate of `sw.agg` or of one's own, or several.
        order: A column, or several, that orders events of equal time.
        watermark: On a stream, how far behind the newest event others may still come.
        lateness: How long after they close windows still take events.
        emit: `"on_close"` (default), `"final"` or `"on_update"`: when results are emitted.
        buckets: On a stream, into how many groups keys are dealt.
        keep_late: On a stream, hands out dropped events in a column `late`.
        max_ahead: On a stream, how far ahead of the clock an event may be.
        metrics: On a stream, the name under which it reports; `"slicewise"` unless given.
        unit: What plain numbers as times mean: `"s"`, `"ms"`, `"us"` or `"ns"`.
        merger: The name of a merger in `sw.mergers.CATALOGUE`; `None` lets the planner choose.
        store: `"lazy"` or `"eager"`: merge slices when windows close, or keep trees over them.
        partials: How periodic windows cut slices: Cutty's way unless given.

    >>> import slicewise as sw
    >>> query = {"time": "t", "windows": sw.tumbling("1h"), "aggs": sw.agg.max("price")}
    >>> print(sw.explain(trades, **query))  # doctest: +SKIP
    """
    if (windows is None) == (over is None):
        raise WindowError(
            "`explain` takes the arguments of `windowed` or of `rolling`: either `windows` or "
            f"`over`; given: {'neither' if windows is None else 'both'}."
        )
    if not is_spark(data):
        raise ColumnTypeError(
            "`explain` tells how a Spark DataFrame is computed; given: "
            f"{type(data).__module__}.{type(data).__qualname__}. For tables in this process, "
            "`sw.Operator(...).explain()` says what is kept."
        )
    from slicewise.slicing.settings import Merging
    from slicewise.spark.explain import explain_rolling, explain_windowed
    from slicewise.spark.options import StreamOptions

    check_streaming(emit, lateness)
    query: dict[str, Any] = {"by": by, "time": time, "aggs": aggs, "order": order, "unit": unit}
    query["options"] = StreamOptions(
        watermark=watermark,
        lateness=lateness,
        emit=emit,
        buckets=buckets,
        keep_late=keep_late,
        max_ahead=max_ahead,
        metrics=metrics,
    )
    if over is None:
        merging = Merging(merger, store, partials)
        return explain_windowed(data, windows=windows, merging=merging, **query)
    return explain_rolling(data, over=over, **query)


def is_spark(data: Any) -> bool:
    """Tells whether `data` is a Spark DataFrame, classic or Connect; refuses Spark before 4.0."""
    # Before Spark 4 the two kinds of DataFrames had nothing but their name in common.
    known = ((kind.__name__, kind.__module__) for kind in type(data).__mro__)
    if not any(name == "DataFrame" and module.startswith("pyspark.sql.") for name, module in known):
        return False
    from slicewise.spark.compat import check_spark

    check_spark(data.sparkSession)
    return True


def check_streaming(emit: str | None, lateness: Any) -> None:
    """Refuse what no stream could be given either."""
    from slicewise.slicing.settings import check_emit

    if emit is not None:
        check_emit(emit)
    as_length("lateness", lateness)
