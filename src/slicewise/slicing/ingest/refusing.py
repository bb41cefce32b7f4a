"""Events that an aggregate of the user's own raised an error for.

Its states leave them out, as they do with nulls. Such an event is bad: it is counted and handed out
once, however many windows it is in, and the error is raised once, when all else is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.slicing.buffer import BAD, ROW, Batch
from slicewise.slicing.emit.output import key_columns
from slicewise.slicing.groups.group import SliceGroup
from slicewise.slicing.groups.ordered import OrderedGroup
from slicewise.slicing.ingest.events import Columns, times_column

if TYPE_CHECKING:
    from slicewise.slicing.operator import Operator


def refused_at_once(op: Operator, columns: Columns) -> tuple[np.ndarray | None, Exception | None]:
    """Hand out the events of a batch that were refused: which of them, and the first error."""
    refused = _taken(op._takers)
    if not refused:
        return None, None
    rows = {int(b.marks[ROW][row]) if ROW in b.marks else row for b, row, _ in refused}
    chosen = np.array(sorted(rows))
    op._stats.bad += len(chosen)
    op._late.add(columns.table(chosen))
    marked = np.zeros(columns.rows, np.bool_)
    marked[chosen] = True
    return marked, refused[0][2]


def hand_out_failed(op: Operator) -> Exception | None:
    """Make events bad that what is the user's own could not take; the first error."""
    import pyarrow as pa

    groups = [group for group in op._groups.values() if isinstance(group, OrderedGroup)]
    users = [user for group in groups for user in group.users.values()]
    failed = [one for user in users for one in user.failed]
    refused, errors = _refused_late(op)
    for user in users:
        user.failed = []
    known = {id(event): event for event, _ in failed}
    events = [*known.values(), *(event for event in refused if id(event) not in known)]
    errors = [*(error for _, error in failed), *errors]
    if events:
        op._stats.bad += len(events)
        op._late.add(pa.Table.from_pylist(events))
    return errors[0] if errors else None


def _refused_late(op: Operator) -> tuple[list[dict[str, Any]], list[Exception]]:
    """The events that were refused when the watermark passed them, and the errors.

    They have their key, their time and the columns that aggregates read, or all that they had where
    windows of the user's own see them.
    """
    found: Counter[Any] = Counter()
    events: dict[Any, dict[str, Any]] = {}
    errors: list[Exception] = []
    given, op._waiting.refused = op._waiting.refused, []
    for refused in [given, *(_taken([group]) for group in op._waiters)]:
        here: Counter[Any] = Counter()
        for batch, row, error in refused:
            if BAD in batch.marks and batch.marks[BAD][row]:
                continue
            errors.append(error)
            whole = None if batch.objects is None else batch.objects[row]
            event = _event(op, batch, row) if whole is None else whole
            said = repr(event) if whole is None else id(whole)
            here[said] += 1
            events[said] = event
        found |= here  # slice groups that refuse the same event mean one
    return [events[said] for said in found.elements()], errors


def _event(op: Operator, batch: Batch, row: int) -> dict[str, Any]:
    rows = slice(row, row + 1)
    event = {}
    if op.by:
        keys = key_columns(op, batch.keys[rows])
        event = {name: key.to_pylist()[0] for name, key in zip(op.by, keys, strict=True)}
    if op.time is not None and op._time_type is not None:
        event[op.time] = times_column(batch.times[rows], op._time_type, 0).to_pylist()[0]
    return event | {name: c.tolist()[0] for name, c in batch.take(rows).columns.items()}


def _taken(groups: Iterable[SliceGroup]) -> list[tuple[Batch, int, Exception]]:
    """What the slice groups have noted, which they then forget."""
    refused = []
    for group in groups:
        refused += group.refused
        group.refused = []
    return refused
