"""Tokens that the model stores, joined to those that are data: class tokens, registers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import Formula, formula, stored_tensor
from mase_hw.passes.transforms.lowering.parts import spaced

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
    """Write a ``cat`` of stored tensors and data with zeros in the place of what is stored, to which that is added.

    All are exact. The margin of tokens is that of an image whose rows are tokens and whose channels are their
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
    if not data or len(data) == len(values) or dim == 0 or shape[0] != 1:
        return False
    sizes = [graph.tensor(n, "data_out_0").shape[dim] for n in given]
    dtype = graph.tensor(node, "data_out_0").torch_dtype
    zeros = [torch.zeros((*shape[:dim], size, *shape[dim + 1 :])) for size in sizes]
    stored = torch.cat([(z if v is None else v.detach()).to(dtype) for v, z in zip(values, zeros, strict=True)], dim)
    trained = any(v is not None and v.requires_grad for v in values)
    added = {"stored": stored.requires_grad_(trained)} if trained or bool(stored.any()) else {}

    def run(s: Any, *x: Tensor) -> Tensor:
        left = iter(x)
        parts = [(next(left) if v is None else None, size) for v, size in zip(values, sizes, strict=True)]
        made = spaced(parts, shape, dim)
        return made + s.stored if added else made

    body = formula(run, *data, **added)
    assert body is not None  # all sources are data
    expand(graph, node, body.module, body.sources)
    return True
