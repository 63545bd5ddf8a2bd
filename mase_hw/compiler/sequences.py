"""A streaming graph beside the model it was made of: hops one after the other, beside the whole sequence at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from mase_hw.compiler.original import Original
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.same_function import run
from mase_hw.passes.lower.streaming import STREAMING

HOPS = 6
"""Random hops that are compared at least; more where convolutions reach further back."""
COLUMNS = 1 << 14
"""Columns of random hops at most."""
TOLERANCE = 1e-3
"""Largest difference, as a share of the largest number: floats are added in another order."""


class OriginalOfStream(Original):
    """Compares a model on whole sequences with its graph on their hops.

    Args:
        model: The model as it was given.
        graph: The float graph, its causal layers remembering.
    """

    def __init__(self, model: nn.Module, graph: MaseGraph) -> None:
        super().__init__(model, graph)
        self._dims = graph.meta[STREAMING]

    def wanted(self, inputs: Values) -> Any:
        """What the model gives for the sequence of which these are the hops, as hops."""
        whole: dict[str, object] = {}
        hops = 1
        for name, value in inputs.items():
            if name in self._dims["inputs"] and isinstance(value, Tensor):
                hops = len(value)
                whole[name] = torch.cat(torch.split(value, 1), self._dims["inputs"][name])
            else:
                whole[name] = value
        found = run(self.model, self._arguments(whole), f"{hops} hops one after the other")
        leaves, structure = pytree.tree_flatten(found)
        tensors = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for index, dim in zip(tensors, self._dims["outputs"], strict=True):
            leaf = leaves[index]
            if dim >= leaf.dim() or leaf.shape[0] != 1 or leaf.shape[dim] % hops:
                raise _other(list(leaf.shape), f"{hops} times as many columns as for one hop, in dimension {dim}")
            leaves[index] = torch.cat(leaf.chunk(hops, dim), 0)
        return pytree.tree_unflatten(leaves, structure)

    def check_hops(self, example: Values) -> None:
        """Compare random hops, as many as the convolutions reach back.

        Args:
            example: One hop, by name of the graph's input.

        Raises:
            GraphError: If a hop behind others gives something else than the model gives for all of them.
        """
        dims = self._dims["inputs"]
        length = max(v.shape[dim] for name, dim in dims.items() if isinstance(v := example[name], Tensor))
        hops = max(HOPS, min(2 * (self._dims["columns"] // length + 1), COLUMNS // length))
        generator = torch.Generator().manual_seed(0)
        inputs = {
            name: _random(value, hops, generator) if name in dims and isinstance(value, Tensor) else value
            for name, value in example.items()
        }
        called = {str(node.target): inputs[node.name] for node in self.graph.nodes if node.op == "placeholder"}
        wanted = [t for t in pytree.tree_leaves(self.wanted(inputs)) if isinstance(t, Tensor)]
        found = [t for t in pytree.tree_leaves(run(self.graph.model, called)) if isinstance(t, Tensor)]
        for index, (a, b) in enumerate(zip(wanted, found, strict=True)):
            if a.shape != b.shape:
                raise _other(list(a.shape), list(b.shape))
            size = float(a.double().abs().max())
            error = (a.double() - b.double()).abs().reshape(hops, -1).amax(1)
            wrong = (~(error <= TOLERANCE * size)).nonzero()
            if len(wrong):
                hop = int(wrong[0])
                raise _other(
                    f"result {index}, hop {hop}: {float(error[hop]):.3g} apart",
                    f"{TOLERANCE:g} of {size:.3g} at most",
                )

    def _first(self) -> str | None:
        return None  # the nodes of the trace have no hops


def _random(value: Tensor, hops: int, generator: torch.Generator) -> Tensor:
    shape = (hops, *value.shape[1:])
    if not value.dtype.is_floating_point:
        return value.flatten()[torch.randint(value.numel(), shape, generator=generator)]
    spread = float(value.double().abs().max()) or 1.0
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * spread / 2).to(value.dtype)


def _other(got: Any, expected: Any) -> GraphError:
    return GraphError(
        "hop after hop, the graph gives something else than the model for the whole sequence",
        field="streaming",
        got=got,
        expected=expected,
        remedy="let every layer of the model be causal, and take sequences of any length; sizes that are written into "
        "forward, and values that differ from column to column, are those of one hop",
    )
