"""The error policy: what becomes of errors in code of the user's own when results are made.

An operator in process raises them, and nothing is lost: the next call tries again. A stream must
not stop because an aggregate fails on one key: there, the results that cannot be made are null and
counted, and all others are as they would have been.

`Operator.errors` has the policy, which is applied where aggregates are bound; stores and kernels
run what is bound and know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slicewise.aggregates.bound import Bound, States
from slicewise.aggregates.interpreted import Method, fitting_column
from slicewise.codegen.algebra import Algebra
from slicewise.columns import Column


class Failed:
    """The state of events that an aggregate could not combine."""

    def __reduce__(self) -> str:
        return "FAILED"


FAILED = Failed()


@dataclass
class ErrorPolicy:
    """How an operator treats errors when it makes results.

    With `raises` they are raised. Without, a result that cannot be made is null, `lost` counts it,
    and events that are refused meanwhile are bad and no more.
    """

    raises: bool = True
    lost: int = 0

    def applied(self, bound: Bound) -> Bound:
        """Return the aggregate as it runs under this policy."""
        if self.raises:
            return bound
        components = tuple(replace(c, algebra=forgiving(c.algebra)) for c in bound.components)

        def lower(states: Sequence[States]) -> Column:
            whole = bound.compiled or not any(state is FAILED for state in states[0][0])
            try:
                return bound.lower(states) if whole else self._lowered_apart(bound, states)
            except Exception:
                return self._lowered_apart(bound, states)

        return replace(bound, components=components, lower=lower)

    def _lowered_apart(self, bound: Bound, states: Sequence[States]) -> Column:
        """Return the results, each made on its own; one that raises an error is null."""
        import pyarrow as pa

        values: list[Any] = []
        for row in range(len(states[0][0])):
            alone = [tuple(array[row : row + 1] for array in S) for S in states]
            try:
                values += [None] if alone[0][0][0] is FAILED else bound.lower(alone).tolist()
            except Exception:
                values.append(None)
                self.lost += 1
            else:
                self.lost += alone[0][0][0] is FAILED
        kind = bound.lower([c.algebra.new(0) for c in bound.components]).type
        column, unfit = fitting_column(values, None if pa.types.is_null(kind) else kind)
        self.lost += unfit
        return column


def forgiving(algebra: Algebra) -> Algebra:
    """Return an interpreted algebra that makes `FAILED` of states on which its methods fail.

    The algebra that raises is its `strict`, which takes events. A compiled algebra stays as it is.
    """
    if algebra.compiled:
        return algebra
    functions = tuple(
        (name, OrFailed(function.aggregate, name) if isinstance(function, Method) else function)
        for name, function in algebra.functions
    )
    return replace(algebra, functions=functions, strict=algebra)


class OrFailed(Method):
    """A method of an aggregate that returns `FAILED` where it raises an error."""

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.run(*arguments)  # type: ignore[attr-defined]  # set when it is made
        except Exception:
            return FAILED
