"""Integers of 8 and 16 bits, whose sums PyTorch wraps: hardware has formats in which they would not."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import torch
from torch import fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir.annotated import AnnotatedGraph

Limits = tuple[int, int]
_NARROW = (torch.uint8, torch.int8, torch.int16)
_OF_TWO: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "rsub": lambda a, b: b - a,
}
_CONVERSIONS = frozenset({"to", "type", "type_as"})
_WIDER = frozenset({*_OF_TWO, "neg", "abs", "pow", "square", "matmul", "einsum", "linear", "cumsum", "prod"})
"""Ops whose result may be beyond its operands."""


def refuse_wrapping(graph: AnnotatedGraph) -> None:
    """Refuse arithmetic of data whose result may not be in its integer type.

    Args:
        graph: A float graph with common metadata.

    Raises:
        UnsupportedError: Names every such node.
    """
    limits: dict[fx.Node, Limits] = {}
    found: list[str] = []
    for node in graph.nodes:
        result = graph.meta_of(node).common.results.tensors.get("data_out_0")
        dtype = None if result is None else result.torch_dtype
        if dtype is torch.bool:
            limits[node] = (0, 1)
        if dtype not in _NARROW:
            continue
        whole = limits[node] = (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        name, sources = str(graph.meta_of(node).common.mase_op), node.all_input_nodes
        if name in _WIDER:
            exact = None if node.kwargs else _exact(name, node.args, limits)
            if exact is None or exact[0] < whole[0] or exact[1] > whole[1]:
                found.append(node.name)
            else:
                limits[node] = exact
        elif sources and sources[0] in limits and (name in _CONVERSIONS or graph.is_implicit(node)):
            limits[node] = max(limits[sources[0]][0], whole[0]), min(limits[sources[0]][1], whole[1])
    if found:
        raise UnsupportedError(
            "sums and products of narrow integers wrap in PyTorch, and not in hardware",
            node=", ".join(found),
            expected="results that the type of the operands holds for all of their values",
            remedy="convert the input first: x.to(torch.int32), or x.float()",
        )


def _exact(name: str, operands: tuple[object, ...], limits: dict[fx.Node, Limits]) -> Limits | None:
    """Between which numbers the exact result is; None if that is not known."""
    if name not in _OF_TWO or len(operands) != 2:
        return None
    ends: list[Limits] = []
    for value in operands:
        if isinstance(value, fx.Node) and value in limits:
            ends.append(limits[value])
        elif isinstance(value, int):
            ends.append((value, value))
        else:
            return None
    corners = [_OF_TWO[name](a, b) for a, b in itertools.product(*ends)]
    return min(corners), max(corners)
