"""The command ``mase-hw``: one file of its room ``commands`` per subcommand."""

from mase_hw.cli._common import BROKEN, FAILED, INTERRUPTED, OK, UNUSABLE, UNWRITABLE
from mase_hw.cli.main import COMMANDS, command_module, configure, main, parser

__all__ = [
    "BROKEN",
    "COMMANDS",
    "FAILED",
    "INTERRUPTED",
    "OK",
    "UNUSABLE",
    "UNWRITABLE",
    "command_module",
    "configure",
    "main",
    "parser",
]
