"""What a network in training costs: for every product of a weight and a number, the bits of one times those of the other.

These are the effective bit operations of HGQ (Sun et al., arXiv:2405.00645, section III-C).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.formats import FixedFormat
from mase_hw.training.learned_step import Learned, LearnedStep

PRODUCTS = ("linear", "conv1d", "conv2d")
"""Ops whose every weight is a constant that multiplies."""


class Resource(fx.Interpreter):
    """Runs a network in training on bits in the place of values, so that a layer gives the sum of its products' costs.

    Args:
        body: The network.
        shapes: Of the result of every node that is trained, for one frame.

    After :meth:`run` the costs stand in ``found``, by node.
    """

    def __init__(self, body: fx.GraphModule, shapes: dict[str, tuple[int, ...]]) -> None:
        super().__init__(body)
        self.shapes = shapes
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Bits of the result of a node that is trained, by element; what others make of such."""
        trained = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
        if n.op == "placeholder":
            return None
        if not isinstance(trained, Learned | LearnedStep):
            return super().run_node(n)
        if isinstance(trained, Learned) and is_product(trained):
            self.found[n.name] = self._products(trained, [self.env[source] for source in n.all_input_nodes])
        grid = trained.grid() if isinstance(trained, Learned) else trained
        width = trained.fmt.width
        shape = self.shapes[n.name]
        return grid.step.new_full(shape, float(width)) - (0 if grid.drop is None else grid.whole_drop())

    def _products(self, layer: Learned, inputs: list[Any]) -> Tensor:
        weight = layer.trained["weight"]
        if isinstance(layer.factor, Tensor):
            weight = weight / layer.factor.to(weight.dtype)
        bits = {"weight": layer.step_of("weight").bits(weight)}
        bits |= {name: torch.zeros_like(value) for name, value in layer.trained.items() if name != "weight"}
        return layer.computed(tuple(inputs), bits).sum()


def is_product(learned: Learned) -> bool:
    """Whether a node multiplies its data by weights that are trained."""
    return learned.quantised[0].op.name in PRODUCTS and "weight" in learned.trained


def learn_widths(nodes: nn.ModuleDict) -> None:
    """Give every weight of the layers that multiply by constants a number of bits of its own.

    Args:
        nodes: What takes the place of the quantised nodes.

    Raises:
        UnsupportedError: If a layer has scaled integers, or weights whose format is no plain fixed point.
    """
    for trained in nodes.values():
        if isinstance(trained, Learned) and is_product(trained):
            fmt = trained.step_of("weight").fmt
            if type(fmt) is not FixedFormat:
                raise trained.refused(
                    "config.learn_widths", str(fmt), "fixed-point weights", "give the layer plain fixed-point weights"
                )
            trained.step_of("weight").learn_widths(tuple(trained.trained["weight"].shape))
