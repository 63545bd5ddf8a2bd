"""The subcommand ``hls``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, OK, path
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "compile the C++ of nodes that an HLS tool makes, and compare it with the golden bit for bit"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument(
        "--headers", type=path, metavar="FOLDER", help="the ap_types headers (those of da4ml or hls4ml, if installed)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compile, run and print what was found.

    Raises:
        MaseHwError: If something is wrong with the design, the headers or the C++.
    """
    from mase_hw.design.design import load_design
    from mase_hw.synth.hls import check_hls

    with voice(arguments) as say:
        found = check_hls(load_design(arguments.bundle), include=arguments.headers, progress=say)
    return answer(arguments, OK if found.passed else FAILED, found.to_json(), found.text())
