"""Documents, and the blocks of code in them."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*).*$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `first` and `last` are the indices of its fences in the document."""

    language: str
    text: str
    first: int
    last: int


def blocks_of(lines: list[str]) -> list[Block]:
    blocks = []
    opening: re.Match[str] | None = None
    first = 0
    for number, line in enumerate(lines):
        if opening is None:
            opening, first = FENCE.match(line), number
        elif line.strip() == opening["ticks"]:
            text = textwrap.dedent("\n".join(lines[first + 1 : number]))
            blocks.append(Block(opening["language"], text, first, number))
            opening = None
    assert opening is None, f"the block at line {first + 1} is never closed"
    return blocks
