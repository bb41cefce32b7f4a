"""Events that an aggregate cannot take, told from those that it can.

An aggregate that raises an error on one key must not stop the others, so the events of a
micro-batch are halved until those that fail are found: by key first, then by event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from slicewise.aggregates.bound import Bound, read
from slicewise.aggregates.own import is_own
from slicewise.arrays.grouping import encode
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.store.states import add_events, fill_identity

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("slicewise")

Accepts = Callable[[np.ndarray], bool]


def sifted(
    events: pa.Table, by: Sequence[str], attempt: Callable[[pa.Table], None]
) -> tuple[pa.Table, pa.Table]:
    """The events that `attempt` takes together without an error, and the others.

    Each attempt must begin from the same state.
    """
    import pyarrow as pa

    errors: list[Exception] = []

    def accepts(rows: np.ndarray) -> bool:
        try:
            attempt(events.take(pa.array(rows)))
        except Exception as error:
            errors.append(error)
            return False
        return True

    codes, _ = encode([events.column(name) for name in by])
    keys = np.zeros(events.num_rows, np.int64) if codes is None else codes
    good, bad = np.arange(events.num_rows), np.empty(0, np.int64)
    # What fails only together with other events shows once those that fail alone are out.
    while len(good) and not accepts(good):
        more = _refused(good, keys, accepts)
        bad, good = np.union1d(bad, more), np.setdiff1d(good, more, assume_unique=True)
    if errors:
        cause = errors[-1]
        log.warning("%d events are left out: %s: %s", len(bad), type(cause).__name__, cause)
    return events.take(pa.array(good)), events.take(pa.array(bad))


def _refused(rows: np.ndarray, keys: np.ndarray, accepts: Accepts) -> np.ndarray:
    """Rows that fail, of some that do: the least that halving finds."""
    if len(rows) == 1:
        return rows
    found = np.unique(keys[rows])
    if len(found) > 1:
        first = np.isin(keys[rows], found[: len(found) // 2])
        halves = [rows[first], rows[~first]]
    else:
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    refused = [_refused(half, keys, accepts) for half in halves if not accepts(half)]
    return np.concatenate(refused) if refused else rows


def try_lifts(bounds: Sequence[Bound], events: pa.Table) -> None:
    """Lift each event on its own with user-defined aggregates, which may raise an error."""
    columns = Columns(events)
    rows = np.arange(events.num_rows)
    for bound in bounds:
        for component in bound.components if is_own(bound.aggregate) else ():
            X, valid = read(component, columns, len(rows))
            algebra = component.algebra.raising
            states = algebra.new(len(rows))
            fill_identity.specialise(algebra)(states, rows)
            add_events.specialise(algebra)(X, valid, rows, states)
