"""The classes of states with named fields, which every process finds again by name."""

from __future__ import annotations

import threading
from collections import namedtuple
from typing import Any

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
