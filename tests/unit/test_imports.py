"""What importing the package costs, and which part may import which."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slicewise

PACKAGE = Path(slicewise.__file__).parent
EDGES = frozenset({"tables", "spark", "cli"})

# The public names dispatch to an edge when they are called, so these modules may import edges, but
# only where the import runs late: inside a function, or for the type checker alone.
MAY_IMPORT_EDGES_LATE = frozenset({"slicewise", "slicewise.verbs"})


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.parametrize("heavy", ["numba", "pyspark", "pandas", "polars"])
def test_importing_slicewise_does_not_load(heavy: str) -> None:
    assert run_python(f"import slicewise, sys; print({heavy!r} in sys.modules)") == "False"


def test_importing_slicewise_takes_less_than_200_ms_more_than_numpy() -> None:
    code = (
        "import numpy, time; start = time.process_time(); import slicewise; "
        "print(time.process_time() - start)"
    )
    # Processor time and the minimum: other tests run on the same cores and only ever add to it.
    assert min(float(run_python(code)) for _ in range(5)) < 0.2


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `target` is absolute, `late` tells whether it runs after the import."""

    target: str
    line: int
    late: bool


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """All imports in `source` that name a part of slicewise, at any depth."""
    package = module if is_package else module.rpartition(".")[0]

    def absolute(node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parents = package.split(".")
        base = parents[: len(parents) - node.level + 1]
        return ".".join([*base, node.module] if node.module else base)

    def walk(node: ast.AST, *, late: bool) -> Iterator[Import]:
        targets: list[str] = []
        match node:
            case ast.Import():
                targets = [alias.name for alias in node.names]
            case ast.ImportFrom():
                targets = [f"{absolute(node)}.{alias.name}" for alias in node.names]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                targets = [f"{package}{name}" if name.startswith(".") else name]
        for target in targets:
            if target.split(".")[0] == "slicewise":
                yield Import(target, getattr(node, "lineno", 0), late)
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            for_types = is_type_checking(node) and child not in getattr(node, "orelse", ())
            yield from walk(child, late=late or for_types)

    yield from walk(ast.parse(source), late=False)


def part_of(module: str) -> str:
    """The folder or top-level module of a dotted name: `slicewise.spark.query` is in `spark`."""
    return module.split(".")[1] if "." in module else ""


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Imports in `source` that break the layers, one readable line each."""
    found = []
    for item in imports_of(source, module, is_package=is_package):
        here, there = part_of(module), part_of(item.target)
        if (
            there not in EDGES
            or there == here
            or here == "cli"
            or (module in MAY_IMPORT_EDGES_LATE and item.late)
        ):
            continue
        kind = "edge" if here in EDGES else "core"
        found.append(f"{module}, line {item.line}: {kind} imports the edge {item.target}")
    return found


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        names = ["slicewise", *path.relative_to(PACKAGE).with_suffix("").parts]
        found.append((".".join(names[:-1] if names[-1] == "__init__" else names), path))
    return found


@pytest.mark.parametrize(("module", "path"), modules(), ids=[name for name, _ in modules()])
def test_the_core_imports_no_edge_and_no_edge_imports_another(module: str, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert violations(source, module, is_package=path.name == "__init__.py") == []


def test_code_generation_knows_nothing_of_what_is_built_on_it() -> None:
    """Aggregates import it, so that there is no cycle, not even of imports that run late."""
    taken = {
        part_of(item.target)
        for module, path in modules()
        if part_of(module) == "codegen"
        for item in imports_of(
            path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py"
        )
    }
    assert taken == {"codegen", "errors", "tuning"}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("slicewise.mergers.flatfat", "import slicewise.spark"),
        ("slicewise.mergers.flatfat", "from slicewise import tables"),
        ("slicewise.mergers.flatfat", "from .. import tables"),
        ("slicewise.mergers.flatfat", "from ..spark.batch import run"),
        ("slicewise.mergers.flatfat", "def f():\n    from ..cli import main"),
        ("slicewise.mergers.flatfat", "import importlib\nimportlib.import_module('slicewise.cli')"),
        ("slicewise.testing", "from .tables import arrow"),
        ("slicewise.tables.arrow", "def f():\n    import slicewise.spark.batch.windowed"),
        ("slicewise.spark.batch.windowed", "from slicewise.cli import main"),
        ("slicewise.verbs", "from .tables import arrow"),
        ("slicewise", "from slicewise.spark import batch"),
    ],
)
def test_a_broken_layer_is_found(module: str, source: str) -> None:
    assert len(violations(source, module, is_package=module == "slicewise")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("slicewise.spark.batch.windowed", "from ..mergers import FlatFAT\nfrom . import state"),
        ("slicewise.cli.main", "from ..spark import batch\nfrom ..tables import arrow"),
        ("slicewise.verbs", "def f():\n    from .tables import arrow"),
        ("slicewise", "def __getattr__(name):\n    from . import spark"),
        ("slicewise", "if TYPE_CHECKING:\n    from .spark import batch"),
        ("slicewise.slicing.plan", "import numpy\nfrom spark import something_else"),
    ],
)
def test_a_sound_layer_passes(module: str, source: str) -> None:
    assert violations(source, module, is_package=module == "slicewise") == []


def test_nothing_is_passed_by_context_variables() -> None:
    """What a call goes by, such as the policy for errors, is said to it."""
    found = [module for module, path in modules() if "contextvars" in path.read_text("utf-8")]
    assert found == []


def test_tests_set_thresholds_and_patch_no_constants() -> None:
    folder = Path(__file__).parents[1]
    found = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("monkeypatch.setattr", "mock.patch", "mock.patch.object")
        and any(
            isinstance(given, ast.Constant)
            and isinstance(given.value, str)
            and given.value.rpartition(".")[2].isupper()
            for given in node.args[:2]
        )
    ]
    assert found == []


def test_tests_import_helpers_and_not_each_other() -> None:
    folder = Path(__file__).parents[1]
    found = [
        f"{path.relative_to(folder)}: {node.module}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("tests.unit", "tests.laws", "tests.spark"))
    ]
    assert found == []
