"""The table of claims and their tests, from ``tests/docs/claims.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.reference_options import table

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "docs" / "claims.toml"


@dataclass(frozen=True)
class Claim:
    """A sentence of the documentation.

    Args:
        page: Path of its page from the root.
        text: The sentence as Markdown, or as much of it as is claimed.
        tests: Files or functions that hold it, below ``tests``.
    """

    page: str
    text: str
    tests: tuple[str, ...]


def read() -> list[Claim]:
    """Every claim, in the order of the file.

    Raises:
        TypeError: If an entry has another key, or lacks one.
    """
    entries: list[dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["claim"]
    return [Claim(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def claims() -> str:
    """The table: claim, page and tests."""
    rows = []
    for claim in read():
        path = Path(claim.page)
        link = path.name if path.parts[0] == "docs" else f"../{claim.page}"
        rows.append([claim.text, f"[{path.name}]({link})", ", ".join(f"`tests/{test}`" for test in claim.tests)])
    return table(("claim", "page", "held by"), rows)
