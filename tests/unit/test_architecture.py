"""The map of the code in `docs/architecture.md`: what it names is there."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
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


def files_passed(run: Callable[[], Any]) -> set[str]:
    """The files of `slicing` of which a function is called."""
    folder, found = str(PACKAGE / "slicing") + os.sep, set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(folder):
            found.add(name.removeprefix(folder).removesuffix(".py").replace(os.sep, "/"))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


def test_a_batch_of_one_key_in_order_passes_the_files_that_the_page_names() -> None:
    op = slicewise.Operator(
        windows=[slicewise.tumbling(10)], aggs=[slicewise.agg.sum("x")], time="t"
    )

    def turn(start: int) -> None:
        op.process({"t": np.arange(start, start + 100), "x": np.ones(100)})
        assert len(op.advance(start + 100)) == 10

    first = files_passed(lambda: turn(0))
    again = files_passed(lambda: turn(100))
    section = PAGE.read_text(encoding="utf-8").split("| layer | files |")[1].split("\n\n")[0]
    assert again == set(QUOTED.findall(section))
    said = f"pass {len(again)} files of `slicing/` ({len(first)} the"
    assert said in PAGE.read_text(encoding="utf-8")
