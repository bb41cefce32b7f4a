"""The commands in the documents are real: `run` takes them, and pip would find what they name."""

import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.__main__ import discover
from tests.support.documents import DOCUMENTS, ROOT, blocks_of

SHELLS = ("sh", "bash", "shell", "console")
# What stands for an argument in a sentence, and one that could be meant.
MEANT = {"VERSION": "4.2"}
IN_A_SENTENCE = re.compile(r"`((?:\./run|pip install)\b[^`]*)`")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def commands_of(document: Path) -> list[str]:
    """The lines of its shell blocks, and the commands within sentences."""
    lines = document.read_text(encoding="utf-8").splitlines()
    blocks = blocks_of(lines)
    typed = [line for b in blocks if b.language in SHELLS for line in b.text.splitlines()]
    fenced = {number for block in blocks for number in range(block.first, block.last + 1)}
    words = "\n".join(line for number, line in enumerate(lines) if number not in fenced)
    return [*filter(str.strip, typed), *IN_A_SENTENCE.findall(words)]


COMMANDS = sorted(
    {
        shlex.join(MEANT.get(word, word) for word in shlex.split(command))
        for document in [*DOCUMENTS, ROOT / "CHANGELOG.md"]
        for command in commands_of(document)
    }
)
INSTALLS = [command for command in COMMANDS if command.startswith("pip install ")]
VERSIONS = sorted({word for command in COMMANDS for word in command.split()[2:3] if "." in word})
RUNS = [command for command in COMMANDS if command.split()[0] == "./run"]


def test_the_documents_have_no_commands_but_those_that_are_tested_here() -> None:
    assert sorted([*INSTALLS, *RUNS]) == COMMANDS
    assert {"pip install slicewise", "./run demo", "./run test"} <= set(COMMANDS)


@pytest.mark.parametrize("command", INSTALLS)
def test_pip_is_asked_for_this_package_and_extras_that_it_has(command: str) -> None:
    for asked in map(Requirement, shlex.split(command)[2:]):
        assert asked.name == PROJECT["name"]
        assert asked.extras <= PROJECT["optional-dependencies"].keys()


def test_the_readme_names_all_extras_that_there_are() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| extra \| brings \|\n\|[-|]+\n((?:\|.*\n)+)", readme)
    named = [
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a project for which everything is set up; its Python says what it is asked to run."""
    for name in ("run", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "run").chmod(0o755)
    versions = [f"-{kind}-{version}" for kind in ("spark", "pandas") for version in VERSIONS]
    programs = {f".venv{name}/bin/python": "printf '%s\\n' \"$@\"" for name in ("", *versions)}
    programs["java/bin/java"] = "echo 'openjdk version \"17.0.1\"' >&2"
    for name, line in programs.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    with (tmp_path / "pyproject.toml").open() as declared:
        sums = subprocess.run(["cksum"], stdin=declared, capture_output=True, text=True, check=True)
    stamp = f"{sums.stdout.strip()} {tmp_path.resolve()}\n"
    for name in ("", *versions):
        (tmp_path / f".venv{name}" / ".slicewise-stamp").write_text(stamp, encoding="utf-8")
    return {**os.environ, "JAVA_HOME": str(tmp_path / "java")}


@pytest.mark.parametrize("command", RUNS)
def test_run_takes_a_command_and_runs_what_there_is(
    command: str, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    match done.stdout.splitlines():
        case ["-m", "pytest", *options]:
            if options[0].startswith("tests/"):
                assert all((ROOT / path).exists() for path in options)
                return
            known = [line.partition(":")[0] for line in request.config.getini("markers")]
            assert options[:2] == ["-n", "auto"] or (options[0] == "-m" and options[1] in known)
        case ["-m", "benchmarks", name, *sections]:
            assert name in discover()
            if sections:
                module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
                assert set(sections) <= set(module.SECTIONS)
        case ["-m", "slicewise.shipping"]:
            assert importlib.util.find_spec("slicewise.shipping") is not None
        case ["-m", "examples.demo"]:
            assert (ROOT / "examples" / "demo" / "__main__.py").is_file()
        case said:
            assert said[0] == "usage: ./run COMMAND [ARGUMENTS]"


def test_what_run_does_not_know_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["./run", "dmeo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "unknown command 'dmeo'" in done.stderr
