"""Every quantised node beside the float node it was made of, with so many bits that no rounding is left.

A golden is exact but for its formats. Given the same inputs, weights with 24 bits and a result with as many bits as it
needs, it must compute what the float node computes, however few bits the design has: so there is no threshold to be
chosen between honest noise of two bits and a layer that computes something else. What differs is named at the first
node, because every node gets what flows in the quantised graph, whatever happened before it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.float_nodes import FloatNode, first_tensor
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.passes.evaluation.criteria import decibels
from mase_hw.user_code import user_code

WEIGHT_BITS = (24, 16)
"""Bits of every parameter; fewer where the exact sums would not fit otherwise."""
RESULT_BITS = 32
FINE = 12
"""Functions of more bits than this are made for their formats alone."""
SHARE = 1e-3
"""Largest difference, as a share of the largest result."""
NOISE = 1e-5
"""Share of the largest possible sum that the rounding of float32 may leave."""
ROUGH = 0.3
"""The same in root mean squares where weights cannot have more bits, and for a user's own op, which may approximate."""
MOST_ELEMENTS = 1 << 24
MOST_FRAMES = 16
"""Frames that are looked at, as long as all activations together have no more elements."""


class Exact:
    """Compares a quantised graph with the float graph it was made of, node by node.

    Args:
        graph: The float graph, with common metadata; may be quantised in place afterwards.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.nodes = [FloatNode.of(graph, node) for node in graph.nodes if node.op not in ("placeholder", "output")]
        self._names = {node.name for node in graph.nodes}
        tensors = {n: list(graph.meta_of(n).common.results.tensors.values()) for n in graph.nodes}
        inputs = [t.shape for n in graph.nodes if n.op == "placeholder" for t in tensors[n] if t.shape]
        self._frame = max([shape[0] for shape in inputs], default=1)
        elements = max(1, sum(math.prod(t.shape) for found in tensors.values() for t in found))
        self._frames = max(1, min(MOST_FRAMES, MOST_ELEMENTS // elements))

    def check(self, graph: MaseGraph, batches: Sequence[Mapping[str, Any]]) -> None:
        """Compare the quantised graph with the float nodes.

        Args:
            graph: The quantised graph.
            batches: Inputs by name of the graph's input; the first rows of each are used.

        Raises:
            GraphError: Names the first node that computes something else than the float node did.
        """
        values: dict[str, Any] = {}

        def keep(node: fx.Node, value: Any) -> None:
            values[node.name] = value.detach().clone() if isinstance(value, Tensor) else value

        evaluate(graph.model, self._some(batches), keep)
        found = {node.name: node for node in graph.nodes}
        for each in self.nodes:
            self._check(graph, each, found.get(each.name), values)

    def _some(self, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The first frames of all batches as one batch."""
        frames = max(1, self._frames // len(batches))
        return {
            name: torch.cat([batch[name][: frames * self._frame] for batch in batches]) if _has_rows(value) else value
            for name, value in batches[0].items()
        }

    def _check(self, graph: MaseGraph, each: FloatNode, node: fx.Node | None, values: dict[str, Any]) -> None:
        if node is None:  # it only made a constant, which another node holds now
            values[each.name] = each.run(values)
            return
        module = graph.meta_of(node).module
        if isinstance(module, Quantized):
            sources = [arg for arg in node.args if isinstance(arg, fx.Node)]
            formats = [module.arithmetic.formats[f"data_in_{index}"] for index in range(len(sources))]
            # What comes from a node that was left in float is on no grid yet.
            inputs = [
                dequantize(quantize(values[source.name], fmt), fmt)
                for source, fmt in zip(sources, formats, strict=True)
            ]
            read = {self._origin(source): value for source, value in zip(sources, inputs, strict=True)}
            with user_code("a layer of the model cannot be run on what the layers before it give", node=node.name):
                wanted = first_tensor(each.run({**values, **read}))
            if wanted is not None:
                _compare(node.name, module, wanted, inputs, values[node.name])
        elif node.op not in ("get_attr", "placeholder") and graph.is_implicit(node):
            _check_order(graph, node, values)

    def _origin(self, node: fx.Node) -> str:
        """The float node whose value a node stands for: quantisation puts casts and entries between nodes."""
        while node.name not in self._names:
            node = node.all_input_nodes[0]
        return node.name


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _compare(name: str, module: Quantized, wanted: Tensor, inputs: list[Tensor], own: Tensor) -> None:
    """Refuse a node whose golden is not the float node."""
    custom = module.op.name not in default_catalogue()
    exact = None if custom else _with_bits(module, wanted, inputs)
    found = own if exact is None else exact
    if wanted.shape != found.shape:
        raise _parted(name, module, f"results of shape {list(wanted.shape)}", f"{list(found.shape)}")
    # Where a function has a pole, hardware saturates.
    a, b = (value.double()[wanted.isfinite()] for value in (wanted, found))
    step = 0.0
    if exact is None:
        fmt = module.arithmetic.formats["data_out_0"]
        step = fmt.scale
        inside = (a >= fmt.min_value) & (a <= fmt.max_value)
        a, b = (a.clamp(fmt.min_value, fmt.max_value), b) if _saturates(module) else (a[inside], b[inside])
    if not a.numel():
        return
    error = (a - b).abs()
    if custom or (exact is None and module.parameter_names):
        worst, allowed = float(error.square().mean().sqrt()), ROUGH * float(a.square().mean().sqrt()) + 2 * step
    else:
        eps = torch.finfo(wanted.dtype).eps if wanted.dtype.is_floating_point else 0.0
        share = max(SHARE, 4 * eps) * float(a.abs().max())
        worst, allowed = float(error.max()), share + max(NOISE, eps) * _reach(module, inputs) + step
    if not worst <= allowed:
        snr = decibels(float(a.square().sum()), float(error.square().sum()))
        limit = SHARE if exact is not None else ROUGH
        raise _parted(name, module, f"a signal-to-noise ratio of {snr:.1f} dB", f"{-20 * math.log10(limit):.0f} dB")


def _saturates(module: Quantized) -> bool:
    return module.arithmetic.overflow is Overflow.SATURATE


def _with_bits(module: Quantized, wanted: Tensor, inputs: list[Tensor]) -> Tensor | None:
    """The golden with ample bits in parameters and result; None if it cannot have them."""
    formats = module.arithmetic.formats
    names = [name for name in module.parameter_names if getattr(module, name).dtype.is_floating_point]
    if not names and formats["data_in_0"].width > FINE:
        return None
    finite = wanted[wanted.isfinite()].double()
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
    for bits in WEIGHT_BITS:
        try:
            ample = {name: _covering(getattr(module, name), bits) for name in names}
            result = FixedFormat.covering(min(2 * low, 0.0), max(2 * high, 0.0), RESULT_BITS)
            arithmetic = dataclasses.replace(module.arithmetic, formats={**formats, **ample, "data_out_0": result})
            parameters = {name: getattr(module, name) for name in module.parameter_names}
            with torch.no_grad():
                return Quantized(module.op, arithmetic, parameters).in_mantissas(inputs)
        except MaseHwError:
            continue
    return None


def _covering(value: Tensor, bits: int) -> FixedFormat:
    value = value.detach().double()
    low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 0.0)
    return FixedFormat.covering(low, high, bits)


def _reach(module: Quantized, inputs: list[Tensor]) -> float:
    """A bound of the magnitudes that are added up in one result."""
    largest = max([float(x.double().abs().max()) for x in inputs if x.numel()], default=0.0)
    factor = 1.0
    for name in module.parameter_names:
        value = getattr(module, name).detach().double().abs()
        factor += float((value.flatten(1).sum(1) if value.dim() > 1 else value).max()) if value.numel() else 0.0
    return largest * factor


def _check_order(graph: MaseGraph, node: fx.Node, values: Mapping[str, Any]) -> None:
    """Refuse a node without hardware that changes numbers: all it may do is to put them in another order."""
    sources = [n for n in node.all_input_nodes if isinstance(values.get(n.name), Tensor)]
    before, after = values[sources[0].name] if sources else None, first_tensor(values[node.name])
    if before is None or after is None:
        return
    same = before.numel() == after.numel()
    if not same or not torch.equal(before.flatten().double().sort()[0], after.flatten().double().sort()[0]):
        raise GraphError(
            "a node that has no hardware changes the numbers that pass through it",
            node=node.name,
            got=f"{graph.meta_of(node).common.mase_op}, which gives other numbers than it gets",
            expected="the same numbers, in another shape or order",
            remedy="look at what this layer of the model really computes",
        )


def _parted(name: str, module: Quantized, got: str, expected: str) -> GraphError:
    return GraphError(
        "a layer of the model computes something else than the hardware for it, which no number of bits explains",
        node=name,
        got=f"{got} between the layer and {module.op.name}, of exact weights and inputs",
        expected=expected,
        remedy="look at what this layer of the model really computes: a forward, a weight or a class may have been "
        "replaced; or at the golden of a custom op",
    )
