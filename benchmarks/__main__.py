"""Runs one benchmark by name, or lists them all.

A benchmark is a module of this package with a function `main(argv)`. Its name is the module's name
with dashes for underscores; the first line of its docstring describes it in the list.
"""

import ast
import importlib
import sys
from pathlib import Path


def discover() -> dict[str, str]:
    """Name and description of every benchmark, found without importing any of them."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        if path.name.startswith("_") or not any(
            isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body
        ):
            continue
        lines = (ast.get_docstring(tree) or "").splitlines()
        found[path.stem.replace("_", "-")] = lines[0] if lines else ""
    return found


def run(argv: list[str]) -> int:
    """Exit code of the benchmark named first in `argv`; it gets the rest as its own arguments."""
    benchmarks = discover()
    if not argv or argv[0] in ("-h", "--help"):
        if not benchmarks:
            print("There are no benchmarks yet.")
        width = max(map(len, benchmarks), default=0)
        for name, description in benchmarks.items():
            print(f"{name:{width}}  {description}".rstrip())
        return 0
    name = argv[0].replace("_", "-")
    if name not in benchmarks:
        names = ", ".join(benchmarks) or "none"
        print(f"There is no benchmark {argv[0]!r}. Known: {names}.", file=sys.stderr)
        return 2
    module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
    return module.main(argv[1:]) or 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
