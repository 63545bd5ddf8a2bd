"""The subcommand ``config``."""

from __future__ import annotations

import argparse
import json

from mase_hw.cli._common import OK

HELP = "print a configuration with every option and its default"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``config``."""
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of configurations instead")


def run(arguments: argparse.Namespace) -> int:
    """Print the file or the schema."""
    from mase_hw.compiler.config import default_file, schema

    print(json.dumps(schema(), indent=2) if arguments.schema else default_file().rstrip())
    return OK
