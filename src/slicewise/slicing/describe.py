"""Windows and aggregates in words that JSON can say, and back.

Built-in ones are named and have parameters. One's own are found by the module and name of their
class or function; what has no such name must be given again when it is read.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from slicewise import windows as kinds
from slicewise.aggregates.base import Aggregate
from slicewise.errors import SnapshotError
from slicewise.windows import UserWindow, Window

Described = dict[str, Any]
Thing = TypeVar("Thing", Window, Aggregate)


def window_described(window: Window) -> Described:
    """A window in words.

    >>> import slicewise as sw
    >>> window_described(sw.session(5))
    {'kind': 'Session', 'name': 'session_5', 'gap': 5, 'max_length': None, 'unit': None}
    """
    if isinstance(window, UserWindow):
        return {"kind": "user", "name": window.name} | _own(window)
    assert dataclasses.is_dataclass(window)
    described: Described = {"kind": type(window).__name__}
    for field in dataclasses.fields(window):
        value = getattr(window, field.name)
        described[field.name] = {"function": _path(value)} if callable(value) else value
    return described


def window_of(described: Described) -> Window:
    """The window that was described; `LookupError` says why there is none."""
    if described["kind"] == "user":
        made: Window = _made(described)
        return made
    fields = {name: value for name, value in described.items() if name != "kind"}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = _found(value["function"])
    found: Window = getattr(kinds, described["kind"])(**fields)
    return found


def aggregate_described(aggregate: Aggregate) -> Described:
    """An aggregate in words.

    >>> import slicewise as sw
    >>> aggregate_described(sw.agg.quantile("x", 0.9))
    {'output': 'x_quantile', 'name': 'quantile', 'attributes': {'columns': {'()': ['x']}, 'q': 0.9}}
    """
    described: Described = {"output": aggregate.output}
    if _built_in().get(aggregate.name) is type(aggregate):
        return described | {"name": aggregate.name, "attributes": _said(vars(aggregate))}
    return described | _own(aggregate)


def aggregate_of(described: Described) -> Aggregate:
    """The aggregate that was described; `LookupError` says why there is none."""
    if "class" in described:
        made: Aggregate = _made(described)
        return made
    built_in: Aggregate = _with(_built_in()[described["name"]], described["attributes"])
    return built_in


def _built_in() -> dict[str, type[Aggregate]]:
    from slicewise.agg import REGISTRY

    return {aggregate.name: type(aggregate) for aggregate in REGISTRY}


def _own(thing: Any) -> Described:
    """A user's own class and the attributes of the object."""
    try:
        attributes = _said(vars(thing))
    except TypeError:
        attributes = None
    return {"class": _path(type(thing)), "attributes": attributes}


def _made(described: Described) -> Any:
    if described["attributes"] is None:
        raise LookupError("its attributes are more than numbers, texts, lists and dicts of those")
    return _with(_found(described["class"]), described["attributes"])


def _with(cls: Any, attributes: Any) -> Any:
    made = cls.__new__(cls)
    vars(made).update(_meant(attributes))
    return made


def _path(thing: Any) -> str | None:
    """`module:name` of a class or function that can be imported; `None` for others."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    try:
        return f"{module}:{name}" if _resolved(sys.modules[str(module)], name) is thing else None
    except (KeyError, AttributeError):
        return None


def _found(path: str | None) -> Any:
    """What a path names; `LookupError` says what is wrong with it."""
    if path is None:
        raise LookupError("it is a lambda, or defined inside a function")
    module, _, name = path.partition(":")
    try:
        return _resolved(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"`{path}` cannot be imported here: {error}") from error


def _resolved(thing: Any, name: str) -> Any:
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def _said(value: Any) -> Any:
    """A value for JSON; tuples and dicts whose keys could be taken for them are marked."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [*map(_said, value)]
    if type(value) is tuple:
        return {"()": [*map(_said, value)]}
    if type(value) is dict and all(type(key) is str and key != "()" for key in value):
        return {key: _said(item) for key, item in value.items()}
    raise TypeError


def _meant(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_meant, value)]
    if isinstance(value, dict):
        if "()" in value:
            return tuple(map(_meant, value["()"]))
        return {key: _meant(item) for key, item in value.items()}
    return value


def chosen(
    what: str,
    described: Sequence[Described],
    given: Iterable[Thing] | Thing | None,
    describe: Callable[[Thing], Described],
    make: Callable[[Described], Thing],
    name_of: Callable[[Thing], str],
    verb: str = "restore",
) -> list[Thing]:
    """The windows or aggregates of a snapshot: those given, if they are the same, or made anew.

    `verb` is what they can be given to.
    """
    if given is None:
        return [_remade(what, one, make, verb) for one in described]
    things = [given] if isinstance(given, Window | Aggregate) else list(given)
    by_name = {name_of(thing): thing for thing in things}
    found = []
    for one in described:
        name = _label(one)
        if name not in by_name:
            known = ", ".join(repr(name_of(thing)) for thing in things) or "none"
            raise SnapshotError(
                f"The snapshot has {name!r} among its {what}; given: {known}. Give the same "
                f"{what} as before; add or remove others after restoring."
            )
        thing = by_name.pop(name)
        _compare(what, name, one, describe(thing))
        found.append(thing)
    if by_name:
        extra = ", ".join(map(repr, by_name))
        raise SnapshotError(
            f"The snapshot has no {extra} among its {what}. Leave it out and add it after "
            "restoring."
        )
    return found


def _label(one: Described) -> str:
    return str(one.get("output") or one["name"])


def _remade(what: str, one: Described, make: Callable[[Described], Thing], verb: str) -> Thing:
    try:
        return make(one)
    except LookupError as error:
        word = "window" if what == "windows" else "aggregate"
        short = "windows" if what == "windows" else "aggs"
        raise SnapshotError(
            f"The {word} {_label(one)!r} of the snapshot cannot be made again: {error.args[0]}. "
            f"Give it to `{verb}` with `{short}=[...]`, all of them as they were."
        ) from error


def same_window(before: Described, now: Described) -> bool:
    """Whether a window is the one that was described."""
    return not _differing(before, now)


def _compare(what: str, name: str, before: Described, now: Described) -> None:
    differing = _differing(before, now)
    if differing:
        raise SnapshotError(
            f"{name!r} among the given {what} is not what the snapshot was made with: "
            f"{'; '.join(differing)}. Give the same definition, or replace it after restoring."
        )


def _differing(before: Described, now: Described) -> list[str]:
    # What was not known when it was written, such as the attributes of a lambda, is not compared.
    unknown = ({"function": None}, None)
    return [
        f"{field} was {before.get(field)!r} and is {now.get(field)!r}"
        for field in dict.fromkeys([*before, *now])
        if before.get(field) != now.get(field)
        and not (field == "unit" and "unit" not in before)  # as in snapshots before there was one
        and not (field in ("when", "class", "attributes") and before.get(field) in unknown)
    ]
