"""How many combines a slide costs: the papers' tables, held by counting.

One slide evicts the oldest event, inserts a new one and asks for the whole window. `combine` and
`invert` are both counted, whatever their arguments are, when the calling thread makes them. The
last tests hold an operator with `merger=` to count the same.
"""

import random
import threading
from collections.abc import Callable
from functools import partial
from math import ceil, log2
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load
from slicewise.codegen.tally import tallied
from slicewise.mergers import CATALOGUE, FiBA, FlatFAT, FlatFIT, Merger, ReactiveAggregator, recalc

SIZES = [1, 2, 3, 8, 13, 31, 64, 100, 255, 256]


class Counted(sw.Aggregate):
    """Concatenation of small tuples, kept short: order matters, and calls are counted."""

    compile = False
    calls = 0

    def count(self) -> None:
        if threading.current_thread() is threading.main_thread():
            type(self).calls += 1

    def identity(self) -> Any:
        return ()

    def lift(self, value: Any) -> Any:
        return (value,)

    def combine(self, older: Any, newer: Any) -> Any:
        self.count()
        return (*older, *newer)[-8:]

    def lower(self, state: Any) -> Any:
        return state


class CountedSum(Counted):
    commutative = True

    def identity(self) -> Any:
        return 0

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, newer: Any) -> Any:
        self.count()
        return older + newer

    def invert(self, total: Any, oldest: Any) -> Any:
        self.count()
        return total - oldest


class CountedMax(CountedSum):
    selective = True
    invert = sw.Aggregate.invert

    def identity(self) -> Any:
        return -1

    def combine(self, older: Any, newer: Any) -> Any:
        self.count()
        return older if older >= newer else newer


def cost(aggregate: type[Counted], work: Callable[[], Any]) -> int:
    before = aggregate.calls
    work()
    return aggregate.calls - before


def slide_costs(
    cls: type[Merger],
    n: int,
    aggregate: type[Counted] = Counted,
    next_value: Callable[[], int] = lambda: random.randrange(1000),
    query: Callable[[Merger], Any] = Merger.query,
) -> list[int]:
    """The cost of each of many slides over a window of `n`, after it has been filled."""
    random.seed(n)
    merger = cls(aggregate())
    for _ in range(n):
        merger.insert(next_value())
        query(merger)

    def slide() -> None:
        merger.evict()
        merger.insert(next_value())
        query(merger)

    # Whole turns of the window: what happens once a turn must not count once too often.
    return [cost(aggregate, slide) for _ in range(n * max(8, 512 // n))]


def amortised(costs: list[int]) -> float:
    return sum(costs) / len(costs)


def test_every_merger_of_the_catalogue_is_counted_here() -> None:
    bounded = {
        "recalc", "subtract_on_evict", "flatfat", "bint", "flatfit", "two_stacks",
        "two_stacks_lite", "daba", "daba_lite", "slick_deque", "sba", "pba", "fiba",
    }  # fmt: skip
    assert bounded == set(CATALOGUE)


# name -> (amortised, worst) as numbers of combines for a window of n
BOUNDS: dict[str, tuple[Callable[[int], float], Callable[[int], float]]] = {
    "recalc": (lambda n: n - 1, lambda n: n - 1),
    "flatfat": (log2, lambda n: paths(n)),
    "bint": (log2, lambda n: paths(n)),
    "flatfit": (lambda n: 3, lambda n: n - 1),
    "two_stacks": (lambda n: 3, lambda n: n),
    "two_stacks_lite": (lambda n: 3, lambda n: n),
    "daba": (lambda n: 5, lambda n: 8),
    "daba_lite": (lambda n: 4, lambda n: 6),
    "sba": (lambda n: 3, lambda n: n - 1),
    "pba": (lambda n: 3, lambda n: 3),
}


def paths(n: int) -> int:
    """The nodes above the leaf that a slide of a full tree overwrites, or else above two leaves."""
    return n.bit_length() - 1 if n.bit_count() == 1 else 2 * (n - 1).bit_length() - 2


def levels(n: int) -> int:
    """The height of a tree over `n` events; windows have room for 8 at least."""
    return ceil(log2(max(n, 8)))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", BOUNDS)
def test_a_slide_costs_what_the_papers_say(name: str, n: int) -> None:
    costs = slide_costs(CATALOGUE[name].cls, n)
    mean, worst = BOUNDS[name]
    assert amortised(costs) <= mean(n)
    assert max(costs) <= worst(n)


@pytest.mark.parametrize("aggregate", [Counted, CountedSum])
@pytest.mark.parametrize("n", [8, 16, 64, 256])
def test_a_slide_of_a_full_flatfat_costs_log_n(n: int, aggregate: type[Counted]) -> None:
    assert set(slide_costs(FlatFAT, n, aggregate)) == {int(log2(n))}


@pytest.mark.parametrize("n", [3, 13, 100, 127, 200, 255, 257])
def test_flatfat_renews_at_most_two_paths_per_slide_when_there_is_room(n: int) -> None:
    costs = slide_costs(FlatFAT, n, CountedSum)
    assert amortised(costs) <= log2(n)
    assert max(costs) <= paths(n)


@pytest.mark.parametrize("n", SIZES)
def test_subtract_on_evict_combines_once_and_inverts_once(n: int) -> None:
    costs = slide_costs(CATALOGUE["subtract_on_evict"].cls, n, CountedSum)
    assert set(costs) == {2 if n > 1 else 0}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("order", ["random", "rising", "falling", "constant"])
def test_slick_deque_costs_less_than_two_for_a_maximum(n: int, order: str) -> None:
    clock = iter(range(10**6))
    next_value = {
        "random": lambda: random.randrange(1000),
        "rising": lambda: next(clock),
        "falling": lambda: 10**6 - next(clock),
        "constant": lambda: 7,
    }[order]
    costs = slide_costs(CATALOGUE["slick_deque"].cls, n, CountedMax, next_value)
    assert amortised(costs) < 2
    assert max(costs) <= n


@pytest.mark.parametrize("n", SIZES)
def test_slick_deque_costs_two_for_a_sum(n: int) -> None:
    assert max(slide_costs(CATALOGUE["slick_deque"].cls, n, CountedSum)) <= 2


@pytest.mark.parametrize("n", SIZES)
def test_flatfit_answers_all_ranges_at_one_combine_each(n: int) -> None:
    def all_ranges(merger: Merger) -> None:
        for k in range(len(merger), 0, -1):
            merger.query(last=k)

    assert set(slide_costs(FlatFIT, n, query=all_ranges)) == {n - 1}


def combines_of_slide(lengths: int | list[int], every: int, rows: int, merger: str) -> int:
    values = list(range(rows))
    return cost(
        CountedSum, lambda: sw.slide(values, CountedSum(), lengths, every, algorithm=merger)
    )


@pytest.mark.parametrize(
    ("lengths", "every", "share"),
    [
        ([10, 20, 30, 40], 1, 0.55),
        ([60, 300, 600, 3600], 1, 0.85),
        ([60, 300, 600, 3600], 10, 0.35),  # and values between two results are folded once
        ([7, 31, 59, 120], 1, 0.85),
    ],
)
def test_several_lengths_share_the_index_of_flatfit(
    lengths: list[int], every: int, share: float
) -> None:
    alone = sum(combines_of_slide(length, every, 9000, "flatfit") for length in lengths)
    assert combines_of_slide(lengths, every, 9000, "flatfit") <= share * alone


@pytest.mark.parametrize("merger", ["flatfat", "bint"])
def test_trees_are_made_once_for_several_lengths(merger: str) -> None:
    lengths = [60, 300, 600, 3600]
    alone = sum(combines_of_slide(length, 1, 9000, merger) for length in lengths)
    assert combines_of_slide(lengths, 1, 9000, merger) < alone


def test_all_lengths_up_to_n_cost_flatfit_n_minus_1_combines_a_slide() -> None:
    # Section 4.1 of its paper: one each, and none for the shortest.
    assert combines_of_slide([*range(1, 33)], 1, 1000, "flatfit") <= 31 * 1000


@pytest.mark.parametrize("n", [5, 8, 64])
def test_flatfit_resets_once_in_n_plus_one_slides(n: int) -> None:
    costs = slide_costs(FlatFIT, n)
    resets = [i for i, calls in enumerate(costs) if calls == n - 1]
    period = [*range(resets[0], len(costs), n + 1)]
    assert resets == period
    # One combine before and after a reset, two otherwise: 3 (n - 1) in n + 1 slides.
    cycle = costs[resets[0] : resets[0] + n + 1]
    assert cycle == [n - 1, 1, *[2] * (n - 2), 1]
    assert sum(cycle) == 3 * (n - 1)


@pytest.mark.parametrize("m", [1, 2, 3, 8, 20, 64, 128])
@pytest.mark.parametrize("n", [64, 128, 256])
def test_flatfat_updates_m_leaves_within_the_bound_of_theorem_4_2(n: int, m: int) -> None:
    m = min(m, n)
    merger = FlatFAT(CountedSum())
    merger.insert_many(range(n))
    assert cost(CountedSum, merger.query) == n - 1  # clause (i): making the tree
    random.seed(m)
    for _ in range(20):
        places = random.sample(range(n), m)

        def update(places: list[int] = places) -> None:
            merger.update((k, 1) for k in places)
            merger.query()

        assert cost(CountedSum, update) <= m * (1 + ceil(log2(n / m)))


@pytest.mark.parametrize("m", [1, 2, 3, 8, 20, 64, 128])
def test_flatfat_slides_by_m_within_the_same_bound(m: int) -> None:
    n = 128
    merger = FlatFAT(CountedSum())
    merger.insert_many(range(n))
    merger.query()

    def slide() -> None:
        merger.evict_many(m)
        merger.insert_many(range(m))
        merger.query()

    # A run of neighbours straddles at most one more node per level than its length calls for.
    for _ in range(20):
        assert cost(CountedSum, slide) <= m * (1 + ceil(log2(n / m)))


def test_prefix_and_suffix_of_flatfat_cost_at_most_two_paths() -> None:
    merger = FlatFAT(Counted())
    merger.insert_many(range(200))
    merger.evict_many(90)
    merger.insert_many(range(130))  # the buffer is inverted now
    merger.query()
    for k in range(len(merger) + 1):
        assert cost(Counted, lambda k=k: merger.prefix(k)) <= 2 * 8 - 1  # type: ignore[misc]
        assert cost(Counted, lambda k=k: merger.suffix(k)) <= 2 * 8 - 1  # type: ignore[misc]


def test_events_that_come_and_go_between_triggers_cost_the_reactive_aggregator_nothing() -> None:
    merger = ReactiveAggregator(Counted())

    def come_and_go() -> None:
        for k in range(100):
            merger.insert(k)
            merger.evict()
        merger.trigger()

    assert cost(Counted, come_and_go) == 0


@pytest.mark.parametrize("n", SIZES)
def test_fiba_costs_a_constant_in_order(n: int) -> None:
    costs = slide_costs(FiBA, n)
    assert amortised(costs) <= 12
    assert max(costs) <= 10 * levels(n)


@pytest.mark.parametrize("distance", [1, 10, 100, 1000])
def test_fiba_costs_the_logarithm_of_the_distance_from_the_end(distance: int) -> None:
    merger = FiBA(Counted())
    merger.insert_many(range(10_000), times=range(10_000))
    total = sum(
        cost(Counted, lambda k=k: merger.insert(0, time=9_999 - distance + k / 1000))  # type: ignore[misc]
        for k in range(100)
    )
    assert total / 100 <= 8 + 4 * log2(distance)


def test_fiba_inserts_and_evicts_many_for_less_than_one_by_one() -> None:
    times = list(range(5_000, 6_000))
    random.seed(1)
    random.shuffle(times)

    def filled() -> FiBA:
        merger = FiBA(Counted())
        merger.insert_many(range(20_000), times=[2 * k for k in range(20_000)])
        return merger

    def one_by_one(merger: FiBA) -> None:
        for time in times:
            merger.insert(0, time=time)

    single, bulk = filled(), filled()
    apart = cost(Counted, lambda: one_by_one(single))
    together = cost(Counted, lambda: bulk.insert_many([0] * len(times), times=times))
    assert together < apart / 5
    assert bulk.query() == single.query()
    assert cost(Counted, lambda: bulk.evict_many(9_000)) <= 12 * log2(9_000)
    assert cost(Counted, lambda: bulk.evict_before(30_000)) <= 12 * log2(9_000)
    assert len(bulk) == 5_000


class PlainSum(CountedSum):
    """The compiled twin, which counts nothing itself."""

    compile = True

    def combine(self, older: Any, newer: Any) -> Any:
        return older + newer

    def invert(self, total: Any, oldest: Any) -> Any:
        return total - oldest


class PlainMax(CountedMax):
    compile = True

    def combine(self, older: Any, newer: Any) -> Any:
        return older if older >= newer else newer


# SlickDeque subtracts for the sum, and combines as often as the events ask for with the maximum.
OF_OPERATORS = [
    *((name, CountedSum, PlainSum) for name, entry in CATALOGUE.items() if entry.compiled),
    ("slick_deque", CountedMax, PlainMax),
]


def combines_of_merging(merger: str, aggregate: type[Counted], seed: int) -> tuple[int, int]:
    """What an operator says that merging took, and the calls of its aggregate meanwhile."""
    windows = [sw.sliding(40, every=3), sw.cumulate(30, every=4), sw.session(3)]
    op = sw.Operator(windows=windows, aggs=[aggregate("x")], time="t", by="k", merger=merger)
    random.seed(seed)
    said, calls = 0, 0
    for begin in range(0, 300, 100):
        times = [begin + random.randrange(120) for _ in range(80)]
        keys, values = ([random.randrange(many) for _ in times] for many in (3, 99))
        op.process({"t": times, "k": keys, "x": values})
        before = op.stats.combines
        calls += cost(aggregate, partial(op.advance, begin + 100))
        said += op.stats.combines - before
    return said, calls


@pytest.mark.parametrize(("merger", "counted", "compiled"), OF_OPERATORS)
def test_an_operator_counts_every_combine_and_invert_of_its_merger(
    merger: str, counted: type[Counted], compiled: type[Counted]
) -> None:
    for seed in range(5):
        said, calls = combines_of_merging(merger, counted, seed)
        assert said == calls > 0
        assert combines_of_merging(merger, compiled, seed) == (said, 0)
    assert compiled("x").how(pa.int64()) == "compiled"


def test_a_kernel_that_combines_nothing_counts_nothing_and_is_compiled_once() -> None:
    assert tallied(recalc.evict) is recalc.evict
    assert tallied(recalc.query) is not recalc.query  # it calls another one, which combines
    assert tallied(recalc.query) is tallied(recalc.query)


@kernel
def first_of_two(p: Any, S: Any) -> Any:
    return load(S, 0) if p[0] == p[1] else combine(load(S, 0), load(S, 1))


def test_a_combine_that_may_or_may_not_be_made_is_not_counted_wrongly() -> None:
    with pytest.raises(AssertionError, match="use statements to say when: return load"):
        tallied(first_of_two)
