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
        ("", "whole numbers with units, such as '10m' or '1h30m'; given: ''"),
        ("10", "whole numbers with units.*given: '10'"),
        ("1.5h", "whole numbers with units.*given: '1.5h'"),
        ("-5m", "whole numbers with units.*given: '-5m'"),
        ("2mo", "'mo' is no unit of fixed length.*Units: w, d, h, m"),
        ("1y", "'y' is no unit of fixed length"),
        ("5M", "given: '5M'"),
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
