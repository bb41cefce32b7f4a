"""The programs in the documents and in examples/ run and print what the documents say.

The `python` blocks of one document form one program. A block followed directly by a `text` or
`output` block must print exactly that. A block after `<!-- no-run -->` is only compiled.
"""

import builtins
import os
import runpy
import subprocess
import symtable
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import DOCUMENTS, ROOT, Block, blocks_of

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

END_OF_BLOCK = "<end of block>"


def is_compiled_only(lines: list[str], block: Block) -> bool:
    before = [line.strip() for line in lines[: block.first] if line.strip()]
    return bool(before) and before[-1] == "<!-- no-run -->"


def expected_outputs(lines: list[str], blocks: list[Block]) -> dict[int, str]:
    """What blocks must print, by the index of their opening fence."""
    return {
        block.first: following.text
        for block, following in pairwise(blocks)
        if block.language == "python"
        and following.language in ("text", "output")
        and not "".join(lines[block.last + 1 : following.first]).strip()
    }


def clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def check_document(document: Path, folder: Path) -> None:
    """Run the document's program as a script in `folder` and compare what its blocks print."""
    lines = document.read_text(encoding="utf-8").splitlines()
    blocks = blocks_of(lines)
    programs = [block for block in blocks if block.language == "python"]
    for block in programs:
        # Leading newlines make the line numbers of an error those of the document.
        compile("\n" * (block.first + 1) + block.text, str(document), "exec")
    programs = [block for block in programs if not is_compiled_only(lines, block)]
    if not programs:
        return

    # A real file in a process of its own: user classes live in `__main__`, their source can be
    # read, and a Spark session started here is not shared with the tests.
    script = [""] * len(lines)
    for block in programs:
        script[block.first + 1 : block.last] = block.text.split("\n")
        script[block.last] = f"print({END_OF_BLOCK!r}, flush=True)"
    path = folder / f"document_{document.stem}.py"  # `operator.py` would hide Python's own
    path.write_text("\n".join(script), encoding="utf-8")
    done = run_script(path, folder)
    assert done.returncode == 0, done.stderr
    if document.name == "README.md":
        # What a stranger runs first can be run again, and says nothing but its answer.
        again = run_script(path, folder)
        assert (done.stderr, again.stderr) == ("", "")
        assert again.stdout == done.stdout

    printed = done.stdout.split(f"{END_OF_BLOCK}\n")
    expected = expected_outputs(lines, blocks)
    for block, output in zip(programs, printed, strict=False):
        if block.first in expected:
            where = f"{document.name}, line {block.first + 1}"
            assert clean(output) == clean(expected[block.first]), where


def run_script(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as `venv/bin/python program.py` does, where `python3` is another Python."""
    other = folder / "bin" / "python3"
    other.parent.mkdir(exist_ok=True)
    other.write_text("#!/bin/sh\necho this Python lacks everything >&2\nexit 1\n")
    other.chmod(0o755)
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    if "PYSPARK_SUBMIT_ARGS" in os.environ:  # it makes workers start quicker
        variables["PYSPARK_SUBMIT_ARGS"] = os.environ["PYSPARK_SUBMIT_ARGS"]
    return subprocess.run(
        [sys.executable, str(path)],
        env={**variables, "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_programs_of_a_document_print_what_it_says(document: Path, tmp_path: Path) -> None:
    check_document(document, tmp_path)


def test_each_program_of_the_readme_is_short_and_needs_no_other() -> None:
    blocks = blocks_of((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    programs = [block.text for block in blocks if block.language == "python"]
    assert len(programs) == 2
    for program in programs:
        assert len([line for line in program.splitlines() if line.strip()]) <= 15
        table = symtable.symtable(program, "README.md", "exec")
        scopes = [table, *table.get_children()]
        names = {symbol for scope in scopes for symbol in scope.get_symbols()}
        known = {s.get_name() for s in names if s.is_assigned() or s.is_imported()}
        used = {s.get_name() for s in names if s.is_referenced()}
        assert used <= known | set(dir(builtins)) | {".0"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    done = run_script(example, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_picture_of_the_readme_is_what_its_code_makes(tmp_path: Path) -> None:
    example = ROOT / "examples" / "sharing_picture.py"
    assert run_script(example, tmp_path).returncode == 0
    made = (tmp_path / "sharing.svg").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "sharing.svg").read_text(encoding="utf-8")
    # It is the first program that it draws.
    drawn = runpy.run_path(str(example))
    program = blocks_of((ROOT / "README.md").read_text(encoding="utf-8").splitlines())[1].text
    names: dict[str, Any] = {}
    exec(program, names)
    assert drawn["WINDOWS"] == names["windows"]
    assert [price for _, price in drawn["EVENTS"]] == names["trades"]["price"].tolist()
    seconds = [moment.timestamp() for moment in names["times"].tz_localize("UTC")]
    assert [time for time, _ in drawn["EVENTS"]] == seconds


# Words of sentences that readers stumbled over.
STUMBLING = (
    "keys that come no more",
    "cannot level off",
    "can be asked for:",
    "could not say them",
    "is not told from",
    "kept in so many",
    "leaves no trace",
    "results are asked with",
    "A function that answers",
    "has slices of its own",
    "edges that come",
)


def test_sentences_that_readers_stumbled_over_stay_away() -> None:
    source = ROOT / "src" / "slicewise"
    read = [*DOCUMENTS, source / "verbs.py", source / "slicing/emit/explain.py"]
    said = "\n".join(" ".join(path.read_text(encoding="utf-8").split()) for path in read)
    assert [words for words in STUMBLING if words in said] == []


GOOD = """\
```python
x = 1
print("unchecked")
```

words

- in a list:

  ```python
  print(x + 1)
  print()
  print(x + 2)
  ```

  ```output
  2

  3
  ```

<!-- no-run -->

```python
raise SystemExit("never")
```
"""


def test_blocks_share_names_and_may_be_unchecked_or_compiled_only(tmp_path: Path) -> None:
    document = tmp_path / "good.md"
    document.write_text(GOOD, encoding="utf-8")
    check_document(document, tmp_path)


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        (GOOD.replace("x + 2", "x + 3"), AssertionError, "line 10"),
        (GOOD.replace("x = 1", "x = y"), AssertionError, "line 2"),
        (GOOD.replace("raise ", "raise = "), SyntaxError, "line 25"),
        (GOOD.removesuffix("```\n"), AssertionError, "line 24"),
    ],
    ids=["wrong output", "error", "does not compile", "not closed"],
)
def test_a_broken_document_is_found(
    tmp_path: Path, broken: str, error: type[Exception], message: str
) -> None:
    document = tmp_path / "broken.md"
    document.write_text(broken, encoding="utf-8")
    with pytest.raises(error, match=message):
        check_document(document, tmp_path)
