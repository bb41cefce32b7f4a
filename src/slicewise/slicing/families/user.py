"""The user family: windows of the user's own over events in order (Cutty, Section 3.2).

`on_event` sees the events of a key once, in order; slices are cut where it says that an instance
begins or ends.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.arrays.searches import first_at_least
from slicewise.codegen.kernel import kernel, run
from slicewise.errors import SnapshotError
from slicewise.limits import INFINITY
from slicewise.slicing.families.family import Family, Kept, WindowEntry
from slicewise.slicing.families.instances import Instances
from slicewise.slicing.state.checks import check_users, require
from slicewise.slicing.state.plain import pack, unpack
from slicewise.windows import UserWindow

if TYPE_CHECKING:
    from slicewise.slicing.groups.group import SliceGroup
    from slicewise.slicing.ingest.batch import Grouped
    from slicewise.slicing.state.blob import BlobReader, BlobWriter


@dataclass(slots=True)
class Progress:
    """How far a key's copy of a window has come: (time, position) of what is open."""

    window: UserWindow
    open_since: deque[tuple[int, int]] = field(default_factory=deque)


class UserRows:
    """One user-defined window on all keys.

    `ended` are instances that wait to be handed out: (key, start, end, first position, end
    position). `failed` are events for which `on_event` raised an error or ended more than is open,
    with that error: they begin and end nothing.
    """

    def __init__(self, window: UserWindow) -> None:
        self.window = window
        self.progress: dict[int, Progress] = {}
        self.ended: list[tuple[int, ...]] = []
        self.failed: list[tuple[Any, Exception]] = []

    def see(
        self, codes: np.ndarray, times: np.ndarray, positions: np.ndarray, events: np.ndarray
    ) -> np.ndarray:
        """Feed events; before which of them an instance begins or ends."""
        cuts = np.zeros(len(codes), np.bool_)
        rows = zip(codes.tolist(), times.tolist(), positions.tolist(), events, strict=True)
        for row, (code, time, position, event) in enumerate(rows):
            progress = self.progress.get(code)
            if progress is None:
                progress = self.progress[code] = Progress(self.window.fresh())
            try:
                begins, ends = progress.window.step(time, event, len(progress.open_since))
            except Exception as error:
                self.failed.append((event, error))
                continue
            for _ in range(ends):
                self.ended.append((code, *_swapped(progress.open_since.popleft(), time, position)))
            progress.open_since.extend([(time, position)] * begins)
            cuts[row] = begins > 0 or ends > 0
        return cuts

    def closed(self, high: int) -> np.ndarray:
        """The instances of which the event that ended them is below `high`."""
        ready = sorted((one for one in self.ended if one[2] < high), key=lambda one: one[0])
        return np.array(ready, np.int64).reshape(-1, 5).T

    def forget(self, high: int) -> None:
        """Drop the instances that `closed` gives: they were handed out."""
        self.ended = [one for one in self.ended if one[2] >= high]

    def renumber(self, codes: np.ndarray) -> None:
        """Take over the new codes of keys."""
        self.progress = {int(codes[code]): one for code, one in self.progress.items()}
        self.ended = [(int(codes[code]), *rest) for code, *rest in self.ended]

    def dump(self, out: BlobWriter, codes: np.ndarray) -> Any:
        """Write how far each key's copy has come, and what the copy keeps on itself.

        The copy's class is not said: the window itself names it.
        """
        if not self.progress:
            return None
        rows = [
            (int(codes[code]), tuple(p.open_since), p.window.__getstate__())
            for code, p in self.progress.items()
        ]
        ended = [(int(codes[code]), *rest) for code, *rest in self.ended]
        deleted = {name for *_, state in rows for name in self._lacking(state)}
        try:
            return {
                "rows": pack(rows, out),
                "ended": pack(ended, out),
                "deleted": sorted(deleted),
            }
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise SnapshotError(
                f"A snapshot keeps what the window {self.window.name!r} has on `self`, and that "
                f"cannot be pickled: {error}. Keep plain values there, or define `__getstate__`."
            ) from error

    def load(self, node: Any, source: BlobReader) -> None:
        """Read what `dump` wrote."""
        if node is None:
            return
        if isinstance(node, list):
            # All of it was pickled once.
            rows, self.ended = source.unpickled(node)
        else:
            rows, self.ended = unpack(node["rows"], source), unpack(node["ended"], source)
        # Snapshots that do not say what windows have deleted are from before that was looked at.
        deleted = node.get("deleted") if isinstance(node, dict) else None
        for code, open_since, state in rows:
            window = self.window.fresh()
            if hasattr(window, "__setstate__"):
                window.__setstate__(state)
            else:
                lacking = self._lacking(state) if deleted is not None else set()
                require(lacking <= {*(deleted or ())}, f"a window lacks its {lacking!r}")
                window.__dict__.clear()
                window.__dict__.update(state or {})
            self.progress[code] = Progress(window, deque(open_since))

    def _lacking(self, state: Any) -> set[str]:
        """The attributes of the window that what a copy keeps on itself does not have."""
        if state is not None and not isinstance(state, dict):
            return set()  # its class says by itself what it keeps
        return vars(self.window).keys() - (state or {}).keys()

    def needed(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys that have an instance open or not listed yet, and its first position."""
        oldest = {k: p.open_since[0][1] for k, p in self.progress.items() if p.open_since}
        for code, _, _, position, _ in self.ended:
            oldest[code] = min(position, oldest.get(code, position))
        return np.array(list(oldest), np.int64), np.array(list(oldest.values()), np.int64)


class UserFamily(Family):
    """User-defined windows; `users` has one of each by its number."""

    kinds = (UserWindow,)
    ties = True

    def __init__(self, group: SliceGroup) -> None:
        super().__init__(group)
        self.users: dict[int, UserRows] = {}

    def set_windows(self, windows: Sequence[WindowEntry]) -> None:
        super().set_windows(windows)
        known = self.users
        self.users = {p.number: known.get(p.number) or UserRows(p.window) for p in windows}

    def cuts(self, events: Grouped, positions: np.ndarray) -> np.ndarray | None:
        batch, cuts = events.batch, np.zeros(len(positions), np.bool_)
        for user in self.users.values():
            cuts |= user.see(batch.keys, batch.times, positions, batch.events())
        return cuts

    def instances(self, keys: np.ndarray, low: int, high: int) -> Iterator[Instances]:
        for entry in self.windows:
            code, start, end, first, stop = self.users[entry.number].closed(high)
            known = start >= entry.since
            code, start, end = code[known], start[known], end[known]
            left, right = (self._places(code, at[known]) for at in (first, stop))
            window = np.full(len(code), entry.number, np.int64)
            yield Instances(window, code, start, end, left, right, end + 1)

    def keep(self, point: int, keep: np.ndarray) -> None:
        for user in self.users.values():
            codes, positions = user.needed()
            np.minimum.at(keep, codes, self._places(codes, positions))

    def _places(self, codes: np.ndarray, positions: np.ndarray) -> np.ndarray:
        places = np.empty(len(codes), np.int64)
        run(places_of)(codes, positions, self.group.runs.arrays, places)
        return places

    def handed_out(self, high: int) -> None:
        for user in self.users.values():
            user.forget(high)

    def failed(self) -> list[tuple[Any, Exception]]:
        found = []
        for user in self.users.values():
            found += user.failed
            user.failed = []
        return found

    def held(self, held: np.ndarray) -> None:
        for user in self.users.values():
            held[list(user.progress)] = True

    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        for user in self.users.values():
            user.renumber(codes)

    def dump(self, node: dict[str, Any], out: BlobWriter, kept: Kept) -> None:
        node["users"] = {n: user.dump(out, kept.codes) for n, user in self.users.items()}

    def load(self, node: dict[str, Any], source: BlobReader, keys: int) -> None:
        watermark = source.header["counters"]["watermark"]
        over = min(watermark, source.header.get("answered", watermark)) >= INFINITY
        known = node.get("users", {})
        for number, user in self.users.items():
            if str(number) in known:
                user.load(known[str(number)], source)
                check_users(self.group, user, keys, over=over)


def _swapped(begun: tuple[int, int], time: int, position: int) -> tuple[int, int, int, int]:
    start, first = begun
    return start, time, first, position


@kernel
def places_of(codes: Any, positions: Any, runs: Any, places: Any) -> None:
    """The places that begin with these rows of these keys; the run's end if there is none."""
    offset, size, start = runs.offset, runs.size, runs.start
    for i in range(codes.shape[0]):
        a = offset[codes[i]]
        places[i] = first_at_least(start, a, a + size[codes[i]], positions[i])
