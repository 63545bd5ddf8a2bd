"""Hand-written norms, activations and masks as the ops that they are."""

from __future__ import annotations

from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.patterns.activations import activation
from mase_hw.passes.transforms.patterns.least import least
from mase_hw.passes.transforms.patterns.masks import masked_by_data
from mase_hw.passes.transforms.patterns.norms import norm
from mase_hw.passes.transforms.patterns.writes import written_rows

RULES = (written_rows,), (norm, activation, masked_by_data, least)
"""What is tried for every node, one group after the other; in each, the first that fits counts.

Of graph and node it gives a body and what it is, or None.
"""


@graph_pass("lower_patterns_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_patterns_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Recognise what models write by hand, by what it computes rather than by how it is written.

    - ``x * rsqrt(mean(x ** 2) + eps)`` and its notations become an RMS norm, with ``x - mean(x)`` a layer norm; stored
      factors behind it become its weight.
    - What depends on one tensor element by element, and is the tanh form of GELU, SiLU or another activation of torch
      on every number that was tried, becomes that function: it is rounded once.
    - A mask that is data (``attention_mask``, 0 or 1), whatever arithmetic makes of it, becomes a choice by one bit for
      every key; what of it is known beforehand (causal) stays a stored mask.
    - A tensor of which slices are written (``y[:, 1:] = x[:, :-1]``, ``y[:, ::2] = 0``) becomes these slices one after
      the other, a rearrangement, or a choice of what is stored.
    - A number of at most -10,000 that stands in the place of data, or is added to some of it, is the least there is,
      and one of at least a million the largest: no format is chosen by it, and it becomes the end of that of the rest.

    The last node of a pattern keeps its name. Up to the rounding of floats every result is the same.

    Args:
        graph: A float graph with common metadata, calibrated later; constants are folded.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> what it is now.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "recognising patterns")
    lowered: dict[str, str] = {}
    for rules, node in ((rules, node) for rules in RULES for node in reversed(graph.nodes)):
        if node not in graph.nodes or node.op not in ("call_function", "call_method", "call_module"):
            continue
        if written(node, graph.model) is not None or not (node.users or node.op == "output"):
            continue
        for rule in rules:
            found = rule(graph, node)
            if found is not None:
                body, name = found
                lowered[node.name] = name
                before = list(node.all_input_nodes)
                expand(graph, node, body.module, body.sources)
                _prune(graph, before)
                break
    if lowered:
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _prune(graph: MaseGraph, nodes: list[fx.Node]) -> None:
    """Take out what nobody reads any more, and what only that read."""
    while nodes:
        node = nodes.pop()
        if node.users or node.op in ("placeholder", "output") or node not in graph.nodes:
            continue
        if written(node, graph.model) is not None:
            continue
        nodes += node.all_input_nodes
        graph.fx_graph.erase_node(node)
