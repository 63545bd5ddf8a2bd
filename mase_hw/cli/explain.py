"""The subcommand ``explain``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import path, settle

HELP = "say why the tensors of nodes have their formats"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("model", metavar="MODEL", help="as for compile: FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="nodes or paths of modules (all that are quantised)")
    parser.add_argument("--config", type=path, metavar="FILE", help="the configuration, TOML, or a plan (8 bits each)")
    parser.add_argument("--json", type=path, metavar="FILE", help="write JSON to a file instead of printing text")


def run(arguments: argparse.Namespace) -> int:
    """Quantise the model as ``compile`` does, and explain; 0 if every node could be explained.

    Raises:
        MaseHwError: If something is wrong with the model, the configuration, a node or the file.
    """
    import json
    import sys

    from mase_hw.compiler.config import load_config
    from mase_hw.compiler.quantised_graph import quantised_graph
    from mase_hw.host.disk import not_written
    from mase_hw.ir.module_paths import nodes_at, translations
    from mase_hw.model_spec import load_model
    from mase_hw.passes.explanation import explain, explained

    def say(line: str) -> None:
        print(line, flush=True, file=sys.stderr)

    settle(arguments)
    settings, spec = load_config(arguments.config), load_model(arguments.model)
    graph = quantised_graph(spec.model, spec.example_inputs, settings, spec.calibration, None, say)
    wanted = [node for name in arguments.nodes for node in nodes_at(graph, name) or [name]]
    for name, nodes in translations(graph, arguments.nodes).items():
        say(f"{name} is {', '.join(nodes)}")
    found = [explain(graph, name) for name in wanted or explained(graph)]
    if arguments.json is None:
        print("\n".join(map(str, found)))
        return 0
    text = json.dumps({"nodes": [each.to_dict() for each in found]}, indent=1) + "\n"
    try:
        arguments.json.write_text(text, encoding="utf-8")
    except OSError as error:
        raise not_written("the explanation", arguments.json, error) from error
    return 0
