"""What `./run` finds, installs and says on machines that lack something.

The script runs as it is, on a machine of stand-ins: PATH has a few real tools, and a Python, a
Java and an `apt-get` that write down how they are called.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("cksum", "cp", "env", "ls", "mkdir", "mv", "rm", "sed")
NO_JAVA = (
    "run: Spark needs Java 17 or newer: install it (for example openjdk-17-jre-headless) or point "
    "JAVA_HOME at it."
)
NO_VENV = (
    "run: python3.11 cannot make virtual environments; install the package python3-venv and try "
    "again."
)
INSTALL = "apt-get -qq install -y --no-install-recommends"
JRES = ["openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"]

SKETCHES = "pip --only-binary datasketches -e .[sketches]"
PIP = ["pip -e .[dev]", SKETCHES]

# Can make environments when the file `venv` is there; in an environment it is the Python, too.
PYTHON = """#!/bin/sh
case $* in
    *'import ensurepip'*) [ -f PLACE/venv ] ;;
    *print*) echo 3.11 ;;
    '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    '-m pip '*)
        shift 7 # how it is called: without bars, and the like
        echo "pip $*" >>PLACE/log
        if [ -f PLACE/pip-says ]; then sed '' PLACE/pip-says; fi
        [ ! -f PLACE/pip-fails ] || exit 1
        case $* in *sketches*) [ ! -f PLACE/no-sketches ] || exit 1 ;; esac
        ;;
    '-m pytest '*) echo "pytest ${*#-m pytest }" ;;
    -) exec "REAL" - ;;
    '-m compileall '*) echo compileall >>PLACE/log ;;
    '-m examples.demo'*) echo "JAVA_HOME=${JAVA_HOME:-}, java=$(command -v java)" ;;
esac
"""
JAVA = """#!/bin/sh
echo java >>PLACE/log
echo 'openjdk version "VERSION" 2025-04-15' >&2
"""
# Has the packages that the file `packages` names, or after an update those of the file `newer`.
APT = """#!/bin/sh
echo "apt-get $*" >>PLACE/log
for name; do :; done
if [ "$name" = update ]; then
    mv PLACE/newer PLACE/packages
    exit
fi
[ -n "$(sed -n "/^$name$/p" PLACE/packages)" ] || exit 100
case $name in
    *jre*) mkdir -p PLACE/jvm/new/bin && cp PLACE/java PLACE/jvm/new/bin/java ;;
    *venv) echo >PLACE/venv ;;
esac
"""


class Machine:
    """A machine with Python 3.11 and without Java, on which one is root and nothing is on offer."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.variables: dict[str, str] = {}
        self.add("bin/id", "#!/bin/sh\necho 0\n")
        self.add("bin/python3.11", PYTHON)
        self.add("bin/apt-get", APT)
        self.add_java("java", "17.0.15")  # the one that is installed
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None, tool
            (place / "bin" / tool).symlink_to(found)
        for name in ("venv", "packages", "log", "pyproject.toml"):
            (place / name).touch()
        script = (ROOT / "run").read_text(encoding="utf-8")
        assert "/usr/lib/jvm/*/bin/java" in script
        (place / "run").write_text(script.replace("/usr/lib/jvm", f"{place}/jvm"))

    def add(self, path: str, script: str) -> Path:
        """Put a program somewhere; returns where."""
        program = self.place / path
        program.parent.mkdir(parents=True, exist_ok=True)
        made = script.replace("PLACE", str(self.place)).replace("REAL", sys.executable)
        program.write_text(made)
        program.chmod(0o755)
        return program

    def add_java(self, path: str, version: str) -> Path:
        return self.add(path, JAVA.replace("VERSION", version))

    def offer(self, *packages: str, after_update: bool = False) -> None:
        """Let `apt-get` have these packages."""
        name = "newer" if after_update else "packages"
        (self.place / name).write_text("".join(f"{package}\n" for package in packages))

    def run(self, *words: str) -> tuple[int, str, list[str]]:
        """The exit code, what a program sees of Java, and what the script says."""
        done = subprocess.run(
            ["/bin/sh", str(self.place / "run"), *(words or ["demo"])],
            env={"PATH": str(self.place / "bin"), **self.variables},
            cwd=self.place,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        said = [line for line in done.stderr.splitlines() if ".venv" not in line]
        return done.returncode, done.stdout.strip(), said

    def log(self, program: str) -> list[str]:
        """How a program was called."""
        lines = (self.place / "log").read_text().splitlines()
        return [line for line in lines if line.startswith(program)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_java_is_found_through_java_home(machine: Machine) -> None:
    home = machine.add_java("home/bin/java", "21.0.1").parents[1]
    machine.variables["JAVA_HOME"] = str(home)
    assert machine.run() == (0, f"JAVA_HOME={home}, java=", [])
    assert machine.log("apt-get") == []


def test_java_is_found_through_path(machine: Machine) -> None:
    java = machine.add_java("bin/java", "17.0.15")
    assert machine.run() == (0, f"JAVA_HOME=, java={java}", [])
    assert machine.log("apt-get") == []


def test_java_is_found_where_debian_puts_it(machine: Machine) -> None:
    java = machine.add_java("jvm/java-17/bin/java", "17.0.15")
    assert machine.run() == (0, f"JAVA_HOME={java.parents[1]}, java=", [])
    assert machine.log("apt-get") == []


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_a_java_that_is_too_old_is_passed_over(machine: Machine, version: str) -> None:
    machine.variables["JAVA_HOME"] = str(machine.add_java("old/bin/java", version).parents[1])
    java = machine.add_java("bin/java", "17.0.15")
    assert machine.run() == (0, f"JAVA_HOME=, java={java}", [])
    machine.add_java("bin/java", version)
    assert machine.run() == (1, "", ["run: installing Java for Spark (once) ...", NO_JAVA])


def test_java_is_installed_with_apt(machine: Machine) -> None:
    machine.offer(*JRES)
    found = f"JAVA_HOME={machine.place}/jvm/new, java="
    assert machine.run() == (0, found, ["run: installing Java for Spark (once) ..."])
    assert machine.log("apt-get") == [f"{INSTALL} {JRES[0]}"]
    assert machine.run() == (0, found, [])
    assert len(machine.log("apt-get")) == 1


def test_old_lists_of_packages_are_updated_once(machine: Machine) -> None:
    machine.offer(JRES[1], after_update=True)
    assert machine.run()[0] == 0
    tried = [f"{INSTALL} {name}" for name in JRES]
    assert machine.log("apt-get") == [*tried, "apt-get -qq update", *tried[:2]]


def test_who_is_not_root_installs_with_sudo_that_asks_for_nothing(machine: Machine) -> None:
    machine.add("bin/id", "#!/bin/sh\necho 1000\n")
    machine.add("bin/true", "#!/bin/sh\n")
    machine.add("bin/sudo", '#!/bin/sh\n[ "$1" = -n ] && shift && "$@"\n')
    machine.offer(*JRES)
    assert machine.run()[0] == 0
    assert machine.log("apt-get") == [f"{INSTALL} {JRES[0]}"]


@pytest.mark.parametrize("lack", ["root", "password", "apt"])
def test_one_sentence_says_what_to_do_where_nothing_can_be_installed(
    machine: Machine, lack: str
) -> None:
    machine.offer(*JRES)
    if lack == "apt":
        (machine.place / "bin/apt-get").unlink()
    else:
        machine.add("bin/id", "#!/bin/sh\necho 1000\n")
    if lack == "password":
        machine.add("bin/sudo", "#!/bin/sh\nexit 1\n")
    assert machine.run("setup") == (1, "", [NO_JAVA])
    shutil.rmtree(machine.place / ".venv")
    (machine.place / "venv").unlink()
    assert machine.run("setup") == (1, "", [NO_VENV])
    assert machine.log("apt-get") == []


SAID_BY_PIP = """\
Collecting numba>=0.61
  Downloading numba-0.68.0-cp311-manylinux.whl.metadata (2.9 kB)
  Downloading https://index/packages/numba-0.68.0-cp311-manylinux.whl (3.9 MB)
Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)
Using cached pyspark-4.3.0.tar.gz (434.2 MB)
Building wheels for collected packages: pyspark
Installing collected packages: six, numba, pyspark
Successfully installed numba-0.68.0 pyspark-4.3.0 six-1.17.0
"""


def test_the_set_up_shows_what_takes_long(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    (machine.place / "pip-says").write_text(SAID_BY_PIP)
    shown = [
        "run: fetching numba-0.68.0-cp311-manylinux.whl (3.9 MB) ...",
        "run: fetched before: pyspark-4.3.0.tar.gz (434.2 MB)",
        "run: building pyspark ...",
        "run: installing 3 packages ...",
    ]
    assert machine.run("setup") == (0, "", shown)


def test_packages_that_cannot_be_installed_are_said(machine: Machine) -> None:
    (machine.place / "pip-fails").touch()
    said = "run: pip could not install the packages (its words are above)."
    assert machine.run("setup") == (1, "", [said])
    assert machine.log("compileall") == []


@pytest.mark.parametrize("offered", [["chromium"], []])
def test_all_tests_install_chromium_where_they_can(machine: Machine, offered: list[str]) -> None:
    machine.add_java("bin/java", "17.0.15")
    machine.offer(*offered)
    said = ["run: installing Chromium for the tests of the demo's report (once) ..."]
    if not offered:
        lacks = "Chromium cannot be had here; tests that need it are skipped (in CI they fail)."
        said.append(f"run: {lacks}")
    assert machine.run("test")[::2] == (0, said)
    assert machine.run("test", "tests/unit")[::2] == (0, [])


def test_the_package_that_makes_environments_is_installed_with_apt(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    (machine.place / "venv").unlink()
    machine.offer("python3-venv")
    assert machine.run()[::2] == (0, ["run: installing python3-venv, which python3.11 lacks ..."])
    assert machine.log("apt-get") == [f"{INSTALL} python3.11-venv", f"{INSTALL} python3-venv"]
    assert machine.log("pip") == PIP


def test_apt_that_fails_ends_in_one_sentence(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    (machine.place / "venv").unlink()
    said = ["run: installing python3-venv, which python3.11 lacks ...", NO_VENV]
    assert machine.run("setup") == (1, "", said)


def test_no_python_that_is_new_enough_is_said(machine: Machine) -> None:
    (machine.place / "bin/python3.11").unlink()
    machine.add("bin/python3", "#!/bin/sh\nexit 1\n")
    said = "run: Python 3.11 or newer is needed and was not found; install it and try again."
    assert machine.run("setup") == (1, "", [said])


def test_a_second_call_sets_up_nothing_again(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    assert machine.run("setup") == (0, "", [])
    assert machine.run()[0] == 0
    assert machine.log("pip") == PIP
    # Or else every process would do it, where PYTHONDONTWRITEBYTECODE is set.
    assert machine.log("compileall") == ["compileall"]
    assert machine.log("java") == ["java"]  # its version was asked for once


@pytest.mark.parametrize(
    ("version", "folder", "wanted"),
    [
        ("4.0", ".venv-spark-4.0", "pyspark==4.0.*"),
        ("4.1.2", ".venv-spark-4.1.2", "pyspark==4.1.2"),
    ],
)
def test_another_spark_has_an_environment_of_its_own(
    machine: Machine, version: str, folder: str, wanted: str
) -> None:
    machine.add_java("bin/java", "17.0.15")
    (machine.place / "tests").mkdir()
    assert machine.run("test-spark", version) == (0, "pytest tests/spark", [])
    extras = "pip -e .[cli,demo,pandas,polars,postgres,spark,test]"
    assert machine.log("pip") == [f"{extras} {wanted}", f"{SKETCHES} {wanted}"]
    assert (machine.place / f".venv-spark-{version}" / "bin" / "python").exists()
    assert not (machine.place / ".venv").exists()
    # Nothing is set up again, and options leave the tests as they are.
    assert machine.run("test-spark", version, "-k", "drain")[1] == "pytest tests/spark -k drain"
    assert machine.run("test-spark", version, "tests::one", "-x")[1] == "pytest tests::one -x"
    assert len(machine.log("pip")) == 2


def test_another_pandas_has_no_spark(machine: Machine) -> None:
    code, tests, said = machine.run("test-pandas", "3", "-x")
    assert (code, said) == (0, [])
    known = tests.split()[1:-1]
    assert known
    assert [name for name in known if not (ROOT / name).exists()] == []
    assert machine.log("pip")[0] == "pip -e .[pandas,polars,test] pandas==3.*"
    assert machine.log("java") == []


def test_the_oldest_versions_are_those_that_are_promised(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    shutil.copy(ROOT / "pyproject.toml", machine.place)
    assert machine.run("test-spark", "minimum", "-m", "smoke")[0] == 0
    constraints = machine.place / ".venv-minimum" / "constraints.txt"
    found = dict(line.split("==") for line in constraints.read_text().splitlines())
    assert found["pyspark"] == "4.0"
    assert found["pandas"] == "2.2.2"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(found) == 11
    assert {name.split(">=")[0] for name in project["dependencies"]} <= found.keys()
    assert machine.log("pip")[0].startswith(f"pip -c {constraints} -e .[")


@pytest.mark.parametrize("given", [["test-spark"], ["test-spark", "new"], ["test-pandas", "x"]])
def test_a_version_is_a_number(machine: Machine, given: list[str]) -> None:
    code, _, said = machine.run(*given)
    assert code == 1
    assert len(said) == 1
    assert "version" in said[0]
    assert machine.log("pip") == []


def test_a_python_for_which_there_are_no_sketches_does_without(machine: Machine) -> None:
    machine.add_java("bin/java", "17.0.15")
    (machine.place / "no-sketches").touch()
    said = (
        "run: the package of the extra 'sketches' cannot be had here; tests that need it are "
        "skipped."
    )
    assert machine.run("setup") == (0, "", [said])
    assert machine.run("test", "tests")[:2] == (0, "pytest tests")
    assert machine.log("pip") == PIP


@pytest.mark.parametrize("python", ["python3.12", "python3.13", "python3.14"])
def test_any_python_from_3_11_on_can_be_chosen(machine: Machine, python: str) -> None:
    machine.add_java("bin/java", "17.0.15")
    machine.add(f"bin/{python}", PYTHON)
    machine.variables["SLICEWISE_PYTHON"] = python
    assert machine.run("test", "tests") == (0, "pytest tests", [])
    assert (machine.place / f".venv-{python}" / "bin" / "python").exists()
    # Where nothing is chosen, any of them will do.
    del machine.variables["SLICEWISE_PYTHON"]
    (machine.place / "bin" / "python3.11").unlink()
    assert machine.run("test", "tests") == (0, "pytest tests", [])
    machine.variables["SLICEWISE_PYTHON"] = "python3.15"
    said = (
        "run: Python 3.11 or newer is needed and was not found as python3.15; install it and try "
        "again."
    )
    assert machine.run("setup") == (1, "", [said])
