"""The subcommand ``system``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, OK, path
from mase_hw.cli.answers import answer

HELP = "put registers, a way to memory, a driver and a self-test around the core of a bundle"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--data", metavar="WHERE", choices=("memory", "stream"), default="memory", help="memory or stream (memory)"
    )
    parser.add_argument("--bus", type=int, metavar="BITS", choices=(32, 64, 128), default=64, help="32, 64 or 128 (64)")
    parser.add_argument("--packed", action="store_true", help="elements without gaps between them")
    parser.add_argument("--address-bits", type=int, default=32, metavar="N", help="of the bus master (32)")
    parser.add_argument("--burst", type=int, default=64, metavar="N", help="beats of a burst at most (64)")
    parser.add_argument("--outstanding", type=int, default=4, metavar="N", help="bursts without an answer at most (4)")
    parser.add_argument("--core-clock", action="store_true", help="a clock of its own for the core")
    parser.add_argument("--letters", metavar="TEXT", help="of a design that decodes, a character for each id")
    parser.add_argument("--prefix", metavar="TEXT", help="before the names of modules, files and symbols")
    parser.add_argument(
        "--weights", type=path, metavar="FOLDER", help="what `weights` wrote: the self-test loads these parameters"
    )
    parser.add_argument("--selftest", action="store_true", help="run the driver's self-test on the Verilated model")


def run(arguments: argparse.Namespace) -> int:
    """Write the system; 0 if the self-test, if asked for, passes.

    Raises:
        MaseHwError: If something is wrong with the bundle, the tools or the arguments.
    """
    from mase_hw.system import make_system, run_selftest, system_options

    options = system_options(
        data=arguments.data,
        bus=arguments.bus,
        elements="packed" if arguments.packed else "aligned",
        address_bits=arguments.address_bits,
        burst=arguments.burst,
        outstanding=arguments.outstanding,
        core_clock=arguments.core_clock,
        letters=arguments.letters or "",
        prefix=arguments.prefix or "",
    )
    manifest = make_system(arguments.bundle, arguments.out, options, arguments.weights)
    lines = [f"{manifest['top']}: written to {arguments.out}"]
    found = {"system": manifest, "selftest": None}
    passed = True
    if arguments.selftest:
        result = run_selftest(arguments.out)
        passed = result.passed
        found["selftest"] = {"passed": passed, "text": result.text}
        lines.append(result.text)
    return answer(arguments, OK if passed else FAILED, found, "\n".join(lines))
