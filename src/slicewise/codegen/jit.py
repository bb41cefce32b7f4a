"""The decorator of generated code: compiled, and kept on disk for every later process.

Several processes compile at once: the workers of a Spark job, for example. Numba numbers the
files of a function's machine code, so two of them that save different signatures may both take the
same number, and a third then runs the wrong code. Here each file has a name of its own, and says
what it must hold: machine code that was damaged on the disk is never run.

The name of a file also says what its machine code depends on beside the text of its module: the
releases of Python, Numba, LLVM and numpy, settings of Numba, and the helpers of this package that
generated modules import. So machine code that was made otherwise is not found.

The compiler makes many objects and few cycles of them; without the search for cycles it takes a
fifth less time (measured).
"""

from __future__ import annotations

import gc
import os
import pickle
import pkgutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from glob import escape as glob_escape
from glob import glob
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from uuid import uuid4

from llvmlite import __version__ as llvmlite_version
from numba import __version__ as numba_version
from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numpy import __version__ as numpy_version

from slicewise.codegen.cache import gave_up, note_use, write
from slicewise.codegen.progress import COMPILING

# Machine code that comes with the package, and how Numba names a processor of which it only takes
# for granted what all of its kind have.
SHIPPED = Path(__file__).parent / "shipped"
GENERIC = ("generic", "")

DIGEST = 32  # bytes that say what the others of a file must be

# The modules of this package that generated ones import.
HELPERS = ("jit.py", "checked.py", "named.py")
# Settings of Numba, from its environment variables, that change the machine code of a text.
SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")


class OwnNames(IndexDataCacheFile):
    """The files of one function's machine code, none of which two processes share by chance.

    Each begins with a digest of its content. A file that is not what was written is as good as
    none: it is removed, and written again when its function has been compiled.
    """

    def _data_name(self, number: int) -> str:
        return f"{self._index_name.removesuffix('.nbi')}.{uuid4().hex}.nbc"

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = pickle.loads(self._content(self._index_path))
        except FileNotFoundError:
            return {}
        except OSError:
            # What it listed cannot be found any more.
            for path in glob(f"{glob_escape(self._index_path.removesuffix('.nbi'))}.*.nbc"):
                _remove(path)
            return {}
        known: dict[Any, str] = overloads
        return known if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._put(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(self._content(self._data_path(name)))  # type: ignore[no-untyped-call]

    def _save_data(self, name: str, data: Any) -> None:
        self._put(self._data_path(name), data)  # type: ignore[no-untyped-call]

    def _put(self, path: str, item: Any) -> None:
        content: bytes = self._dump(item)  # type: ignore[no-untyped-call]
        write(path, sha256(content).digest() + content)

    def _content(self, path: str) -> bytes:
        """Return what was written to a file; raises `OSError` if it holds something else."""
        with open(path, "rb") as file:
            found = file.read()
        content = found[DIGEST:]
        if found[:DIGEST] != sha256(content).digest():
            _remove(path)
            error = OSError(f"the file {path!r} was damaged, and is made anew")
            gave_up(error)
            raise error
        note_use(path)
        return content


class Shipped(OwnNames):
    """The files that came with the package, which nobody changes."""

    def _content(self, path: str) -> bytes:
        with open(path, "rb") as file:
            found = file.read()
        if found[:DIGEST] != sha256(found[DIGEST:]).digest():
            raise FileNotFoundError(path)
        return found[DIGEST:]


class Kept(FunctionCache):
    """The machine code of a function of a generated module, which lies in the same folder.

    Nothing that is wrong with files stops a program: code that is not found is compiled, and code
    that cannot be written stays in memory.
    """

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self._name, self._py_func = repr(function), function
        self._impl = Results(code)
        self._cache_path = os.path.dirname(code.co_filename)
        # The name of the module has a digest of its text.
        base = f"{function.__module__}.{function.__name__}-{code.co_firstlineno}.{made_by()}"
        self._cache_file = OwnNames(self._cache_path, base, function.__module__)  # type: ignore[no-untyped-call]
        self._shipped = Shipped(str(SHIPPED), base, function.__module__)  # type: ignore[no-untyped-call]
        self.enable()  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            return self._shipped_overload(sig, target_context) if found is None else found
        except Exception as error:
            gave_up(error)
            return None

    def _shipped_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code that came with the package, for any processor of this kind."""
        key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
        signature, (kind, *_), digests = key
        data = self._shipped.load((signature, (kind, *GENERIC), digests))  # type: ignore[no-untyped-call]
        return data if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            gave_up(error)


def made_by() -> str:
    """The name of what machine code depends on beside the text that it was compiled from.

    Machine code of one Python and Numba cannot even be looked at by another.
    """
    settings = [str(getattr(config, name, None)) for name in SETTINGS]
    rest = "\n".join([llvmlite_version, numpy_version, *settings, _helpers()])
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{numba_version}-{sha256(rest.encode()).hexdigest()[:12]}"


@cache
def _helpers() -> str:
    """A digest of the modules that generated ones import."""
    texts = [pkgutil.get_data(__package__, name) or b"" for name in HELPERS]
    return sha256(b"\0".join(texts)).hexdigest()


class Results(CompileResultCacheImpl):
    """How machine code becomes bytes; where these are kept is known."""

    def __init__(self, code: CodeType) -> None:
        self._locator, self._lineno = Here(code.co_filename), code.co_firstlineno


class Here:
    """The folder of generated modules, which is there."""

    def __init__(self, file: str) -> None:
        self._py_file = file

    def ensure_cache_path(self) -> None:
        """Nothing: whether it can be written was tried."""


def jit(**options: Any) -> Callable[[FunctionType], Any]:
    """Compile a function of a generated module when it is called, and keep its machine code."""

    def compiling(function: FunctionType) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        if os.path.isabs(function.__code__.co_filename):  # else it is in memory alone
            dispatcher._cache = Kept(function)
        dispatcher.compile = COMPILING.watched(
            without_cycles(dispatcher.compile),
            lambda: sum(dispatcher.stats.cache_misses.values()),
        )
        return dispatcher

    return compiling


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def inner(**options: Any) -> Callable[[FunctionType], Any]:
    """Like `jit`, for what only compiled functions call: without the way in from Python."""
    return jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def without_cycles(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function so that nobody looks for cycles of objects while it runs."""

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
