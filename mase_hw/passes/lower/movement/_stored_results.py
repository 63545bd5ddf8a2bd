"""Results of a model that do not depend on its inputs: a memory gives them, beside something that does."""

from __future__ import annotations

import math

import torch
from torch import fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe, new_metadata
from mase_hw.ir.tensors import TensorDict
from mase_hw.ops.arithmetic.stored_result import stored_result
from mase_hw.passes.quantize.operands import stored


def constant_results(graph: MaseGraph) -> list[str]:
    """Let results that are stored tensors come from a memory, a frame of them for each frame of another stream.

    That stream is the first result that is computed; if there is none, the smallest input of the model.

    Args:
        graph: A float graph with common metadata, in which constants are folded.

    Returns:
        Names of the nodes that stand for them.

    Raises:
        UnsupportedError: If one is no tensor of numbers, or the model has no input that says when.
    """
    (output,) = (node for node in graph.nodes if node.op == "output")
    known = {node: stored(graph, node, []) for node in output.all_input_nodes}
    values = {node: value for node, value in known.items() if value is not None}
    if not values:
        return []
    beside = _beside(graph, [node for node, value in known.items() if value is None])
    made: dict[fx.Node, fx.Node] = {}
    for node, value in values.items():
        if beside is None or value.is_complex() or not value.numel():
            raise UnsupportedError(
                "a result of the model is a stored tensor that no stream can give",
                node=node.name,
                got="a model without inputs" if beside is None else f"{value.dtype} of shape {list(value.shape)}",
                expected="real numbers, in a model with an input",
                remedy="leave it out of what forward returns; the program that runs the hardware has it already",
            )
        made[node] = _given(graph, node, beside, value, output)
    output.args = fx.node.map_arg(output.args, lambda node: made.get(node, node))
    return [node.name for node in made.values()]


def _beside(graph: MaseGraph, computed: list[fx.Node]) -> fx.Node | None:
    """What says when."""
    for node in computed:
        if list(graph.meta_of(node).common.results.tensors) == ["data_out_0"]:
            return node
    inputs = [n for n in graph.nodes if n.op == "placeholder" and graph.meta_of(n).common.results.tensors]
    return min(inputs, key=lambda n: math.prod(graph.tensor(n, "data_out_0").shape), default=None)


def _given(graph: MaseGraph, node: fx.Node, beside: fx.Node, value: torch.Tensor, output: fx.Node) -> fx.Node:
    name = f"{node.name}_result"
    while hasattr(graph.model, name):
        name += "_"
    value = value.detach().clone()
    graph.model.register_buffer(name, value if value.dtype.is_floating_point else value.to(torch.float32))
    with graph.fx_graph.inserting_before(output):
        constant = graph.fx_graph.create_node("get_attr", name, name=f"{node.name}_stored")
        made = graph.fx_graph.create_node("call_function", stored_result, (beside, constant), {}, name=name)
    held = graph.model.get_buffer(name)
    keep = graph.tensor(beside, "data_out_0").value is not None
    meta = new_metadata(graph, constant)
    meta.common.results["data_out_0"] = describe(held, held if keep else None)
    meta = new_metadata(graph, made)
    taken = graph.tensor(beside, "data_out_0").copy()
    meta.common.args = TensorDict(
        {"data_in_0": taken, "constant": describe(held, held if keep else None).as_parameter()}
    )
    meta.common.results["data_out_0"] = describe(held, held if keep else None)
    return made
