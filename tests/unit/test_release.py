"""What goes out with a release: its version, its papers, and links that lead somewhere."""

import re
import tomllib
from pathlib import Path

import pytest

import slicewise
from tests.support.documents import DOCUMENTS, ROOT

CITED = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [
    *DOCUMENTS,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples/demo/README.md",
]


def test_the_version_is_the_same_everywhere() -> None:
    (cited,) = re.findall(r"^version: (.*)$", CITED, re.MULTILINE)
    assert cited == slicewise.__version__ == PYPROJECT["project"]["version"]


def test_the_five_papers_are_cited_by_the_identifiers_that_the_code_has() -> None:
    dois = re.findall(r"^    doi: (.*)$", CITED, re.MULTILINE)
    assert len(set(dois)) == len(dois) == 5
    files = (ROOT / "src").rglob("*.py")
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    scotty = "10.1145/3433675"
    assert [doi for doi in dois if f"doi:{doi}" not in code] == [scotty]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_that_there_are(page: Path) -> None:
    prose = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", prose)]
    files = [target for target in targets if target and not target.startswith("https://")]
    assert [target for target in files if not (page.parent / target).exists()] == []


def test_the_readme_of_a_package_index_has_no_links_to_files() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert re.findall(r"\]\((?!https://)", text) == []
    assert "[measured]" not in text
    assert "measured (`docs/benchmarks/spark-batch.md`)" in text
