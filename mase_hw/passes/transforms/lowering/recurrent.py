"""Recurrent layers become linear layers and recurrences, which hardware has."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import annotate_node
from mase_hw.ir.trace.tracer import MaseTracer
from mase_hw.nn.recurrent_layers import Layers
from mase_hw.passes.transforms.fold_constants import compute
from mase_hw.passes.transforms.quantize_paths import attribute


def lower_recurrent(graph: MaseGraph, node: fx.Node, module: nn.RNNBase) -> None:
    """Write ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM`` as linear layers and recurrences.

    Of every layer and direction the part that depends on the input alone is a linear layer over the whole sequence;
    what is left multiplies the state (:class:`mase_hw.nn.recurrence.Recurrence`). A backward direction flips the
    sequence before and behind, two directions are concatenated, and ``h_n`` are the last states. What nobody reads is
    left out. The two biases of a gate become one.

    Args:
        graph: A float graph with common metadata.
        node: A call of the layer.
        module: The layer.

    Raises:
        UnsupportedError: For an initial state that is not zero, ``c_n``, and projections (``proj_size``).
    """
    if module.proj_size:
        raise refused(node, "a projection of the state is not in hardware", f"proj_size = {module.proj_size}")
    source, *initial = node.all_input_nodes
    for state in initial:
        value = _known(graph, state)
        if value is None or bool(value.any()):
            raise refused(
                node, "an initial state is not in hardware", f"{state.name}, which is not always 0", "zeros, or none"
            )
    shape = graph.tensor(source, "data_out_0").shape
    made = Layers(module, batched=len(shape) == 3)
    output, states = inlined(graph, node, [source], made)
    _connect(node, output, states, isinstance(module, nn.LSTM))
    _drop(graph, node)
    annotated(graph, [source])


MADE = frozenset({"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"})
"""Functions and methods of which the result does not depend on the numbers of a tensor."""


def _known(graph: MaseGraph, node: fx.Node) -> Tensor | None:
    """What a sequence begins with, if it depends on stored tensors, numbers and the number of sequences alone."""
    values: dict[fx.Node, Any] = {}

    def found(each: fx.Node) -> bool:
        results = graph.meta_of(each).common.results
        if each.op == "get_attr":
            values[each] = attribute(graph.model, str(each.target))
        elif not results.tensors and "data_out_0" in results:
            values[each] = results["data_out_0"].value  # a size
        elif each.op not in ("call_function", "call_method"):
            return False
        else:
            made = getattr(each.target, "__name__", each.target) in MADE
            for source in each.all_input_nodes:
                if not found(source) and not made:
                    return False
                if source not in values:
                    values[source] = torch.zeros(graph.tensor(source, "data_out_0").shape)
            values[each] = compute(graph, each, values)
        return values[each] is not None

    return values[node] if found(node) else None


def _drop(graph: MaseGraph, node: fx.Node) -> None:
    """Erase a node that nobody reads, and what was there for it alone."""
    if node.users or node.op == "placeholder":
        return
    sources = node.all_input_nodes
    graph.fx_graph.erase_node(node)
    for source in sources:
        _drop(graph, source)


def inlined(graph: MaseGraph, node: fx.Node, sources: Sequence[fx.Node], made: nn.Module) -> Any:
    """Put the operations of a module before a node.

    Args:
        graph: A float graph.
        node: The node; the module takes the place of its own, unless others call that as well.
        sources: What the module is called with.
        made: The module, written in layers and functions.

    Returns:
        Its result, with nodes in place of tensors.
    """
    path = str(node.target)
    if [n for n in graph.nodes if n is not node and n.target == path]:
        path = node.name
        while path in graph.modules or hasattr(graph.model, path):
            path += "_"
    graph.model.add_submodule(path, made)
    traced = MaseTracer(leaf_types=tuple(m for op in graph.catalogue for m in op.modules)).trace(made)
    new = dict(zip((n for n in traced.nodes if n.op == "placeholder"), sources, strict=True))
    for each in traced.nodes:
        if each.op == "output":
            return fx.node.map_arg(each.args[0], lambda n: new[n])
        if each.op != "placeholder":
            target = f"{path}.{each.target}" if each.op in ("call_module", "get_attr") else each.target
            args, kwargs = fx.node.map_arg((each.args, each.kwargs), lambda n: new[n])
            with graph.fx_graph.inserting_before(node):
                new[each] = graph.fx_graph.create_node(each.op, target, args, kwargs, name=f"{node.name}_{each.name}")
    return None


def _connect(node: fx.Node, output: fx.Node, states: Sequence[fx.Node], cell: bool) -> None:
    """Let everything that read a part of the layer's result read the nodes that stand for it."""
    for user in list(node.users):
        index = indexed(user, node)
        if index == 0:
            user.replace_all_uses_with(output)
        elif index in (1, -1) and not cell:
            _connect_states(user, states)
            continue
        elif index in (1, -1):
            for part in list(user.users):
                if indexed(part, user) == 0:
                    _connect_states(part, states)
                    continue
                if part.users:
                    raise refused(node, "the cell state behind the last step (c_n) is not in hardware", part.name)
                part.graph.erase_node(part)
        else:
            raise refused(
                node, "the whole result is read at once", user.name, "output, states = layer(x), and one of them used"
            )
        user.graph.erase_node(user)


def _connect_states(node: fx.Node, states: Sequence[fx.Node]) -> None:
    """The same for ``h_n``: one state by its number, or all of them."""
    for user in list(node.users):
        index = indexed(user, node)
        if isinstance(index, int) and -len(states) <= index < len(states):
            user.replace_all_uses_with(states[index])
            node.graph.erase_node(user)
    if node.users:
        with node.graph.inserting_before(node):
            rows = [node.graph.call_function(torch.unsqueeze, (state, 0)) for state in states]
            whole = rows[0] if len(rows) == 1 else node.graph.call_function(torch.cat, (rows, 0))
        node.replace_all_uses_with(whole)
    node.graph.erase_node(node)


def indexed(user: fx.Node, node: fx.Node) -> Any:
    """The index with which a node is read, if that is all."""
    return user.args[1] if user.target is operator.getitem and user.args[0] is node else None


def annotated(graph: MaseGraph, sources: Sequence[fx.Node]) -> None:
    """Leave out new nodes that nobody reads, and give the others common metadata, from running them once."""
    new = [n for n in graph.nodes if n.meta.get("mase") is None]
    for node in reversed(new):
        if not node.users:
            graph.fx_graph.erase_node(node)
    values: dict[fx.Node, Any] = {}
    for source in sources:
        example = graph.meta_of(source).common.results["data_out_0"]
        values[source] = torch.zeros(example.shape, dtype=example.torch_dtype)
    with torch.no_grad():
        for node in [n for n in graph.nodes if n in new]:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
            if node.op == "call_module":
                values[node] = graph.model.get_submodule(str(node.target))(*args, **kwargs)
            elif node.op == "get_attr":
                values[node] = graph.model.get_parameter(str(node.target))
            elif node.op == "call_method":
                values[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            annotate_node(graph, node, values[node])


def refused(node: fx.Node, problem: str, got: str, expected: str = "a layer without it") -> UnsupportedError:
    """An error that names the layer."""
    return UnsupportedError(
        problem,
        node=node.name,
        got=got,
        expected=expected,
        remedy="change the layer in the model, or compile only the part of the model before or after it",
    )
