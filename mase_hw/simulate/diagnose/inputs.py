"""The input values from which a diverging element was computed, so that it can be computed again by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.emit.reference import Reference
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn.quantized import Quantized
from mase_hw.nn.streaming import continuing
from mase_hw.numerics import quantize

SHOWN = 16
"""Most values of one input in a text; all of them are in the JSON."""
_TRIALS = 24
"""Random inputs on which it is tried what an element depends on."""


@dataclass(frozen=True)
class InputValues:
    """Elements of one input of an instance.

    Args:
        port: The data input.
        tensor: Graph node that computes the tensor.
        elements: Their indices in the tensor, outermost dimension first.
        mantissas: What the model has there, one an element.
        scale: What a mantissa of 1 stands for, above the zero point.
        zero_point: The mantissa of 0.
    """

    port: str
    tensor: str
    elements: tuple[tuple[int, ...], ...]
    mantissas: tuple[int, ...]
    scale: float
    zero_point: int = 0

    def __str__(self) -> str:
        shown = [
            f"{list(index)} = {m} ({(m - self.zero_point) * self.scale:g})"
            for index, m in zip(self.elements[:SHOWN], self.mantissas, strict=False)
        ]
        more = len(self.elements) - len(shown)
        rest = f", and {more} more in the JSON" if more else ""
        return f"{self.port} ({self.tensor}): {', '.join(shown)}{rest}"


def input_values(
    graph: MaseGraph, name: str, element: int, inputs: Mapping[str, Tensor], before: Sequence[Mapping[str, Tensor]] = ()
) -> tuple[InputValues, ...]:
    """What one element of a node's result was computed from.

    Which elements these are is found by straight-through gradients: those that reach it for the given values, or for
    random ones, since a maximum or a limit lets only some of them through at a time.

    Args:
        graph: The quantised graph.
        name: The node.
        element: Place of the element in its result, counted row-major.
        inputs: One frame, floats by name of the model's input.
        before: Of a streaming model, the frames before it.
    """
    node = graph.node(name)
    module = graph.meta_of(node).module
    if not isinstance(module, Quantized):
        return ()
    producers = [producer for producer, _ in graph.sources(node).values()]
    with continuing(graph.model):
        for frame in before:
            _values(graph, producers, frame)
        given = _values(graph, producers, inputs)
    formats = [module.arithmetic.formats[f"data_in_{i}"] for i in range(len(given))]
    masks = _reaching(module, given, formats, element)
    found = []
    for i, (producer, value, fmt, mask) in enumerate(zip(producers, given, formats, masks, strict=True)):
        mantissa = quantize(value, fmt, name=producer.name).cpu().long()
        elements = tuple(tuple(int(digit) for digit in place) for place in mask.nonzero())
        values = tuple(int(mantissa[place]) for place in elements)
        found.append(InputValues(f"data_in_{i}", producer.name, elements, values, fmt.scale, fmt.zero_point))
    return tuple(found)


def _values(graph: MaseGraph, nodes: Sequence[fx.Node], inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """What some nodes give for a frame."""
    kept: dict[str, Tensor] = {}
    wanted = {node.name for node in nodes}

    def keep(node: fx.Node, value: Any) -> None:
        if node.name in wanted and isinstance(value, Tensor):
            kept[node.name] = value.detach().clone()

    names = {port.name for port in Reference(graph).inputs}
    by_node = {n.name: inputs[str(n.target)] for n in graph.nodes if n.op == "placeholder" and str(n.target) in names}
    evaluate(graph.model, by_node, keep)
    return [kept[node.name] for node in nodes]


def _reaching(module: Quantized, given: list[Tensor], formats: list[FixedFormat], element: int) -> list[Tensor]:
    """For each input, which of its elements reach the element; all of them if that cannot be told."""
    masks = [torch.zeros(value.shape, dtype=torch.bool) for value in given]
    generator = torch.Generator().manual_seed(0)
    for trial in range(_TRIALS):
        values = given if trial == 0 else [_random(v, f, trial, generator) for v, f in zip(given, formats, strict=True)]
        leaves = [value.detach().cpu().clone().requires_grad_() for value in values]
        try:
            result = module(*(leaf.to(value.device) for leaf, value in zip(leaves, given, strict=True)))
            gradients = torch.autograd.grad(result.reshape(-1)[element], leaves, allow_unused=True)
        except (RuntimeError, NotImplementedError):  # an op of a user's own may have no gradient
            break
        masks = [m if g is None else m | (g != 0) for m, g in zip(masks, gradients, strict=True)]
    return masks if any(mask.any() for mask in masks) else [torch.ones_like(mask) for mask in masks]


def _random(value: Tensor, fmt: FixedFormat, trial: int, generator: torch.Generator) -> Tensor:
    """Values over the whole format, or close to 0, where little saturates."""
    low, high = fmt.min_value, fmt.max_value
    uniform = torch.rand(value.shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return (uniform * 0.5 ** (trial % 8)).to(value.dtype)
