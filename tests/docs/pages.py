"""The pages of the documentation, and what can be run or looked up in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.reference import REGION

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        page: Its page.
        line: Line of the page in which its text begins, from 1.
        language: Word after the fence.
        note: Text of the comment right before it, such as ``simulates`` or ``file: NAME``.
        text: Its content.
    """

    page: Path
    line: int
    language: str
    note: str
    text: str

    @property
    def id(self) -> str:
        """What a test of it is called."""
        return f"{self.page.name}:{self.line}"

    @property
    def file(self) -> str:
        """Name of the file that the block shows, or nothing."""
        return self.note.removeprefix("file: ").split()[0] if self.note.startswith("file: ") else ""

    def run(self, names: dict[str, object]) -> None:
        """Execute the block; a traceback points into the page."""
        code = compile("\n" * (self.line - 1) + self.text, str(self.page), "exec")
        exec(code, names)


def blocks(*languages: str, page: Path | None = None) -> Iterator[Block]:
    """The blocks in some languages, in order."""
    for path in [page] if page is not None else PAGES:
        text = path.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("text")) + 1
            block = Block(path, line, match["language"], match["note"] or "", match["text"])
            if block.language in languages:
                yield block


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def handwritten(page: Path) -> str:
    """A page without its generated parts."""
    return REGION.sub("", page.read_text(encoding="utf-8"))


def shown_files(page: Path) -> dict[str, str]:
    """Content of the files that a page shows, by name."""
    return {b.file: b.text for b in blocks("python", "toml", "systemverilog", page=page) if b.file}
