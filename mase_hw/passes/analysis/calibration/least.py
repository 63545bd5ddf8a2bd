"""What a mask leaves out is no data: formats are chosen from the others, and what is left out becomes their end."""

from __future__ import annotations

import torch
from torch import Tensor, fx

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, beyond

_MARGIN = 12.0
"""How far below the others it is where its distance counts: exp(-12) is 0 to 16 bits."""
_ORDER = frozenset(
    {"where", "choose", "select", "masked_fill", "amax", "amin", "max", "min", "maximum", "minimum", "argmax", "argmin"}
    | {"relu", "relu6", "max_pool1d", "max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "topk", "sort"}
    | {"add", "sub", "mul", "div", "neg", "clamp", "pad", "slice", "concat", "cat", "permute", "stack", "getitem"}
)
"""Ops that need no more of it than that it is beyond the others."""
_SUMS = frozenset(
    {"sum", "mean", "mean_over", "cumsum", "linear", "matmul", "grouped_matmul", "bmm", "conv1d", "conv2d"}
    | {"avg_pool1d", "avg_pool2d", "layer_norm", "rms_norm", "var", "std", "norm"}
)
"""Ops whose results mean nothing with it."""


class Masked:
    """Where in a graph there may be elements that a mask leaves out.

    Args:
        graph: A float graph with common metadata.

    Attributes:
        constants: Stored tensors that leave elements out, and the node whose format they have.

    Raises:
        UnsupportedError: If one is compared with the number that the model has for what is left out.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.constants: dict[fx.Node, fx.Node] = {}
        self._reached: set[fx.Node] = set()
        self._summed: dict[fx.Node, str] = {}
        self._far: set[fx.Node] = set()
        ops = {node: "" if (op := graph.op_of(node)) is None else op.name for node in graph.nodes}
        for node in graph.nodes:
            if node.op == "get_attr":
                value: object = graph.model
                for part in str(node.target).split("."):
                    value = getattr(value, part)
                if not isinstance(value, Tensor) or not value.is_floating_point() or not bool(beyond(value).any()):
                    continue
                if len(node.users) == 1:
                    self.constants[node] = next(iter(node.users))
            elif self._reached.isdisjoint(node.all_input_nodes):
                continue
            self._reached.add(node)
            if ops[node].endswith("_number") and abs(float(graph.meta_of(node).common.args["number"])) >= -FAR:
                raise UnsupportedError(
                    "a comparison with what a mask puts in the place of data, which hardware has as the least value",
                    node=node.name,
                    got=graph.meta_of(node).common.args["number"],
                    expected="a choice by the mask itself",
                    remedy="compare, or choose, by the mask instead of by the number that it left",
                )
        for node in reversed(graph.nodes):
            if node in self._reached:
                implicit = ops[node] in _ORDER or graph.is_implicit(node) or node.op in ("get_attr", "output")
                if not implicit or any(user in self._far and ops[user] != "argmax" for user in node.users):
                    self._far.add(node)
                if ops[node] in _SUMS:
                    self._summed[node] = ops[node]

    def others(self, node: fx.Node, value: Tensor, where: str) -> Tensor:
        """A node's result without what is left out, or with it as far from the others as its readers need.

        Raises:
            FormatError: If it is the sum of what is left out.
        """
        if node not in self._reached or not value.is_floating_point():
            return value
        out = beyond(value)
        if not bool(out.any()):
            return value
        if node in self._summed:
            raise FormatError(
                "elements that a mask leaves out are summed",
                node=where,
                got=f"{self._summed[node]} of numbers beyond all others",
                expected="a maximum, a softmax or another choice behind such a mask",
                remedy="fill with 0 in front of a sum",
            )
        rest = value[~out]
        if any(user in self._far for user in node.users) and rest.numel():
            low, high = (float(end) for end in torch.aminmax(rest))
            return value.clamp(min(low, 0.0) - _MARGIN, max(high, 0.0) + _MARGIN)
        return rest
