"""The subcommand ``prepare``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, say
from mase_hw.simulate.engines.prepare import prepare

HELP = "compile Verilator's runtime once for all designs"


def configure(parser: argparse.ArgumentParser) -> None:
    """The command takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Prepare the environment; see :func:`mase_hw.simulate.engines.prepare.prepare`."""
    say(f"the runtime is ready in {prepare(tell=say)}")
    return OK
