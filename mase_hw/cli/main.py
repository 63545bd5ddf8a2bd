"""The command ``mase-hw``.

Exit codes: 0 success; 1 the hardware is not proven equal to PyTorch, or a check found something; 2 the input or the
environment is not usable; 3 the standard output cannot be written; 4 an error of mase-hw itself; 130 interrupted.
Heavy imports (torch) happen in the commands that need them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from mase_hw._version import __version__
from mase_hw.cli._common import BROKEN, FAILED, INTERRUPTED, UNUSABLE, UNWRITABLE
from mase_hw.cli.answers import error_document
from mase_hw.cli.output import abandon, guarded
from mase_hw.errors import MaseHwError, OutputError, SimulationError
from mase_hw.host.process import keep_freed

COMMANDS = (
    "doctor",
    "docs",
    "config",
    "new",
    "check",
    "fit",
    "compile",
    "sim",
    "report",
    "explain",
    "draw",
    "noise",
    "evaluate",
    "calibrate",
    "search",
    "precompile",
    "cache",
    "env",
    "regress",
    "synth",
    "power",
    "hls",
    "weights",
    "system",
    "soc",
    "lint",
    "ops",
)
"""Every subcommand: a module of :mod:`mase_hw.cli.commands` with ``HELP``, ``configure`` and ``run``."""
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: From the arguments, as of argparse: 0 for help, 2 for an error.
    """
    # Before torch is loaded. Its threads spin while they wait for each other: on a machine with other work that takes
    # several times the processor time of the rest.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed()
    try:
        with guarded():
            return _run(argv)
    except OutputError as error:
        abandon()
        return _say(error, UNWRITABLE)
    except MaseHwError as error:
        return _say(error, _code(error))
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Exception as error:  # whatever it is, it is no verdict
        return _unexpected(error)


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _arguments(argv)
    except SystemExit:
        sys.stdout.flush()
        raise
    try:
        code: int = arguments.run(arguments)
    except OutputError:
        raise
    except MaseHwError as error:
        if arguments.json:
            print(error_document(arguments.command, _code(error), error))
        raise
    except (KeyboardInterrupt, Exception) as error:
        if not _interrupted(error):
            raise
        kept = getattr(arguments, "kept", None)
        return _say(f"interrupted; {kept() if kept else 'nothing was changed'}", INTERRUPTED)
    except SystemExit as error:
        # A model's own code is asked for its line where it runs; this is for whatever else ends the program.
        return _say(f"ended with sys.exit({error.code!r}) before the command was done", UNUSABLE)
    return code


def _interrupted(error: BaseException | None) -> bool:
    """Whether it is an interruption, or a library failed while it cleaned up behind one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _code(error: MaseHwError) -> int:
    return FAILED if isinstance(error, SimulationError) else UNUSABLE


def _unexpected(error: Exception) -> int:
    if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
        return _say(f"there is not enough memory\n  got: {error}", UNUSABLE)
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exception(error)
    return _say("this is an error in mase-hw itself; please report it with the lines above", BROKEN)


def _say(message: object, code: int) -> int:
    """Explain an exit code, if anybody can be told."""
    with contextlib.suppress(OSError, ValueError):
        print(f"mase-hw: {message}", file=sys.stderr, flush=True)
    return code


def command_module(name: str) -> Any:
    """The module of a subcommand; it has ``HELP``, ``configure(parser)`` and ``run(arguments)``."""
    return importlib.import_module(f"mase_hw.cli.commands.{name}")


def configure(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of a subcommand, and the one that all have."""
    command_module(name).configure(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=name)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; names of nodes may also follow options, which argparse alone does not allow."""
    words = list(sys.argv[1:] if argv is None else argv)
    whole = parser(*(name for name in words[:1] if name in COMMANDS))
    arguments, rest = whole.parse_known_args(words)
    if rest and hasattr(arguments, "nodes") and not any(word.startswith("-") for word in rest):
        arguments.nodes = [*arguments.nodes, *rest]
    elif rest:
        whole.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def parser(*names: str) -> argparse.ArgumentParser:
    """The parser of the command line, with the subcommands of these names, or with every one."""
    made = argparse.ArgumentParser(
        prog="mase-hw", description="PyTorch model in; bit-exact, verified SystemVerilog accelerator out."
    )
    made.add_argument("--version", action="version", version=f"mase-hw {__version__}")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names or COMMANDS:
        command = command_module(name)
        sub = commands.add_parser(name, help=command.HELP, description=command.HELP)
        configure(sub, name)
        sub.set_defaults(run=command.run)
    return made
