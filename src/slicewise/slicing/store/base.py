"""The interface of stores of slices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from slicewise.aggregates.bound import Bound, Component, States, share, states_of
from slicewise.aggregates.own import is_own
from slicewise.columns import Column
from slicewise.slicing.state.blob import BlobReader, BlobWriter
from slicewise.slicing.store.saving import Found, Layout, find_known, find_same, put_states

Refused = dict[int, Exception]  # rows of events that raised an error, with the error


class SliceStore(ABC):
    """The slices of a set of keys: their bounds, rows and states, and what is aggregated in them.

    A store keeps all that it knows in itself and shares nothing with other stores, so that those
    of different keys may be used by different threads.
    """

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self.bounds = list(bounds)
        self.components: list[Component] = share(bounds)
        self.own = own_of(bounds)  # components of the user's own, which may raise errors
        self.combines = 0  # states that were combined so far
        # Whether its events come when results are made: an error is then treated like one of those.
        self.waits = False
        # Aggregates, by number, that know events from a time on, and not those before it.
        self.since: dict[int, int] = {}

    def take_over(self, other: SliceStore) -> None:
        """Aggregate as another store does, and count on from there."""
        self.components, self.own = other.components, other.own
        self.combines, self.waits, self.since = other.combines, other.waits, other.since

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of the bounds of slices."""

    @property
    @abstractmethod
    def keys(self) -> int:
        """The number of keys that are known."""

    @property
    @abstractmethod
    def live(self) -> int:
        """The number of slices that are kept."""

    @property
    @abstractmethod
    def first_start(self) -> Any:
        """The least start of a slice; infinity if there is none."""

    @abstractmethod
    def admit(self, keys: int) -> None:
        """Make room for key codes below `keys`."""

    @abstractmethod
    def held(self, keep: np.ndarray | None = None) -> np.ndarray:
        """Return for each key, by code, whether it has slices; `keep` is as in `dump`."""

    @abstractmethod
    def renumber(self, live: np.ndarray, codes: np.ndarray) -> None:
        """Forget all keys but the `live` ones, which are in order; `codes` has their new codes."""

    @abstractmethod
    def cut_at(self, point: Any) -> None:
        """Let no slice reach beyond `point`: events from there on go to new slices."""

    @abstractmethod
    def dump(
        self,
        out: BlobWriter,
        live: np.ndarray,
        codes: np.ndarray,
        layout: Layout,
        keep: np.ndarray | None = None,
    ) -> dict[str, Any]:
        """Write the slices of the `live` keys, of which `codes` has the new codes.

        With `keep`, which has a place for each key, those before it are left out, as far as slices
        have places. Returns the node of a snapshot that finds them again; the store stays as it is.
        """

    @abstractmethod
    def load(
        self, node: Any, keys: int, source: BlobReader, layout: Layout, since: int | None = None
    ) -> None:
        """Read the slices of a node of a snapshot into this store, which is empty.

        With `since`, aggregates may be others than those of the snapshot: what it does not know
        has seen the events from there on.
        """

    def lower(self, states: Sequence[States]) -> list[Column]:
        """The results of every aggregate, given the merged states of every component."""
        return [
            bound.lower([states_of(c, self.components, states) for c in bound.components])
            for bound in self.bounds
        ]

    def counted(self, component: Component) -> bool:
        """Return whether results need the numbers of a count, or only if they are positive."""
        return any(
            component in bound.components[1 if bound.if_any else 0 :] for bound in self.bounds
        )

    def _dump_states(
        self, states: Sequence[States | None], chosen: np.ndarray, out: BlobWriter
    ) -> dict[str, Any]:
        """Write the `chosen` states of each component, and what else is said of aggregates."""
        return {
            "combines": self.combines,
            "components": put_states(self.components, states, chosen, out),
            "since": {str(number): since for number, since in self.since.items()},
            "outputs": [bound.aggregate.output for bound in self.bounds],
        }

    def _find_states(self, node: Any, since: int | None) -> Found:
        """Find the states of a snapshot, and take over the components that they are states of."""
        if since is None:
            found = find_same(self.components, self.bounds, node)
        else:
            found = find_known(self.bounds, node, since)
        self.components, self.since = found.components, found.since
        self.combines = node["combines"]
        return found


def own_of(bounds: Sequence[Bound]) -> set[Component]:
    """The components whose events are taken one by one if need be, as they may raise errors."""
    return {
        component
        for bound in bounds
        for component in bound.components
        if is_own(bound.aggregate) or component.algebra.strict is not None
    }
