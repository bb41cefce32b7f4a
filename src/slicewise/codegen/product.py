"""Several algebras in one sweep over the rows, a tile at a time.

Each algebra has a kernel of its own, compiled once whatever the others are. A loop over tiles of
a few hundred rows calls one after the other, and states become results while they are in the
processor's nearest cache, many at a time. A tile is rows of one key after the other, or those of
many keys in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from slicewise.codegen import plain
from slicewise.codegen.algebra import Algebra
from slicewise.codegen.cache import module_from
from slicewise.codegen.kernel import Kernel, algebra_module, header
from slicewise.codegen.tiered import Tiered


class Tiling(NamedTuple):
    """The source of a loop over tiles, and what it gives to `step` between inputs and states.

    `{k}` stands for the number of the algebra, `{suffixes}` and `{kept}` for its arrays.
    """

    source: str
    given: str


# Small loops compile to better code than one large one: two algebras in one loop measured half as
# fast as in a loop each.
TILES = Tiling(
    """

@kernel
def tiles(X, valid, windows, begin, size, memory, states, out):
    firsts, ends = windows
    cursors, suffixes, kept = memory
    at, rows = 0, len(firsts)
    while at < rows:
        stop = min(at + size, rows)
        if len(ends) > 0:
            stop = ends[stop - 1] - begin  # rows of one time stay together
        some = firsts[at:stop]
        tied = ends[at:stop]
        {calls}
        put_results(states, stop - at, out, at)
        at = stop
""",
    "some, tied, begin + at, (cursors[{k}], {suffixes}, {kept})",
)

ROUNDS = Tiling(
    """

@kernel
def tiles(X, valid, windows, keys, size, memory, states, out):
    firsts, boundaries, bases = windows
    suffixes, kept = memory
    for key in range(0, keys, size):
        count = min(size, keys - key)
        for r in range(len(firsts)):
            at = r * keys + key
            first, boundary, base = firsts[r], boundaries[r], bases[r]
            {calls}
            put_results(states if first < boundary else kept, count, out, at)
""",
    "at, count, keys, (r, first, boundary, base), ({suffixes}, {kept})",
)

NUMBER = """

NAN = float("nan")


@algebra
def number(result, nothing):
    if result is None:
        return nothing
    return result
"""

# One loop for each result, over plain arrays and without a branch: the compiler then does several
# states at once, which takes half the time where results are quotients and roots. Nulls are rare,
# so which they are is written by a loop of its own.
LOOP = """

@algebra
def lower_{n}({fields}, count, values, missing):
    nulls = 0
    for i in range(count):
        result = finish_{n}({states})
        values[i] = number(result, {nothing})
        nulls += result is None
    if nulls:
        for i in range(count):
            missing[i] = finish_{n}({states}) is None
    return nulls
"""


@dataclass(frozen=True, slots=True)
class Finish:
    """The compiled way from the states of an aggregate's components to its result.

    `source` defines a function `name` that takes one state per component and returns a number of
    the type `dtype`, or `None` for null. `type` is the Arrow type of the results. `spark`, where
    there is one, makes Spark's expression of the result, of `pyspark.sql.functions` and a list of
    fields per component.
    """

    source: str
    name: str
    dtype: str
    type: Any
    spark: Callable[..., Any] | None = field(default=None, compare=False)


# Where a state is found: the number of its algebra, and of fields if it is not all of them.
Place = tuple[int, tuple[int, ...] | None]


def by_tiles(
    step: Kernel,
    algebras: Sequence[Algebra],
    finishes: Sequence[tuple[Finish, Sequence[Place]]],
    loop: Tiling = TILES,
) -> Callable[..., None]:
    """The compiled loop that calls `step` for each algebra, then makes results of the states.

    Inputs and arrays of states are those of the algebras one after the other. `out` has a column of
    values for each result, then one that says which are null, then an array that counts nulls; the
    value of a null float is NaN. Each result comes with the places of the states it needs.
    """
    parts = _Parts(step, tuple(algebras), tuple(finishes), loop)
    python = None if not all(algebra.plain for algebra in algebras) else parts.as_python
    return Tiered(python, parts.compiled)


@dataclass(frozen=True)
class _Parts:
    """What a loop over tiles is made of."""

    step: Kernel
    algebras: tuple[Algebra, ...]
    finishes: tuple[tuple[Finish, Sequence[Place]], ...]
    loop: Tiling

    def compiled(self) -> Callable[..., None]:
        text, name = [], self.step.__name__
        for k, algebra in enumerate(self.algebras):
            text.append(f"from {self.step.place(algebra)} import {name} as {name}_{k}\n")
            if algebra.constructor:
                place, made = algebra_module(algebra).__name__, algebra.constructor
                text.append(f"from {place} import {made} as {made}_{k}\n")
        for n, (finish, _) in enumerate(self.finishes):
            place = module_from(f"{header(finish.name)}\n\n{finish.source}").__name__
            text.append(f"from {place} import {finish.name} as finish_{n}\n")
        title = f"{name} for {' and '.join(algebra.name for algebra in self.algebras)}"
        source = "".join([header(title, counts=False), "\n", *text, self.source()])
        tiles: Callable[..., None] = module_from(source).tiles
        return tiles

    def as_python(self) -> Callable[..., None]:
        known: dict[str, Any] = {}
        for k, algebra in enumerate(self.algebras):
            known[f"{self.step.__name__}_{k}"] = self.step.as_python(algebra)
            if algebra.constructor:
                names = plain.run(algebra.module_source())
                known[f"{algebra.constructor}_{k}"] = names[algebra.constructor]
        for n, (finish, _) in enumerate(self.finishes):
            known[f"finish_{n}"] = plain.run(finish.source)[finish.name]
        tiles: Callable[..., None] = plain.run(self.source(), known)["tiles"]
        return tiles

    def source(self) -> str:
        """The loop, and what makes results of states."""
        calls, at = [], 0
        firsts = list(accumulate((len(algebra.dtypes) for algebra in self.algebras), initial=0))
        for k, (algebra, (first, stop)) in enumerate(
            zip(self.algebras, pairwise(firsts), strict=True)
        ):
            inputs = _tuple("X", at, at + algebra.inputs)
            suffixes, kept, states = (
                _tuple(s, first, stop) for s in ("suffixes", "kept", "states")
            )
            given = self.loop.given.format(k=k, suffixes=suffixes, kept=kept)
            calls.append(f"{self.step.__name__}_{k}({inputs}, valid[{k}], {given}, {states})")
            at += algebra.inputs
        loop = self.loop.source.format(calls="; ".join(calls))
        return _finishing(self.algebras, self.finishes) + loop


def _tuple(name: str, first: int, stop: int) -> str:
    return f"({', '.join(f'{name}[{n}]' for n in range(first, stop))},)"


def _nothing(finish: Finish) -> str:
    """Return the literal that stands for null in the values."""
    return {"f": "NAN", "b": "False"}.get(np.dtype(finish.dtype).kind, "0")


def _finishing(
    algebras: Sequence[Algebra], finishes: Sequence[tuple[Finish, Sequence[Place]]]
) -> str:
    """The source of `put_results`."""
    firsts = list(accumulate((len(algebra.dtypes) for algebra in algebras), initial=0))
    loops, calls = [NUMBER], []
    for n, (finish, places) in enumerate(finishes):
        used: list[int] = []
        states = []
        for k, fields in places:
            every = range(len(algebras[k].dtypes)) if fields is None else fields
            own = [firsts[k] + field for field in every]
            used += own
            make = algebras[k].constructor if fields is None else ""
            values = ", ".join(f"F{field}[i]" for field in own)
            plain = len(own) == 1 and not make
            states.append(values if plain else f"{make and f'{make}_{k}'}({values},)")
        used = list(dict.fromkeys(used))
        loops.append(
            LOOP.format(
                n=n,
                fields=", ".join(f"F{field}" for field in used),
                states=", ".join(states),
                nothing=_nothing(finish),
            )
        )
        arrays = ", ".join(f"S[{field}]" for field in used)
        columns = f"out[{n}][at : at + count], out[{len(finishes) + n}][at : at + count]"
        calls.append(f"    out[-1][{n}] += lower_{n}({arrays}, count, {columns})\n")
    return "".join(loops) + f"\n\n@algebra\ndef put_results(S, count, out, at):\n{''.join(calls)}"
