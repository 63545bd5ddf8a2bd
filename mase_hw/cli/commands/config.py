"""The subcommand ``config``."""

from __future__ import annotations

import argparse
import json

from mase_hw.cli._common import OK
from mase_hw.cli.answers import answer

HELP = "print a configuration with every option and its default"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``config``."""
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of configurations instead")


def run(arguments: argparse.Namespace) -> int:
    """Print the file or the schema."""
    from mase_hw.compiler.config import default_file, load_config, schema

    if arguments.schema:
        return answer(arguments, OK, {"schema": schema()}, json.dumps(schema(), indent=2))
    return answer(arguments, OK, {"config": load_config(None).model_dump(mode="json")}, default_file().rstrip())
