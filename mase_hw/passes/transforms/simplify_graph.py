"""Simplifications that quantisation needs: fewer nodes, and parameters that are stored rather than computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import describe
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit

IDENTITIES = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
"""Modules that give what they get in evaluation mode."""
DROPOUTS = (
    nn.functional.dropout,
    nn.functional.dropout1d,
    nn.functional.dropout2d,
    nn.functional.dropout3d,
    nn.functional.alpha_dropout,
)
NOT_NEGATIVE = {"relu", "relu6", "sigmoid", "hardsigmoid", "softmax"}
"""Ops whose results a relu leaves as they are."""


@graph_pass("simplify_graph_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED[-1:])
def simplify_graph_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Take out what computes nothing in evaluation mode, and compute once what depends on parameters alone.

    - ``nn.Identity`` and dropout (modules, and functions with ``training=False``) are removed. A model that is to be
      trained further with dropout must not be simplified.
    - A relu of something that is never negative (relu, relu6, sigmoid, hardsigmoid, softmax) is removed.
    - Operations on parameters and buffers alone, such as ``self.weight * self.mask``, are computed now and stored as
      ``<node>_folded``: a parameter if one of them is trained, else a buffer. Training then changes the result and no
      longer its parts. Random operations are never computed here.

    Every result is the same, bit for bit. A node whose removal could let an operation in place write what another
    one still reads stays.

    Args:
        graph: A float graph with common metadata.
        args: None.

    Returns:
        The graph, and ``removed`` (node -> what it was) and ``constants`` (node -> new parameter or buffer).

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "simplification")
    info: dict[str, Any] = {"removed": {}, "constants": _fold_constants(graph)}
    for rule in (_identity, _relu_of_positive):
        for node in graph.nodes:
            source = rule(graph, node)
            if source is None or edit.may_alias(graph, node, source) or written(node, graph.model) is not None:
                continue
            info["removed"][node.name] = graph.meta_of(node).common.mase_op
            edit.bypass(graph, node, source)
    if info["removed"] or info["constants"]:
        edit.finish(graph)
    return graph, info


Rule = Callable[[MaseGraph, fx.Node], fx.Node | None]
"""What can stand for a node, or None."""


def _identity(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    module = graph.meta_of(node).module
    if module is not None:
        still = isinstance(module, IDENTITIES) and graph.op_of(node) is not None
    else:
        still = node.op == "call_function" and node.target in DROPOUTS and _not_training(node)
    return node.all_input_nodes[0] if still and len(node.all_input_nodes) == 1 else None


def _not_training(node: fx.Node) -> bool:
    """Whether a dropout is called with ``training=False``; its default is true."""
    given = node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True)
    return given is False


def _relu_of_positive(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    op = graph.op_of(node)
    if op is None or op.name != "relu" or len(node.all_input_nodes) != 1:
        return None
    source = node.all_input_nodes[0]
    before = graph.op_of(source)
    return source if before is not None and before.name in NOT_NEGATIVE else None


def _fold_constants(graph: MaseGraph) -> dict[str, str]:
    """Compute nodes whose inputs are all constant, and store what remains of them."""
    writes = {target for n in graph.nodes if (target := written(n, graph.model)) is not None}
    values: dict[fx.Node, Any] = {}
    trained: dict[fx.Node, bool] = {}
    for node in graph.nodes:
        if node in writes:
            continue
        if node.op == "get_attr":
            value = _attribute(graph.model, str(node.target))
            if isinstance(value, Tensor) and not value.is_meta:
                values[node], trained[node] = value, value.requires_grad
        elif node.op in ("call_function", "call_method") and _constant(graph, node, values):
            result = _compute(node, values)
            if result is not None:
                values[node] = result
                trained[node] = any(trained[source] for source in node.all_input_nodes)
    made: dict[str, str] = {}
    for node in [n for n in values if n.op != "get_attr"]:
        # Inner steps disappear with the last one.
        if any(user not in values for user in node.users):
            made[node.name] = _store(graph, node, values[node], trained[node])
    for node in reversed([n for n in values if n.op != "get_attr"]):
        if not node.users:
            graph.fx_graph.erase_node(node)
    return made


def _constant(graph: MaseGraph, node: fx.Node, values: dict[fx.Node, Any]) -> bool:
    sources = node.all_input_nodes
    known = bool(sources) and all(source in values for source in sources) and graph.op_of(node) is not None
    random = node.op == "call_function" and node.target in DROPOUTS
    return known and not random and written(node, graph.model) is None


def _compute(node: fx.Node, values: dict[fx.Node, Any]) -> Tensor | None:
    """The value of a node, or None if it is no tensor or depends on chance."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])

    def run() -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        result = run()
        drawn = not torch.equal(before, torch.random.get_rng_state())
    return result.clone() if isinstance(result, Tensor) and not drawn else None


def _store(graph: MaseGraph, node: fx.Node, value: Tensor, trained: bool) -> str:
    """Put a tensor of the model in the place of a computed constant."""
    name = f"{node.name}_folded"
    while hasattr(graph.model, name):
        name += "_"
    if trained:
        graph.model.register_parameter(name, nn.Parameter(value))
    else:
        graph.model.register_buffer(name, value)
    with graph.fx_graph.inserting_before(node):
        constant = graph.fx_graph.create_node("get_attr", name, name=name)
    meta = constant.meta["mase"] = MaseMetadata(constant, graph.model)
    kept = graph.meta_of(node).common.results.tensors
    stored = _attribute(graph.model, name)
    keep = any(tensor.value is not None for tensor in kept.values())
    meta.common.mase_type, meta.common.mase_op = "get_attr", "constant"
    meta.common.results["data_out_0"] = describe(stored, stored.detach() if keep else None)
    node.replace_all_uses_with(constant)
    return name


def _attribute(model: nn.Module, path: str) -> Any:
    value: Any = model
    for part in path.split("."):
        value = getattr(value, part)
    return value
