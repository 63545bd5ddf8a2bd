"""The command ``mase-hw``: one file per subcommand."""

from mase_hw.cli._common import FAILED, OK, UNUSABLE
from mase_hw.cli.main import COMMANDS, command_module, main

__all__ = ["COMMANDS", "FAILED", "OK", "UNUSABLE", "command_module", "main"]
