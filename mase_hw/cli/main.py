"""The command ``mase-hw``.

Exit codes: 0 success; 1 the hardware is not proven equal to PyTorch, or a check found something; 2 the input or the
environment is not usable. Heavy imports (torch) happen in the commands that need them.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from mase_hw._version import __version__
from mase_hw.cli._common import FAILED, UNUSABLE
from mase_hw.deprecation import deprecated
from mase_hw.errors import MaseHwError, SimulationError

COMMANDS = ("doctor", "config", "compile", "sim", "explain", "precompile", "cache", "regress", "synth", "lint", "ops")
"""Every subcommand: a module of this package with ``HELP``, ``configure`` and ``run``."""
FORMER = {"prepare": "precompile"}
"""Former names of subcommands, which still work."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; those of the process by default.

    Returns:
        The exit code.
    """
    arguments = _arguments(argv)
    try:
        code: int = arguments.run(arguments)
    except MaseHwError as error:
        print(f"mase-hw: {error}", file=sys.stderr)
        return FAILED if isinstance(error, SimulationError) else UNUSABLE
    except KeyboardInterrupt:
        print("mase-hw: interrupted", file=sys.stderr)
        return 130
    return code


def command_module(name: str) -> Any:
    """The module of a subcommand; it has ``HELP``, ``configure(parser)`` and ``run(arguments)``."""
    return importlib.import_module(f"mase_hw.cli.{name}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; names of nodes may also follow options, which argparse alone does not allow."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in FORMER:
        deprecated(f"mase-hw {words[0]}", f"mase-hw {FORMER[words[0]]}", shown=True)
        words[0] = FORMER[words[0]]
    parser = _parser()
    arguments, rest = parser.parse_known_args(words)
    if rest and hasattr(arguments, "nodes") and not any(word.startswith("-") for word in rest):
        arguments.nodes = [*arguments.nodes, *rest]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mase-hw", description="PyTorch model in; bit-exact, verified SystemVerilog accelerator out."
    )
    parser.add_argument("--version", action="version", version=f"mase-hw {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = command_module(name)
        sub = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser
