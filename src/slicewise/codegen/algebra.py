"""What a kernel is specialised for: how states are made, merged and laid out in arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Algebra:
    """Functions on states, and the arrays that hold states.

    A compiled algebra is Python source that Numba compiles: it defines `identity()`,
    `lift_value(*inputs)`, `combine(older, newer)` and, where they exist, `invert(total, oldest)`
    and `lower(state)`, each decorated with `@algebra`. Its states are scalars (one field) or
    tuples of scalars. An interpreted algebra (`source is None`) is given by Python functions, and
    its states are any objects, in one array of objects.

    Two algebras are equal when they compute the same thing in the same way; equal ones share
    compiled kernels.
    """

    name: str
    dtypes: tuple[str, ...] = ("O",)
    inputs: int = 1
    source: str | None = None
    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()
    # Whether `invert` gives back the very state that was there before: integers, not floats.
    exact: bool = False
    # Whether `combine` always returns one of its arguments, as a maximum does.
    selective: bool = False
    # How a state of the source is built from its fields, when it is more than a plain tuple.
    constructor: str = field(default="", compare=False)
    # Whether the source does the same as plain Python; a user's needs the checks of compiled code.
    plain: bool = field(default=True, compare=False)
    # The algebra that raises errors, where this one makes states of them; see `raising`.
    strict: "Algebra | None" = field(default=None, compare=False)

    @property
    def compiled(self) -> bool:
        return self.source is not None

    @property
    def invertible(self) -> bool:
        """Return whether there is an `invert`, exact or not."""
        if self.source is None:
            return any(name == "invert" for name, _ in self.functions)
        return "def invert(" in self.source

    @property
    def raising(self) -> "Algebra":
        """The algebra that takes events: one that cannot be taken is an error of its own."""
        return self if self.strict is None else self.strict

    def new(self, size: int) -> tuple[np.ndarray, ...]:
        """Room for `size` states: one array per field; what they hold is undefined."""
        return tuple(np.empty(size, dtype) for dtype in self.dtypes)

    def module_source(self, index: str = "np.uint64(i)", value: str = "{}") -> str:
        """The source with `lift`, `load`, `store`, `part` and `same_state` for these fields.

        Compiled code takes an `index` without a sign, so that it need not ask for one below zero.
        `value` is how `lift` is given what it finds in an array.
        """
        assert self.source is not None
        fields = range(len(self.dtypes))
        scalar = len(self.dtypes) == 1 and not self.constructor
        if scalar:
            load, store = f"S[0][{index}]", f"    S[0][{index}] = state"
        else:
            load = f"{self.constructor}({', '.join(f'S[{k}][{index}]' for k in fields)},)"
            store = "\n".join(f"    S[{k}][{index}] = state[{k}]" for k in fields)
        same = " and ".join(
            f"({a} == {b} or ({a} != {a} and {b} != {b}))"
            for a, b in ([("a", "b")] if scalar else [(f"a[{k}]", f"b[{k}]") for k in fields])
        )
        part = ", ".join(f"S[{k}][begin:end]" for k in fields)
        lift = ", ".join(value.format(f"X[{k}][{index}]") for k in range(self.inputs))
        return (
            f"import numpy as np\n{self.source}\n\n"
            f"@algebra\ndef lift(X, i):\n    return lift_value({lift})\n\n\n"
            f"@algebra\ndef load(S, i):\n    return {load}\n\n\n"
            f"@algebra\ndef store(S, i, state):\n{store}\n\n\n"
            f"@algebra\ndef part(S, begin, end):\n    return ({part},)\n\n\n"
            f"@algebra\ndef same_state(a, b):\n    return {same}\n"
        )


# For kernels that work on no states.
NOTHING = Algebra("nothing", ("i8",), 0, source="")
