"""A traced model without some of its nodes: what they read is given out, and what they gave comes in from outside.

So what lies in front of a node that is refused, beside it and behind it can be looked at all the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeGuard

from torch import Tensor, fx

from mase_hw.ir.evaluate import Values


def without(
    model: fx.GraphModule, example: Values, values: Values, refused: Collection[str]
) -> tuple[fx.GraphModule, dict[str, Tensor], set[str]] | None:
    """Take nodes out of a model.

    What reads a result that cannot come in from outside, because it is no tensor of floats, is taken out as well.

    Args:
        model: The traced model; not changed.
        example: Its inputs, by what ``forward`` calls them.
        values: See :func:`mase_hw.ir.evaluate.values_of`.
        refused: Names of nodes.

    Returns:
        The rest, an example for it, and the names of what was taken out besides; None if nothing is left that computes.
    """
    graph = fx.Graph()
    inputs: dict[fx.Node, Any] = {}
    made: dict[fx.Node, fx.Node] = {}
    given: dict[fx.Node, None] = {}
    besides: set[str] = set()
    for node in model.graph.nodes:
        if node.op == "output":
            given |= dict.fromkeys(node.all_input_nodes)
            continue
        behind = any(source not in made for source in node.all_input_nodes)
        if not behind and node.name not in refused:
            made[node] = graph.node_copy(node, lambda n: made[n])
            if node.op == "placeholder":
                inputs[made[node]] = example[str(node.target)]
            continue
        given |= dict.fromkeys(node.all_input_nodes)
        besides |= {node.name} - set(refused)
        value = values.get(node.name)
        if _floats(value):
            made[node] = graph.placeholder(node.name)
            inputs[made[node]] = value.nan_to_num(0, 0, 0)  # else that would be refused next
    computed = (node for node in given if node in made and made[node].op not in ("placeholder", "get_attr"))
    results = [made[node] for node in computed if _floats(values.get(node.name))]
    if not results:
        return None
    graph.output(tuple(results))
    for node in reversed(graph.nodes):
        if node.op != "output" and not node.users:
            graph.erase_node(node)
    rest = fx.GraphModule(model, graph, type(model).__name__)
    return rest, {str(node.target): inputs[node] for node in graph.nodes if node.op == "placeholder"}, besides


def _floats(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.is_floating_point()
