"""The subcommand ``precompile``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "compile Verilator's runtime once for all designs"


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Compile the runtime; see :func:`mase_hw.simulate.engines.precompile.precompile_runtime`."""
    from mase_hw.simulate.engines.precompile import precompile_runtime  # the other commands do not wait for it

    with voice(arguments) as say:
        place = precompile_runtime(tell=say)
    return answer(arguments, OK, {"runtime": place}, f"the runtime is ready in {place}")
