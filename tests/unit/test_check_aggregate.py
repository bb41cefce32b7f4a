"""The published check finds a broken aggregate for every law, and says what is broken."""

from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import AggregateError, LawError
from slicewise.testing import check_aggregate
from tests.support.broken import (
    ChangesItsArguments,
    ForgetsToSubtract,
    Halves,
    KeepsTheOlder,
    SelectsNothing,
    StartsAtOne,
    Total,
)

EXAMPLES = [1.0, 2.0, 5.0, 2.0, 9.0]


class Wraps(sw.Aggregate):
    """Right with Python's integers, wrong with those of 64 bits."""

    commutative = True

    def identity(self) -> Any:
        return 0

    def lift(self, x: Any) -> Any:
        return x

    def combine(self, older: Any, newer: Any) -> Any:
        return older + newer

    def lower(self, state: Any) -> Any:
        return state**3


def test_sound_aggregates_pass_as_classes_and_as_instances() -> None:
    check_aggregate(Total, EXAMPLES)
    check_aggregate(Total("x"), [*EXAMPLES, None])
    check_aggregate(sw.agg.argmin("x", "y"), [(1, "a"), (2, "b"), (1, "c"), (None, "d")])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            StartsAtOne,
            r"^`identity` of `starts_at_one` is not neutral: combine\(identity\(\), a\) and a, "
            r"which should be the same, lead to 2.0 and 1.0 for the state a of the events \[1.0\]"
            r"\. Slices without events must not change a result\.$",
        ),
        (Halves, r"^`combine` of `halves` is not associative: .* c = \[.*\. Results would depend"),
        (KeepsTheOlder, "^`keeps_the_older` says `commutative = True` and does not commute: "),
        (SelectsNothing, "^`selects_nothing` says `selective = True` and does not select: "),
        (ForgetsToSubtract, "^`invert` of `forgets_to_subtract` does not undo `combine`: "),
    ],
)
def test_a_broken_law_is_found(broken: type[sw.Aggregate], message: str) -> None:
    with pytest.raises(LawError, match=message):
        check_aggregate(broken, EXAMPLES)


def test_a_combine_that_changes_its_arguments_is_found() -> None:
    message = "^`combine` of `changes_its_arguments` changes its arguments: a after and before"
    with pytest.raises(LawError, match=message):
        check_aggregate(ChangesItsArguments, EXAMPLES)


def test_compiled_code_that_differs_from_python_is_found() -> None:
    check_aggregate(Wraps, [1, 2, 3])
    message = (
        r"^compiled code of `wraps` differs from Python: .* lead to 115964117019 and "
        r"79228162680285034372894031899 for the events .*\. Compiled integers have 64 bits; "
        r"`compile = False` keeps it interpreted\.$"
    )
    with pytest.raises(LawError, match=message):
        check_aggregate(Wraps, [2**31, 2**31, 3])


def test_too_few_examples_are_refused() -> None:
    with pytest.raises(AggregateError, match=r"at least 2 examples that are not null; given: 1\."):
        check_aggregate(Total, [1.0, None])


def test_a_law_error_is_an_assertion() -> None:
    assert issubclass(LawError, AssertionError)
