"""Which nodes become hardware, and which stay on the host, and why."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from mase_hw.compiler.quantised_graph import name_inputs
from mase_hw.compiler.quantised_model import is_quantised
from mase_hw.compiler.stages import CALIBRATE, quantise_pipeline
from mase_hw.errors import ConfigError, UnsupportedError, suggest
from mase_hw.host.documents import Json
from mase_hw.importers import import_model
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import OF_SOURCE
from mase_hw.ir.evaluate import values_of
from mase_hw.ir.parts import HARDWARE, HOST, Part, joined, places, split
from mase_hw.partition.quantised import entered, with_entries
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.preflight.check import check

PARTS = "partition"
"""Key of ``graph.meta``: the parts of the graph."""
BACKENDS = {HARDWARE: HARDWARE, HOST: HOST, "mla": HARDWARE, "arm": HOST, "ev": HOST, "llvm": HOST}
"""Where a backend is; with the names that AFE has for its own."""


class PartitionArgs(PassArgs):
    """Arguments of ``partition_transform_pass``."""

    example: Any = Field(description="one frame: a tensor, tensors in order, or tensors by name")
    host: list[str] = Field(default_factory=list, description="nodes that stay on the host, by name or with wildcards")
    hardware: list[str] | None = Field(
        default=None, description="nodes that become hardware, and no others; all that can, if it is left out"
    )
    config: Any = Field(default=None, description="the configuration with which the segments are compiled")


@graph_pass("partition_transform_pass", args=PartitionArgs)
def partition_transform_pass(graph: MaseGraph, args: PartitionArgs) -> tuple[MaseGraph, Info]:
    """Split a graph into segments that become hardware and the rest, which PyTorch runs.

    What the catalogue cannot do, as :func:`mase_hw.check` finds it, is on the host, and what the user wants there. A
    segment is what lies between: all nodes of the same place that need no result of the other place in between.

    Of a graph that is quantised, nodes that are :class:`~mase_hw.nn.on_host.OnHost` are on the host, as
    ``import_model(file, host=True)`` gives it; every segment has the formats of the graph.

    Args:
        graph: A float graph, or one that is quantised.
        args: The arguments.

    Returns:
        A graph that calls the parts one after the other (``hardware_0``, ``host_1``, ...), and gives what the graph
        gave; ``parts`` with the nodes of each, and ``host``: for every node that stays there, why.

    Raises:
        ConfigError: If a name is that of no node, or a node is wanted in both places.
        UnsupportedError: If a node that is wanted in hardware cannot be, or nothing can.
    """
    names = [n.name for n in graph.nodes if n.op.startswith("call_")]
    wanted = _matching(names, args.host, "host")
    only = None if args.hardware is None else _matching(names, args.hardware, "hardware")
    both = wanted & (only or set())
    if both:
        raise ConfigError("a node in two places", field="hardware", got=sorted(both), remedy="take it out of one list")
    if is_quantised(graph.model):
        model, reasons, free, shared = with_entries(graph)
    else:
        model, shared = graph.model, frozenset[str]()
        reasons, free = _looked_at(graph, args)
    impossible = {name: why for name, why in reasons.items() if only is not None and name in only}
    if impossible:
        raise UnsupportedError(
            "nodes that are wanted in hardware cannot be:\n  "
            + "\n  ".join(f"{name}: {why}" for name, why in impossible.items()),
            node=", ".join(impossible),
            remedy="leave them on the host",
        )
    reasons |= {name: "wanted on the host" for name in names if name in wanted - reasons.keys() - shared}
    if only is not None:
        left = [name for name in names if name not in only | reasons.keys() | shared]
        reasons |= dict.fromkeys(left, "not among those wanted in hardware")
    host = places(model, values_of(model, name_inputs(graph, args.example)), reasons)
    parts, moved = split(model, host, free, shared)
    host |= moved
    if not any(part.where == HARDWARE for part in parts):
        raise UnsupportedError(
            "nothing of the model is left for the hardware:\n  " + "\n  ".join(f"{n}: {w}" for n, w in host.items()),
            node=", ".join(host),
            remedy="run the model in PyTorch",
        )
    if shared:
        parts = entered(model, parts)
    made = MaseGraph(joined(model, parts), share_weights=True, catalogue=graph.catalogue)
    made.example = graph.example
    made.meta |= {PARTS: parts} | {key: graph.meta[key] for key in OF_SOURCE & graph.meta.keys()}
    info: Info = {
        "modified": True,
        "parts": [_described(part) for part in parts],
        "host": {n.name: host[n.name] for n in model.graph.nodes if n.name in host},
    }
    return made, info


def _looked_at(graph: MaseGraph, args: PartitionArgs) -> tuple[dict[str, str], frozenset[str]]:
    """Of a float graph: why nodes cannot be hardware, and the names of those that compute nothing."""
    found = check(graph, args.example, args.config)
    reasons = {layer.name: layer.detail for layer in found.layers if layer.status in ("refused", "unknown")}
    problems = {problem.node: problem.message for problem in found.problems if problem.node}
    if not found.complete and not reasons:
        raise UnsupportedError(
            "the model cannot be divided: what is wrong is no matter of single nodes:\n  "
            + "\n  ".join(str(p) for p in found.problems[:4]),
            node=", ".join(filter(None, problems)) or None,
            remedy="mend that first",
        )
    return reasons, frozenset(layer.name for layer in found.layers if layer.status == "free")


def _described(part: Part) -> Json:
    return {
        "name": part.name,
        "where": part.where,
        "nodes": list(part.nodes),
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
    }


def _matching(names: Sequence[str], patterns: Sequence[str], field: str) -> set[str]:
    """The nodes of some names."""
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        there = fnmatch.filter(names, pattern)
        if not there:
            raise ConfigError(
                "no such node", field=field, got=f"{pattern:.200}", remedy=suggest(pattern, names) or "see graph.nodes"
            )
        found |= set(there)
    return found


def transformed(graph: MaseGraph, example_inputs: Any = None, config: Any = None) -> MaseGraph:
    """Write a float graph in what hardware has, as ``compile`` does before it calibrates.

    Args:
        graph: The graph, which is changed.
        example_inputs: One frame; the example of the import if None.
        config: As for :func:`mase_hw.compile`.
    """
    steps = quantise_pipeline(name_inputs(graph, graph.example if example_inputs is None else example_inputs), config)
    return steps.without(*steps.names[steps.names.index(CALIBRATE) :]).run(graph).graph


def import_and_transform(
    model: Any,
    *,
    example_inputs: Any = None,
    index_to_backend_dict: Mapping[int, Any] | None = None,
    config: Any = None,
    **importing: Any,
) -> MaseGraph:
    """Import a model, and write it in what hardware has, or divide it between backends.

    Args:
        model: As for :func:`mase_hw.import_model`.
        example_inputs: One frame; the example of the import if None, which modules do not have.
        index_to_backend_dict: By position of a node among those that compute, from 0, its backend: a name of
            :data:`BACKENDS`, or a member of an enumeration of them. Where it puts nodes into hardware, no others become
            hardware; else all that can.
        config: As for :func:`mase_hw.compile`.
        importing: Other arguments of ``import_model``.

    Returns:
        Without ``index_to_backend_dict`` the graph as ``compile`` calibrates it. With it the graph that calls the
        parts, as ``partition_transform_pass`` gives it; its segments are written so when they are compiled.

    Raises:
        ConfigError: If a backend is unknown, or there is no such node.
        MaseHwError: As ``import_model`` and the passes.
    """
    graph = import_model(model, **importing)
    if index_to_backend_dict is None:
        return transformed(graph, example_inputs, config)
    nodes = [n.name for n in graph.nodes if n.op.startswith("call_")]
    places: dict[str, list[str]] = {HOST: [], HARDWARE: []}
    for index, backend in index_to_backend_dict.items():
        name = str(getattr(backend, "value", backend)).lower()
        if name not in BACKENDS or index not in range(len(nodes)):
            raise ConfigError(
                "there is no such backend, or no such node",
                field=f"index_to_backend_dict[{index}]",
                got=name,
                expected=f"{', '.join(BACKENDS)}, for the nodes 0 to {len(nodes) - 1}",
            )
        places[BACKENDS[name]].append(nodes[index])
    example = graph.example if example_inputs is None else example_inputs
    given = {"example": example, "host": places[HOST], "hardware": places[HARDWARE] or None, "config": config}
    return partition_transform_pass(graph, given)[0]
