"""Several nodes in the place of one: what they compute is written as a module in plain PyTorch, and traced."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import arguments, describe
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.trace.tracer import MaseTracer


def expand(graph: MaseGraph, node: fx.Node, body: nn.Module, sources: Sequence[fx.Node]) -> fx.Node:
    """Put what a module computes in the place of a node.

    The last of the new nodes that computes anything keeps the node's name. The modules take the place of the node's
    own, so that its path names all of them; the module of a node that others call as well stays.

    Args:
        graph: A float graph with common metadata.
        node: A node with one result.
        body: Takes the sources in order and returns that result; its submodules are layers of ``torch.nn``.
        sources: Producers, with one result each.

    Returns:
        The node that gives the result now.
    """
    dtype = graph.tensor(sources[0], "data_out_0").torch_dtype
    if dtype is not None and dtype.is_floating_point:
        body.to(dtype)
    body.train(getattr(graph.meta_of(node).module, "training", graph.model.training))
    functions = [f for op in graph.catalogue for f in op.functions if inspect.isfunction(f)]
    leaves = [m for op in graph.catalogue for m in op.modules]
    tracer = MaseTracer(custom_leaf_functions=functions, leaf_types=leaves)
    traced = fx.GraphModule(body, tracer.trace(body))
    traced.graph.eliminate_dead_code()
    values = _values(graph, traced, sources)
    path = _placed(graph, node, traced)
    inner = [n for n in traced.graph.nodes if n.op not in ("placeholder", "output")]
    computing = [n for n in inner if (op := _op_of(graph, traced, n)) is not None and op.golden is not None]
    kept = (computing or inner)[-1]
    env = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), sources, strict=True))
    users, last = list(node.users), node.prev
    for one in inner:
        args, kwargs = fx.node.map_arg((one.args, one.kwargs), lambda n: env[n])
        target = f"{path}.{one.target}" if one.op in ("call_module", "get_attr") else one.target
        if one is kept:
            env[one] = node
            node.op, node.target, node.args, node.kwargs = one.op, target, args, kwargs
        else:
            with graph.fx_graph.inserting_after(last):
                name = f"{node.name}_{one.name}"
                env[one] = graph.fx_graph.create_node(one.op, target, args, kwargs, name=name)
        last = env[one]
    result: fx.Node
    (result,) = (env[n.all_input_nodes[0]] for n in traced.graph.nodes if n.op == "output")
    for user in users:
        user.replace_input_with(node, result)
    for one in inner:
        _describe(graph, env[one], values[one])
    return result


def _op_of(graph: MaseGraph, traced: fx.GraphModule, node: fx.Node) -> Any:
    if node.op == "call_module":
        return graph.catalogue.of_module(traced.get_submodule(str(node.target)))
    find = graph.catalogue.of_function if node.op == "call_function" else graph.catalogue.of_method
    return find(node.target) if node.op in ("call_function", "call_method") else None  # type: ignore[arg-type]


def _values(graph: MaseGraph, traced: fx.GraphModule, sources: Sequence[fx.Node]) -> dict[fx.Node, tuple[Any, bool]]:
    """What every new node gives, and whether that is data: the metadata of the sources may hold shapes alone."""
    given = [graph.tensor(source, "data_out_0") for source in sources]
    known = all(isinstance(tensor.value, Tensor) and not tensor.value.is_meta for tensor in given)
    names = [n.name for n in traced.graph.nodes if n.op == "placeholder"]
    # Zeros do for the shapes; fake tensors would cost seconds for their set-up.
    inputs = [t.value if known else torch.zeros(t.shape, dtype=t.torch_dtype) for t in given]
    found: dict[fx.Node, tuple[Any, bool]] = {}

    def keep(node: fx.Node, value: Any) -> None:
        found[node] = (value, known)

    evaluate(traced, dict(zip(names, inputs, strict=True)), keep)
    return found


def _placed(graph: MaseGraph, node: fx.Node, traced: fx.GraphModule) -> str:
    """Put the modules and tensors of a body into the model; returns their path."""
    holder = nn.Module()
    for name, module in traced.named_children():
        holder.add_module(name, module)
    for name, parameter in traced.named_parameters(recurse=False):
        holder.register_parameter(name, parameter)
    for name, buffer in traced.named_buffers(recurse=False):
        holder.register_buffer(name, buffer)
    path = str(node.target) if node.op == "call_module" else node.name
    shared = [n for n in graph.nodes if n is not node and n.op == "call_module" and n.target == path]
    if shared or node.op != "call_module":
        while graph.modules.get(path) is not None or hasattr(graph.model, path):
            path = f"{path}_".replace(".", "_")
    graph.model.add_submodule(path, holder)
    return path


def _describe(graph: MaseGraph, node: fx.Node, found: tuple[Any, bool]) -> None:
    """Common metadata of a new node."""
    value, known = found
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    op = graph.op_of(node)
    kind, name = STRUCTURAL[node.op] if op is None else (op.mase_type, op.name)
    meta.common.mase_type, meta.common.mase_op = kind, name
    results = {producer: graph.meta_of(producer).common.results for producer in node.all_input_nodes}
    meta.common.args = arguments(graph, node, results, lambda tensor: tensor.detach() if known else None)
    parts = value if isinstance(value, list | tuple) else [value]
    for index, part in enumerate(p for p in parts if isinstance(p, Tensor)):
        meta.common.results[f"data_out_{index}"] = describe(part, part.detach().clone() if known else None)
