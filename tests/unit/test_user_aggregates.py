"""Aggregates that users write: compiled where they can be, interpreted with a reason elsewhere."""

import math
import os
import subprocess
import sys
from collections import namedtuple
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.columns import Column
from slicewise.errors import AggregateError
from tests.support.bound import run_bound

FLOAT, INT = pa.float64(), pa.int64()
SCALE = 10.0
LIMITS = (1.0, 5.0)


class Vwap(sw.Aggregate):
    commutative = True

    def identity(self) -> Any:
        return (0.0, 0.0)

    def lift(self, price: Any, volume: Any) -> Any:
        return (price * volume, volume)

    def combine(self, older: Any, newer: Any) -> Any:
        return (older[0] + newer[0], older[1] + newer[1])

    def lower(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None


class Total(sw.Aggregate):
    """A base for the variations below."""

    commutative = True

    def identity(self) -> Any:
        return 0.0

    def lift(self, x: Any) -> Any:
        return x

    def combine(self, older: Any, newer: Any) -> Any:
        return older + newer

    def lower(self, state: Any) -> Any:
        return state


def compiled(agg: sw.Aggregate, *lists: list[Any], types: Any = None) -> Any:
    """The compiled result; it must be compiled and agree with Python."""
    types = types or [FLOAT] * len(lists)
    assert agg.how(*types) == "compiled"
    arrays = [pa.array(values, kind) for values, kind in zip(lists, types, strict=True)]
    result = run_bound(agg, arrays)
    assert result == agg.fold(list(zip(*lists, strict=True)) if len(lists) > 1 else lists[0])
    return result


def test_two_columns_are_compiled() -> None:
    assert compiled(Vwap("price", "volume"), [10.0, 20.0, None], [2.0, 2.0, 1.0]) == 15.0


def test_lower_may_return_none() -> None:
    assert compiled(Vwap("price", "volume"), [], []) is None
    assert compiled(Vwap("price", "volume"), [None], [1.0]) is None


def test_whole_numbers_stay_whole_and_mix_with_floats() -> None:
    assert compiled(Vwap("price", "volume"), [10, 20], [1, 3], types=[INT, INT]) == 17.5

    class Counted(Total):
        def identity(self) -> Any:
            return (0, 0)

        def lift(self, x: Any) -> Any:
            return (1, x)

        def combine(self, older: Any, newer: Any) -> Any:
            return (older[0] + newer[0], older[1] + newer[1])

        def lower(self, state: Any) -> Any:
            return state[1] + 0.5 if state[0] > 1 else state[1]

    assert compiled(Counted("x"), [1, 2], types=[INT]) == 3.5
    assert compiled(Counted("x"), [1.25, 2.0]) == 3.75


def test_integer_results_are_integers() -> None:
    class Whole(Total):
        def identity(self) -> Any:
            return 0

    assert compiled(Whole("x"), [2**53, 1], types=[INT]) == 2**53 + 1


def test_booleans_and_small_types_are_taken() -> None:
    assert compiled(Total("x"), [True, False, True], types=[pa.bool_()]) == 2.0
    assert compiled(Total("x"), [200, 100], types=[pa.uint8()]) == 300.0


def test_attributes_of_self_become_constants() -> None:
    class Scaled(Total):
        unit = 2.0

        def __init__(self, column: str, factor: float) -> None:
            super().__init__(column)
            self.factor = factor

        def lift(self, x: Any) -> Any:
            return x * self.factor * self.unit

    assert compiled(Scaled("x", 3.0), [1.0, 2.0]) == 18.0
    assert compiled(Scaled("x", math.inf), [1.0, 2.0]) == math.inf
    assert Scaled("x", 3.0) != Scaled("x", 4.0)


def clipped(x: Any) -> Any:
    return min(max(x, LIMITS[0]), LIMITS[1])


def test_helpers_functions_and_constants_are_followed() -> None:
    class Helped(Total):
        @staticmethod
        def doubled(x: Any) -> Any:
            return 2 * x

        def scaled(self, x: Any) -> Any:
            return self.doubled(x) * SCALE

        def lift(self, x: Any) -> Any:
            return self.scaled(clipped(x)) + math.sqrt(x) * np.float64(0.0)

    assert compiled(Helped("x"), [0.0, 2.0, 9.0]) == 160.0


class Extent(NamedTuple):
    low: float
    high: float


def test_states_may_be_named_tuples() -> None:
    class Width(sw.Aggregate):
        commutative = True

        def identity(self) -> Any:
            return Extent(math.inf, -math.inf)

        def lift(self, x: Any) -> Any:
            return Extent(x, x)

        def combine(self, older: Any, newer: Any) -> Any:
            return Extent(low=min(older.low, newer.low), high=max(older.high, newer.high))

        def lower(self, state: Any) -> Any:
            return state.high - state.low if state.high >= state.low else None

    assert compiled(Width("x"), [3.0, 1.0, 8.0]) == 7.0
    assert compiled(Width("x"), []) is None


Single = namedtuple("Single", ["value"])


def test_a_named_tuple_of_one_field_stays_one() -> None:
    class Alone(sw.Aggregate):
        commutative = True

        def identity(self) -> Any:
            return Single(0.0)

        def lift(self, x: Any) -> Any:
            return Single(x)

        def combine(self, older: Any, newer: Any) -> Any:
            return Single(older.value + newer.value)

        def lower(self, state: Any) -> Any:
            return state.value

    assert compiled(Alone("x"), [3.0, 1.0]) == 4.0


def test_results_may_be_tuples_or_lists() -> None:
    class Both(Total):
        def lower(self, state: Any) -> Any:
            return [state, -state]

    agg = Both("x")
    assert agg.how(FLOAT) == "compiled"
    assert run_bound(agg, [pa.array([1.0, 2.0])]) == [3.0, -3.0]


def test_an_inherited_aggregate_is_compiled_with_what_it_overrides() -> None:
    class Doubled(Vwap):
        def lower(self, state: Any) -> Any:
            return 2.0 * state[0]

    assert compiled(Doubled("p", "v"), [1.0, 2.0], [1.0, 1.0]) == 6.0
    assert Doubled.name == "doubled"


def test_plain_values_of_a_closure_are_constants() -> None:
    def make(factor: float) -> sw.Aggregate:
        class Inner(Total):
            def lift(self, x: Any) -> Any:
                return x * factor

        return Inner("x")

    assert compiled(make(2.0), [1.0, 2.0]) == 6.0
    assert compiled(make(5.0), [1.0, 2.0]) == 15.0


def test_names_that_shadow_builtins_are_kept() -> None:
    class Local(Total):
        def lift(self, x: Any) -> Any:
            sum = x + 1.0
            return sum * 1.0

    assert compiled(Local("x"), [1.0, 2.0]) == 5.0


def test_an_invert_is_compiled_too() -> None:
    class Removable(Total):
        def invert(self, total: Any, oldest: Any) -> Any:
            return total - oldest

    bound = Removable("x").bind([FLOAT])
    assert bound.compiled
    assert bound.components[0].algebra.invertible
    assert not bound.components[0].algebra.exact


def test_division_by_zero_is_an_error_compiled_or_not() -> None:
    class Inverse(Total):
        def lift(self, x: Any) -> Any:
            return 1.0 / x

    with pytest.raises(ZeroDivisionError):
        run_bound(Inverse("x"), [pa.array([1.0, 0.0])])
    with pytest.raises(ZeroDivisionError):
        Inverse("x").fold([1.0, 0.0])


# Interpreted ones, with the reason.


EDGES = st.sampled_from([0, 1, 2, 3, 2**31, 2**32, 3037000500, 2**61, 2**62, 2**63 - 1, -(2**63)])


class Polynomial(sw.Aggregate):
    """Every operator that is checked, on whole numbers."""

    def identity(self) -> Any:
        return 0

    def lift(self, x: Any, y: Any) -> Any:
        made = x * y
        made -= y - x
        return made * 3 + 1

    def combine(self, older: Any, newer: Any) -> Any:
        older += newer
        return older

    def lower(self, state: Any) -> Any:
        return state


@given(st.lists(st.tuples(EDGES, EDGES), min_size=1, max_size=4))
def test_whole_numbers_that_do_not_fit_are_an_error_and_never_wrap(
    pairs: list[tuple[int, int]],
) -> None:
    def fits(numbers: list[int]) -> bool:
        return all(-(2**63) <= number < 2**63 for number in numbers)

    made = [(x * y, y - x, x * y - (y - x)) for x, y in pairs]
    steps = [[*parts, parts[-1] * 3, parts[-1] * 3 + 1] for parts in made]
    sums = list(accumulate(parts[-1] for parts in steps))
    agg = Polynomial("x", "y")
    assert agg.how(INT, INT) == "compiled"
    columns = [pa.array(values, INT) for values in zip(*pairs, strict=True)]
    if fits([*chain(*steps), *sums]):
        assert run_bound(agg, columns) == sums[-1]
    else:
        with pytest.raises(OverflowError, match=r"^A whole number does not fit 64 bits\."):
            run_bound(agg, columns)


class Letters(sw.Aggregate):
    commutative = True

    def identity(self) -> Any:
        return frozenset()

    def lift(self, x: Any) -> Any:
        return frozenset([x])

    def combine(self, older: Any, newer: Any) -> Any:
        return older | newer

    def lower(self, state: Any) -> Any:
        return sorted(state)


def test_strings_are_interpreted_and_the_reason_names_the_column() -> None:
    assert Letters("s").how(pa.string()) == "interpreted: column 's' holds string, not numbers"
    assert run_bound(Letters("s"), [pa.array(["b", None, "a"])]) == ["a", "b"]


def test_sets_are_interpreted_with_a_readable_reason() -> None:
    reason = Letters("x").how(INT)
    assert reason.startswith("interpreted: ")
    assert "\n" not in reason
    assert len(reason) < 200
    assert run_bound(Letters("x"), [pa.array([3, None, 1])]) == [1, 3]


def test_an_undefined_name_is_the_reason() -> None:
    class Careless(Total):
        def lift(self, x: Any) -> Any:
            return x + nowhere  # type: ignore[name-defined]  # noqa: F821  # the mistake under test

    assert "nowhere" in Careless("x").how(FLOAT)


def test_timestamps_come_as_python_objects() -> None:
    class Years(Letters):
        def lift(self, x: Any) -> Any:
            return frozenset([x.year])

    times = pa.array([0, None, 10**15], pa.timestamp("us", "UTC"))
    assert run_bound(Years("t"), [times]) == [1970, 2001]


def test_interpreted_integers_are_of_any_size() -> None:
    class Big(Total):
        compile = False

        def lower(self, state: Any) -> Any:
            return state % 1000

    agg = Big("x")
    assert agg.how(INT) == "interpreted: `Big` says `compile = False`"
    assert run_bound(agg, [pa.array([2**63 - 1, 2**63 - 1])]) == (2**64 - 2.0) % 1000


@pytest.mark.parametrize("bad", [{1: 2}, object()], ids=["dict", "object"])
def test_attributes_that_are_no_constants_are_a_reason(bad: Any) -> None:
    class Odd(Total):
        def __init__(self) -> None:
            super().__init__("x")
            self.bad = bad

        def lift(self, x: Any) -> Any:
            return x if self.bad else 0.0

    assert "generated code cannot name" in Odd().how(FLOAT)
    assert run_bound(Odd(), [pa.array([1.0, 2.0])]) == 3.0


def test_super_and_bare_self_are_reasons() -> None:
    class Calls(Total):
        def lift(self, x: Any) -> Any:
            return super().lift(x)

    class Bare(Total):
        def lift(self, x: Any) -> Any:
            return x * (type(self) is Bare)

    assert Calls("x").how(FLOAT) == ("interpreted: `super` is used other than to read an attribute")
    assert Bare("x").how(FLOAT) == "interpreted: `self` is used other than to read an attribute"
    assert run_bound(Calls("x"), [pa.array([1.0, 2.0])]) == 3.0


def test_source_that_is_not_available_is_a_reason() -> None:
    space: dict[str, Any] = {"Total": Total}
    exec("class Made(Total):\n    def lift(self, x):\n        return 2 * x", space)
    agg = space["Made"]("x")
    assert agg.how(FLOAT) == "interpreted: the source of `Made.lift` is not available"
    assert run_bound(agg, [pa.array([1.0, 2.0])]) == 6.0


def test_lambdas_are_a_reason() -> None:
    class Short(Total):
        lift = lambda self, x: x  # noqa: E731

    assert Short("x").how(FLOAT).startswith("interpreted: ")
    assert run_bound(Short("x"), [pa.array([1.0, 2.0])]) == 3.0


def test_states_that_differ_in_form_are_a_reason() -> None:
    class Mixed(Total):
        def identity(self) -> Any:
            return (0.0, 0.0)

        def lift(self, x: Any) -> Any:
            return x

        def combine(self, older: Any, newer: Any) -> Any:
            return newer

        def lower(self, state: Any) -> Any:
            return 0.0

    assert "`identity` and `lift` differ" in Mixed("x").how(FLOAT)


def test_an_error_names_its_aggregate() -> None:
    class Strict(Letters):
        def combine(self, older: Any, newer: Any) -> Any:
            raise ValueError("never")

    with pytest.raises(ValueError, match="never") as caught:
        run_bound(Strict("s"), [pa.array(["a"])])
    assert caught.value.__notes__ == ["raised by `combine` of the aggregate Strict('s')"]


def test_a_missing_method_is_named() -> None:
    class Half(sw.Aggregate):
        def identity(self) -> Any:
            return 0

        def lift(self, x: Any) -> Any:
            return x

    with pytest.raises(AggregateError, match="`Half` has no `combine`"):
        Half("x").fold([1])


def test_the_wrong_number_of_columns_is_refused() -> None:
    with pytest.raises(AggregateError, match=r"`vwap` takes 2 columns; given: 1 \(price\)"):
        Vwap("price")
    with pytest.raises(AggregateError, match="takes the names of its columns as strings"):
        Vwap("price", 3)  # type: ignore[arg-type]  # the mistake under test


PROGRAM = """
import sys
import numpy as np
import slicewise as sw

class Ratio(sw.Aggregate):
    def identity(self):
        return (0.0, 0.0)
    def lift(self, a, b):
        return (a, b)
    def combine(self, older, newer):
        return (older[0] + newer[0], older[1] + newer[1])
    def lower(self, state):
        return state[0] / state[1]

values = np.arange(1.0, 9.0)
assert sw.slide((values, values), Ratio("a", "b"), 3)[-1] == 1.0
stats = [
    value.stats
    for module in list(sys.modules.values())
    if module.__name__.startswith("_slicewise_")
    for value in vars(module).values()
    if hasattr(value, "stats") and hasattr(value, "py_func")
]
print(sum(sum(s.cache_hits.values()) for s in stats))
print(sum(sum(s.cache_misses.values()) for s in stats))
"""


def test_a_second_process_compiles_nothing_again(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "SLICEWISE_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> tuple[int, int]:
        done = subprocess.run(
            [sys.executable, str(script)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        hits, misses = map(int, done.stdout.split())
        return hits, misses

    assert run()[1] > 0
    hits, misses = run()
    assert hits > 0
    assert misses == 0


def test_results_of_a_column_keep_their_type() -> None:
    bound = Total("x").bind([FLOAT])
    states = [tuple(np.zeros(3) for _ in bound.components[0].algebra.dtypes)]
    result = bound.lower(states)
    assert isinstance(result, Column)
    assert result.type == FLOAT
