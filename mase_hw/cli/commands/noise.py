"""The subcommand ``noise``."""

from __future__ import annotations

import argparse
import math

from mase_hw.cli._common import OK, PLAN_HELP, calibration_argument, loaded, model_arguments, quantised_of
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "say what quantisation costs, by node: noise, clipped values and zeros, and what would help"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser, PLAN_HELP)
    calibration_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Quantise the model as ``compile`` does, and print what it cost.

    Raises:
        MaseHwError: If something is wrong with the model or the configuration.
    """
    from rich.console import Console
    from rich.table import Table

    from mase_hw.compiler.quantised_model import refuse_quantised
    from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Summary

    settings, spec = loaded(arguments)
    refuse_quantised(spec.model)
    with voice(arguments, aside=True) as say:
        graph = quantised_of(arguments, settings, spec, say)
    found: Summary = graph.meta[SUMMARY]
    table = Table(box=None, pad_edge=False)
    for column in ("node", "dB", "clipped", "became zero", "most of its noise is made by"):
        table.add_column(column, justify="left" if column in ("node",) or column.startswith("most") else "right")
    for node in found.nodes:
        ratio = f"{node.snr:.1f}" if math.isfinite(node.snr) else "no noise"
        table.add_row(node.node, ratio, f"{node.clipped:.2%}", f"{node.zeros:.2%}", node.remedy.replace("[", r"\["))

    def show() -> None:
        Console().print(table)
        for line in found.lines():
            print(line)

    return answer(arguments, OK, found.to_dict(), show)
