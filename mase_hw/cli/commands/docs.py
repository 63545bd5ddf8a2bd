"""The subcommand ``docs``."""

from __future__ import annotations

import argparse
from pathlib import Path

from mase_hw.cli._common import OK
from mase_hw.cli.answers import answer
from mase_hw.errors import refuse_unknown
from mase_hw.host.resources import PACKAGE, find_folder

HELP = "print a page of the documentation, or list all of them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "page", nargs="?", metavar="PAGE", help="such as installation, or as messages name it: docs/bundle.md"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the page, or the list.

    Raises:
        ConfigError: If there is no such page.
    """
    folder = find_folder("docs", PACKAGE)
    pages = {page.relative_to(folder).with_suffix("").as_posix(): page for page in sorted(folder.rglob("*.md"))}
    if arguments.page is None:
        titles = {name: _title(page) for name, page in pages.items()}
        width = max(map(len, titles))
        text = "\n".join(f"{name:{width}}  {title}" for name, title in titles.items())
        return answer(arguments, OK, {"pages": titles}, text)
    name = arguments.page.partition("#")[0].removeprefix("docs/").removesuffix(".md")
    refuse_unknown(name, pages, "there is no such page", field="PAGE")
    text = pages[name].read_text(encoding="utf-8")
    return answer(arguments, OK, {"page": name, "text": text}, text.rstrip("\n"))


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
