"""`sw.rolling` against polars and pandas: 2 M rows, 1000 keys, two spans, max, mean and std."""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import slicewise as sw

KEYS, SECONDS = 1000, 2000
SPANS = ("10m", "1h")
FUNCTIONS = ("max", "mean", "std")
NAMES = [f"x_{function}_{span}" for function in FUNCTIONS for span in SPANS]

# What is measured, seconds of slicewise, seconds of the rival, and the ratio that is aimed at.
Report = Callable[[str, float, float, float], None]


def events() -> pl.DataFrame:
    """One event per key and second, as they arrive: in the order of time."""
    random = np.random.default_rng(1)
    seconds = np.repeat(np.arange(SECONDS), KEYS)
    return pl.DataFrame(
        {
            "k": np.tile(np.arange(KEYS), SECONDS),
            "t": seconds.astype("M8[s]").astype("M8[us]"),
            "x": random.normal(100.0, 10.0, KEYS * SECONDS),
        }
    )


def scattered() -> pl.DataFrame:
    """As many events of the same keys at random times, as they arrive; no two are at once."""
    random = np.random.default_rng(2)
    size = KEYS * SECONDS
    micros = np.cumsum(random.integers(1, 2_000_000 // KEYS, size))
    return pl.DataFrame(
        {
            "k": random.integers(0, KEYS, size),
            "t": micros.astype("M8[us]"),
            "x": random.normal(100.0, 10.0, size),
        }
    )


def ours(data: Any) -> Any:
    aggs = [sw.agg.max("x"), sw.agg.mean("x"), sw.agg.std("x")]
    return sw.rolling(data, by="k", time="t", over=SPANS, aggs=aggs)


def expressions() -> dict[str, pl.Expr]:
    x = pl.col("x")
    return {
        f"x_{function}_{span}": getattr(x, f"rolling_{function}_by")("t", window_size=span)
        for function in FUNCTIONS
        for span in SPANS
    }


def polars_over(data: pl.DataFrame) -> pl.DataFrame:
    return data.with_columns(e.over("k").alias(name) for name, e in expressions().items())


def polars_streaming(data: pl.DataFrame) -> pl.DataFrame:
    lazy = data.lazy().with_columns(e.over("k").alias(n) for n, e in expressions().items())
    return lazy.collect(engine="streaming")


def polars_groups(data: pl.DataFrame) -> pl.DataFrame:
    """Grouped and exploded; the rows are put back at the end, as in the other ways."""
    rolled = (e.alias(name) for name, e in expressions().items())
    return (
        data.with_row_index("row")
        .group_by("k", maintain_order=True)
        .agg("row", "t", "x", *rolled)
        .explode("row", "t", "x", *NAMES)
        .sort("row")
    )


def polars_sorted(data: pl.DataFrame) -> pl.DataFrame:
    made = polars_over(data.with_row_index("row").sort("k", "t"))
    return made.sort("row")


def polars_rolling(data: pl.DataFrame) -> pl.DataFrame:
    """`rolling(...).agg(...)`, once per span."""
    x = pl.col("x")
    result = data.with_row_index("row").sort("k", "t")
    for span in SPANS:
        rolled = result.rolling("t", period=span, group_by="k").agg(
            getattr(x, function)().alias(f"x_{function}_{span}") for function in FUNCTIONS
        )
        result = result.with_columns(rolled.select(pl.exclude("k", "t")))
    return result.sort("row")


def pandas_rolling(data: pd.DataFrame) -> pd.DataFrame:
    """Grouped by key, so the results are in the order of a stable sort by key: put them back."""
    place = np.argsort(data["k"].to_numpy(), kind="stable")
    grouped = data.set_index("t").groupby("k")["x"]
    columns = {}
    for function in FUNCTIONS:
        for span in SPANS:
            rolled = getattr(grouped.rolling(span.replace("10m", "10min")), function)()
            column = np.empty(len(data))
            column[place] = rolled.to_numpy()
            columns[f"x_{function}_{span}"] = column
    return data.assign(**columns)


POLARS = (polars_over, polars_streaming, polars_groups, polars_sorted, polars_rolling)


def check(found: Any, expected: Any, who: str) -> None:
    """The same numbers; the rivals subtract what leaves a window, so the last digits differ."""
    for name in NAMES:
        one, other = (np.asarray(t[name], dtype=float) for t in (found, expected))
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=f"{who}: {name}")


def seconds(call: Callable[[], Any]) -> float:
    """Processor time: everybody has one thread, and other work on the machine does not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def best(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least time of each, taken in turns so that noise meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: min(found) for name, found in times.items()}


def run(report: Report, rounds: int = 5) -> None:
    """Check the answers, then report the ratios; one core for everybody."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        compare(report, "rolling", events(), rounds)
        compare(report, "rolling, rows at random times", scattered(), rounds)
    finally:
        os.sched_setaffinity(0, allowed)


def compare(
    report: Report,
    what: str,
    frame: pl.DataFrame,
    rounds: int,
) -> None:
    """Report the ratios to the fastest way that polars has, and to pandas."""
    table = frame.to_pandas()
    expected = ours(frame)
    for way in POLARS:
        check(way(frame), expected, way.__name__)
    check(pandas_rolling(table), expected, "pandas")
    check(ours(table), expected, "slicewise on pandas")

    first = best({way.__name__: (lambda w=way: w(frame)) for way in POLARS}, 1)  # type: ignore[misc]  # binds the way of this turn
    fastest = min(POLARS, key=lambda way: first[way.__name__])
    times = best(
        {
            "ours": lambda: ours(frame),
            "polars": lambda: fastest(frame),
            "ours on pandas": lambda: ours(table),
            "pandas": lambda: pandas_rolling(table),
        },
        rounds,
    )
    report(f"{what}, polars ({fastest.__name__})", times["ours"], times["polars"], 3.0)
    report(f"{what}, pandas", times["ours on pandas"], times["pandas"], 20.0)


def main(argv: Iterable[str]) -> int:
    """Print the ratios, one line each."""
    print(f"{KEYS * SECONDS:,} rows, {KEYS} keys, spans {SPANS}, {', '.join(FUNCTIONS)}; one core")

    def report(what: str, mine: float, theirs: float, target: float) -> None:
        ratio = theirs / mine
        verdict = "ok" if ratio >= target else "MISS"
        print(
            f"{what}: {mine * 1e3:.0f} ms, rival {theirs * 1e3:.0f} ms, "
            f"ratio {ratio:.1f} (aim {target:g}) {verdict}"
        )

    run(report)
    return 0
