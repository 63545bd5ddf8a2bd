"""The subcommand ``sim``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import (
    attach_behind,
    behind_arguments,
    judge,
    path,
    refuse_alone,
    refuse_options,
    settle,
    simulation_arguments,
    unfinished,
)
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "simulate a bundle and compare with PyTorch bit for bit"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``sim``."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    behind_arguments(parser, "so that a failure is diagnosed")
    simulation_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate a bundle.

    Raises:
        MaseHwError: If the bundle, the model, an option or a tool is not usable.
    """
    import mase_hw

    refuse_alone(arguments)
    settle(arguments)
    refuse_options(arguments.bundle, arguments)
    design = mase_hw.load_design(arguments.bundle)
    arguments.kept = lambda: unfinished(design.path)
    with voice(arguments) as say:
        attach_behind(design, arguments, say)
        code, verdict = judge(design, arguments, say)
    return answer(arguments, code, {"bundle": design.path, "simulation": verdict}, "")
