"""The subcommand ``noise``."""

from __future__ import annotations

import argparse
import math

from mase_hw.cli._common import OK, path, settle

HELP = "say what quantisation costs, by node: noise, clipped values and zeros, and what would help"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("model", metavar="MODEL", help="as for compile: FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION")
    parser.add_argument("--config", type=path, metavar="FILE", help="the configuration, TOML, or a plan (8 bits each)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Quantise the model as ``compile`` does, and print what it cost.

    Raises:
        MaseHwError: If something is wrong with the model or the configuration.
    """
    import json
    import sys

    from rich.console import Console
    from rich.table import Table

    from mase_hw.compiler.config import load_config
    from mase_hw.compiler.quantised_graph import quantised_graph
    from mase_hw.model_spec import load_model
    from mase_hw.passes.analysis.quantisation_summary import SUMMARY, Summary

    def say(line: str) -> None:
        print(line, flush=True, file=sys.stderr)

    settle(arguments)
    settings, spec = load_config(arguments.config), load_model(arguments.model)
    graph = quantised_graph(spec.model, spec.example_inputs, settings, spec.calibration, None, say)
    found: Summary = graph.meta[SUMMARY]
    if arguments.json:
        print(json.dumps(_finite(found.to_dict()), indent=1))
        return OK
    table = Table(box=None, pad_edge=False)
    for column in ("node", "dB", "clipped", "became zero", "most of its noise is made by"):
        table.add_column(column, justify="left" if column in ("node",) or column.startswith("most") else "right")
    for node in found.nodes:
        ratio = f"{node.snr:.1f}" if math.isfinite(node.snr) else "no noise"
        table.add_row(node.node, ratio, f"{node.clipped:.2%}", f"{node.zeros:.2%}", node.remedy.replace("[", r"\["))
    Console().print(table)
    for line in found.lines():
        print(line)
    return OK


def _finite(value: object) -> object:
    """JSON has no infinite numbers; they are null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
