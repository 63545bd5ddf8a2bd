"""What a mask leaves out is no data: formats are chosen from the others, and what is left out becomes their end."""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import Tensor, fx

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, beyond, stood_for

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
        self._graph = graph
        self.constants: dict[fx.Node, fx.Node] = {}
        self._reached: set[fx.Node] = set()
        self._summed: dict[fx.Node, str] = {}
        self._margins: dict[fx.Node, float] = {}
        ops = {node: "" if (op := graph.op_of(node)) is None else op.name for node in graph.nodes}
        for node in graph.nodes:
            if node.op == "get_attr":
                value: object = attrgetter(str(node.target))(graph.model)
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
                margin = self._margin(node) if implicit else _MARGIN
                if margin and ops[node] != "argmax":
                    self._margins[node] = margin
                if ops[node] in _SUMS:
                    self._summed[node] = ops[node]

    def others(self, node: fx.Node, value: Tensor, where: str) -> Tensor:
        """A node's result without what is left out, or with it as far from the others as its readers need.

        Raises:
            FormatError: If it is the sum of what is left out, or data come near to the number that stands there.
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
        number = float(stood_for(value[out]).abs().min())
        largest = float(rest.abs().max()) if rest.numel() else 0.0
        if largest * 2 > number:
            raise FormatError(
                "data come near to the number that a mask puts in their place",
                node=where,
                got=f"data up to {largest:.6g} and a number of {number:.6g}",
                expected="a number at least twice as large as all data, which then means the least or largest value",
                remedy="fill with -inf; if it is a number like the others, divide data and number by the same factor, "
                f"so that it is above {FAR:g}",
            )
        margin = self._margin(node)
        if margin and rest.numel():
            low, high = (float(end) for end in torch.aminmax(rest))
            return value.clamp(min(low, 0.0) - margin, max(high, 0.0) + margin)
        return rest

    def _margin(self, node: fx.Node) -> float:
        """How far from all others its readers need what is left out of a node's result."""
        readers = [user for user in node.users if user in self._margins]
        return max([self._margins[user] / _factor(self._graph, user) for user in readers], default=0.0)


def _factor(graph: MaseGraph, node: fx.Node) -> float:
    """What a node multiplies differences of its input with, at least, if that is a number or a stored tensor."""
    op = graph.op_of(node)
    if op is None or op.name not in ("mul", "div"):
        return 1.0
    numbers = [1.0]
    for given in node.args:
        if isinstance(given, fx.Node) and given.op == "get_attr":
            given = attrgetter(str(given.target))(graph.model)
        if isinstance(given, Tensor | int | float):
            sizes = torch.as_tensor(given).detach().double().abs()
            sizes = sizes[(sizes > 0) & ~beyond(sizes)]
            if sizes.numel():
                numbers.append(float(sizes.min()) if op.name == "mul" else 1 / float(sizes.max()))
    return min(numbers)
