"""The subcommand ``doctor``."""

from __future__ import annotations

import argparse

from rich.console import Console

from mase_hw.cli._common import FAILED, OK
from mase_hw.cli.answers import answer

HELP = "show every tool that was found, its version and what is wrong"


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Report every tool."""
    from mase_hw.host.doctor import found_tools, healthy, recorded, show

    tools = found_tools()
    return answer(arguments, OK if healthy(tools) else FAILED, recorded(tools), lambda: show(tools, Console()))
