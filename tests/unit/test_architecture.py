"""The map of the code in `docs/architecture.md`: what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import slicewise

PACKAGE = Path(slicewise.__file__).parent
PAGE = PACKAGE.parent.parent / "docs" / "architecture.md"
QUOTED = re.compile(r"`([^`]+)`")


def references(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each path in the last cell of a table's row, with the names that follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        cells = line.strip().strip("|").split("|")
        if not line.startswith("| ") or len(cells) != 2:
            continue
        known = False
        for quoted in QUOTED.findall(cells[1]):
            if quoted.endswith(".py"):
                found.append((quoted, []))
                known = True
            elif known:
                found[-1][1].append(quoted)
    return [(path, tuple(names)) for path, names in found]


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


REFERENCES = references(PAGE.read_text(encoding="utf-8"))


def test_references_are_found() -> None:
    assert references("| 4.1 | `a/b.py` `f` `g`, `c.py` |") == [
        ("a/b.py", ("f", "g")),
        ("c.py", ()),
    ]
    assert len(REFERENCES) >= 30


@pytest.mark.parametrize(("path", "names"), REFERENCES)
def test_the_code_has_what_the_table_of_papers_names(path: str, names: tuple[str, ...]) -> None:
    assert (PACKAGE / path).is_file(), path
    assert set(names) <= names_in(PACKAGE / path)


def test_every_package_has_a_readme_of_ten_to_thirty_lines() -> None:
    packages = [path.parent for path in PACKAGE.rglob("__init__.py")]
    lengths = {
        str(folder.relative_to(PACKAGE)): len((folder / "README.md").read_text().splitlines())
        if (folder / "README.md").exists()
        else 0
        for folder in packages
    }
    assert {name: n for name, n in lengths.items() if not 10 <= n <= 30} == {}
