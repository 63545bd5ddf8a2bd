"""Operations of a program that the catalogue does not have, as PyTorch itself decomposes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx


def _distances(x: Tensor, y: Tensor, p: float = 2.0, mode: int | None = None) -> Tensor:
    """``cdist``."""
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    found: Tensor = torch.linalg.vector_norm(apart, p, -1)
    return found


def _places(x: Tensor, bounds: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """``bucketize``."""
    x = x.unsqueeze(-1)
    return (x >= bounds if right else x > bounds).sum(-1)


_ATEN = torch.ops.aten
_OWN: dict[Any, Callable[..., Tensor]] = {
    _ATEN.cdist.default: _distances,
    _ATEN.bucketize.Tensor: _places,
    _ATEN.copysign.Tensor: lambda x, y: torch.where(y < 0, -x.abs(), x.abs()),
    _ATEN.heaviside.default: lambda x, at_zero: torch.where(x == 0, at_zero, (x > 0).to(x.dtype)),
    _ATEN.signbit.default: lambda x: x < 0,
}
"""Decompositions of operations of which PyTorch has none, or one into others that are not known."""


def decomposed(node: fx.Node) -> fx.Graph | None:
    """What PyTorch decomposes a call of a program into.

    Args:
        node: The call.

    Returns:
        A graph with a placeholder for each of ``node.all_input_nodes``, and shapes in ``meta["val"]``; None if PyTorch
        has no decomposition, or that depends on the numbers of a tensor.
    """
    target, sources = node.target, node.all_input_nodes
    own, table = _OWN.get(target), core_aten_decompositions()
    call: Any = own or target
    given = [value for source in sources if isinstance(value := source.meta.get("val"), Tensor)]
    if (own is None and target not in table) or len(given) < len(sources):
        return None

    def run(*tensors: Tensor) -> Any:
        values = dict(zip(sources, tensors, strict=True))
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        return call(*args, **kwargs)

    known = {} if own is not None else {target: table[target]}
    try:
        examples = [torch.zeros(tuple(value.shape), dtype=value.dtype) for value in given]
        made = make_fx(run, decomposition_table=known, tracing_mode="fake")(*examples)
    except Exception:  # of PyTorch's own code, in many ways: the operation is then refused by its name
        return None
    for inner in made.graph.nodes:
        inner._rename(f"{node.name}_{inner.name}")
    plain = all(inner.op in ("placeholder", "call_function", "output") for inner in made.graph.nodes)
    return made.graph if plain else None
