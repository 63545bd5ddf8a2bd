"""Which nodes of a quantised graph stand for which of the float graph it was made of."""

from __future__ import annotations

from typing import Any

from torch import fx

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph

OWN = frozenset({"data_in_0", "data_out_0", "multiplier", "multiplier_shift"})
"""Tensors of a cast or a requantisation."""


def arithmetic_of(graph: MaseGraph, node: fx.Node) -> Arithmetic | None:
    """The arithmetic of a quantised node; None of a node in float."""
    found = getattr(graph.meta_of(node).module, "arithmetic", None)
    return found if isinstance(found, Arithmetic) else None


def origins(exact: MaseGraph, quantised: MaseGraph) -> dict[str, str]:
    """Node of the quantised graph -> node of the float graph whose value it stands for.

    Nodes keep their names. What quantisation inserted (casts, requantisations, inputs of the hardware) stands for the
    tensor that enters it.

    Raises:
        GraphError: If the float graph is quantised, the other is not, or the two do not belong together; names the
            node.
    """
    found = {node.name: node.name for node in exact.nodes}
    for node in quantised.nodes:
        if node.name in found:
            continue
        arithmetic = arithmetic_of(quantised, node)
        before = [n for n in node.all_input_nodes if n.name in found]
        if arithmetic is None or set(arithmetic.formats) - OWN or len(before) != 1:
            raise stranger(node)
        found[node.name] = found[before[0].name]
    if all(arithmetic_of(quantised, node) is None for node in quantised.nodes):
        raise GraphError(
            "the graph is not quantised, so there is no noise to analyse",
            node="quantised_graph",
            remedy="run quantize_transform_pass on it; give the float graph first and the quantised one second",
        )
    for node in exact.nodes:
        module = exact.model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(getattr(module, "arithmetic", None), Arithmetic):
            raise GraphError(
                "the float graph is quantised itself",
                node=node.name,
                remedy="quantisation changes a graph in place: make a second MaseGraph of the float model",
            )
    return found


def stranger(node: fx.Node, got: Any = None, expected: Any = None) -> GraphError:
    """The error for a node that shows that two graphs do not belong together."""
    return GraphError(
        "the two graphs do not belong together",
        node=node.name,
        got=got or "no node of that name in the float graph",
        expected=expected,
        remedy="give the float graph from which the quantised one was made, with the same folding and simplifications",
    )
