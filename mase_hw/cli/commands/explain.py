"""The subcommand ``explain``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, PLAN_HELP, calibration_argument, loaded, model_arguments, path, quantised_of
from mase_hw.cli.answers import answer, document
from mase_hw.cli.progress import voice

HELP = "say why the tensors of nodes have their formats"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser, PLAN_HELP)
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="nodes or paths of modules (all that are quantised)")
    parser.add_argument("--out", type=path, metavar="FILE", help="write the JSON object to a file, and print nothing")
    calibration_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Quantise the model as ``compile`` does, and explain; 0 if every node could be explained.

    Raises:
        MaseHwError: If something is wrong with the model, the configuration, a node or the file.
    """
    from mase_hw.host.disk import writing
    from mase_hw.ir.module_paths import nodes_at, translations
    from mase_hw.passes.explanation import explain, explained

    settings, spec = loaded(arguments)
    with voice(arguments, aside=True) as say:
        graph = quantised_of(arguments, settings, spec, say)
    wanted = [node for name in arguments.nodes for node in nodes_at(graph, name) or [name]]
    for name, nodes in translations(graph, arguments.nodes).items():
        say(f"{name} is {', '.join(nodes)}")
    found = [explain(graph, name) for name in wanted or explained(graph)]
    listed = {"nodes": [each.to_dict() for each in found]}
    if arguments.out is None:
        return answer(arguments, OK, listed, "\n".join(map(str, found)))
    with writing("the explanation", arguments.out):
        arguments.out.write_text(document(arguments.command, OK, listed) + "\n", encoding="utf-8")
    return OK
