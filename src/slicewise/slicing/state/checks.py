"""What must hold in a snapshot, whoever wrote it: after these checks no kernel leaves its arrays.

Compiled code reads where codes, sizes and positions say, and goes from slice to slice because their
starts rise. A checksum tells that bytes are as they were written, not that they make sense; so all
of this is looked at once, when a snapshot is read. Numbers that stand for nothing but themselves,
such as sums and counts, may be any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.errors import MissingDependencyError, SnapshotError
from slicewise.limits import BEGINNING, INFINITY, INSTANCES_OF_AN_EVENT, REACH

if TYPE_CHECKING:
    import pyarrow as pa

    from slicewise.arrays.keys import Keys
    from slicewise.slicing.families.user import UserRows
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.store.runs import Runs
    from slicewise.slicing.store.saving import Layout

WINDOWS = 1 << 20  # so many windows an operator may have had


@contextmanager
def reading() -> Iterator[None]:
    """Say of any error, while a snapshot is read, that the snapshot is damaged."""
    try:
        yield
    except (SnapshotError, MissingDependencyError):
        raise
    except Exception as error:
        raise damaged(repr(error)) from error


def damaged(what: str) -> SnapshotError:
    """The error for a snapshot that makes no sense."""
    return SnapshotError(
        f"The snapshot is damaged: {what}. Take an older one, or process the events again."
    )


def require(holds: Any, what: str) -> None:
    """Refuse a snapshot in which something does not hold."""
    if not holds:
        raise damaged(what)


def check_header(header: dict[str, Any]) -> None:
    """Refuse settings and numbers that no operator has."""
    counters = header["counters"]
    times = [header["floor"], header.get("answered", 0), header.get("oldest", 0)]
    times += [value for name, value in counters.items() if name != "_next_number"]
    require(all(is_whole(t, BEGINNING, INFINITY) for t in times), f"its times are {times!r}")
    many = counters["_next_number"]
    require(is_whole(many, 0, WINDOWS), f"it has had {many!r} windows")
    numbers = [one["number"] for one in header["windows"]]
    known = all(is_whole(number, 0, many - 1) for number in numbers)
    require(known and len({*numbers}) == len(numbers), f"its windows have the numbers {numbers!r}")
    for one in header["windows"]:
        require(_is_point(one["since"]), f"a window begins at {one['since']!r}")
        check_lengths(one["window"])
    stats = header["stats"]
    require(all(is_whole(n, 0, INFINITY) for n in stats.values()), f"it counts {stats!r}")
    named = [header["by"]] if isinstance(header["by"], str) else header["by"]
    require(all(isinstance(name, str) for name in named), f"its key columns are {named!r}")
    for name in ("time", "merger"):
        known = header[name] is None or isinstance(header[name], str)
        require(known, f"its setting {name!r} is {header[name]!r}")
    require(is_whole(header["lateness"], 0, REACH), f"its lateness is {header['lateness']!r}")
    for name in ("ordered", "clock"):
        require(type(header[name]) is bool, f"its setting {name!r} is {header[name]!r}")
    require(header.get("combined") in (None, True, False), "its slices are shared in no known way")
    for node in header["tracks"]:
        require(is_whole(node["evict_at"], BEGINNING, INFINITY), "it does not say when to evict")
        require(is_whole(node.get("after", 0), 0, INFINITY), "its windows begin nowhere")
        require(is_whole(node["store"]["combines"], 0, INFINITY), "it counts no combines")
        for since in node["store"]["since"].values():
            require(_is_point(since), f"an aggregate begins at {since!r}")


def check_lengths(window: dict[str, Any]) -> None:
    """Refuse lengths of windows beyond those that times have, and steps that are much too small."""
    numbers = [value for value in window.values() if type(value) in (int, float)]
    require(all(abs(n) < REACH for n in numbers), f"a window has the lengths {numbers!r}")
    length, every = window.get("length"), window.get("every")
    if type(length) in (int, float) and type(every) in (int, float) and every > 0:  # type: ignore[operator]  # numbers
        many = length / every  # type: ignore[operator]  # numbers
        require(many <= INSTANCES_OF_AN_EVENT, f"a window has {many:.3g} instances for each event")
        far = abs(window.get("origin") or 0) / every
        require(type(every) is int or far < 2**53, f"a window counts {far:.3g} steps")


def is_whole(value: Any, low: int, high: int) -> bool:
    """Return whether a value is a whole number from `low` to `high`."""
    return type(value) is int and low <= value <= high


def _is_point(value: Any) -> bool:
    return type(value) in (int, float) and BEGINNING <= value <= INFINITY


def check_time_type(kind: pa.DataType | None) -> None:
    """Refuse a type that times cannot have."""
    import pyarrow as pa

    types = pa.types
    good = kind is None or types.is_integer(kind) or types.is_floating(kind)
    require(good or types.is_temporal(kind), f"its times are of the type {kind}")


def check_zones(types: Iterable[pa.DataType]) -> None:
    """Refuse time zones that there are not."""
    import pyarrow as pa

    for kind in types:
        zone = getattr(kind, "tz", None)
        if zone is not None:
            pa.lib.string_to_tzinfo(zone)


def check_keys(keys: Keys, arrays: Sequence[pa.Array]) -> None:
    """Refuse keys that are not distinct, or of another number of columns."""
    require(len(arrays) == len(keys.columns), f"its keys have {len(arrays)} columns")
    if len(keys):
        codes = keys.codes(arrays, len(arrays[0]))
        require((codes == np.arange(len(codes))).all(), "two of its keys are the same")


def check_key_types(keys: Keys, types: Sequence[pa.DataType]) -> None:
    """Refuse keys whose types are not those of their columns."""
    import pyarrow as pa

    found = [array.type for array in keys.arrays()]
    # Categories come back as they came; what is compared are their values.
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in found]
    require(not found or plain == [*types], f"its keys are {found} and their columns {[*types]}")


def codes(values: np.ndarray, below: int, what: str) -> np.ndarray:
    """Codes from 0 up to before `below`."""
    require(values.dtype.kind == "i", f"{what} are {values.dtype}")
    low, high = values.min(initial=0), values.max(initial=-1)
    require(low >= 0 and high < below, f"{what} go from {low} to {high}, and there are {below}")
    return values


def sizes(values: np.ndarray, keys: int, count: int) -> np.ndarray:
    """How many slices each key has, `count` in all."""
    require(values.dtype.kind == "i" and len(values) == keys, f"it has runs of {len(values)} keys")
    good = values.min(initial=0) >= 0 and values.max(initial=0) <= count
    require(good and values.sum() == count, f"its runs do not have {count} slices")
    return values


def exactly(values: np.ndarray, count: int, what: str, dtype: Any = np.int64) -> np.ndarray:
    """An array of `count` values of a type."""
    if len(values) != count:
        raise damaged(f"there are {len(values)} {what} where {count} should be")
    if values.dtype != dtype:
        raise damaged(f"{what} are {values.dtype}")
    return values


def check_slices(runs: Runs, count: int, keys: int, layout: Layout) -> None:
    """Refuse runs whose slices are not in order, or further off than any."""
    start, stop = runs.start[:count], runs.stop[:count]
    require(bool((np.abs(start) < layout.reach).all()), "slices begin beyond all times")  # NaN too
    require(_rise(start[:-1], start[1:], runs.size[:keys]), "slices are not in order")
    good = layout.single_rows or bool(((stop >= start) & (stop <= INFINITY)).all())
    require(good, "slices end before they begin")
    base, rows = runs.base[:keys], runs.rows[:count]
    good = base.min(initial=0) >= 0 and base.max(initial=0) < REACH
    require(good and rows.min(initial=0) >= 0, "it counts fewer rows than none")


def check_bands(start: np.ndarray, stop: np.ndarray, layout: Layout) -> None:
    """Refuse bands that are not in order, or further off than any."""
    require(bool((np.abs(start) < layout.reach).all()), "slices begin beyond all times")
    require(bool((start[:-1] < start[1:]).all()), "slices are not in order")
    require(bool(((stop >= start) & (stop <= INFINITY)).all()), "slices end before they begin")


def check_times(runs: Runs, count: int, keys: int, layout: Layout) -> None:
    """Refuse slices whose first and last events are at no times, or overlap."""
    first, last = runs.first[:count], runs.last[:count]
    near = (first > -REACH) & (last < REACH) & (first <= last)
    require(bool(near.all()), "slices have events at no time")
    good = not layout.ordered or _rise(last[:-1], first[1:], runs.size[:keys])
    require(good, "events are not in order")


def check_seen(group: SliceGroup, seen: np.ndarray, count: int, keys: int) -> None:
    """Refuse counts of rows that are fewer than those in slices."""
    runs = group.runs
    good = seen.min(initial=0) >= 0 and seen.max(initial=0) < REACH
    require(good and runs.start[:count].min(initial=0) >= 0, "it counts fewer rows than none")
    some = np.flatnonzero(runs.size[:keys] > 0)
    last = runs.offset[some] + runs.size[some] - 1
    require(bool((runs.start[last] < seen[some]).all()), "slices have more rows than were seen")


def check_anchors(anchors: np.ndarray, rows: np.ndarray) -> None:
    """Refuse positions beyond the number of rows that a key has had."""
    good = (anchors >= 0) & (anchors <= rows)
    require(bool(good.all()), "sessions begin at rows that are not there")


def check_users(group: SliceGroup, user: UserRows, keys: int, *, over: bool) -> None:
    """Refuse instances that begin or end where no slice does.

    When all is `over`, at a watermark of infinity, slices are gone, and nothing asks for them.
    """
    for code, progress in user.progress.items():
        require(is_whole(code, 0, keys - 1), f"a window has seen a key {code!r}")
        for begun in progress.open_since:
            require(_are_whole(begun, 2), f"an instance is open since {begun!r}")
            good = over or _begins(group, code, begun[1])
            require(good, "an instance begins where no slice does")
    for one in user.ended:
        require(_are_whole(one, 5) and 0 <= one[0] < keys, f"an instance ended as {one!r}")
        code, _, _, begin, end = one
        good = begin < end and _begins(group, code, begin) and _begins(group, code, end)
        require(over or good, "an instance ends where no slice does")


def _are_whole(values: Any, many: int) -> bool:
    good = type(values) is tuple and len(values) == many
    return good and all(is_whole(value, BEGINNING, INFINITY) for value in values)


def _begins(group: SliceGroup, code: int, position: int) -> bool:
    """Return whether a slice of a key begins with the row at this position."""
    runs = group.runs
    a = int(runs.offset[code])
    starts = runs.start[a : a + int(runs.size[code])]
    at = int(np.searchsorted(starts, position))
    return at < len(starts) and starts[at] == position


def _rise(ends: np.ndarray, begins: np.ndarray, size: np.ndarray) -> bool:
    """Return whether each slice ends before the next one of its run begins, or there."""
    good = ends <= begins
    last = np.cumsum(size) - 1  # of each run, which the next run does not follow
    good[last[(last >= 0) & (last < len(good))]] = True
    return bool(good.all())
