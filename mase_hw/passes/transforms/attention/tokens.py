"""Tokens that the model stores, joined to those that are data: class tokens, registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import Formula, stored_tensor

PROPERTIES = ("T", "mT")
"""Attributes of a tensor that are its transpose."""


def transposes(graph: MaseGraph, node: fx.Node) -> bool:
    """Write ``x.mT``, and ``x.T`` of a matrix, as a transposition."""
    if node.target is not getattr or len(node.args) != 2 or node.args[1] not in PROPERTIES:
        return False
    (source,) = node.all_input_nodes
    if node.args[1] == "T" and len(graph.tensor(source, "data_out_0").shape) != 2:
        return False
    expand(graph, node, Formula(lambda s, x: x.transpose(-1, -2)), [source])
    return True


def join_stored_tokens(graph: MaseGraph, node: fx.Node) -> bool:
    """Write a ``cat`` of stored tensors and data as a margin of zeros and a sum with a stored tensor.

    Both are exact. The margin of tokens is that of an image whose rows are tokens and whose channels are their
    elements, which is how they travel.
    """
    given: Any = node.args[0] if node.args else None
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if not isinstance(given, list | tuple) or not all(isinstance(n, fx.Node) for n in given):
        return False
    values = [stored_tensor(graph, n) for n in given]
    data = [n for n, value in zip(given, values, strict=True) if value is None]
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    dim = dim % len(shape) if isinstance(dim, int) and shape else 0
    if len(data) != 1 or len(values) < 2 or dim == 0 or shape[0] != 1:
        return False
    at = given.index(data[0])
    own = graph.tensor(data[0], "data_out_0").shape
    before = sum(v.shape[dim] for v in values[:at] if v is not None)
    after = shape[dim] - before - own[dim]
    parts = [torch.zeros(own) if v is None else v.detach() for v in values]
    trained = any(v is not None and v.requires_grad for v in values)
    joined = torch.cat([p.to(parts[0 if at else -1].dtype) for p in parts], dim).requires_grad_(trained)

    def run(s: Formula, x: Tensor) -> Tensor:
        return _between(x, own, dim, before, after) + s.joined  # type: ignore[operator]

    expand(graph, node, Formula(run, joined=joined), data)
    return True


def _between(x: Tensor, shape: Sequence[int], dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after, along a dimension; where that is the channels, in the order in which they travel."""
    if len(shape) == 3 and dim == 1:
        return F.pad(x.transpose(1, 2).unsqueeze(-1), (0, 0, before, after)).squeeze(-1).transpose(1, 2)
    if len(shape) == 2:
        return F.pad(x.unsqueeze(1), (before, after)).squeeze(1)
    if len(shape) > 3 and dim == 1:
        padded = F.pad(x.flatten(2).transpose(1, 2), (before, after)).transpose(1, 2)
        return padded.reshape(-1, before + shape[1] + after, *shape[2:])
    return F.pad(x, (0, 0) * (len(shape) - dim - 1) + (before, after))
