"""The decorator of generated code: compiled, and kept on disk for every later process.

Several processes compile at once: the workers of a Spark job, for example. Numba numbers the
files of a function's machine code, so two of them that save different signatures may both take the
same number, and a third then runs the wrong code. Here each file has a name of its own.

The compiler makes many objects and few cycles of them; without the search for cycles it takes a
fifth less time (measured).
"""

from __future__ import annotations

import gc
import threading
from collections import namedtuple
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any
from uuid import uuid4

from numba import njit
from numba.core.caching import IndexDataCacheFile


class OwnNames(IndexDataCacheFile):
    """The files of one function's machine code, none of which two processes share by chance."""

    def _data_name(self, number: int) -> str:
        return f"{self._index_name.removesuffix('.nbi')}.{uuid4().hex}.nbc"


def jit(**options: Any) -> Callable[[FunctionType], Any]:
    """Compile a function of a generated module when it is called, and keep its machine code."""

    def compiling(function: FunctionType) -> Any:
        dispatcher = njit(cache=True, nogil=True, **options)(function)
        kept = dispatcher._cache
        kept._cache_file = OwnNames(  # type: ignore[no-untyped-call]
            kept.cache_path, kept._impl.filename_base, kept._impl.locator.get_source_stamp()
        )
        dispatcher.compile = without_cycles(dispatcher.compile)
        return dispatcher

    return compiling


def inner(**options: Any) -> Callable[[FunctionType], Any]:
    """Like `jit`, for what only compiled functions call: without the way in from Python."""
    return jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def without_cycles(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; nobody looks for cycles of objects while it runs."""

    @wraps(function)
    def called(*given: Any) -> Any:
        if not gc.isenabled():
            return function(*given)
        gc.disable()
        try:
            return function(*given)
        finally:
            gc.enable()

    return called


_classes: dict[tuple[str, ...], type] = {}
_naming = threading.Lock()  # two threads must not make two classes of one name


def named_tuple(name: str, *fields: str) -> type:
    """The class of states with named fields, one for all generated modules.

    Its machine code is filed under the types of arguments, so every process must find the class
    again, whatever it has imported: by its qualified name in this module.
    """
    with _naming:
        if (name, *fields) not in _classes:
            made: type = namedtuple(name, fields)  # type: ignore[misc]  # mypy wants literals
            made.__module__ = __name__
            made.__qualname__ = ":".join([name, *fields])
            _classes[(name, *fields)] = made
        return _classes[(name, *fields)]


def __getattr__(name: str) -> Any:
    if ":" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named_tuple(*name.split(":"))
