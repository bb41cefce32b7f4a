"""Windows are data for a family: nothing else asks which kind a window is of."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import slicewise
from slicewise.windows import Window

PACKAGE = Path(slicewise.__file__).parent
# The definitions and their families, and the slow twins that tests trust.
MAY_ASK = ("windows", "slicing/families", "testing")


def kinds() -> set[str]:
    """The names of all classes of windows but the base of all."""
    found, waiting = set(), [Window]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            if cls.__module__.startswith("slicewise."):
                found.add(cls.__name__)
                waiting.append(cls)
    return found


def names_in(node: ast.AST) -> set[str]:
    """The names that are said anywhere in a node, also behind a module's name."""
    plain = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return plain | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def questions(source: str) -> Iterator[int]:
    """The lines at which the kind of a window is asked for."""
    asked = kinds()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                said = names_in(classes)
            case ast.MatchClass(cls=cls):
                said = names_in(cls)
            case ast.Compare(left=ast.Call(func=ast.Name(id="type"))):
                said = {name for other in node.comparators for name in names_in(other)}
            case _:
                continue
        if said & asked:
            yield getattr(node, "lineno", 0)


def fields_of_kinds() -> set[str]:
    """The fields that some windows have and others do not."""
    classes = [cls for cls in vars(slicewise.windows).values() if isinstance(cls, type)]
    found: list[set[str]] = [{f.name for f in fields(c)} for c in classes if is_dataclass(c)]
    return set[str]().union(*found) - found[0].intersection(*found)


def probes(source: str) -> Iterator[int]:
    """The lines at which a window is asked for a field that it may not have."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if name in fields_of_kinds():
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(window, Periodic)",
        "isinstance(window, Session | Fixed)",
        "isinstance(window, windows.UserWindow)",
        "issubclass(kind, (int, Cumulate))",
        "match window:\n    case RowPeriodic(length=n):\n        pass",
        "match window:\n    case Fixed() | Punctuated():\n        pass",
        "type(window) is Threshold",
    ],
)
def test_a_question_for_the_kind_of_a_window_is_found(source: str) -> None:
    assert list(questions(source))


@pytest.mark.parametrize("source", ["isinstance(window, Window)", "window.traits.gap is None"])
def test_a_question_for_a_trait_is_none_for_the_kind(source: str) -> None:
    assert not list(questions(source))


def test_no_other_module_asks_for_the_kind_of_a_window() -> None:
    assert {"Periodic", "Session", "UserWindow"} <= kinds()
    assert {"length", "every", "axis", "gap"} <= fields_of_kinds()
    assert list(probes('getattr(window, "every", window.length)'))
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place, source = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        if not place.startswith(MAY_ASK):
            lines = [*questions(source), *probes(source)]
            found += [f"{place}:{line}" for line in lines]
    assert found == []
