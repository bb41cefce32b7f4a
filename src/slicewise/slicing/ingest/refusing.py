"""Events that an aggregate of the user's own raised an error for.

Its states leave them out, as they do with nulls. Such an event is bad: it is counted and handed out
once, however many windows it is in, and the error is raised once, when all else is done.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.slicing.emit.output import Output
from slicewise.slicing.ingest.batch import BAD
from slicewise.slicing.ingest.events import Columns
from slicewise.slicing.ingest.quarantine import Quarantine

if TYPE_CHECKING:
    from slicewise.slicing.groups.slice_manager import SliceManager


def refuse_at_once(
    slices: SliceManager, quarantine: Quarantine, columns: Columns
) -> tuple[np.ndarray | None, Exception | None]:
    """Hand out events of a batch that fell behind or were refused: the refused, the first error."""
    regressed = slices.take_regressed()
    if regressed is not None:
        rows = np.flatnonzero(regressed)
        quarantine.behind += len(rows)
        quarantine.add(columns.table(rows))
    refused, error = slices.take_refused(columns.rows)
    if refused is not None:
        rows = np.flatnonzero(refused)
        quarantine.bad += len(rows)
        quarantine.add(columns.table(rows))
    return refused, error


def refuse_failed(slices: SliceManager, quarantine: Quarantine, output: Output) -> Exception | None:
    """Make events bad that what is the user's own could not take; the first error."""
    import pyarrow as pa

    failed = slices.take_failed()
    refused, errors = _refused_later(slices, output)
    known = {id(event): event for event, _ in failed}
    events = [*known.values(), *(event for event in refused if id(event) not in known)]
    errors = [*(error for _, error in failed), *errors]
    if events:
        quarantine.bad += len(events)
        quarantine.add(pa.Table.from_pylist(events))
    return errors[0] if errors else None


def _refused_later(
    slices: SliceManager, output: Output
) -> tuple[list[dict[str, Any]], list[Exception]]:
    """The events that were refused when the watermark passed them, and the errors.

    They have their key, their time and the columns that aggregates read, or all that they had where
    windows of the user's own see them.
    """
    found: Counter[Any] = Counter()
    events: dict[Any, dict[str, Any]] = {}
    errors: list[Exception] = []
    for refused in slices.take_refused_later():
        here: Counter[Any] = Counter()
        for batch, row, error in refused:
            if BAD in batch.marks and batch.marks[BAD][row]:
                continue
            errors.append(error)
            whole = None if batch.objects is None else batch.objects[row]
            event = output.event(batch, row) if whole is None else whole
            said = repr(event) if whole is None else id(whole)
            here[said] += 1
            events[said] = event
        found |= here  # slice groups that refuse the same event mean one
    return [events[said] for said in found.elements()], errors
