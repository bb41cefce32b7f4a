"""Tries an installed wheel where nothing but its packages is: `smoke.py README.md`.

Run by `./run test-wheel`, not by pytest: its environment has none.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import pkgutil
import re
import sys
from pathlib import Path

import slicewise as sw

ABSENT = ("datasketches", "polars", "psycopg", "pyspark")


def main() -> None:
    package = Path(sw.__file__).parent
    site = package.parent
    assert site.name == "site-packages", f"this is not the installed package: {package}"
    assert (package / "py.typed").is_file()
    metadata = importlib.metadata.metadata("slicewise")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert (site / f"slicewise-{sw.__version__}.dist-info" / "licenses" / "LICENSE").is_file()
    description = metadata.get_payload()  # type: ignore[attr-defined]
    linked = re.findall(r"\]\(([^)]*)\)", description)
    assert [link for link in linked if not link.startswith("https://")] == []
    modules = import_all(package)
    readme = Path(sys.argv[1]).read_text(encoding="utf-8")
    program, printed = re.findall(r"```python\n(.*?)```\n\n```output\n(.*?)```", readme, re.DOTALL)[
        0
    ]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(program, {})
    assert lines(said.getvalue()) == lines(printed), said.getvalue()
    size = {path.name: size_of(path) for path in site.iterdir()}
    ours = sum(bytes for name, bytes in size.items() if name.startswith("slicewise"))
    pandas = sum(bytes for name, bytes in size.items() if name.startswith(PANDAS))
    tools = sum(bytes for name, bytes in size.items() if name.startswith(TOOLS))
    whole = sum(size.values()) - tools
    print(
        f"{modules} modules are imported, and the first program of the README prints what it says. "
        f"Installed: {whole / 1e6:,.0f} MB, of which pandas takes {pandas / 1e6:,.0f} MB and "
        f"Slicewise {ours / 1e6:.1f} MB."
    )


PANDAS = ("pandas", "dateutil", "python_dateutil", "pytz", "tzdata", "six")
TOOLS = ("pip", "setuptools", "_distutils", "distutils", "pkg_resources", "wheel")


def import_all(package: Path) -> int:
    """Import every module, as far as packages of extras are not needed; returns how many."""
    count = 0
    for module in pkgutil.walk_packages([str(package)], "slicewise."):
        try:
            importlib.import_module(module.name)
            count += 1
        except sw.errors.MissingDependencyError:
            continue
        except ModuleNotFoundError as error:
            if error.name not in ABSENT:
                raise
    return count


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def size_of(path: Path) -> int:
    """The bytes of a file, or of all in a folder but what Python compiled there."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(p.stat().st_size for p in files if p.is_file() and "__pycache__" not in p.parts)


if __name__ == "__main__":
    main()
