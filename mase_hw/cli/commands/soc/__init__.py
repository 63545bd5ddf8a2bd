"""The subcommand ``soc``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, OK, path
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice
from mase_hw.host.documents import Json

HELP = "run the driver on a simulated RISC-V, or make a bitstream: a LiteX SoC around the core of a bundle"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--prefix", metavar="TEXT", help="before the names of modules, files and symbols")
    parser.add_argument("--letters", metavar="TEXT", help="of a design that decodes, a character for each id")
    parser.add_argument(
        "--weights", type=path, metavar="FOLDER", help="what `weights` wrote: the self-test loads these parameters"
    )
    parser.add_argument(
        "--beside", type=path, action="append", default=[], metavar="DIR", help="another system in the same SoC"
    )
    parser.add_argument("--board", choices=("ulx3s",), metavar="NAME", help="write a bitstream instead: ulx3s (85F)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="placements to try for the bitstream (1)")


def run(arguments: argparse.Namespace) -> int:
    """Write the system and a SoC around it, and run its self-test, or make a bitstream; 0 if that passes.

    Raises:
        MaseHwError: If something is wrong with the bundle or the tools.
    """
    from mase_hw.system import make_system, system_options
    from mase_hw.system.soc import build_soc, run_soc, write_soc

    options = system_options(prefix=arguments.prefix or "", letters=arguments.letters or "")
    manifest = make_system(arguments.bundle, arguments.out, options, arguments.weights)
    if arguments.board:
        return _bitstream(arguments, manifest)
    gateware = write_soc(arguments.out, beside=arguments.beside)
    result = run_soc(build_soc(gateware), gateware)
    found = {"system": manifest, "selftest": {"passed": result.passed, "text": result.text}}
    lines = [f"{manifest['top']}: a SoC written to {gateware}", result.text]
    return answer(arguments, OK if result.passed else FAILED, found, "\n".join(lines))


def _bitstream(arguments: argparse.Namespace, manifest: Json) -> int:
    from mase_hw.system.board import MHZ, make_bitstream

    with voice(arguments) as say:
        found = make_bitstream(arguments.out, range(1, arguments.seeds + 1), say, arguments.beside)
    mhz = ", ".join(f"{value:.1f}" for value in found["mhz"].values())
    use = ", ".join(f"{cells['used']} of {cells['available']} {name}" for name, cells in found["use"].items())
    lines = [f"{manifest['top']}: {mhz} MHz of {MHZ:g}", use, f"load it with: {found['load']}"]
    return answer(arguments, OK, {"system": manifest, "bitstream": found}, "\n".join(lines))
