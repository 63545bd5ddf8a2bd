"""The subcommand ``precompile``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, say
from mase_hw.simulate.engines.precompile import precompile_runtime

HELP = "compile Verilator's runtime once for all designs"


def configure(parser: argparse.ArgumentParser) -> None:
    """The command takes no arguments."""


def run(_: argparse.Namespace) -> int:
    """Compile the runtime; see :func:`mase_hw.simulate.engines.precompile.precompile_runtime`."""
    say(f"the runtime is ready in {precompile_runtime(tell=say)}")
    return OK
