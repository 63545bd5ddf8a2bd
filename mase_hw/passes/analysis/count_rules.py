"""How many multiply-accumulates an op does, from the shapes of its tensors: one rule per op.

A multiply-accumulate (MAC) is one product of a contraction, whose operands are both tensors: weights and activations,
or activations alone. Bias additions, element-wise ops, activation functions, normalisations, poolings and reductions
have none by this convention, which is that of the figures published for networks (1.81 GMACs for ResNet-18). Padding
counts like data, and a mask of an attention saves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mase_hw.ops._functions import FUNCTIONS

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operands:
    """What a rule sees of a node.

    Args:
        args: Shapes of its tensor arguments by name, in order of the call.
        results: Shapes of its results by name.
        attributes: Its other arguments by name.
    """

    args: Mapping[str, Shape]
    results: Mapping[str, Shape]
    attributes: Mapping[str, Any]

    @property
    def out(self) -> Shape:
        """Shape of the first result."""
        return self.results["data_out_0"]

    @property
    def names(self) -> list[str]:
        """Names of the tensor arguments."""
        return list(self.args)


@dataclass(frozen=True)
class Products:
    """Products of the elements of two tensors, by their names among arguments and results."""

    macs: int
    left: str
    right: str


Rule = Callable[[Operands], list[Products] | None]
"""The products of a node, or None if they cannot be counted."""


def _linear(o: Operands) -> list[Products]:
    return [Products(math.prod(o.out) * o.args["weight"][-1], "data_in_0", "weight")]


def _convolution(o: Operands) -> list[Products]:
    """Every output sums over the window of its group: ``weight`` is (out, in / groups, *kernel)."""
    return [Products(math.prod(o.out) * math.prod(o.args["weight"][1:]), "data_in_0", "weight")]


def _transposed(o: Operands) -> list[Products]:
    """Every input is spread over a window: ``weight`` is (in, out / groups, *kernel)."""
    return [Products(math.prod(o.args["data_in_0"]) * math.prod(o.args["weight"][1:]), "data_in_0", "weight")]


def _matrices(o: Operands) -> list[Products]:
    """The last two tensors are multiplied; ``addmm`` and its like have the summand in front of them."""
    left, right = o.names[-2:]
    return [Products(math.prod(o.out) * o.args[left][-1], left, right)]


def _grouped(o: Operands) -> list[Products]:
    """Vectors ``(batch, tokens, heads, inner)`` by matrices."""
    return [Products(math.prod(o.out) * o.args["data_in_0"][-1], "data_in_0", "data_in_1")]


def _attention(o: Operands) -> list[Products]:
    """Scores (queries by keys), then scores by values; the scores are taken to be as wide as the result."""
    query, key, value = (o.args[n] for n in o.names[:3])
    scores = math.prod(query[:-1]) * key[-2]
    return [
        Products(scores * query[-1], o.names[0], o.names[1]),
        Products(scores * value[-1], "data_out_0", o.names[2]),
    ]


def _einsum(o: Operands) -> list[Products] | None:
    """All indices of two operands; more operands depend on the order chosen, so they are not counted."""
    texts = [v[0] if isinstance(v, list | tuple) and v else v for v in o.attributes.values()]
    equation = next((t for t in texts if isinstance(t, str) and "," in t), "").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != 2 or len(o.args) != 2 or "." in equation:
        return None
    sizes = {i: n for term, name in zip(terms, o.names, strict=True) for i, n in zip(term, o.args[name], strict=True)}
    return [Products(math.prod(sizes.values()), *o.names)]


RULES: dict[str, Rule] = {
    "linear": _linear,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
    "matmul": _matrices,
    "bmm": _matrices,
    "grouped_matmul": _grouped,
    "addmm": _matrices,
    "baddbmm": _matrices,
    "scaled_dot_product_attention": _attention,
    "einsum": _einsum,
}
"""The rule of every op that is counted, by ``mase_op``."""

_ACTIVATIONS = (
    "relu relu6 hardtanh leaky_relu prelu hardsigmoid hardshrink softshrink softmax log_softmax masked_softmax "
    "softmax_where"
)
_NORMALISATIONS = "batch_norm batch_norm1d batch_norm2d instance_norm2d layer_norm group_norm rms_norm"
_POOLS = (
    "max_pool1d max_pool2d avg_pool1d avg_pool2d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d"
)
_ELEMENTWISE = (
    "add sub mul div neg floor ceil round sign square abs clamp floor_divide remainder maximum minimum lt le gt ge eq "
    "ne and or xor not triu tril"
)
_REDUCTIONS = "mean mean_over var std sum cumsum prod diff min max amin amax argmin argmax any all"
_MOVEMENT = "embedding rearrange getitem setitem cast quantize requantize"
_CONSTANTS = "arange range full ones zeros zeros_like empty eye tensor"

WITHOUT_MACS = frozenset(
    " ".join((_ACTIVATIONS, _NORMALISATIONS, _POOLS, _ELEMENTWISE, _REDUCTIONS, _MOVEMENT, _CONSTANTS)).split()
) | {function.name for function in FUNCTIONS}
"""Ops that do no contraction. Nodes of other ops, unless they are implicit or have a rule, are not counted."""
