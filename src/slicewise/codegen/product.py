"""Several algebras as one: their states go through a loop together, and leave it as results.

One loop over the events does for all components what each would do in a loop of its own, and
states become results while they are in the processor's cache, many at a time. Each algebra and
each way to a result stays a module of its own, which the product imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.cache import module_from
from slicewise.codegen.kernel import HEADER

NUMBER = """

NAN = float("nan")


@algebra
def number(result, nothing):
    if result is None:
        return nothing
    return result
"""

# One loop for each result, over plain arrays and without a branch: the compiler then does several
# states at once, which takes half the time where results are quotients and roots.
LOOP = """

@algebra
def lower_{n}({fields}, count, values, valid):
    for i in range(count):
        result = finish_{n}({states})
        values[i] = number(result, {nothing})
        valid[i] = result is not None
"""


@dataclass(frozen=True, slots=True)
class Finish:
    """The compiled way from the states of an aggregate's components to its result.

    `source` defines a function `name` that takes one state per component and returns a number of
    the type `dtype`, or `None` for null. `type` is the Arrow type of the results.
    """

    source: str
    name: str
    dtype: str
    type: Any


# Where a state is found in the product's: the number of its algebra, and of a field if it is one.
Place = tuple[int, tuple[int, ...] | None]


@dataclass(frozen=True)
class Product(Algebra):
    """The product of algebras: a state is a tuple of theirs.

    Its inputs are theirs one after the other; when `masked`, then one mask for each, which says
    which events it takes. Its arrays of states are theirs one after the other. `put_results`
    puts the results of states to their columns, first the values and then which are there; the
    value of a null float is NaN.
    """

    def module_source(self) -> str:
        assert self.source is not None
        return self.source


def product(
    algebras: Sequence[Algebra],
    finishes: Sequence[tuple[Finish, Sequence[Place]]],
    *,
    masked: bool,
) -> Product:
    """The product of compiled algebras; each result with the places of the states it needs."""
    text, lifts, loads, stores = [], [], [], []
    inputs, fields = sum(algebra.inputs for algebra in algebras), 0
    at = 0
    for k, algebra in enumerate(algebras):
        names = ["identity", "lift_value", "combine", *filter(None, [algebra.constructor])]
        listed = ", ".join(f"{name} as {name}_{k}" for name in names)
        text.append(f"from {_module(algebra.module_source(), algebra.name)} import {listed}\n")
        values = ", ".join(f"X[{n}][i]" for n in range(at, at + algebra.inputs))
        lift = f"lift_value_{k}({values})"
        lifts.append(f"{lift} if X[{inputs + k}][i] else identity_{k}()" if masked else lift)
        at += algebra.inputs
        arrays = [f"[{n}][i]" for n in range(fields, fields + len(algebra.dtypes))]
        fields += len(arrays)
        if len(arrays) == 1 and not algebra.constructor:
            loads.append(f"S{arrays[0]}")
            stores.append(f"    S{arrays[0]} = state[{k}]\n")
        else:
            make = f"{algebra.constructor}_{k}" if algebra.constructor else ""
            loads.append(f"{make}({', '.join(f'S{one}' for one in arrays)},)")
            stores += [f"    S{one} = state[{k}][{n}]\n" for n, one in enumerate(arrays)]
    for n, (finish, _) in enumerate(finishes):
        module = _module(finish.source, finish.name)
        text.append(f"from {module} import {finish.name} as finish_{n}\n")
    count = range(len(algebras))
    for name, arguments, parts in (
        ("identity", "", [f"identity_{k}()" for k in count]),
        ("lift", "X, i", lifts),
        ("combine", "older, newer", [f"combine_{k}(older[{k}], newer[{k}])" for k in count]),
        ("load", "S, i", loads),
    ):
        text.append(f"\n\n@algebra\ndef {name}({arguments}):\n    return ({', '.join(parts)},)\n")
    text.append(f"\n\n@algebra\ndef store(S, i, state):\n{''.join(stores)}")
    text.append(_finishing(algebras, finishes))
    return Product(
        name=" x ".join(algebra.name for algebra in algebras),
        dtypes=tuple(dtype for algebra in algebras for dtype in algebra.dtypes),
        inputs=inputs,
        source="".join(text),
    )


def _module(source: str, title: str) -> str:
    return module_from(f"{HEADER.format(title=title)}\n\n{source}").__name__


def _nothing(finish: Finish) -> str:
    """What stands for null in the values."""
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
        calls.append(f"    lower_{n}({arrays}, count, {columns})\n")
    body = "".join(calls) or "    pass\n"
    return "".join(loops) + f"\n\n@algebra\ndef put_results(S, count, out, at):\n{body}"
