"""The subcommand ``draw``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, loaded, model_arguments, path, refuse_suffix
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "draw a model as it becomes hardware: ops, shapes, formats, lanes, cycles"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE.svg", help="the picture")
    parser.add_argument("--traced", action="store_true", help="as it was traced, before anything is done to it")


def run(arguments: argparse.Namespace) -> int:
    """Map the model as ``check`` does, and draw it.

    Raises:
        MaseHwError: If something is wrong with the model, the configuration or the file.
    """
    from mase_hw.preflight.mapped import mapped_graph, traced_graph

    refuse_suffix(arguments, "out", ".svg", "the picture is an SVG")
    settings, spec = loaded(arguments)
    with voice(arguments, aside=True) as tell:
        if arguments.traced:
            graph = traced_graph(spec.model, spec.example_inputs, tell)
        else:
            graph = mapped_graph(spec.model, spec.example_inputs, settings, spec.calibration, tell)
    graph.draw(arguments.out)
    found = {"picture": arguments.out, "nodes": len(list(graph.nodes))}
    return answer(arguments, OK, found, f"picture: {arguments.out}")
