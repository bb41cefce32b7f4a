"""The arguments of an operator, checked once, and the facts that follow from its windows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from slicewise.aggregates.base import Aggregate
from slicewise.aggregates.interpreted import type_of_nulls
from slicewise.arguments import checked_aggregates
from slicewise.errors import (
    AggregateError,
    CapabilityError,
    ColumnError,
    SpanError,
    WindowError,
)
from slicewise.mergers.base import FlatMerger
from slicewise.names import column_name, column_names
from slicewise.slicing.edges.partials import TECHNIQUES, Technique
from slicewise.slicing.families.family import WindowEntry
from slicewise.spans import Duration
from slicewise.suggestions import meant
from slicewise.times import Measure, as_length, check_unit
from slicewise.windows import Window
from slicewise.windows.base import DURATIONS, length_of

if TYPE_CHECKING:
    import pyarrow as pa


Emit = Literal["on_close", "final", "on_update"]
MODES = ("on_close", "final", "on_update")
StoreKind = Literal["lazy", "eager"]
STORES = ("lazy", "eager")
# The bounds of instances: times or plain numbers, and beside times those of other measures.
TIMES, POSITIONS = ("start", "end"), ("start_position", "end_position")
RESULT_COLUMNS = ("window", *TIMES, *POSITIONS, "revision", "retracted")


@dataclass(frozen=True, slots=True)
class Merging:
    """How slices are merged, kept and cut: arguments of an operator, `None` for what it chooses."""

    merger: str | None = None
    store: StoreKind | None = None
    partials: Technique | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """All of them by name."""
        return {"merger": self.merger, "store": self.store, "partials": self.partials}

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not left to the operator."""
        return {name: value for name, value in self.arguments.items() if value is not None}


CHOSEN = Merging()  # by the operator


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """The arguments of an operator but for its windows; they never change.

    `by_one` tells that `by` was given as one name, so that keys are values and not tuples.
    `lateness` is in the unit of the time column, and `lateness_unit` says how it was given, as
    windows do. `merger_type` is the class that `merger` names.
    """

    aggs: list[Aggregate]
    time: str | None
    by: tuple[str, ...]
    by_one: bool
    lateness: int
    lateness_unit: str | None
    emit: Emit
    ordered: bool
    order: tuple[str, ...]
    unit: str | None
    merger: str | None
    merger_type: type[FlatMerger] | None
    store: StoreKind | None
    partials: Technique | None
    clock: Callable[[], int] | None

    @staticmethod
    def of(
        *,
        aggs: Iterable[Aggregate] | Aggregate,
        time: str | None,
        by: str | Sequence[str] | None,
        order: str | Sequence[str] | None,
        lateness: Any,
        merger: str | None,
        clock: Callable[[], int] | None,
        **plain: Any,
    ) -> Settings:
        """The settings of an operator with these arguments; refuses those that make no sense."""
        keys, decides = column_names("by", by), column_names("order", order)
        defined, time = checked_aggregates("Operator", aggs), column_name("time", time)
        unit = plain["unit"]
        if plain["ordered"] and decides:
            raise CapabilityError(
                "`ordered=True` promises that events come in their order, those of equal time too, "
                f"so there is nothing for `order` to decide; given: order={order!r}. Leave one of "
                "them out."
            )
        check_unit(unit)
        if unit is not None and time is None:
            raise SpanError(
                "`unit` says what the numbers of the time column mean; without a time column a "
                f"clock counts microseconds; given: unit={unit!r}. Leave it out."
            )
        said = as_length("lateness", lateness)
        length = Measure(time, unit=unit).length("`lateness`", said)
        check_emit(plain["emit"])
        check_results(defined, keys)
        check_merging(merger, plain["store"], plain["partials"])
        return Settings(
            aggs=defined,
            time=time,
            by=keys,
            by_one=by is not None and not isinstance(by, list | tuple),
            lateness=length,
            lateness_unit=DURATIONS if isinstance(said, Duration) and unit is None else None,
            order=decides,
            merger=merger,
            merger_type=None if merger is None else merger_of(merger, defined),
            clock=wall_clock if time is None and clock is None else clock,
            **plain,
        )

    def __repr__(self) -> str:
        return f"Settings.of({', '.join(f'{k}={v!r}' for k, v in self.given().items())})"

    def given(self) -> dict[str, Any]:
        """The arguments of an operator with these settings, by name, but for windows."""
        lateness = length_of(self.lateness, self.lateness_unit) if self.lateness else 0
        return {
            "aggs": self.aggs,
            "time": self.time,
            "by": self.by[0] if self.by_one else list(self.by) or None,
            "lateness": lateness,
            "emit": self.emit,
            "ordered": self.ordered,
            "order": list(self.order) or None,
            "unit": self.unit,
            "merger": self.merger,
            "store": self.store,
            "partials": self.partials,
            "clock": None if self.clock is wall_clock else self.clock,
        }

    @property
    def merging(self) -> Merging:
        """How slices are merged, kept and cut."""
        return Merging(self.merger, self.store, self.partials)

    @property
    def revises(self) -> bool:
        """Emitted results may be revised."""
        return self.emit == "on_update" or (self.emit == "on_close" and self.lateness > 0)

    @property
    def append_only(self) -> bool:
        """Results are made of events that nothing can come before any more.

        Then events are put in order once, when the watermark passes them, and no result is revised.
        """
        return not self.revises or (self.emit == "on_close" and self.ordered)

    @property
    def sorts(self) -> bool:
        """An aggregate depends on the order of events, and they may come in another one."""
        return not self.ordered and not all(a.commutative for a in self.aggs)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What follows from the windows and aggregates, so that no call has to go through them.

    `columns` are those that are read, `labels` the names of windows by number, `marking` the
    windows that mark events by a condition or a value, `read` those with a column that must be of
    a certain type. `timed` tells of each window by number whether it measures time, `others` are
    the windows that do not, and `mixed` tells whether there are windows of both kinds. All lengths
    of time and origins are multiples of `grain`.
    """

    columns: tuple[str, ...]
    labels: list[str]
    marking: list[WindowEntry]
    read: list[Window]
    timed: np.ndarray
    others: list[Window]
    mixed: bool
    grain: int

    @staticmethod
    def of(
        windows: Sequence[WindowEntry], by: Sequence[str], aggs: Sequence[Aggregate], numbers: int
    ) -> QueryFacts:
        columns = dict.fromkeys([*by, *(c for a in aggs for c in a.columns)])
        names = {entry.number: entry.window.name for entry in windows}
        others = {entry.number: entry.window for entry in windows if not entry.window.timed}
        for entry in windows:
            columns.update(dict.fromkeys(entry.window.reads or ()))
        return QueryFacts(
            tuple(columns),
            [names.get(number, "") for number in range(numbers)],
            [p for p in windows if p.window.traits.marks is not None],
            [p.window for p in windows if p.window.reads],
            np.array([number not in others for number in range(numbers)], np.bool_),
            list(others.values()),
            0 < len(others) < len(windows),
            math.gcd(*(number for entry in windows for number in entry.window.times)),
        )


def check_emit(emit: str) -> None:
    """Refuse a mode of emission that there is not."""
    if emit not in MODES:
        shown = ", ".join(map(repr, MODES))
        raise WindowError(f"`emit` is one of {shown}; given: {emit!r}.{meant(emit, MODES)}")


def check_results(aggs: Sequence[Aggregate], by: Sequence[str]) -> None:
    """Refuse aggregates and key columns that no table of results could be made of."""
    for name in by:
        if name in RESULT_COLUMNS:
            shown = ", ".join(map(repr, RESULT_COLUMNS))
            raise ColumnError(
                f"Results have columns {shown}; `by` has {name!r} too. Rename that column first."
            )
    taken: set[str] = {*by, *RESULT_COLUMNS}
    for aggregate in aggs:
        if aggregate.output in taken:
            raise AggregateError(
                f"Two output columns have the name {aggregate.output!r}. "
                "Give the aggregate another one with `.alias(name)`."
            )
        taken.add(aggregate.output)


def check_window(window: Window, taken: Container[str], settings: Settings) -> None:
    """Refuse what is no window, has a name that is taken, or cannot be revised but would be."""
    if not isinstance(window, Window):
        raise WindowError(
            f"`windows` takes windows such as `sw.tumbling('10m')`; given: {window!r}."
        )
    if window.name in taken:
        raise WindowError(f"Two windows have the name {window.name!r}. Give one of them a `name`.")
    if window.traits.user_defined and settings.revises:
        raise CapabilityError(
            f"A user window sees each event once, so what it emitted cannot be revised; "
            f"{window.name!r} was given with emit={settings.emit!r} and "
            f"lateness={settings.lateness}. "
            "Use `emit='final'`, or `emit='on_close'` with `lateness=0`."
        )


def check_measured(
    measure: Measure, windows: Iterable[Window], lateness: bool | None = None
) -> None:
    """Refuse windows, and a lateness in durations or not, that a time column has no meaning for."""
    for window in windows:
        measure.check(f"the window {window.name!r}", durations=window.durations)
    measure.check("`lateness`", durations=lateness)


def merger_of(name: str, aggs: Sequence[Aggregate]) -> type[FlatMerger]:
    """The merger of that name, if it can merge the slices of these aggregates."""
    from slicewise.mergers import CATALOGUE

    usable = [known for known, entry in CATALOGUE.items() if entry.compiled]
    if name not in usable:
        raise CapabilityError(
            f"`merger` is one of {', '.join(usable)}; given: {name!r}.{meant(name, usable)} Leave "
            "it out to let the planner choose."
        )
    cls = CATALOGUE[name].cls
    assert issubclass(cls, FlatMerger)
    for aggregate in aggs:
        cls.check(aggregate)
    return cls


def check_merging(merger: str | None, store: str | None, partials: str | None) -> None:
    """Refuse ways of storing and merging slices that there are not, or not together."""
    if store is not None and store not in STORES:
        shown = ", ".join(map(repr, STORES))
        raise CapabilityError(
            f"`store` is one of {shown}; given: {store!r}. Leave it out to let the planner choose."
        )
    if partials is not None and partials not in TECHNIQUES:
        shown = ", ".join(map(repr, TECHNIQUES))
        raise CapabilityError(
            f"`partials` is one of {shown}; given: {partials!r}. Leave it out for Cutty's."
        )
    if merger is not None and store == "eager":
        raise CapabilityError(
            f"An eager store merges by its own trees, and a merger merges when a window closes; "
            f"given: store='eager' and merger={merger!r}. Leave one of them out."
        )
    if partials == "pairs+" and (store == "lazy" or merger is not None):
        given = f"merger={merger!r}" if merger is not None else "store='lazy'"
        raise CapabilityError(
            f"`partials='pairs+'` is Pairs with an eager store; given with {given}. "
            "Use `partials='pairs'`."
        )


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def guessed(column: str, aggs: Sequence[Aggregate], windows: Sequence[Window]) -> pa.DataType:
    """A type for a column of nothing but nulls: what those who read it take, numbers if they can.

    A condition that no aggregate reads is boolean.
    """
    import pyarrow as pa

    read = any(column in aggregate.columns for aggregate in aggs)
    if not read and any(window.traits.condition == column for window in windows):
        return pa.bool_()
    return type_of_nulls(column, aggs)
