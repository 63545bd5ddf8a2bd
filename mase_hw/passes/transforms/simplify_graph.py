"""Simplifications that quantisation needs: fewer nodes, and parameters that are stored rather than computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.fold_constants import DROPOUTS, fold_constants

IDENTITIES = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
"""Modules that give what they get in evaluation mode."""
NOT_NEGATIVE = {"relu", "relu6", "sigmoid", "hardsigmoid", "softmax"}
"""Ops whose results a relu leaves as they are."""


@graph_pass("simplify_graph_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED[-1:])
def simplify_graph_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Take out what computes nothing in evaluation mode, and compute once what depends on parameters alone.

    - ``nn.Identity`` and dropout (modules, and functions with ``training=False``) are removed. A model that is to be
      trained further with dropout must not be simplified.
    - A relu of something that is never negative (relu, relu6, sigmoid, hardsigmoid, softmax) is removed.
    - Operations on parameters and buffers alone are computed now, as by
      :func:`~mase_hw.passes.transforms.fold_constants.fold_constants_transform_pass`.

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
    info: dict[str, Any] = {"removed": {}, "constants": fold_constants(graph)}
    for rule in (_identity, _relu_of_positive):
        for node in graph.nodes:
            source = rule(graph, node)
            if source is None or edit.may_alias(graph, node, source) or written(node, graph.model) is not None:
                continue
            info["removed"][node.name] = graph.meta_of(node).common.mase_op
            edit.bypass(graph, node, source)
    info["modified"] = bool(info["removed"] or info["constants"])
    if info["modified"]:
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
