"""The map of names: what the documents of MASE and AFE call it, what it is here, what differs and why."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.reference_options import table

LIST = Path(__file__).with_name("names.txt")


def entries(document: str) -> list[tuple[list[str], str, str]]:
    """Of a document: names, what they are here, and what differs and why."""
    section = re.search(rf"^\[{document}\]\n(?P<lines>(?:.+\n)*)", LIST.read_text(encoding="utf-8"), re.MULTILINE)
    if section is None:
        raise KeyError(document)
    rows = [line.split(" | ") for line in section["lines"].splitlines()]
    return [(names.split(", "), ours, differs) for names, ours, differs in rows]


def names(document: str) -> str:
    """A document's names as a table."""
    rows = [[", ".join(f"`{n}`" for n in given), f"`{ours}`", differs] for given, ours, differs in entries(document)]
    return table(["there", "here", "what differs, and why"], rows)
