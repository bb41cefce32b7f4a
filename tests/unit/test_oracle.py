"""The oracle against results worked out by hand. Each test draws its events on a line."""

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import OrderError, WindowError
from slicewise.testing import Emitted, Oracle, assert_same_rows, fold, windowed_rows
from slicewise.testing.oracle import alike, in_order
from slicewise.testing.strategies import KINDS, Row, Step, events, steps, windows
from slicewise.windows import Cumulate, Fixed, Periodic, Session, Window

END = math.inf
LETTERS = [sw.agg.concat("s", sep="").alias("is")]


def line(text: str, *, first: int = 0) -> list[dict[str, Any]]:
    """Events from a picture: the letter at position t is an event at time t."""
    return [{"t": first + t, "s": s} for t, s in enumerate(text) if s not in "-. "]


def oracle(*windows: Window, **arguments: Any) -> Oracle:
    return Oracle(windows=windows, aggs=LETTERS, time="t", **arguments)


def shown(rows: list[Emitted]) -> list[tuple[Any, ...]]:
    """(start, end, letters), with the revision and a minus for a retraction where there are."""
    return [
        (r.start, r.end, r.values["is"], *([r.revision] * (r.revision > 0)), *"-" * r.retracted)
        for r in rows
    ]


def whole(window: Window, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """All instances of a bounded table."""
    answer = windowed_rows(rows, windows=[window], aggs=LETTERS, time="t")
    return [(start, end, values["is"]) for (_, _, start, end), values in answer.items()]


# Which events each kind of window holds.


def test_tumbling_windows_are_half_open_and_aligned_to_the_epoch() -> None:
    #            -5   0    5    10
    rows = line("a---bc---de----f", first=-5)
    assert whole(sw.tumbling(5), rows) == [
        (-5, 0, "ab"),
        (0, 5, "cd"),
        (5, 10, "e"),
        (10, 15, "f"),
    ]
    assert whole(sw.tumbling(5, origin=4), rows) == [
        (-6, -1, "a"),
        (-1, 4, "bc"),
        (4, 9, "de"),
        (9, 14, "f"),
    ]


def test_sliding_windows_overlap_and_empty_ones_are_left_out() -> None:
    #            0    5
    rows = line("a----b")
    assert whole(sw.sliding(4, every=2), rows) == [
        (-2, 2, "a"),
        (0, 4, "a"),
        (2, 6, "b"),
        (4, 8, "b"),
    ]


def test_windows_that_open_further_apart_than_their_length_leave_events_out() -> None:
    #            0    5    10
    rows = line("abcdefghijkl")
    assert whole(sw.sliding(2, every=5), rows) == [(0, 2, "ab"), (5, 7, "fg"), (10, 12, "kl")]


def test_cumulating_windows_grow_and_start_again() -> None:
    #            0    5    10
    rows = line("a---b----cd")
    assert whole(sw.cumulate(10, every=4), rows) == [
        (0, 4, "a"),
        (0, 8, "ab"),
        (0, 10, "abc"),
        (10, 14, "d"),
        (10, 18, "d"),
        (10, 20, "d"),
    ]


def test_a_fixed_window_is_one_interval() -> None:
    #            0    5    10
    rows = line("abcdefghijkl")
    assert whole(sw.fixed(3, 4), rows) == [(3, 7, "defg")]
    assert whole(sw.fixed(30, 4), rows) == []


def test_an_advancing_column_places_events_and_a_null_in_it_places_none() -> None:
    rows = [
        {"t": 100, "s": "a", "km": 0.5},
        {"t": 101, "s": "b", "km": None},
        {"t": 102, "s": "c", "km": 4.75},
        {"t": 103, "s": "d", "km": math.nan},
        {"t": 110, "s": "e", "km": 5.0},
    ]
    assert whole(sw.tumbling(sw.units(5, on="km")), rows) == [(0, 5, "ac"), (5, 10, "e")]


def test_row_windows_count_in_the_order_of_time_and_wait_until_they_are_full() -> None:
    rows = [{"t": t, "s": s} for t, s in [(5, "c"), (1, "a"), (9, "e"), (2, "b"), (5, "d")]]
    assert whole(sw.tumbling(sw.rows(2)), rows) == [(0, 2, "ab"), (2, 4, "cd")]
    assert whole(sw.sliding(sw.rows(3), sw.rows(1)), rows) == [
        (0, 3, "abc"),
        (1, 4, "bcd"),
        (2, 5, "cde"),
    ]
    assert whole(sw.sliding(sw.rows(1), sw.rows(3)), rows) == [(0, 1, "a"), (3, 4, "d")]


def test_time_every_rows_opens_at_every_nth_event_and_equal_openers_open_once() -> None:
    #            0    5    10
    rows = line("ab--c-d")
    #   a opens [0, 3), c opens [4, 7)
    assert whole(sw.sliding(3, every=sw.rows(2)), rows) == [(0, 3, "ab"), (4, 7, "cd")]
    tied = [{"t": t, "s": s} for t, s in [(0, "a"), (4, "b"), (4, "c"), (4, "d"), (4, "e")]]
    #   a, c and e open; c's instance holds b too, which has the same time
    assert whole(sw.sliding(3, every=sw.rows(2)), tied) == [(0, 3, "a"), (4, 7, "bcde")]


def test_rows_every_time_gives_the_last_events_where_there_was_one_since() -> None:
    #            0    5    10   15
    rows = line("abc-d----------e")
    #   multiples of 5: 5 saw a to d, 10 and 15 saw none, 20 saw e
    assert whole(sw.sliding(sw.rows(2), every=5), rows) == [(2, 5, "cd"), (4, 20, "de")]
    assert whole(sw.sliding(sw.rows(9), every=5), rows) == [(0, 5, "abcd"), (0, 20, "abcde")]
    #   an event at a multiple is not before it
    assert whole(sw.sliding(sw.rows(9), every=5), line("a----b")) == [(0, 5, "a"), (0, 10, "ab")]


def test_sessions_join_events_exactly_a_gap_apart() -> None:
    #            0    5    10
    rows = line("a--b---c")
    assert whole(sw.session(3), rows) == [(0, 6, "ab"), (7, 10, "c")]
    assert whole(sw.session(4), rows) == [(0, 11, "abc")]


def test_a_session_is_cut_at_its_longest_and_the_next_event_begins_another() -> None:
    #            0    5    10
    rows = line("ab-c--d-e")
    #   d is 6 after a: not less than max_length
    assert whole(sw.session(4, max_length=6), rows) == [(0, 6, "abc"), (6, 12, "de")]
    #   the end is never after first + max_length, even when no event came there
    assert whole(sw.session(4, max_length=6), line("ab-c")) == [(0, 6, "abc")]
    assert whole(sw.session(9, max_length=2), rows) == [
        (0, 2, "ab"),
        (3, 5, "c"),
        (6, 8, "d"),
        (8, 10, "e"),
    ]


def flagged(text: str) -> list[dict[str, Any]]:
    """Events from a picture, capitals marked."""
    return [row | {"flag": row["s"].isupper()} for row in line(text)]


def test_a_marked_event_opens_the_next_instance_and_the_last_one_waits() -> None:
    #               0    5    10
    rows = flagged("-ab-Cd--E-f")
    assert whole(sw.punctuated("flag"), rows) == [(1, 4, "ab"), (4, 8, "Cd")]
    capital = sw.punctuated(lambda event: event["s"].isupper())
    assert whole(capital, rows) == [(1, 4, "ab"), (4, 8, "Cd")]


def test_marked_events_at_one_time_make_one_instance_of_no_length() -> None:
    rows = [{"t": t, "s": s, "flag": s.isupper()} for t, s in [(0, "a"), *zip([5] * 4, "BCdE")]]
    assert whole(sw.punctuated("flag"), rows) == [(0, 5, "a"), (5, 5, "BCd")]


def test_null_is_no_mark() -> None:
    rows = [{"t": t, "s": "abc"[t], "flag": [True, None, True][t]} for t in range(3)]
    assert whole(sw.punctuated("flag"), rows) == [(0, 2, "ab")]


def test_a_threshold_holds_maximal_runs_that_are_over_and_long_enough() -> None:
    #               0    5    10
    rows = flagged("aB--CDe-F-gHI")
    assert whole(sw.threshold("flag"), rows) == [(1, 6, "BCD"), (8, 10, "F")]
    assert whole(sw.threshold("flag", min_rows=2), rows) == [(1, 6, "BCD")]


class Pairs(sw.UserWindow):
    """Each event and the next one."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, time: int, event: Mapping[str, Any]) -> tuple[int, int]:
        self.seen += 1
        return (1, int(self.seen > 2))


def test_a_user_window_sees_events_in_the_order_of_time_with_a_copy_per_key() -> None:
    #            0    5    10
    rows = line("a-b--c---d")
    assert whole(Pairs(), rows[::-1]) == [(0, 5, "ab"), (2, 9, "bc")]
    keyed = [row | {"k": k} for row in rows for k in "xy"]
    answer = windowed_rows(keyed, windows=[Pairs()], aggs=LETTERS, time="t", by="k")
    assert [(k, start, end) for k, _, start, end in answer] == [
        ("x", 0, 5),
        ("x", 2, 9),
        ("y", 0, 5),
        ("y", 2, 9),
    ]


# When instances close.


def closing(window: Window, rows: list[dict[str, Any]]) -> dict[tuple[float, float], float]:
    """The first whole watermark that emits each instance of a window."""
    twin = oracle(window)
    twin.process(rows)
    return {(r.start, r.end): w for w in [*range(40), END] for r in twin.advance(w)}


def test_a_time_window_closes_when_the_watermark_reaches_its_end() -> None:
    assert closing(sw.tumbling(5), line("a----b")) == {(0, 5): 5, (5, 10): 10}
    assert closing(sw.fixed(3, 4), line("----a")) == {(3, 7): 7}
    assert closing(sw.cumulate(6, 3), line("a")) == {(0, 3): 3, (0, 6): 6}


def test_a_session_closes_when_the_watermark_is_above_last_plus_gap() -> None:
    assert closing(sw.session(3), line("a--b")) == {(0, 6): 7}


def test_a_session_that_can_not_grow_closes_at_its_longest() -> None:
    #   an event at 5 could still join, one at 6 could not
    assert closing(sw.session(3, max_length=6), line("a--b")) == {(0, 6): 6}
    #   last + gap is 4, so nothing after 4 can join: closed from 5 on
    assert closing(sw.session(3, max_length=6), line("ab")) == {(0, 4): 5}


def test_a_row_window_closes_when_its_last_event_is_below_the_watermark() -> None:
    assert closing(sw.tumbling(sw.rows(2)), line("a---bc")) == {(0, 2): 5}


def test_mixed_windows_close_at_points_of_time() -> None:
    assert closing(sw.sliding(3, every=sw.rows(2)), line("-a--b")) == {(1, 4): 4}
    assert closing(sw.sliding(sw.rows(2), every=5), line("-a--b-c")) == {(1, 5): 5, (4, 10): 10}


def test_a_window_over_a_column_closes_when_an_event_past_its_end_is_below_the_watermark() -> None:
    rows = [{"t": t, "s": "x", "km": km} for t, km in [(0, 1), (7, 5), (8, 7)]]
    found = closing(sw.tumbling(sw.units(5, on="km")), rows)
    assert found == {(0, 5): 8, (5, 10): END}


def test_data_driven_windows_close_when_the_event_that_ends_them_is_below_the_watermark() -> None:
    assert closing(sw.punctuated("flag"), flagged("ab-C")) == {(0, 3): 4}
    assert closing(sw.threshold("flag"), flagged("AB-c")) == {(0, 3): 4}
    assert closing(Pairs(), line("a-b-c")) == {(0, 4): 5}


def test_at_the_end_of_a_table_what_misses_its_end_is_not_emitted() -> None:
    for window in (sw.tumbling(sw.rows(3)), sw.punctuated("flag"), sw.threshold("flag"), Pairs()):
        assert whole(window, flagged("AB")[:1]) == []
    for window in (sw.tumbling(5), sw.session(5), sw.sliding(sw.rows(3), every=5)):
        assert len(whole(window, line("a"))) == 1


# Late events, revisions and retractions.


def test_rule_05_an_event_counts_as_long_as_its_instance_is_open() -> None:
    twin = oracle(sw.tumbling(10), lateness=3)
    twin.process(line("a"))
    twin.advance(12)
    twin.process([{"t": 4, "s": "b"}])
    assert shown(twin.advance(12)) == [(0, 10, "ab", 1)]
    twin.advance(13)
    twin.process([{"t": 4, "s": "x"}])
    assert (twin.late, twin.partly) == ([{"t": 4, "s": "x"}], [])
    assert twin.advance(math.inf) == []


def test_rule_05_an_event_that_some_instance_missed_is_handed_out_with_names() -> None:
    twin = Oracle(
        windows=[sw.sliding(10, every=5, name="s"), sw.tumbling(10, name="t"), sw.session(3)],
        aggs=LETTERS,
        time="t",
        emit="final",
    )
    twin.process(line("a"))
    twin.advance(12)
    twin.process([{"t": 9, "s": "b"}, {"t": 1, "s": "x"}])
    assert twin.partly == [({"t": 9, "s": "b"}, ["s", "t"])]
    assert twin.late == [{"t": 1, "s": "x"}]
    found = [(row.window, *shown([row])[0]) for row in twin.advance(math.inf)]
    assert found == [("s", 5, 15, "b"), ("session_3", 9, 12, "b")]


#   time    0    5    10   15   20
#           c        |h  y              gap 5: `c` is closed at the horizon 10
def test_rule_05_what_is_near_a_closed_session_begins_another_one() -> None:
    twin = oracle(sw.session(5), emit="final")
    twin.process([{"t": 3, "s": "c"}])
    assert shown(twin.advance(9)) == [(3, 8, "c")]
    twin.process([{"t": 3, "s": "x"}])
    assert [row["s"] for row in twin.late] == ["x"]
    # `y` is near `c`, and makes a session that is open; `z`, before `c`, joins it.
    twin.process([{"t": 7, "s": "y"}])
    twin.process([{"t": 2, "s": "z"}])
    assert shown(twin.advance(math.inf)) == [(2, 12, "zy")]


def test_rule_05_events_that_come_together_are_one_session_or_none() -> None:
    for rows in (
        [{"t": 5, "s": "a"}, {"t": 9, "s": "b"}],
        [{"t": 9, "s": "b"}, {"t": 5, "s": "a"}],
    ):
        twin = oracle(sw.session(5), emit="final")
        twin.advance(12)
        twin.process(rows)
        assert shown(twin.advance(math.inf)) == [(5, 14, "ab")]


def test_before_the_first_watermark_nothing_is_late_and_the_first_loses_nothing() -> None:
    twin = oracle(sw.tumbling(5))
    twin.process(line("a----b----c")[::-1])
    assert shown(twin.advance(100)) == [(0, 5, "a"), (5, 10, "b"), (10, 15, "c")]
    assert twin.late == []


@pytest.mark.parametrize("time", [None, math.nan, math.inf, 2**63, -(2**63) - 1, 0.5, "3", True])
def test_an_event_without_a_usable_time_is_bad_and_the_rest_goes_on(time: Any) -> None:
    twin = oracle(sw.tumbling(5))
    twin.process([{"t": time, "s": "x"}, {"t": 1, "s": "a"}])
    assert [row["s"] for row in twin.bad] == ["x"]
    assert shown(twin.advance(END)) == [(0, 5, "a")]


def test_only_a_changed_instance_is_emitted_again_with_a_higher_revision() -> None:
    twin = oracle(sw.tumbling(5), lateness=20)
    twin.process(line("a----b"))
    assert shown(twin.advance(10)) == [(0, 5, "a"), (5, 10, "b")]
    twin.process([{"t": 3, "s": "c"}])
    assert shown(twin.advance(10)) == [(0, 5, "ac", 1)]
    twin.process([{"t": 1, "s": "d"}])
    assert shown(twin.advance(12)) == [(0, 5, "adc", 2)]
    assert twin.advance(13) == []


def test_a_watermark_that_goes_back_is_ignored() -> None:
    twin = oracle(sw.tumbling(5))
    twin.process(line("a"))
    assert shown(twin.advance(7)) == [(0, 5, "a")]
    assert twin.advance(2) == []
    twin.process([{"t": 4, "s": "x"}])
    assert len(twin.late) == 1


#   time      0    5    10
#   on time   a-----b
#   late         c            a and b become one session
def test_a_late_event_that_joins_two_sessions_retracts_both() -> None:
    twin = oracle(sw.session(3), lateness=50)
    twin.process(line("a-----b"))
    assert shown(twin.advance(20)) == [(0, 3, "a"), (6, 9, "b")]
    twin.process([{"t": 3, "s": "c"}])
    assert shown(twin.advance(20)) == [(0, 3, "a", 1, "-"), (0, 9, "acb"), (6, 9, "b", 1, "-")]
    assert twin.advance(30) == []


def test_a_late_row_shifts_its_successors() -> None:
    twin = oracle(sw.tumbling(sw.rows(2)), lateness=50)
    twin.process(line("-a-b-c-d"))
    assert shown(twin.advance(20)) == [(0, 2, "ab"), (2, 4, "cd")]
    twin.process([{"t": 0, "s": "x"}])
    assert shown(twin.advance(20)) == [(0, 2, "xa", 1), (2, 4, "bc", 1)]


#   time     -2   0   2
#   on time       a b c      a and c open
#   late        x            x and b open
#   later     y              y, a and c open
def test_an_instance_that_comes_back_goes_on_counting_revisions() -> None:
    twin = oracle(sw.sliding(3, every=sw.rows(2)), lateness=50)
    twin.process(line("abc"))
    assert shown(twin.advance(20)) == [(0, 3, "abc"), (2, 5, "c")]
    twin.process([{"t": -1, "s": "x"}])
    assert shown(twin.advance(20)) == [
        (-1, 2, "xab"),
        (0, 3, "abc", 1, "-"),
        (1, 4, "bc"),
        (2, 5, "c", 1, "-"),
    ]
    twin.process([{"t": -2, "s": "y"}])
    assert shown(twin.advance(20)) == [
        (-2, 1, "yxa"),
        (-1, 2, "xab", 1, "-"),
        (0, 3, "abc", 2),
        (1, 4, "bc", 1, "-"),
        (2, 5, "c", 2),
    ]


def test_a_late_mark_splits_an_instance_and_the_old_one_is_retracted() -> None:
    twin = oracle(sw.punctuated("flag"), lateness=50)
    twin.process(flagged("a----B"))
    assert shown(twin.advance(20)) == [(0, 5, "a")]
    twin.process([{"t": 3, "s": "C", "flag": True}])
    assert shown(twin.advance(20)) == [(0, 3, "a"), (0, 5, "a", 1, "-"), (3, 5, "C")]


def test_final_results_come_once_when_lateness_is_over_too() -> None:
    twin = oracle(sw.tumbling(5), lateness=3, emit="final")
    twin.process(line("a"))
    assert twin.advance(7) == []
    twin.process([{"t": 4, "s": "b"}])
    assert shown(twin.advance(8)) == [(0, 5, "ab")]
    assert twin.advance(END) == []


def test_early_results_come_whenever_an_instance_changed() -> None:
    twin = oracle(sw.tumbling(5), sw.session(3), emit="on_update")
    twin.process(line("a"))
    assert shown(twin.advance(0)) == [(0, 5, "a"), (0, 3, "a")]
    assert twin.advance(0) == []
    twin.process([{"t": 2, "s": "b"}])
    assert shown(twin.advance(0)) == [(0, 5, "ab", 1), (0, 3, "a", 1, "-"), (0, 5, "ab")]


def test_early_results_of_data_driven_windows_wait_for_their_end() -> None:
    twin = oracle(sw.punctuated("flag"), sw.tumbling(sw.rows(2)), emit="on_update")
    twin.process(flagged("a"))
    assert twin.advance(0) == []
    twin.process([{"t": 4, "s": "B", "flag": True}])
    assert shown(twin.advance(0)) == [(0, 4, "a"), (0, 2, "aB")]


def test_ordered_events_are_their_own_watermark() -> None:
    twin = oracle(sw.tumbling(5), ordered=True)
    assert twin.process(line("a---b")) == []
    assert shown(twin.process(line("-----c-----d"))) == [(0, 5, "ab"), (5, 10, "c")]
    with pytest.raises(OrderError, match=r"one at 3 came after one at 11\. Leave out `ordered`"):
        twin.process([{"t": 3, "s": "x"}])
    assert shown(twin.advance(END)) == [(10, 15, "d")]


# Windows that come and go, keys and tables.


def test_a_window_added_later_reports_instances_from_a_start_on() -> None:
    twin = oracle(sw.tumbling(5))
    twin.process(line("a----b----c"))
    twin.add_window(sw.tumbling(5, name="new"), since=5)
    assert [(r.window, r.start) for r in twin.advance(END)] == [
        ("tumbling_5", 0),
        ("tumbling_5", 5),
        ("tumbling_5", 10),
        ("new", 5),
        ("new", 10),
    ]


def test_a_removed_window_is_silent_and_its_name_is_free() -> None:
    twin = oracle(sw.tumbling(5), lateness=50)
    twin.process(line("a"))
    twin.advance(10)
    twin.remove_window("tumbling_5")
    twin.process([{"t": 1, "s": "b"}])
    assert twin.advance(20) == []
    twin.add_window(sw.tumbling(5))
    assert shown(twin.advance(20)) == [(0, 5, "ab")]


def test_two_windows_with_one_name_are_refused() -> None:
    with pytest.raises(WindowError, match=r"Two windows have the name 'tumbling_5'"):
        oracle(sw.tumbling(5), sw.tumbling(5))


def test_keys_may_be_null_several_columns_and_of_any_type() -> None:
    rows = [{"t": 1, "s": s, "k": k, "n": 1} for s, k in zip("abcd", ["y", None, "", "x"])]
    one = Oracle(windows=[sw.tumbling(5)], aggs=LETTERS, time="t", by="k")
    one.process(rows)
    assert [r.key for r in one.advance(END)] == [None, "", "x", "y"]
    two = Oracle(windows=[sw.tumbling(5)], aggs=LETTERS, time="t", by=["k", "n"])
    two.process(rows[:2])
    assert [r.key for r in two.advance(END)] == [(None, 1), ("y", 1)]


def test_batches_may_be_rows_columns_or_arrow() -> None:
    columns = {"t": [1, 2], "s": ["a", "b"]}
    for batch in (columns, pa.table(columns), pa.table(columns).to_pylist()):
        twin = oracle(sw.tumbling(5))
        twin.process(batch)
        assert shown(twin.advance(END)) == [(0, 5, "ab")]


def test_timestamps_count_microseconds() -> None:
    times = pa.array([0, 61_000_000, 125_000_000], pa.timestamp("us", tz="UTC"))
    twin = oracle(sw.tumbling("1m"))
    twin.process(pa.table({"t": times, "s": ["a", "b", "c"]}))
    watermark = times[2].as_py()
    assert shown(twin.advance(watermark)) == [(0, 60_000_000, "a"), (60_000_000, 120_000_000, "b")]


def test_values_follow_the_natural_algebra_of_each_aggregate() -> None:
    aggs = [sw.agg.sum("x"), sw.agg.count("x"), sw.agg.count(), sw.agg.last("x")]
    rows = [{"t": 2, "x": 5}, {"t": 1, "x": 4}, {"t": 3, "x": None}]
    answer = windowed_rows(rows, windows=[sw.tumbling(5)], aggs=aggs, time="t")
    assert list(answer.values()) == [{"x_sum": 9, "x_count": 2, "count": 3, "x_last": 5}]


# Comparing rows.

ROW = Emitted("k", "w", 0, 5, {"n": 1.0})


def test_the_same_rows_in_another_order_are_the_same() -> None:
    other = ROW._replace(start=1, values={"n": math.nan})
    assert_same_rows([ROW, other], [other, ROW])
    assert_same_rows([ROW], [ROW._replace(values={"n": 1.0 + 1e-12})])


@pytest.mark.parametrize(
    "other",
    [
        ROW._replace(key="l"),
        ROW._replace(end=6),
        ROW._replace(values={"n": 2.0}),
        ROW._replace(values={"n": None}),
        ROW._replace(revision=1),
        ROW._replace(retracted=True),
    ],
)
def test_different_rows_are_told_apart(other: Emitted) -> None:
    with pytest.raises(AssertionError, match=r"emitted .* expected"):
        assert_same_rows([ROW], [other])
    with pytest.raises(AssertionError, match=r"emitted .* expected"):
        assert_same_rows([ROW], [])


# Laws of the oracle itself, over every kind of window.


def play(twin: Oracle, script: list[Step]) -> list[Emitted]:
    emitted: list[Emitted] = []
    for step in script:
        emitted += twin.process(step[1]) if step[0] == "process" else twin.advance(step[1])
    return emitted


@pytest.mark.parametrize("emit", ["on_close", "final", "on_update"])
@given(defined=windows(), script=steps(max_size=12), lateness=st.integers(0, 60))
def test_folding_what_was_emitted_gives_the_batch_answer(
    emit: Any, defined: list[Window], script: list[Step], lateness: int
) -> None:
    twin = Oracle(windows=defined, aggs=LETTERS, time="t", by="k", lateness=lateness, emit=emit)
    emitted: list[Emitted] = []
    in_time: list[Row] = []
    late = False
    for step in script:
        if step[0] == "process":
            in_time += [row for row in step[1] if row["t"] >= twin.horizon]
            late |= any(row["t"] < twin.horizon for row in step[1])
        emitted += twin.process(step[1]) if step[0] == "process" else twin.advance(step[1])
    # What comes below the horizon counts for windows of time and sessions that are open.
    names = {w.name for w in defined if not late or not takes_late(w)}
    answer = windowed_rows(in_time, windows=defined, aggs=LETTERS, time="t", by="k")
    found = {identity: v for identity, v in fold(emitted).items() if identity[1] in names}
    assert found == {identity: v for identity, v in answer.items() if identity[1] in names}


def takes_late(window: Window) -> bool:
    of_time = isinstance(window, Periodic | Cumulate | Fixed) and window.axis is None
    return of_time or (isinstance(window, Session) and window.max_length is None)


@given(
    defined=windows(),
    rows=events(max_size=12, distinct_times=True),
    random=st.randoms(use_true_random=False),
)
def test_arrival_order_does_not_change_the_answer(
    defined: list[Window], rows: list[Row], random: Any
) -> None:
    shuffled = random.sample(rows, len(rows))
    asked: dict[str, Any] = {"windows": defined, "aggs": LETTERS, "time": "t", "by": "k"}
    assert windowed_rows(shuffled, **asked) == windowed_rows(rows, **asked)


@given(defined=windows(), script=steps(max_size=12, ordered=True))
def test_ordered_events_fold_to_the_batch_answer(defined: list[Window], script: list[Step]) -> None:
    twin = Oracle(windows=defined, aggs=LETTERS, time="t", by="k", ordered=True)
    emitted = play(twin, script)
    taken = [row for step in script if step[0] == "process" for row in step[1]]
    expected = windowed_rows(taken, windows=defined, aggs=LETTERS, time="t", by="k")
    assert fold(emitted) == expected
    assert len(emitted) == len(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_window_has_instances_in_the_oracle(kind: str) -> None:
    rows = [
        {"t": t, "s": "x", "x": t % 10, "km": t, "flag": t % 4 > 0, "k": "a"}
        for t in range(-15, 46)
    ]

    @given(KINDS[kind]("w"))
    def check(window: Window) -> None:
        assert whole(window, rows)

    check()


def test_rows_are_alike_only_where_their_shapes_are() -> None:
    assert alike({"a": [1.0, None]}, {"a": [1, None]})
    assert not alike({"a": 1}, {"b": 1})
    assert not alike([1], [1, 2])
    assert in_order([ROW, ROW._replace(window="v")], ["v", "w"])[0].window == "v"
