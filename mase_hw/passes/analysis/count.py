"""Parameters, multiply-accumulates, bit operations and memory of every node."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field
from torch import Tensor, fx, nn

from mase_hw.errors import ConfigError, suggest
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import TensorMetadata
from mase_hw.passes.analysis.count_rules import RULES, WITHOUT_MACS, Operands, Rule
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, publish
from mase_hw.passes.base import Info, graph_pass

COLUMNS = ("parameters", "macs", "bit_operations", "memory_bits", "activation_bits")


class CountArgs(ReportArgs):
    """Arguments of :func:`count_analysis_pass`; rules are described in :mod:`mase_hw.passes.analysis.count_rules`."""

    rules: dict[str, Rule] = Field(
        default_factory=dict,
        description="functions that count further ops, by ``mase_op``; they take precedence over the package's own",
    )


@graph_pass("count_analysis_pass", args=CountArgs, needs=(COMMON_PASS,))
def count_analysis_pass(graph: MaseGraph, args: CountArgs) -> tuple[MaseGraph, Info]:
    """Count what every node holds and computes in one run on the shapes in its metadata.

    - ``parameters``: numbers that are trained; buffers such as running statistics are none.
    - ``macs``: multiply-accumulates, by :data:`~mase_hw.passes.analysis.count_rules.RULES`.
    - ``bit_operations``: MACs times the widths of both operands, in the formats of the metadata.
    - ``memory_bits``: what parameters, and buffers that the op computes with, take in their formats.
    - ``activation_bits``: what the results take; implicit nodes write none.

    Totals count a tensor that several nodes share once. A node that computes with an op that is neither in the rules
    nor known to have no MACs has None for both, and is listed; totals leave it out.

    Args:
        graph: A graph with common metadata.
        args: ``rules``, ``file_name``, ``show``.

    Returns:
        The graph, ``nodes`` by name with the op and the counts, ``totals``, and ``not_counted`` (node to op).

    Raises:
        ConfigError: If a rule is for an unknown op, or the file cannot be written.
    """
    for name in args.rules:
        if name not in graph.catalogue:
            known = graph.catalogue.names()
            raise ConfigError("a rule for an unknown op", field=f"rules.{name}", remedy=suggest(name, known))
    nodes: dict[str, dict[str, Any]] = {}
    held: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        common = graph.meta_of(node).common
        owned = {id(t): (_parameters(t), t.numel() * width) for t, width in _tensors(graph, node)}
        held |= owned
        macs = _macs(graph, node, {**RULES, **args.rules})
        writes = [] if graph.is_implicit(node) or node.op in ("get_attr", "output") else common.results.tensors.values()
        nodes[node.name] = {
            "op": common.mase_op,
            "parameters": sum(p for p, _ in owned.values()),
            "macs": None if macs is None else macs[0],
            "bit_operations": None if macs is None else macs[1],
            "memory_bits": sum(bits for _, bits in owned.values()),
            "activation_bits": sum(math.prod(t.shape) * _width(t) for t in writes),
        }
    totals = {key: sum(entry[key] or 0 for entry in nodes.values()) for key in COLUMNS}
    totals |= {"parameters": sum(p for p, _ in held.values()), "memory_bits": sum(bits for _, bits in held.values())}
    not_counted = {name: entry["op"] for name, entry in nodes.items() if entry["macs"] is None}
    info = {"nodes": nodes, "totals": totals, "not_counted": not_counted}
    publish(_report(info), info, args)
    return graph, info


def _tensors(graph: MaseGraph, node: fx.Node) -> Iterator[tuple[Tensor, int]]:
    """Tensors that a node holds, with their width in bits; buffers only if the op computes with them."""
    common = graph.meta_of(node).common
    if node.op == "get_attr":
        attribute: Any = functools.reduce(getattr, str(node.target).split("."), graph.model)
        if isinstance(attribute, Tensor):
            yield attribute, _width(common.results["data_out_0"])
    module = graph.meta_of(node).module
    parameters = dict(module.named_parameters()) if module is not None else {}
    buffers = dict(module.named_buffers()) if module is not None else {}
    recorded = common.args.tensors
    for name, value in {**parameters, **{k: v for k, v in buffers.items() if k in recorded}}.items():
        yield value, _width(recorded[name]) if name in recorded else value.dtype.itemsize * 8


def _parameters(tensor: Tensor) -> int:
    return tensor.numel() if isinstance(tensor, nn.Parameter) else 0


def _width(tensor: TensorMetadata) -> int:
    """Bits of an element; 0 for what has no width, such as a Python value."""
    return tensor.precision[0] if tensor.precision else 0


def _macs(graph: MaseGraph, node: fx.Node, rules: Mapping[str, Rule]) -> tuple[int, int] | None:
    """MACs and bit operations; None if the op is not known to the rules."""
    common = graph.meta_of(node).common
    tensors = {**common.args.tensors, **common.results.tensors}
    if node.op in STRUCTURAL or graph.is_implicit(node) or not common.results.tensors:
        return 0, 0
    rule = rules.get(common.mase_op)
    if rule is None:
        return (0, 0) if common.mase_op in WITHOUT_MACS or common.mase_type == "implicit_func" else None
    products = rule(
        Operands(
            {name: tuple(t.shape) for name, t in common.args.tensors.items()},
            {name: tuple(t.shape) for name, t in common.results.tensors.items()},
            {name: value for name, value in common.args.items() if name not in common.args.tensors},
        )
    )
    if products is None:
        return None
    bits = sum(p.macs * _width(tensors[p.left]) * _width(tensors[p.right]) for p in products)
    return sum(p.macs for p in products), bits


def _report(info: Mapping[str, Any]) -> list[Table | str]:
    rows = [[name, entry["op"], *(_cell(entry[key]) for key in COLUMNS)] for name, entry in info["nodes"].items()]
    heads = [
        "Node name",
        "Mase op",
        *(">" + key.replace("_", " ").capitalize().replace("Mac", "MAC") for key in COLUMNS),
    ]
    total = ["total", "", *(_cell(info["totals"][key]) for key in COLUMNS)]
    sections: list[Table | str] = [Table("Counts for one run", heads, rows, total)]
    if info["not_counted"]:
        names = ", ".join(f"{name} ({op})" for name, op in info["not_counted"].items())
        sections.append(f"MACs not counted, so not in the total: {names}")
    return sections


def _cell(number: int | None) -> str:
    return "not counted" if number is None else f"{number:,}" if number else "-"
