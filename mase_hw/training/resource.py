"""What a network in training costs: for every product of a weight and a number, the bits of one times the bits of both.

These are the effective bit operations of HGQ (Sun et al., arXiv:2405.00645, section III-C).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.training.learned_node import Learned
from mase_hw.training.learned_step import LearnedScale, LearnedStep, whole_bits

Elements = Literal["", "weights", "all"]
"""Which elements have bits of their own."""
PRODUCTS = ("linear", "conv1d", "conv2d")
"""Ops whose every weight is a constant that multiplies."""


class Resource(fx.Interpreter):
    """Runs a network in training on bits in the place of values, so that a layer gives the sum of its products' costs.

    Args:
        body: The network.
        graph: The quantised graph, which has the shapes.

    After :meth:`run` the costs stand in ``found``, by node.
    """

    def __init__(self, body: fx.GraphModule, graph: MaseGraph) -> None:
        super().__init__(body)
        self.quantised = graph
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Bits of the result of a node that is trained, by element; what others make of such."""
        if n.op == "placeholder":
            return None
        trained = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
        if not isinstance(trained, Learned | LearnedStep):
            return super().run_node(n)
        if isinstance(trained, Learned) and is_product(trained):
            self.found[n.name] = self._products(trained, tuple(self.env[source] for source in n.all_input_nodes))
        shape = self.quantised.tensor(self.quantised.node(n.name), "data_out_0").shape
        return torch.full(tuple(shape), float(trained.fmt.width)) - whole_bits(trained.drop)

    def _products(self, layer: Learned, inputs: tuple[Tensor, ...]) -> Tensor:
        bits = {name: torch.zeros_like(value) for name, value in layer.trained.items()}
        bits["weight"] = layer.step_of("weight").bits(layer.trained["weight"] / layer.factor_of("weight"))
        cost: Tensor = layer.computed(inputs, bits).sum()
        return cost


def is_product(trained: object) -> bool:
    """Whether a node multiplies its data by weights that are trained."""
    if not isinstance(trained, Learned):
        return False
    return trained.quantised[0].op.name in PRODUCTS and "weight" in trained.trained


def learn_widths(graph: MaseGraph, nodes: Mapping[str, nn.Module], which: Elements) -> None:
    """Give weights of the layers that multiply by constants, and perhaps what these read, bits of their own.

    Args:
        graph: The quantised graph.
        nodes: What takes the place of the quantised nodes, by name.
        which: Weights, or everything.

    Raises:
        UnsupportedError: If a layer has weights whose format is no plain fixed point, or anything has real scales.
    """
    scaled = next((name for name, node in nodes.items() if isinstance(node, LearnedScale)), None)
    if which and scaled is not None:
        raise UnsupportedError(
            "bits of every element are learned in fixed point",
            node=scaled,
            field="learn_widths",
            got="scaled integers",
            expected="formats whose steps are powers of two",
            remedy='leave name = "integer" out of the configuration, or learn_widths',
        )
    for node in graph.nodes:
        layer = nodes.get(node.name)
        if not which or not isinstance(layer, Learned) or not is_product(layer):
            continue
        fmt = layer.step_of("weight").fmt
        if type(fmt) is not FixedFormat:
            raise layer.refused(
                "learn_widths", str(fmt), "plain fixed-point weights", "give the weights of the layer no other format"
            )
        layer.step_of("weight").learn_widths(tuple(layer.trained["weight"].shape))
        source = node.all_input_nodes[0]
        while graph.is_implicit(source) and source.name not in nodes:
            source = source.all_input_nodes[0]
        read = nodes.get(source.name)
        if which == "all" and isinstance(read, Learned | LearnedStep) and read.drop is None:
            read.learn_widths(tuple(graph.tensor(source, "data_out_0").shape)[1:])
