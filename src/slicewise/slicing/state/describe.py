"""Windows and aggregates in words that JSON can say, and back.

Built-in ones are named and have parameters. One's own are found by the module and name of their
class, if that module is imported already: words that come from elsewhere import nothing, and name
nothing but subclasses of `Aggregate` and `UserWindow`. What has no such name must be given again
when it is read, and so must functions, which would run for every event. Words that are trusted may
name modules that are not imported yet, and functions.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from slicewise.aggregates.base import Aggregate
from slicewise.errors import SnapshotError
from slicewise.slicing.state.blob import loaded, path_of
from slicewise.windows import UserWindow, Window

Described = dict[str, Any]
Thing = TypeVar("Thing", Window, Aggregate)


def window_described(window: Window) -> Described:
    """A window in words.

    >>> import slicewise as sw
    >>> window_described(sw.session(5))
    {'kind': 'Session', 'name': 'session_5', 'gap': 5, 'max_length': None, 'unit': None}
    """
    if window.traits.user_defined:
        return {"kind": "user", "name": window.name} | _own(window)
    assert dataclasses.is_dataclass(window)
    described: Described = {"kind": type(window).__name__}
    for field in dataclasses.fields(window):
        value = getattr(window, field.name)
        described[field.name] = {"function": path_of(value)} if callable(value) else value
    return described


def window_of(described: Described, *, trusted: bool = False) -> Window:
    """The window that was described; `LookupError` says why there is none."""
    if described["kind"] == "user":
        made: Window = _made(UserWindow, described, trusted=trusted)
        return made
    fields = {name: value for name, value in described.items() if name != "kind"}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = _function(value["function"], trusted=trusted)
    found: Window = _built_in_windows()[described["kind"]](**fields)
    return found


def _built_in_windows() -> dict[str, Any]:
    from slicewise.slicing.families.registry import FAMILY_OF_KIND

    return {cls.__name__: cls for cls in FAMILY_OF_KIND}


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


def aggregate_of(described: Described, *, trusted: bool = False) -> Aggregate:
    """The aggregate that was described; `LookupError` says why there is none."""
    attributes = _meant(described["attributes"])
    if "class" in described:
        made: Aggregate = _made(Aggregate, described, trusted=trusted)
        _check_columns(made)
        return made
    return _built_again(_built_in()[described["name"]], attributes)


def _built_in() -> dict[str, type[Aggregate]]:
    from slicewise.agg import REGISTRY

    return {aggregate.name: type(aggregate) for aggregate in REGISTRY}


def _built_again(cls: type[Aggregate], attributes: dict[str, Any]) -> Aggregate:
    """A built-in aggregate with these attributes, made and checked by its own constructor."""
    more = inspect.signature(cls).parameters.keys() - {"columns"}
    made = cls(*attributes["columns"], **{n: v for n, v in attributes.items() if n in more})
    if attributes.get("_alias") is not None:
        made = made.alias(str(attributes["_alias"]))
    if any(getattr(made, name, None) != value for name, value in attributes.items()):
        raise ValueError(f"{cls.__name__} cannot have the attributes {attributes!r}")
    return made


def _own(thing: Any) -> Described:
    """A user's own class and the attributes of the object."""
    try:
        attributes = _said(vars(thing))
    except TypeError:
        attributes = None
    return {"class": path_of(type(thing)), "attributes": attributes}


def _made(base: type, described: Described, *, trusted: bool) -> Any:
    """An object of a user's own class with the attributes that it had."""
    if described["attributes"] is None:
        raise LookupError("its attributes are more than numbers, texts, lists and dicts of those")
    cls = _class(base, described["class"], trusted=trusted)
    made = cls.__new__(cls)
    attributes = _meant(described["attributes"])
    for name in attributes:
        if callable(inspect.getattr_static(cls, name, None)):
            raise ValueError(f"{name!r} is a method of {cls.__name__} and no value")
    vars(made).update(attributes)
    return made


def _check_columns(made: Aggregate) -> None:
    columns, alias = made.columns, vars(made).get("_alias")
    if type(columns) is not tuple or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"the columns of an aggregate are a tuple of names, not {columns!r}")
    if columns and len(columns) != made.arity:
        raise ValueError(f"`{made.name}` takes {made.arity} columns, not {columns!r}")
    if alias is not None and not isinstance(alias, str):
        raise ValueError(f"the name of an output is a text, not {alias!r}")


def _class(base: type, path: str | None, *, trusted: bool) -> Any:
    """A user's own class by its path; `LookupError` says why there is none."""
    if path is None:
        raise LookupError("its class is defined inside a function")
    found = _imported(path) if trusted else loaded(path)
    if found is None:
        raise LookupError(f"`{path}` is not imported here, and a snapshot imports nothing")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise LookupError(f"`{path}` is no subclass of `{base.__name__}`")
    return found


def _function(path: str | None, *, trusted: bool) -> Any:
    """A user's own function by its path; `LookupError` says why there is none."""
    if path is None:
        raise LookupError("its condition is a lambda, or defined inside a function")
    if not trusted:
        raise LookupError(
            f"its condition is the function `{path}`, and functions run only if the snapshot is "
            "trusted"
        )
    return _imported(path)


def _imported(path: str) -> Any:
    """The thing that a trusted path names; `LookupError` says what is wrong with the path."""
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
    make: Callable[..., Thing],
    name_of: Callable[[Thing], str],
    verb: str = "restore",
    *,
    trusted: bool = False,
) -> list[Thing]:
    """The windows or aggregates of a snapshot: those given, if they are the same, or made anew.

    `verb` is what they can be given to. Only those that are `trusted` name functions and import
    modules.
    """
    if given is None:
        return [_remade(what, one, make, verb, trusted=trusted) for one in described]
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


def _remade(
    what: str, one: Described, make: Callable[..., Thing], verb: str, *, trusted: bool
) -> Thing:
    try:
        return make(one, trusted=trusted)
    except LookupError as error:
        word = "window" if what == "windows" else "aggregate"
        trust = "" if trusted else ", or read it with `trusted=True` if you wrote it yourself"
        raise SnapshotError(
            f"The {word} {_label(one)!r} of the snapshot cannot be made again: {error.args[0]}. "
            f"Give it to `{verb}` with `{what}=[...]`, all of them as they were{trust}."
        ) from error


def modules_of(windows: Iterable[Window], aggs: Iterable[Aggregate]) -> frozenset[str]:
    """The modules of one's own windows and aggregates, in which classes of states may be."""
    known = _built_in()
    own: list[Any] = [window for window in windows if window.traits.user_defined]
    own += [aggregate for aggregate in aggs if known.get(aggregate.name) is not type(aggregate)]
    return frozenset(type(one).__module__ for one in own)


def same_window(before: Described, now: Described) -> bool:
    """Return whether a window is the one that was described."""
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
