"""Operations of a program that the catalogue does not have, as PyTorch itself decomposes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx


def decomposed(node: fx.Node) -> fx.Graph | None:
    """What PyTorch decomposes a call of a program into.

    Args:
        node: The call.

    Returns:
        A graph with a placeholder for each of ``node.all_input_nodes``, and shapes in ``meta["val"]``; None if PyTorch
        has no decomposition, or that depends on the numbers of a tensor.
    """
    table, target, sources = core_aten_decompositions(), node.target, node.all_input_nodes
    given = [source.meta.get("val") for source in sources]
    if target not in table or not all(isinstance(value, Tensor) for value in given):
        return None

    def run(*tensors: Tensor) -> Any:
        values = dict(zip(sources, tensors, strict=True))
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        return target(*args, **kwargs)  # type: ignore[operator]

    examples = [torch.zeros(tuple(value.shape), dtype=value.dtype) for value in given]
    try:
        made = make_fx(run, decomposition_table={target: table[target]}, tracing_mode="fake")(*examples)
    except Exception:  # of PyTorch's own code, in many ways: the operation is then refused by its name
        return None
    for inner in made.graph.nodes:
        inner._rename(f"{node.name}_{inner.name}")
    return (
        made.graph
        if all(inner.op in ("placeholder", "call_function", "output") for inner in made.graph.nodes)
        else None
    )
