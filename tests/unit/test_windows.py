"""Windows: their bounds, their names, and what they refuse."""

import copy
import datetime as dt
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from examples.changing_windows import ChangingWindows, main
from slicewise.errors import SlicewiseError, SpanError, WindowError
from slicewise.testing.definitions import Event, instances
from slicewise.testing.strategies import Following, Overlapping
from slicewise.windows import (
    Cumulate,
    Fixed,
    Periodic,
    Punctuated,
    RowPeriodic,
    RowsEveryTime,
    Session,
    Threshold,
    TimeEveryRows,
    Window,
)

MINUTE = 60_000_000


def by_definition(window: Window, rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    events = [Event(row["t"], arrival, row) for arrival, row in enumerate(rows)]
    return [(i.start, i.end) for i in instances(window, events)]


def at(window: Window, *times: int) -> list[tuple[float, float]]:
    return by_definition(window, [{"t": t} for t in times])


def wrong(value: object) -> Any:
    """A value of a type that the type checker would refuse."""
    return value


# What the constructors make.


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (
            sw.tumbling("10m"),
            Periodic(name="tumbling_10m", length=10 * MINUTE, every=10 * MINUTE, unit="us"),
        ),
        (
            sw.tumbling(dt.timedelta(minutes=90), origin="1h"),
            Periodic(
                name="tumbling_1h30m",
                length=90 * MINUTE,
                every=90 * MINUTE,
                origin=60 * MINUTE,
                unit="us",
            ),
        ),
        (sw.tumbling(7, name="weeks"), Periodic(name="weeks", length=7, every=7)),
        (
            sw.tumbling(sw.units(5, on="km"), origin=2.5),
            Periodic(name="tumbling_5km", axis="km", length=5, every=5, origin=2.5),
        ),
        (
            sw.sliding(sw.units(0.5, on="km"), every=sw.units(np.float64(0.25), on="km")),
            Periodic(name="sliding_0.5km_0.25km", axis="km", length=0.5, every=0.25),
        ),
        (
            sw.tumbling(sw.rows(100)),
            RowPeriodic(name="tumbling_100rows", length=100, every=100),
        ),
        (
            sw.sliding("10m", every="1m"),
            Periodic(name="sliding_10m_1m", length=10 * MINUTE, every=MINUTE, unit="us"),
        ),
        (
            sw.sliding(sw.units(5, on="km"), every=sw.units(2, on="km")),
            Periodic(name="sliding_5km_2km", axis="km", length=5, every=2),
        ),
        (
            sw.sliding(sw.rows(10), every=sw.rows(3)),
            RowPeriodic(name="sliding_10rows_3rows", length=10, every=3),
        ),
        (
            sw.sliding("1m", every=sw.rows(3)),
            TimeEveryRows(name="sliding_1m_3rows", length=MINUTE, every=3, unit="us"),
        ),
        (
            sw.sliding(sw.rows(10), every=5, origin=np.int64(2)),
            RowsEveryTime(name="sliding_10rows_5", length=10, every=5, origin=2),
        ),
        (
            sw.cumulate("1h", every="10m"),
            Cumulate(name="cumulate_1h_10m", length=60 * MINUTE, every=10 * MINUTE, unit="us"),
        ),
        (
            sw.cumulate(sw.units(9, on="no"), every=sw.units(2, on="no"), origin=1),
            Cumulate(name="cumulate_9no_2no", axis="no", length=9, every=2, origin=1),
        ),
        (sw.fixed(-5, 10), Fixed(name="fixed_-5_10", start=-5, length=10)),
        (
            sw.fixed(dt.datetime(1970, 1, 1, 0, 1), "1m"),
            Fixed(name="fixed_60000000_1m", start=MINUTE, length=MINUTE, unit="us"),
        ),
        (
            sw.fixed(dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "5us"),
            Fixed(name="fixed_0_5us", start=0, length=5, unit="us"),
        ),
        (
            sw.fixed(100.5, sw.units(5, on="km")),
            Fixed(name="fixed_100.5_5km", axis="km", start=100.5, length=5),
        ),
        (sw.session("30s"), Session(name="session_30s", gap=MINUTE // 2, unit="us")),
        (
            sw.session(5, max_length=20),
            Session(name="session_5_max_20", gap=5, max_length=20),
        ),
        (sw.punctuated("flag"), Punctuated(name="punctuated_flag", when="flag")),
        (sw.punctuated(callable), Punctuated(name="punctuated_callable", when=callable)),
        (sw.threshold("hot"), Threshold(name="threshold_hot", when="hot")),
        (
            sw.threshold("hot", min_rows=3, name="heat"),
            Threshold(name="heat", when="hot", min_rows=3),
        ),
    ],
    ids=lambda value: value.name,
)
def test_a_constructor_makes_the_window_its_units_mean(built: Window, expected: Window) -> None:
    assert built == expected


def test_a_window_can_be_copied_pickled_and_hashed() -> None:
    for window in (sw.tumbling(5), sw.session(3, max_length=9), sw.threshold("hot")):
        assert pickle.loads(pickle.dumps(window)) == window
        assert copy.deepcopy(window) == window
        assert len({window, copy.copy(window)}) == 1


def test_a_window_says_which_columns_decide_its_instances() -> None:
    assert sw.tumbling(5).reads == ()
    assert sw.session(5).reads == ()
    assert sw.fixed(0, sw.units(5, on="km")).reads == ("km",)
    assert sw.cumulate(sw.units(5, on="km"), sw.units(1, on="km")).reads == ("km",)
    assert sw.tumbling(sw.units(5, on="km")).reads == ("km",)
    assert sw.punctuated("flag").reads == ("flag",)
    assert sw.threshold("hot").reads == ("hot",)
    assert sw.punctuated(lambda event: True).reads is None
    assert sw.threshold(lambda event: True).reads is None
    assert Following().reads is None


# What they refuse.


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: sw.tumbling(0), SpanError, "longer than nothing; given: 0"),
        (lambda: sw.tumbling(-5), SpanError, "longer than nothing; given: -5"),
        (lambda: sw.tumbling(True), SpanError, "whole number; given: True"),
        (lambda: sw.tumbling(float("nan")), SpanError, "whole number; given: nan"),  # type: ignore[arg-type]
        (lambda: sw.units(float("nan"), on="km"), SpanError, "whole number; given: nan"),
        (lambda: sw.units(-0.5, on="km"), SpanError, "longer than nothing; given: units"),
        (lambda: sw.tumbling("0s"), SpanError, "longer than nothing"),
        (lambda: sw.tumbling("ten minutes"), SpanError, "given: 'ten minutes'"),
        (lambda: sw.tumbling(5, name=""), WindowError, "name is a text that is not empty; given: "),
        (
            lambda: sw.tumbling(5, name=wrong(3)),
            WindowError,
            "not empty; given: 3. Leave `name` out",
        ),
        (lambda: sw.tumbling(5, origin=0.5), WindowError, "`origin` .* whole number; given: 0.5"),
        (lambda: sw.tumbling(5, origin=True), WindowError, "whole number; given: True"),
        (
            lambda: sw.tumbling(sw.units(5, on="km"), origin=float("nan")),
            WindowError,
            "`origin` .* finite number; given: nan",
        ),
        (
            lambda: sw.tumbling(sw.units(5, on="km"), origin="1h"),
            WindowError,
            "`origin` .* finite number; given: '1h'",
        ),
        (
            lambda: sw.tumbling(sw.rows(5), origin=1),
            WindowError,
            "counts from the first event of a key and has no `origin`; given: 1. Leave it out",
        ),
        (lambda: sw.sliding(5, every=sw.rows(2), origin=1), WindowError, "has no `origin`"),
        (lambda: sw.sliding(sw.rows(5), 2, origin="x"), SpanError, "given: 'x'"),
        (lambda: sw.sliding(5, every=0), SpanError, "longer than nothing"),
        (
            lambda: sw.sliding(sw.units(5, on="km"), every=sw.units(1, on="no")),
            WindowError,
            "`sliding` has no meaning for these units; given: 5km every 1no. Use time every time",
        ),
        (
            lambda: sw.sliding(sw.units(5, on="km"), every="1m"),
            WindowError,
            "given: 5km every 1m",
        ),
        (
            lambda: sw.sliding(sw.rows(5), every=sw.units(1, on="km")),
            WindowError,
            "given: 5rows every 1km",
        ),
        (lambda: sw.cumulate("1h", every=sw.rows(5)), WindowError, "`cumulate` has no meaning"),
        (
            lambda: sw.cumulate(sw.rows(10), every=sw.rows(5)),
            WindowError,
            "given: 10rows every 5rows. Use time, or units of one column",
        ),
        (
            lambda: sw.cumulate(5, every=6),
            WindowError,
            "`every` is at most `length`; given: every=6, length=5. Swap them, or use `tumbling`",
        ),
        (lambda: sw.fixed(0, sw.rows(5)), WindowError, "`fixed` .* given: 5rows. Use time, or"),
        (lambda: sw.fixed(None, 5), WindowError, "`start` .* whole number; given: None"),
        (lambda: sw.fixed(0, 0), SpanError, "longer than nothing"),
        (lambda: sw.session(0), SpanError, "longer than nothing"),
        (
            lambda: sw.session(sw.rows(5)),
            WindowError,
            "`gap` of a session is a length of time; given: 5rows. Use a text such as '30s'",
        ),
        (
            lambda: sw.session(5, max_length=sw.units(5, on="km")),
            WindowError,
            "`max_length` of a session is a length of time; given: 5km",
        ),
        (lambda: sw.session(5, max_length=0), SpanError, "longer than nothing"),
        (
            lambda: sw.punctuated(wrong(5)),
            WindowError,
            "`when` of a punctuated window is the name of a boolean column or a function of the "
            "event; given: 5. For example",
        ),
        (lambda: sw.punctuated(""), WindowError, "given: ''"),
        (
            lambda: sw.threshold(wrong(None)),
            WindowError,
            "`when` of a threshold window .* given: None",
        ),
        (
            lambda: sw.threshold("hot", min_rows=0),
            WindowError,
            "`min_rows` of a threshold window must be above zero; given: 0",
        ),
        (lambda: sw.threshold("hot", min_rows=True), WindowError, "whole number; given: True"),
        (lambda: sw.threshold("hot", min_rows=wrong(1.5)), WindowError, "whole number; given: 1.5"),
        (
            lambda: Periodic(name="w", axis="", length=5, every=5),
            WindowError,
            "`axis` is `None` for time or the name of a column; given: ''",
        ),
        (
            lambda: Periodic(name="w", axis="km", length=float("inf"), every=5),
            WindowError,
            "`length` of a periodic window is a finite number; given: inf",
        ),
        (lambda: Session(name="w", gap=-1), WindowError, "`gap` .* above zero; given: -1"),
    ],
)
def test_a_window_without_meaning_is_refused(
    build: Callable[[], Any], error: type[SlicewiseError], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


DAY = 24 * 60 * MINUTE
MONDAY = 4 * DAY  # 1970-01-05


@pytest.mark.parametrize(
    ("window", "origin"),
    [
        (sw.tumbling("1w"), MONDAY),
        (sw.tumbling("14d"), MONDAY),
        (sw.tumbling(dt.timedelta(weeks=1)), MONDAY),
        (sw.sliding("2w", every="1w"), MONDAY),
        (sw.sliding(sw.rows(5), every="1w"), MONDAY),
        (sw.cumulate("1w", every="1d"), MONDAY),
        (sw.tumbling("1w", origin=0), 0),
        (sw.tumbling("1w", origin="1d"), DAY),
        (sw.tumbling("1d"), 0),
        (sw.tumbling("10d"), 0),
        (sw.tumbling(7 * DAY), 0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_rule_01_whole_weeks_begin_on_monday(window: Any, origin: int) -> None:
    assert window.origin == origin


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: sw.sliding("10m", every=60),
            "all durations.* or all plain numbers; given: 10m, 6",
        ),
        (lambda: sw.session("30s", max_length=9), "all plain numbers; given: 30s, 9"),
        (lambda: sw.tumbling("1h", origin=5), "`origin` is a moment .* given: 5 beside 1h"),
        (lambda: sw.tumbling(60, origin="1h"), "a plain number where they are; given: '1h' besi"),
        (lambda: sw.fixed(dt.datetime(2024, 1, 1), 5), "`start` is a moment .* beside 5. Write"),
        (lambda: sw.fixed(5, "1m"), "`start` is a moment .* given: 5 beside 1m"),
        (lambda: Session(name="w", gap=5, unit="s"), "`unit` of a session is 'us' where .* 's'"),
    ],
)
def test_rule_01_durations_and_plain_numbers_do_not_mix_in_a_window(
    build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(WindowError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: sw.tumbling(2**61), SpanError, "below 2\\*\\*61, or its sum .* given: 2305843009"),
        (lambda: sw.session(2**63), SpanError, "below 2\\*\\*61"),
        (lambda: sw.tumbling("80000000w"), SpanError, "below 2.* given: 80000000w"),
        (lambda: sw.units(1e19, on="km"), SpanError, "below 2"),
        (lambda: sw.tumbling(5, origin=2**61), WindowError, "`origin` .* is below 2.* in size; gi"),
        (lambda: sw.fixed(-(2**61), 5), WindowError, "`start` .* is below 2.* in size"),
        (lambda: Session(name="w", gap=2**61), WindowError, "`gap` of a session is below 2"),
        (
            lambda: sw.sliding(2**24, every=1),
            WindowError,
            "in 10,000,000 instances .* with length=16777216 and every=1 puts it into 16,777,216.",
        ),
        (
            lambda: sw.sliding(sw.units(1, on="km"), every=sw.units(1e-9, on="km")),
            WindowError,
            "puts it into 1,000,000,000. Make `every` larger",
        ),
        (
            lambda: sw.cumulate(sw.units(1.0, on="km"), every=sw.units(1e-320, on="km")),
            WindowError,
            "puts it into infinitely many",
        ),
        (lambda: sw.cumulate("1w", every="1us"), WindowError, "it into 604,800,000,000"),
    ],
)
def test_spans_and_instances_beyond_all_meaning_are_refused_with_their_number(
    build: Callable[[], Any], error: type[SlicewiseError], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


def test_many_instances_that_can_be_meant_are_taken() -> None:
    assert sw.sliding("1d", every="1s").name == "sliding_1d_1s"
    assert sw.sliding(10_000_000, every=1).name == "sliding_10000000_1"


# Bounds.
#
#   time          0    5    10   15   20
#   sliding(10,   [---------)
#     every=5)         [---------)
#                           [---------)
def test_an_event_on_an_edge_is_in_the_instance_that_starts_there() -> None:
    window = Periodic(name="w", length=10, every=5)
    assert window.instances_at(9) == [(0, 10), (5, 15)]
    assert window.instances_at(10) == [(5, 15), (10, 20)]
    assert list(window.ids_at(10)) == [1, 2]


#   time               0  2     5  7     10
#   length 2, every 5  [--)     [--)     [--)
def test_windows_that_open_further_apart_than_they_are_long_leave_gaps() -> None:
    window = Periodic(name="w", length=2, every=5)
    assert [t for t in range(-5, 10) if window.instances_at(t)] == [-5, -4, 0, 1, 5, 6]


def test_bounds_are_exact_at_the_ends_of_64_bits() -> None:
    window = Periodic(name="w", length=10, every=3, origin=1)
    for t in (-(2**63), 2**63 - 1):
        found = window.instances_at(t)
        assert len(found) in (3, 4)
        assert all(start <= t < end and (start - 1) % 3 == 0 for start, end in found)


numbers = st.integers(-60, 60)
lengths = st.integers(1, 20)
fractions = st.integers(-600, 600).map(lambda n: n / 10)
positive = st.integers(1, 200).map(lambda n: n / 10)


@given(st.builds(Periodic, name=st.just("w"), length=lengths, every=lengths, origin=numbers))
def test_periodic_bounds_are_those_of_the_definition(window: Periodic) -> None:
    for t in range(-30, 30):
        assert window.instances_at(t) == at(window, t)


@given(
    st.builds(
        Periodic,
        name=st.just("w"),
        axis=st.just("km"),
        length=positive,
        every=positive,
        origin=fractions,
    ),
    fractions,
)
def test_bounds_with_fractions_are_those_of_the_definition(window: Periodic, km: float) -> None:
    assert window.instances_at(km) == by_definition(window, [{"t": 0, "km": km}])


@given(st.tuples(lengths, lengths).map(sorted), numbers)
def test_cumulating_bounds_are_those_of_the_definition(spans: list[int], origin: int) -> None:
    window = Cumulate(name="w", every=spans[0], length=spans[1], origin=origin)
    for t in range(-30, 30):
        assert window.instances_at(t) == at(window, t)


@given(numbers, lengths, numbers)
def test_a_fixed_window_holds_what_the_definition_says(start: int, length: int, t: int) -> None:
    window = Fixed(name="w", start=start, length=length)
    assert window.instances_at(t) == at(window, t)


some_times = st.lists(st.integers(-20, 40), max_size=20).map(sorted)
counts = st.integers(1, 6)


@given(st.builds(RowPeriodic, name=st.just("w"), length=counts, every=counts), some_times)
def test_row_positions_are_those_of_the_definition(window: RowPeriodic, times: list[int]) -> None:
    full = window.full(len(times))
    assert full == at(window, *times)
    for position in range(len(times)):
        inside = [b for b in window.instances_at(position) if b[1] <= len(times)]
        assert inside == [b for b in full if b[0] <= position < b[1]]


@given(st.builds(TimeEveryRows, name=st.just("w"), length=lengths, every=counts), some_times)
def test_openers_are_those_of_the_definition(window: TimeEveryRows, times: list[int]) -> None:
    assert window.instances(times) == at(window, *times)


@given(
    st.builds(RowsEveryTime, name=st.just("w"), length=counts, every=lengths, origin=numbers),
    some_times,
)
def test_marks_are_those_of_the_definition(window: RowsEveryTime, times: list[int]) -> None:
    found = window.instances(times)
    assert sorted(found) == at(window, *times)
    assert all((mark - window.origin) % window.every == 0 for _, mark in found)


@given(
    st.builds(Session, name=st.just("w"), gap=lengths, max_length=st.none() | st.integers(1, 25)),
    some_times,
)
def test_sessions_are_those_of_the_definition(window: Session, times: list[int]) -> None:
    found = instances(window, [Event(t, n, {}) for n, t in enumerate(times)])
    runs = window.sessions(times)
    pairs = [(times[begin], times[stop - 1]) for begin, stop in runs]
    assert [(f, window.end(f, last)) for f, last in pairs] == [(i.start, i.end) for i in found]
    assert [window.closes(f, last) for f, last in pairs] == [i.close for i in found]
    assert [stop - begin for begin, stop in runs] == [len(i.events) for i in found]
    assert all(i.events[-1].time < i.end for i in found)


marked = st.lists(st.booleans(), max_size=20)


@pytest.mark.parametrize(
    "window",
    [sw.punctuated("flag"), sw.threshold("flag"), sw.threshold("flag", min_rows=3)],
    ids=["punctuated", "threshold", "threshold_of_3"],
)
@given(marks=marked)
def test_runs_of_marked_events_are_those_of_the_definition(
    window: Punctuated | Threshold, marks: list[bool]
) -> None:
    rows = [{"t": n, "flag": mark} for n, mark in enumerate(marks)]
    assert window.runs(marks) == by_definition(window, rows)


# Windows of the user's own.


def test_a_user_window_is_named_after_its_class_or_as_it_says() -> None:
    class EveryThirdTrade(sw.UserWindow):
        pass

    class Named(sw.UserWindow):
        name = "mine"

    assert EveryThirdTrade().name == "every_third_trade"
    assert Named().name == "mine"


def test_a_user_window_starts_afresh_for_each_key() -> None:
    window = Overlapping(length=2, every=1)
    rows = [(t, {"t": t}) for t in range(4)]
    assert window.runs(rows) == window.runs(rows) == [(0, 2), (1, 3)]
    assert window.seen == 0


def test_the_window_of_the_cutty_paper_changes_with_the_price() -> None:
    trades = [(t, {"price": 10.0 if 25 <= t < 34 else 10.5}) for t in range(50)]
    assert ChangingWindows(minute=1).runs(trades) == [
        (0, 10),
        (5, 15),
        (10, 20),
        (15, 25),
        (20, 30),
        (25, 30),
        (27, 32),
        (29, 34),
        (31, 36),
        (33, 38),
        (38, 48),
    ]


def test_the_example_of_the_cutty_paper_prints_the_price_by_volume_of_each_window(
    capsys: pytest.CaptureFixture[str],
) -> None:
    #   minutes  0        25        34        50
    #   price    |-- 12 --|--- 9 ---|-- 12 ---|      volumes 100, 110, 120, 100, ...
    bounds = [(0, 10), (5, 15), (10, 20), (15, 25), (20, 30), (25, 30), (27, 32), (29, 34)]
    bounds += [(31, 36), (33, 38), (38, 48)]
    expected = []
    for start, end in bounds:
        volumes = {t: (100, 110, 120)[t % 3] for t in range(start, end)}
        paid = sum((9 if 25 <= t < 34 else 12) * volume for t, volume in volumes.items())
        price = paid / sum(volumes.values())
        expected.append(f"minutes {start:2} to {end:2}: {price:6.3f} of {end - start:2} trades")
    assert expected[5] == "minutes 25 to 30:  9.000 of  5 trades"
    main()
    assert capsys.readouterr().out.splitlines() == expected


def test_an_open_window_ends_no_later_than_a_shorter_one_that_begins_after_it() -> None:
    #   a window of 10 minutes opens at 0; at 3 the price falls and one of 5 opens
    trades = [(t, {"price": 12.0 if t < 3 else 8.0}) for t in (0, 3, 8)]
    assert ChangingWindows(minute=1).runs(trades) == [(0, 2), (1, 2)]


def test_a_user_window_without_on_event_is_refused() -> None:
    class Empty(sw.UserWindow):
        pass

    with pytest.raises(WindowError, match=r"defines `on_event\(self, time, event\)`; `Empty` has"):
        Empty().runs([(0, {})])


def test_ending_more_instances_than_are_open_is_refused() -> None:
    class Greedy(sw.UserWindow):
        def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
            return (1, 2 if time else 0)

    with pytest.raises(
        WindowError, match=r"'greedy' ended 2 at time 7 when 1 were open. Count in `on_event`"
    ):
        Greedy().runs([(0, {}), (7, {})])


@pytest.mark.parametrize("answer", [None, 3, (1,), (1, 2, 3), (-1, 0), (0, -1), (1.5, 0), "ab"])
def test_an_answer_that_is_no_pair_of_counts_is_refused(answer: Any) -> None:
    class Wrong(sw.UserWindow):
        def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
            return answer  # type: ignore[no-any-return]  # the mistake that is tested

    with pytest.raises(
        WindowError, match=r"two whole numbers from 0 on, \(begins, ends\); 'wrong'"
    ):
        Wrong().runs([(0, {})])


@pytest.mark.parametrize(
    "moment",
    [
        "2024-01-31",
        " 2024-01-31T00:00 ",
        "2024-01-31T01:00+01:00",
        dt.date(2024, 1, 31),
        dt.datetime(2024, 1, 31),
        np.datetime64("2024-01-31"),
        pd.Timestamp("2024-01-31"),
    ],
    ids=repr,
)
def test_origins_and_starts_are_dates_datetimes_and_iso_texts(moment: Any) -> None:
    expected = 1_706_659_200_000_000
    assert expected == int(np.datetime64("2024-01-31", "us").astype(int))
    for window in (
        sw.tumbling("1h", origin=moment),
        sw.sliding("1h", "5m", origin=moment),
        sw.cumulate("1h", "5m", origin=moment),
        sw.sliding(sw.rows(5), "5m", origin=moment),
    ):
        assert window.origin == expected  # type: ignore[attr-defined]  # each of these has one
    assert sw.fixed(moment, "1h").start == expected  # type: ignore[attr-defined]  # so has this


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("2024-13-01", "`origin` as text is a moment such as '2024-01-31'.*given: '2024-13-01'"),
        (np.datetime64("NaT"), "`origin` is a moment; given: NaT"),
        (pd.NaT, "`origin` is a moment; given: NaT"),
    ],
)
def test_what_is_no_moment_is_no_origin(moment: Any, message: str) -> None:
    with pytest.raises(WindowError, match=message):
        sw.tumbling("1h", origin=moment)


def test_an_origin_of_nothing_is_the_epoch() -> None:
    assert sw.tumbling("1h", origin="0s") == sw.tumbling("1h")
