"""States as columns of a DataFrame: one per field of each component, objects pickled."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.aggregates.bound import Component, States
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.kernel import kernel
from slicewise.codegen.prelude import combine, load, store
from slicewise.columns import Column
from slicewise.errors import CapabilityError
from slicewise.slicing.store.states import fill_identity
from slicewise.spark.sending import pickled

if TYPE_CHECKING:
    import pyarrow as pa

SLICE = "__slice"
PART = "__part"  # orders the states of one slice, where there is more than one


def key_names(by: Sequence[str]) -> list[str]:
    """The names of key columns beside states."""
    return [f"key_{n}" for n in range(len(by))]


def state_names(components: Sequence[Component]) -> list[list[str]]:
    """The names of the state columns of each component."""
    return [
        [f"__state_{k}_{n}" for n in range(len(component.algebra.dtypes))]
        for k, component in enumerate(components)
    ]


def state_type(dtype: str) -> pa.DataType:
    """The Arrow type of a field of a state; Spark has no unsigned numbers."""
    import pyarrow as pa

    kind = np.dtype(dtype)
    if kind.kind == "O":
        return pa.binary()
    return pa.int64() if kind.kind == "u" else pa.from_numpy_dtype(kind)


def packed(array: np.ndarray) -> pa.Array:
    """The fields of states as an Arrow array."""
    import pyarrow as pa

    if array.dtype == object:
        return pa.array(_pickles(array), pa.binary())
    # The same bits: `unpacked` casts them back.
    return pa.array(array.astype(np.int64) if array.dtype.kind == "u" else array)


def _pickles(states: np.ndarray) -> list[bytes]:
    """Objects as bytes; classes of a script or of a notebook cell go along, if there are any."""
    with suppress(Exception):
        return [pickle.dumps(state, protocol=5) for state in states]
    try:
        return [pickled(state) for state in states]
    except Exception as error:
        raise CapabilityError(
            f"States go from one task of Spark to another, and a {type(states[0]).__name__!r} "
            f"cannot: {error}. Let states be plain values."
        ) from error


def unpacked(algebra: Algebra, arrays: Sequence[pa.Array | pa.ChunkedArray]) -> States:
    """States from their columns; where a field is null there is no state, and so the identity."""
    if not algebra.compiled:
        states = np.empty(len(arrays[0]), object)
        states[:] = [pickle.loads(state) for state in arrays[0].to_pylist()]
        return (states,)
    columns = [Column.from_arrow(array) for array in arrays]
    fields = []
    for column, dtype, neutral in zip(columns, algebra.dtypes, identity_of(algebra), strict=True):
        values = column.values.astype(dtype, copy=False)
        if column.valid is not None:
            values = np.where(column.valid, values, neutral[0])
        fields.append(values)
    return tuple(fields)


def identity_of(algebra: Algebra) -> States:
    """The state of no event."""
    made = algebra.new(1)
    fill_identity.specialise(algebra)(made, np.zeros(1, np.int64))
    return made


def folded(algebra: Algebra, states: States, starts: np.ndarray) -> States:
    """The states of runs of rows: each begins at one of `starts` and ends before the next."""
    if len(starts) == len(states[0]):
        return states
    out = algebra.new(len(starts))
    ends = np.append(starts[1:], len(states[0]))
    fold_runs.specialise(algebra)(states, starts, ends, out)
    return out


@kernel
def fold_runs(S: Any, starts: Any, ends: Any, out: Any) -> None:
    for g in range(starts.shape[0]):
        state = load(S, starts[g])
        for i in range(starts[g] + 1, ends[g]):
            state = combine(state, load(S, i))
        store(out, g, state)
