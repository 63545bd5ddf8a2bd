"""The subcommand ``power``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, path, whole
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "count how often the nets of the synthesised netlist change, and compare the energy of its stages"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile, with vectors")
    parser.add_argument("--target", default="xc7", metavar="NAME", help="xc7, ecp5, ice40, generic (xc7)")
    parser.add_argument("--frames", type=whole, metavar="N", help="frames to count over (as many as there are vectors)")
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where to work (BUNDLE.work/synth/TARGET)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print the table.

    Raises:
        MaseHwError: If something is wrong with the design, the tools or the arguments.
    """
    from mase_hw.design.design import load_design
    from mase_hw.synth.power import measure

    arguments.kept = lambda: "the netlist is in the work folder, and no energy was written"
    with voice(arguments) as say:
        found = measure(
            load_design(arguments.bundle),
            arguments.target,
            frames=arguments.frames,
            work_dir=arguments.work,
            progress=say,
        )
    return answer(arguments, OK, found.to_json(), found.text())
