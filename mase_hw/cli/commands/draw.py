"""The subcommand ``draw``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, model_arguments, path, settle
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
    from mase_hw.compiler.config import load_config
    from mase_hw.errors import ConfigError
    from mase_hw.model_spec import load_model
    from mase_hw.preflight.mapped import mapped_graph, traced_graph

    if arguments.out.suffix.lower() != ".svg":
        raise ConfigError(
            "the picture is an SVG", field="--out", got=str(arguments.out), expected="a name that ends in .svg"
        )
    settle(arguments)
    settings, spec = load_config(arguments.config), load_model(arguments.model)
    with voice(arguments, aside=True) as tell:
        if arguments.traced:
            graph = traced_graph(spec.model, spec.example_inputs, tell)
        else:
            graph = mapped_graph(spec.model, spec.example_inputs, settings, spec.calibration, tell)
    graph.draw(arguments.out)
    found = {"picture": arguments.out, "nodes": len(list(graph.nodes))}
    return answer(arguments, OK, found, f"picture: {arguments.out}")
