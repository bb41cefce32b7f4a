"""FlatFIT: the steps of its paper, and the room that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.aggregates.components import Largest
from slicewise.mergers import FlatFAT, FlatFIT
from slicewise.mergers.base import arrays_for
from tests.support.texts import Text

NOTHING = float("-inf")
FIGURE_7 = [2.0, 4.0, 0.0, 3.0, 7.0, 6.0, 1.0, 8.0, 9.0, 5.0]


class Greatest(sw.Aggregate):
    """A maximum that counts its comparisons."""

    compile = False
    comparisons = 0

    def identity(self) -> float:
        return NOTHING

    def lift(self, value: float) -> float:
        return value

    def combine(self, older: float, newer: float) -> float:
        type(self).comparisons += 1
        return max(older, newer)

    def lower(self, state: float) -> float:
        return state


def steps(*ranges: int) -> tuple[list[list[float]], list[int]]:
    """The answers and the comparisons of each step of the paper's Figure 7."""
    merger = FlatFIT(Greatest(), length=5)
    merger.insert_many([NOTHING] * 4)  # as the paper fills its window
    answers, comparisons = [], []
    for value in FIGURE_7:
        if len(merger) == 5:
            merger.evict()
        merger.insert(value)
        before = Greatest.comparisons
        answers.append([merger.query(last=k) for k in ranges])
        comparisons.append(Greatest.comparisons - before)
    return answers, comparisons


def test_one_range_takes_the_comparisons_of_figure_7() -> None:
    answers, comparisons = steps(5)
    assert answers == [[2], [4], [4], [4], [7], [7], [7], [8], [9], [9]]
    # The window is reset in steps 1 and 7.
    assert comparisons == [4, 1, 2, 2, 2, 1, 4, 1, 2, 2]


def test_two_ranges_take_no_more_comparisons_than_in_figure_7() -> None:
    answers, comparisons = steps(5, 2)
    assert answers == [
        [2, 2], [4, 4], [4, 4], [4, 3], [7, 7], [7, 7], [7, 6], [8, 8], [9, 9], [9, 9],
    ]  # fmt: skip
    assert sum(comparisons) <= 21 + 6


def room(cls: type[FlatFAT | FlatFIT], length: int) -> int:
    """The bytes of a merger over a window of doubles."""
    cursors, states = arrays_for(cls, Largest("<f8", NOTHING).algebra, length)
    return int(cursors.nbytes + sum(array.nbytes for array in states))


@pytest.mark.parametrize("n", [8, 100, 1000, 1024, 1025, 3600, 4097])
def test_there_is_room_for_n_states_and_n_pointers(n: int) -> None:
    cursors = 8 * (FlatFIT.cursors + 1)
    assert room(FlatFIT, n) == 2 * n * 8 + cursors
    assert room(FlatFAT, n) >= 2 * 8 * 2 ** int(np.ceil(np.log2(n)))
    assert room(FlatFIT, n) <= room(FlatFAT, n)


def test_flatfat_takes_up_to_twice_the_room() -> None:
    # The paper measures 1.9 times at the most (Section 5.2), just above a power of two.
    assert room(FlatFAT, 1025) / room(FlatFIT, 1025) > 1.9


def numbers(merger: Any) -> int:
    return int(len(merger._p) - merger.cursors + sum(map(len, merger._S)))


@pytest.mark.parametrize("n", [3, 100, 1025])
def test_a_window_of_known_length_never_takes_more(n: int) -> None:
    merger = FlatFIT(sw.agg.max(), length=n)
    for value in range(3 * n):
        if len(merger) == n:
            merger.evict()
        merger.insert(value)
        merger.query(last=1 + value * value % len(merger))
        assert merger.query() == value
        assert numbers(merger) == 2 * n


def test_room_grows_by_an_eighth_where_the_length_is_not_known() -> None:
    merger = FlatFIT(sw.agg.min())
    for n in range(1, 2000):
        merger.insert(n)
        assert numbers(merger) <= 2 * (n + n // 8 + 8)
    assert merger.query() == 1


def test_a_window_that_grows_while_it_has_wrapped_around_keeps_its_pointers() -> None:
    merger, window = FlatFIT(Text()), ""
    for step, letter in enumerate("abcdefghijklmnopqrstuvwxyz" * 4):
        if step % 3 == 2:
            merger.evict()
            window = window[1:]
        merger.insert(letter)
        window += letter
        assert merger.query(last=len(window) // 2) == window[len(window) - len(window) // 2 :]
        assert merger.query() == window
