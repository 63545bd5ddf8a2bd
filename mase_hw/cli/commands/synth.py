"""The subcommand ``synth``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, OK, path, whole
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "synthesise a bundle with the open tools and check what comes out"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument(
        "--target",
        default="xc7",
        metavar="NAME",
        help="xc7, xcup, ecp5, nexus, ice40, gowin, gatemate, asic, generic (xc7)",
    )
    parser.add_argument("--device", metavar="NAME", help="refuse what this device cannot hold, such as xc7a35t")
    parser.add_argument(
        "--place",
        action="store_true",
        help="place and route too, and write a bitstream (ecp5, nexus, ice40, gowin, gatemate)",
    )
    parser.add_argument("--mhz", type=float, metavar="F", help="clock to aim at (the bundle's, else 100)")
    parser.add_argument("--seed", type=whole, default=1, metavar="N", help="of the placement (1)")
    parser.add_argument("--no-replay", action="store_true", help="do not simulate the netlist")
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where to work (BUNDLE.work/synth/TARGET)")


def run(arguments: argparse.Namespace) -> int:
    """Synthesise; 0 if everything that was asked for was reached.

    Raises:
        MaseHwError: If something is wrong with the design, the tools or the arguments.
    """
    from mase_hw.design.design import load_design
    from mase_hw.synth.place import Placement
    from mase_hw.synth.synthesise import synthesise

    arguments.kept = lambda: "what was synthesised so far is in the work folder, and no report was written"
    placement = Placement(arguments.mhz, arguments.seed)
    with voice(arguments) as say:
        report = synthesise(
            load_design(arguments.bundle),
            arguments.target,
            device=arguments.device,
            work_dir=arguments.work,
            replay_netlist=not arguments.no_replay,
            placement=placement if arguments.place else None,
            progress=say,
        )
    return answer(arguments, OK if report.reached else FAILED, report.to_json(), report.text())
