"""The subcommand ``lint``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, OK, path
from mase_hw.cli.answers import answer

HELP = "check the style of SystemVerilog files"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``lint``."""
    parser.add_argument("paths", nargs="*", type=path, metavar="PATH", help=".sv files or folders (default: our RTL)")


def run(arguments: argparse.Namespace) -> int:
    """Check files; ours if none are named."""
    from mase_hw.host.lint import lint, sources
    from mase_hw.host.resources import rtl_root

    files = sources(arguments.paths or [rtl_root()])
    complaints = lint(files)
    text = "\n".join([*complaints, f"{len(files)} files, {len(complaints)} complaints"])
    found = {"files": len(files), "complaints": complaints}
    return answer(arguments, FAILED if complaints else OK, found, text)
