"""Built-in algebras on flat states: plain methods, compiled by the way of user-defined ones."""

from abc import ABC, abstractmethod
from functools import cache, cached_property
from typing import Any, ClassVar

from slicewise.codegen.algebra import Algebra
from slicewise.codegen.writer import Writer, casts


class FlatAlgebra(ABC):
    """Base of the algebras of built-in components.

    A subclass gives the numpy types of its fields and `identity`, `lift`, `combine` and perhaps
    `invert` on states: a number when there is one field, a tuple otherwise. `exact` says
    that `invert` gives back the very state that was there before, `selective` that `combine`
    returns one of its arguments. `prepend` is `combine` in another form, quicker where `newer` is
    what the step before it made. Methods may read attributes of `self`; they become constants.
    Division by zero gives infinity or NaN.
    """

    dtypes: ClassVar[tuple[str, ...]]
    exact: ClassVar[bool] = False
    selective: ClassVar[bool] = False

    @abstractmethod
    def identity(self) -> Any:
        """The neutral state."""

    @cached_property
    def algebra(self) -> Algebra:
        """The algebra, ready for kernels to be specialised for it."""
        methods = ["identity", "lift", "combine"]
        methods += [extra for extra in ("prepend", "invert") if hasattr(self, extra)]
        source, constructor = Writer(self).write(methods)
        lift = self.lift  # type: ignore[attr-defined]  # its parameters differ by subclass
        return Algebra(
            name=type(self).__name__,
            dtypes=self.dtypes,
            inputs=lift.__code__.co_argcount - 1,
            source=source + casts(self.dtypes, constructor, methods),
            exact=self.exact,
            selective=self.selective,
            constructor=constructor,
        )


class FlatFinish(ABC):
    """Base of the ways from the states of built-in components to results.

    A subclass defines `finish`, which takes one state per component and returns a number, or
    `None` for null. It is compiled into the loop that makes the states.
    """

    @abstractmethod
    def finish(self, *states: Any) -> Any:
        """The result of one state per component."""


@cache
def finish_source(cls: Any, *arguments: Any) -> str:
    """The source of `own_finish`, the method `finish` of an object of this class."""
    source, _ = Writer(cls(*arguments)).write(["finish"])
    return source
