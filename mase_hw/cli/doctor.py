"""The subcommand ``doctor``."""

from __future__ import annotations

import argparse

from rich.console import Console

from mase_hw.cli._common import FAILED, OK

HELP = "show every tool that was found, its version and what is wrong"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``doctor``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Report every tool."""
    from mase_hw.host.doctor import doctor

    return OK if doctor(Console(), as_json=arguments.json) else FAILED
