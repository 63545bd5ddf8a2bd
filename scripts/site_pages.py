"""What MkDocs is told about the pages: ``make site`` builds them, ``mkdocs.yml`` names this file as a hook.

The pages are written for a reader of the repository, whose links lead to files. On the site the README is the start,
the pages beside it lie with the others, and every public name gets a page made from its docstring.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "licence.md",
}
"""Files at the root of the repository that become pages."""
REFERENCE = {
    "mase_hw": "Compiling and simulating",
    "mase_hw.passes": "Passes",
    "mase_hw.passes.evaluation": "Evaluation",
    "mase_hw.passes.mixed_precision": "Mixed precision",
    "mase_hw.training": "Training",
    "mase_hw.testing": "Tests of your own",
    "mase_hw.errors": "Errors",
    "mase_hw.formats": "Formats",
    "mase_hw.numerics": "Numerics",
    "mase_hw.streams": "Streams",
    "mase_hw.layouts": "Layouts",
    "mase_hw.steps": "Steps",
    "mase_hw.catalogue": "The catalogue",
}
"""Public modules, as ``docs/api.md`` lists them, with the titles of their pages."""


_LINK = re.compile(r"(?<=\]\()[^)\s#:]+(?=[)#])")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):(?=<code)")


def reference_page(module: str) -> str:
    """The page of a public module: what its docstrings say."""
    return f"# {REFERENCE[module]}\n\n::: {module}\n"


def root_page(name: str) -> str:
    """A file at the root of the repository as a page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text if name.endswith(".md") else f"# Licence\n\n```text\n{text}```\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that do not lie in ``docs``."""
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=root_page(name)))
    for module in REFERENCE:
        files.append(File.generated(config, f"reference/{module}.md", content=reference_page(module)))
    return files


def site_link(target: str, page: str) -> str:
    """Where a link of a page leads on the site.

    Args:
        target: As in the repository, relative to the page's file there.
        page: Path of the page on the site.
    """
    origin = next((name for name, there in BESIDE.items() if there == page), f"docs/{page}")
    path = os.path.normpath(os.path.join(os.path.dirname(origin), target))
    there = BESIDE.get(path, path.removeprefix("docs/"))
    return os.path.relpath(there, os.path.dirname(page) or ".")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between files into links between pages, outside of code."""
    parts = _FENCE.split(markdown)
    where = page.file.src_uri
    parts[::2] = [_LINK.sub(lambda match: site_link(match[0], where), part) for part in parts[::2]]
    return "".join(parts)


def on_page_content(html: str, **_: Any) -> str:
    """Drop the roles of docstrings: MkDocs would show them as text."""
    return _ROLE.sub("", html)
