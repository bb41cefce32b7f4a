"""Spans: how they are written, what they mean, and what cannot be one."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

import slicewise as sw
from slicewise.errors import SpanError
from slicewise.spans import Duration, Rows, Ticks, Units, canonical, span


@pytest.mark.parametrize(
    ("given", "microseconds", "text"),
    [
        ("10m", 600_000_000, "10m"),
        ("10min", 600_000_000, "10min"),
        ("1h30m", 5_400_000_000, "1h30m"),
        ("250ms", 250_000, "250ms"),
        ("2d", 2 * 86_400_000_000, "2d"),
        ("1w", 7 * 86_400_000_000, "1w"),
        ("7us", 7, "7us"),
        ("7µs", 7, "7µs"),
        (" 1 h 30 m ", 5_400_000_000, "1h30m"),
        ("90m", 5_400_000_000, "90m"),
        (dt.timedelta(minutes=90), 5_400_000_000, "1h30m"),
        (dt.timedelta(days=8, microseconds=1), 8 * 86_400_000_000 + 1, "1w1d1us"),
        (pd.Timedelta("250ms"), 250_000, "250ms"),
        (np.timedelta64(10, "m"), 600_000_000, "10m"),
        ("10 minutes", 600_000_000, "10m"),
        ("1 day", 86_400_000_000, "1d"),
        ("60 sec", 60_000_000, "60s"),
        ("1hr", 3_600_000_000, "1h"),
        ("1.5h", 5_400_000_000, "1h30m"),
        (".25 seconds", 250_000, "250ms"),
        ("1 hour 30 minutes", 5_400_000_000, "1h30m"),
        ("1 hour, 30 minutes", 5_400_000_000, "1h30m"),
        ("1W", 7 * 86_400_000_000, "1w"),
        ("2 Weeks", 14 * 86_400_000_000, "2w"),
        ("10MIN", 600_000_000, "10min"),
        ("1H", 3_600_000_000, "1h"),
        ("5 μs", 5, "5us"),
    ],
)
def test_a_length_of_time_is_microseconds_and_keeps_its_text(
    given: Any, microseconds: int, text: str
) -> None:
    made = span(given)
    assert made == Duration(microseconds)
    assert str(made) == text


def test_spans_of_one_length_are_equal_however_they_are_written() -> None:
    assert span("90m") == span("1h30m") == span(dt.timedelta(minutes=90))
    assert len({span("90m"), span("1h30m")}) == 1


def test_whole_numbers_are_ticks_also_from_numpy() -> None:
    assert span(5) == span(np.int64(5)) == Ticks(5)
    assert str(span(5)) == "5"


def test_rows_and_units_name_themselves() -> None:
    assert (str(sw.rows(100)), str(sw.units(5, on="km"))) == ("100rows", "5km")
    assert span(sw.rows(3)) == Rows(3)
    assert span(sw.units(3, on="km")) == Units(3, "km")


@pytest.mark.parametrize("microseconds", [1, 999, 1_000, 60_000_000, 90_061_001_001, 2**61 - 1])
def test_canonical_text_means_the_same_length(microseconds: int) -> None:
    assert span(canonical(microseconds)) == Duration(microseconds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "numbers with units; given: ''. Units are w, d, h, m"),
        ("10", "given: '10', where '10' has no unit; plain numbers as lengths are numbers"),
        ("1h30", "given: '1h30', where '30' has no unit. Units are"),
        ("minutes", "given: 'minutes', which has no number, as '1minutes' has"),
        ("PT10M", "numbers with units; given: 'PT10M'. Units are"),
        ("-5m", "longer than nothing; given: '-5m', which has a minus sign. Write '5m'"),
        ("- 5 minutes", "given: '- 5 minutes', which has a minus sign. Write '5 minutes'"),
        ("2mo", "fixed length, which the 'mo' of '2mo' has not: a month has 28 to 31 days"),
        ("3 months", "the 'months' of '3 months' has not: a month has 28.*such as '30d'"),
        ("1y", "fixed length, which the 'y' of '1y' has not: a year has 365 or 366 days"),
        ("1q", "a quarter has 90 to 92 days"),
        ("1M", "The 'M' of the span '1M' may mean a minute or a month. Write 'm' for a minute"),
        ("5MS", "The 'MS' of the span '5MS' may mean milliseconds or a month's start"),
        ("5 minuts", "'minuts' of the span '5 minuts' is no unit of time. Did you mean 'minutes'"),
        ("0.1us", "whole microseconds; given: '0.1us'. Round it first"),
        ("0s", "longer than nothing; given: 0s"),
        (0, "longer than nothing; given: 0"),
        (-3, "longer than nothing; given: -3"),
        (dt.timedelta(0), "longer than nothing"),
        (dt.timedelta(seconds=-1), "longer than nothing"),
        (2**63, "would not fit 64 bits"),
        ("99999999999999w", "would not fit 64 bits"),
        (float("nan"), "A span takes a whole number; given: nan"),
        (1.5, "A span takes a whole number; given: 1.5"),
        (True, "A span takes a whole number; given: True"),
        (None, "A span takes a whole number; given: None"),
        (np.timedelta64("NaT"), "given: NaT"),
        (np.timedelta64(1, "M"), "fixed length.*a month has 28 to 31 days"),
        (np.timedelta64(1500, "ns"), "whole microseconds"),
        (pd.Timedelta(1500, "ns"), "whole microseconds"),
    ],
)
def test_what_is_no_span_is_refused(given: Any, message: str) -> None:
    with pytest.raises(SpanError, match=message):
        span(given)


@pytest.mark.parametrize("count", [0, -1])
def test_no_rows_are_no_span(count: int) -> None:
    with pytest.raises(SpanError, match=rf"longer than nothing; given: rows\({count}\)"):
        sw.rows(count)


@pytest.mark.parametrize("count", [1.0, float("nan"), "3", None, True])
def test_rows_are_counted_in_whole_numbers(count: Any) -> None:
    with pytest.raises(SpanError, match="`rows` takes a whole number"):
        sw.rows(count)


def test_units_need_a_column_and_a_length() -> None:
    with pytest.raises(SpanError, match=r"longer than nothing; given: units\(0, on='km'\)"):
        sw.units(0, on="km")
    with pytest.raises(SpanError, match="name of a column as `on`; given: ''"):
        sw.units(1, on="")


@pytest.mark.parametrize("given", [0, "0s", "0 minutes", "0.0h", "0h0m", dt.timedelta()])
def test_nothing_may_be_a_lateness_and_no_window(given: Any) -> None:
    sw.Operator(windows=[sw.tumbling(5)], aggs=[sw.agg.count()], time="t", lateness=given)
    with pytest.raises(SpanError, match="longer than nothing"):
        sw.tumbling(given)


def test_a_lateness_that_is_no_length_says_what_is_wrong_with_its_text() -> None:
    with pytest.raises(SpanError, match=r"`lateness` is a length.*'0' has no unit"):
        sw.Operator(windows=[sw.tumbling(5)], aggs=[sw.agg.count()], time="t", lateness="0")
