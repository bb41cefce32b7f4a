"""Mergers one by one: what they refuse, how they grow, what the catalogue says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.aggregates.components import Largest
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnTypeError,
    EmptyWindowError,
    SlicewiseError,
    SpanError,
)
from slicewise.mergers import (
    CATALOGUE,
    DABA,
    BInt,
    FiBA,
    FlatFAT,
    FlatFIT,
    Merger,
    ReactiveAggregator,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
)
from tests.support.texts import Text

ALL: list[type[Merger]] = [*(entry.cls for entry in CATALOGUE.values()), ReactiveAggregator]
each = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)


# The catalogue.


def test_the_catalogue_has_the_names_of_the_design() -> None:
    assert set(CATALOGUE) == {
        "recalc", "subtract_on_evict", "flatfat", "bint", "flatfit", "two_stacks",
        "two_stacks_lite", "daba", "daba_lite", "slick_deque", "sba", "pba", "fiba",
    }  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_entry_has_its_class_and_its_properties_as_data(name: str) -> None:
    entry = CATALOGUE[name]
    assert entry.name == entry.cls.name == name
    assert getattr(sw.mergers, entry.cls.__name__) is entry.cls
    assert entry.needs in ("associative", "invertible", "invertible or selective")
    for text in (entry.amortised, entry.worst, entry.memory, entry.source):
        assert text


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_file_says_needs_cost_memory_and_the_source_of_its_entry(name: str) -> None:
    entry = CATALOGUE[name]
    text = sys.modules[entry.cls.__module__].__doc__ or ""
    for heading in ("\nNeeds:   ", "\nCost:    ", "\nMemory:  ", "\nSource:  "):
        assert heading in text
    assert entry.source in text


@pytest.mark.parametrize(
    ("name", "doi"),
    [
        ("flatfat", "10.14778/2752939.2752940"),
        ("flatfit", "10.1145/3085504.3085509"),
        ("sba", "10.1145/3447548.3467360"),
        ("pba", "10.1145/3447548.3467360"),
    ],
)
def test_the_sources_of_the_papers_that_this_library_unites(name: str, doi: str) -> None:
    assert CATALOGUE[name].source == f"doi:{doi}"


def test_the_table_in_the_documents_is_the_catalogue() -> None:
    def yes(flag: bool) -> str:
        return "yes" if flag else ""

    expected = [
        f"| `{name}` | `{e.cls.__name__}` | {e.needs} | {e.amortised} | {e.worst} | {e.memory} | "
        f"{yes(e.suffixes)} | {yes(e.bulk)} | {yes(e.unordered)} |"
        for name, e in CATALOGUE.items()
    ]
    document = (Path(__file__).parents[2] / "docs" / "mergers.md").read_text(encoding="utf-8")
    rows = [line for line in document.splitlines() if line.startswith("| `")]
    assert [" ".join(row.split()) for row in rows] == [" ".join(row.split()) for row in expected]


def test_using_mergers_by_hand_does_not_load_numba() -> None:
    code = (
        "import sys, slicewise as sw\n"
        "for entry in sw.mergers.CATALOGUE.values():\n"
        "    merger = entry.cls(sw.agg.sum())\n"
        "    merger.insert_many(range(20)); merger.evict(); assert merger.query() == 190\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


# What is refused.


def test_subtract_on_evict_refuses_a_maximum_and_names_a_merger_that_fits() -> None:
    with pytest.raises(
        CapabilityError,
        match=r"`SubtractOnEvict` needs an aggregate with `invert`; 'max' has none. "
        r"Use `TwoStacks`, which needs only `combine`.",
    ):
        SubtractOnEvict(sw.agg.max())


def test_slick_deque_refuses_what_neither_inverts_nor_selects() -> None:
    with pytest.raises(
        CapabilityError,
        match=r"`SlickDeque` needs an aggregate with `invert`, or one that is selective; 'text' "
        r"is neither. Use `TwoStacks`, which needs only `combine`.",
    ):
        SlickDeque(Text())
    assert TwoStacks(Text()).query() == ""


def test_kernels_are_refused_for_an_algebra_without_invert() -> None:
    class Both(Largest):
        selective = False

    algebra = Both("<f8", 0.0).algebra
    with pytest.raises(CapabilityError, match=r"`SubtractOnEvict` needs an `invert`; 'Both' has"):
        SubtractOnEvict.kernels_for(algebra)
    with pytest.raises(CapabilityError, match=r"`SlickDeque` needs an `invert` or a selective"):
        SlickDeque.kernels_for(algebra)


@each
def test_evicting_from_an_empty_window_is_an_error(cls: type[Merger]) -> None:
    merger = cls(sw.agg.sum())
    with pytest.raises(EmptyWindowError, match=r"this one holds none. Ask `len\(\)` first."):
        merger.evict()
    merger.insert(1)
    merger.evict()
    with pytest.raises(EmptyWindowError, match="`evict` takes the oldest event"):
        merger.evict()


@each
@pytest.mark.parametrize("count", [-1, 4, 1.5, float("nan"), None, "2"])
def test_evicting_more_than_there_is_changes_nothing(cls: type[Merger], count: Any) -> None:
    merger = cls(sw.agg.sum())
    merger.insert_many([1, 2, 3])
    with pytest.raises(
        EmptyWindowError,
        match=r"`evict_many` takes between 0 and all 3 events of the window; given: ",
    ):
        merger.evict_many(count)
    assert (merger.query(), len(merger)) == (6, 3)


@each
def test_the_newest_part_is_answered_or_refused_by_name(cls: type[Merger]) -> None:
    merger = cls(sw.agg.sum())
    merger.insert_many([1, 2, 3])
    if not cls.properties.suffixes:
        with pytest.raises(
            CapabilityError,
            match=rf"`{cls.__name__}` answers for its whole window only; given: last=2. "
            r"Use `FlatFAT`, `BInt`, `FlatFIT` or `FiBA`",
        ):
            merger.query(last=2)
        return
    assert [merger.query(last=k) for k in range(4)] == [None, 3, 5, 6]
    for last in (-1, 4, 0.5, float("nan")):
        with pytest.raises(SpanError, match="`last` counts events of the window, from 0 to 3 now"):
            merger.query(last=last)  # type: ignore[arg-type]  # that is the point


def test_exactly_the_four_of_the_papers_answer_for_the_newest_part() -> None:
    suffixes = {entry.cls for entry in CATALOGUE.values() if entry.suffixes}
    assert suffixes == {FlatFAT, BInt, FlatFIT, FiBA}


@each
def test_mixed_types_are_refused_before_they_are_in_the_window(cls: type[Merger]) -> None:
    merger = cls(sw.agg.sum())
    merger.insert_many([1, 2.5])
    with pytest.raises(
        ColumnTypeError,
        match=r"`sum` cannot take 'a' in a window of float or int: .* "
        r"Give all events of a window values of one type.",
    ):
        merger.insert("a")
    assert (merger.query(), len(merger)) == (3.5, 2)


def test_a_value_that_an_aggregate_cannot_lift_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match=r"`geomean` cannot take 'a': "):
        TwoStacks(sw.agg.geomean()).insert("a")


def test_an_event_has_as_many_values_as_the_aggregate_has_columns() -> None:
    merger = TwoStacks(sw.agg.weighted_mean("price", "volume"))
    for event in (3.0, (3.0,), (1.0, 2.0, 3.0), "ab"):
        with pytest.raises(
            AggregateError, match="`weighted_mean` takes events of 2 columns, as a tuple; given: "
        ):
            merger.insert(event)
    merger.insert((10.0, 1.0))
    merger.insert((20.0, 3.0))
    assert merger.query() == 17.5


@each
def test_a_null_event_counts_but_leaves_no_trace(cls: type[Merger]) -> None:
    merger = cls(sw.agg.sum())
    merger.insert_many([None, 4, None])
    assert (merger.query(), len(merger)) == (4, 3)
    merger.evict_many(2)
    assert (merger.query(), len(merger)) == (None, 1)


@each
def test_every_error_is_of_the_family(cls: type[Merger]) -> None:
    with pytest.raises(SlicewiseError):
        cls(sw.agg.sum()).evict()


# Float sums.


@each
def test_a_great_value_leaves_no_trace_unless_it_is_subtracted(cls: type[Merger]) -> None:
    merger = cls(sw.agg.sum())
    merger.insert_many([1e16, 0.5, 0.25])
    merger.evict()
    subtracts = cls in (SubtractOnEvict, SlickDeque)
    assert (merger.query() == 0.75) is not subtracts


def test_an_emptied_window_starts_afresh_where_values_are_subtracted() -> None:
    merger = SubtractOnEvict(sw.agg.sum())
    merger.insert_many([1e16, 0.5])
    merger.evict_many(2)
    merger.insert(0.1)
    assert merger.query() == 0.1


# FlatFAT and the Reactive Aggregator.


def test_flatfat_doubles_when_full_and_halves_below_a_quarter() -> None:
    merger = FlatFAT(Text())
    merger.insert_many("x" * 8)
    assert merger.capacity == 8
    merger.insert("x")
    assert merger.capacity == 16
    merger.insert_many("x" * 56)
    assert (len(merger), merger.capacity) == (65, 128)
    merger.evict_many(33)
    assert (len(merger), merger.capacity) == (32, 128)
    merger.evict()
    assert (len(merger), merger.capacity) == (31, 64)
    merger.evict_many(31)
    assert (len(merger), merger.capacity) == (0, 8)


def test_flatfat_compacts_when_at_most_three_quarters_are_taken() -> None:
    merger = FlatFAT(Text())
    merger.insert_many("abcdefgh")
    merger.evict_at(2, 4)
    assert (merger.query(), len(merger), merger.capacity) == ("abdfgh", 6, 8)
    merger.insert("i")  # six of eight slots: the holes are closed
    assert (merger.query(), len(merger), merger.capacity) == ("abdfghi", 7, 8)
    merger.insert("j")
    merger.evict_at(3)
    merger.insert("k")  # seven of eight slots: more room
    assert (merger.query(), len(merger), merger.capacity) == ("abdghijk", 8, 16)


def test_an_inverted_buffer_is_read_in_window_order() -> None:
    # The events of Figure 5 of the paper, in a buffer of 8:
    #   slots after the last step   i j c d e f g h
    #                                 B F
    merger = FlatFAT(Text())
    merger.insert_many("abcdefgh")
    merger.evict_many(2)
    merger.insert_many("ij")
    assert merger.capacity == 8
    assert merger.query() == "cdefghij"
    assert [merger.prefix(k) for k in (0, 1, 6, 7)] == ["", "c", "cdefgh", "cdefghi"]
    assert [merger.suffix(k) for k in (0, 5, 6, 8)] == ["cdefghij", "hij", "ij", ""]


@pytest.mark.parametrize("position", [-1, 3, 0.5])
def test_flatfat_refuses_positions_outside_the_window(position: Any) -> None:
    merger = FlatFAT(Text())
    merger.insert_many("abc")
    with pytest.raises(EmptyWindowError, match="and this window holds 3; given: "):
        merger.evict_at(position)
    with pytest.raises(EmptyWindowError, match="A position counts from the oldest event, 0"):
        merger.update([(position, "x")])
    outside = position if position != 3 else 4
    with pytest.raises(SpanError, match="cut the window at a position from 0 to 3; given: "):
        merger.prefix(outside)
    with pytest.raises(SpanError, match="`prefix` and `suffix` cut the window"):
        merger.suffix(outside)
    assert merger.query() == "abc"


def test_the_reactive_aggregator_submits_only_what_is_new() -> None:
    results: list[Any] = []
    aggregator = ReactiveAggregator(sw.agg.max(), submit=results.append)
    for values in ([], [3.0], [2.0], [float("nan")], [1.0]):
        aggregator.insert_many(values)
        aggregator.trigger()
    assert results[:2] == [None, 3.0]
    assert len(results) == 3
    aggregator.evict_at(2)
    aggregator.trigger()
    assert results[3:] == [3.0]


def test_the_reactive_aggregator_evicts_events_it_has_not_entered_yet() -> None:
    aggregator = ReactiveAggregator(Text())
    aggregator.insert_many("abcd")
    aggregator.evict_many(2)
    aggregator.evict_at(0)
    assert (aggregator.query(), aggregator.query(last=1), len(aggregator)) == ("d", "d", 1)


# SlickDeque.


def test_an_aggregate_that_could_do_both_takes_the_deque() -> None:
    class Both(sw.Aggregate):
        selective = True

        def identity(self) -> float:
            return float("-inf")

        def lift(self, value: float) -> float:
            return value

        def combine(self, older: float, newer: float) -> float:
            return max(older, newer)

        def lower(self, state: float) -> float:
            return state

        def invert(self, total: float, oldest: float) -> float:
            raise AssertionError("not used")

    merger = SlickDeque(Both())
    merger.insert_many([3.0, 1.0, 2.0])
    merger.evict()
    assert merger.query() == 2.0


# DABA.


def test_daba_keeps_the_lengths_of_its_parts() -> None:
    merger = DABA(Text())
    pattern = [*"+" * 40, *"-" * 15, *"+-" * 30, *"-" * 20, *"++-" * 20, *"-" * 25]
    for step in pattern:
        if step == "+":
            merger.insert("x")
        elif len(merger):
            merger.evict()
        F, E, _, L, R, A, B = merger._p[:7]
        assert F <= L <= R <= A <= B <= E
        assert R - L == A - R
        assert (F == E) or (L - F) - 1 == E - B


# FiBA.


def test_fiba_keeps_events_of_the_same_time_in_the_order_of_arrival() -> None:
    merger = FiBA(Text())
    merger.insert_many("bdac", times=[2, 3, 1, 2])
    assert merger.query() == "abcd"
    assert merger.query_between(2, 3) == "bc"
    assert merger.query_between(3, 2) == ""


def test_fiba_puts_events_without_a_time_at_the_end() -> None:
    merger = FiBA(Text())
    merger.insert("a")
    merger.insert("c", time=5)
    merger.insert("d")
    merger.insert("b", time=4)
    assert (merger.query(), merger.oldest, merger.newest) == ("abcd", 0, 5)


def test_fiba_refuses_what_is_not_in_the_order_of_its_times() -> None:
    merger = FiBA(Text())
    merger.insert("a", time=1)
    for time in ("noon", float("nan")):
        with pytest.raises(ColumnTypeError, match=r"cannot be a time here: .* times of one type."):
            merger.insert("b", time=time)
        with pytest.raises(ColumnTypeError, match="Events are ordered by time, and "):
            merger.evict_before(time)
        with pytest.raises(ColumnTypeError, match="Events are ordered by time, and "):
            merger.query_between(0, time)
    with pytest.raises(AggregateError, match="one time per value; given: 2 values and 1 times"):
        merger.insert_many("bc", times=[2])
    # What came before the bad time of a batch is in, and the tree is sound.
    with pytest.raises(ColumnTypeError, match="'x' cannot be a time here"):
        merger.insert_many("bcd", times=[2, "x", 3])
    assert (merger.query(), len(merger)) == ("ab", 2)


def test_fiba_has_no_times_when_it_is_empty() -> None:
    for ask in ("oldest", "newest"):
        with pytest.raises(EmptyWindowError, match=f"`{ask}` is the time of an event"):
            getattr(FiBA(Text()), ask)


@pytest.mark.parametrize("min_arity", [1, 2.5, "2"])
def test_fiba_refuses_an_arity_below_two(min_arity: Any) -> None:
    with pytest.raises(AggregateError, match="the fewest children of a node, is at least 2"):
        FiBA(Text(), min_arity=min_arity)
