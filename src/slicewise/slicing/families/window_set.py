"""The windows of an operator, each with a number that it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from slicewise.errors import WindowError
from slicewise.limits import BEGINNING
from slicewise.slicing.families.family import WindowEntry
from slicewise.slicing.settings import QueryFacts, Settings, check_window
from slicewise.slicing.state.describe import window_described
from slicewise.windows import Window


class WindowSet:
    """The windows in the order in which they were given, and the facts that follow from them.

    `entries` are the windows with their numbers, `defined` the windows alone. `facts` is another
    object whenever they change.
    """

    version = 1
    entries: list[WindowEntry]
    defined: list[Window]
    facts: QueryFacts

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.next_number = 0
        self._entries: dict[str, WindowEntry] = {}  # by name
        self._changed()

    def _changed(self) -> None:
        """Work out anew what follows from the windows."""
        self.entries = list(self._entries.values())
        self.defined = [entry.window for entry in self.entries]
        read = [*self.settings.by, *self.settings.order]
        self.facts = QueryFacts.of(self.entries, read, self.settings.aggs, self.next_number)

    def counted(self, window: Window) -> Window:
        """A window in the unit of the time column; refuses one that cannot be added."""
        settings = self.settings
        check_window(window, self._entries, settings)
        return window if settings.unit is None else window.counted_in(settings.unit)

    def begin(self, windows: Window | Iterable[Window]) -> None:
        """Take the windows that there are from the beginning: one or several."""
        for window in [windows] if isinstance(windows, Window) else windows:
            self._take(self.counted(window), BEGINNING)
        if not self._entries:
            raise WindowError("An operator needs at least one window; given: none.")
        self._changed()

    def add(self, window: Window, since: Any = BEGINNING) -> None:
        """Take a window, of which instances are reported that start at `since` or later."""
        self._take(window, since)
        self._changed()

    def _take(self, window: Window, since: Any) -> None:
        self._entries[window.name] = WindowEntry(self.next_number, window, since)
        self.next_number += 1

    def find(self, name: str) -> WindowEntry:
        """The window of a name; refuses to give one that cannot be removed."""
        found = self._entries.get(name)
        if found is None:
            known = ", ".join(map(repr, self._entries))
            raise WindowError(f"There is no window {name!r}; there are: {known}.")
        if len(self._entries) == 1:
            raise WindowError(f"An operator needs at least one window; {name!r} is its last.")
        return found

    def remove(self, entry: WindowEntry) -> None:
        """Let go of a window; its number is not given again."""
        del self._entries[entry.window.name]
        self._changed()

    def dump(self) -> list[dict[str, Any]]:
        """The windows in words, with their numbers."""
        return [
            {"number": p.number, "since": p.since, "window": window_described(p.window)}
            for p in self.entries
        ]

    def load(self, header: dict[str, Any], found: Sequence[Window | None]) -> None:
        """Go on with windows of a header; `found` has each of them, or `None` for one that ends."""
        self._entries = {
            window.name: WindowEntry(one["number"], window, one["since"])
            for one, window in zip(header["windows"], found, strict=True)
            if window is not None
        }
        self.next_number = header["counters"]["_next_number"]
        self._changed()
