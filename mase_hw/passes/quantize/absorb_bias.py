"""Bias absorption (Nagel et al., arXiv:1906.04721, section 4.1.3): what every value has in common moves on as a bias.

Where channel ``i`` of a layer never gives less than ``c_i > 0``, ``relu(x - c) = relu(x) - c``, so that ``c`` can be
taken off this layer's bias and what the next layer would have made of it be added to the bias there. The activation
between them then begins at zero and needs a smaller range. The publication takes ``c = max(0, mean - 3 * deviation)``
from the batch normalisation before it was folded; here mean and deviation are observed, and ``c`` is never more than
the smallest value seen, so that on the data nothing changes at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.analysis.statistics.base import check_finite, finite_batches
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize import equalize_paths as paths

SHIFTING = {"relu", "flatten", "view", "reshape", "dropout", "identity", "contiguous", "max_pool1d", "max_pool2d"}
"""Ops that pass on what is taken off every value, as long as no value falls below zero."""


class AbsorbBiasArgs(PassArgs):
    """Arguments of :func:`absorb_bias_transform_pass`."""

    data: Any = Field(description="iterable of batches, as for calibration, from which mean and deviation are taken")


@dataclass
class _Seen:
    """Sums over the values of every channel, in float64."""

    count: int = 0
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    squares: Tensor = field(default_factory=lambda: torch.zeros(()))
    least: Tensor = field(default_factory=lambda: torch.tensor(torch.inf))

    def update(self, channels: Tensor) -> None:
        """Take in values of shape ``(channels, values)``."""
        self.count += channels.shape[1]
        self.total = self.total + channels.sum(1)
        self.squares = self.squares + channels.square().sum(1)
        self.least = torch.minimum(self.least, channels.amin(1))

    def common(self) -> Tensor:
        """What can be taken off every channel."""
        mean = self.total / self.count
        deviation = (self.squares / self.count - mean.square()).clamp(min=0).sqrt()
        return torch.minimum(mean - 3 * deviation, self.least).clamp(min=0)


@graph_pass("absorb_bias_transform_pass", args=AbsorbBiasArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def absorb_bias_transform_pass(graph: MaseGraph, args: AbsorbBiasArgs) -> tuple[MaseGraph, Info]:
    """Move what all values of a channel have in common from behind a layer into the bias of the next one.

    A pair is two convolutions or linear layers with a relu between them, and nothing else but pooling by maxima,
    flatten and dropout; everything read once, no layer shared, and the second pads no zeros, which are not shifted.

    On the data the float function is the same but for rounding; values that are smaller than all that were seen are cut
    off at ``c`` instead of at zero. Run it after cross-layer equalization, which makes biases large, and calibrate
    afterwards.

    Returns:
        The graph, and ``modified``, ``absorbed`` (first layer -> ``second``, largest ``shift``) and ``skipped`` (layer
        -> why nothing was taken off it).

    Raises:
        ConfigError: If there is no data, or a batch does not fit the inputs.
        FormatError: If the data or an activation is NaN or infinite.
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "bias absorption")
    found, skipped = paths.pairs(graph, lambda path: _not_shifting(graph, path))
    seen = _observe(graph, [first for first, _ in found], args.data)
    absorbed: Info = {}
    for first, path in found:
        shift = seen[first].common()
        if not bool(shift.any()):
            skipped[first.name] = "no channel stays above zero"
            continue
        before, after = paths.module_of(graph, first), paths.module_of(graph, path.layer)
        edit.set_parameter(graph, first, "bias", _bias(before) - shift)
        edit.set_parameter(graph, path.layer, "bias", _bias(after) + _passed_on(after, shift, path.repeat))
        edit.changed(graph, [first, *path.between])
        absorbed[first.name] = {"second": path.layer.name, "shift": float(shift.max())}
    if absorbed:
        edit.finish(graph)
    return graph, {"modified": bool(absorbed), "absorbed": absorbed, "skipped": skipped}


def _not_shifting(graph: MaseGraph, path: paths.Path) -> str | None:
    """Why a shift cannot go along a path."""
    ops = {node: graph.meta_of(node).common.mase_op for node in path.between}
    other = next((node for node, op in ops.items() if op not in SHIFTING), None)
    if other is not None:
        return f"{other.name} ({ops[other]}) does not keep a shift"
    if "relu" not in ops.values():
        return "there is no relu before the next layer"
    if _pads_zeros(paths.module_of(graph, path.layer)):
        return f"{path.layer.name} pads zeros, and they are not shifted"
    return None


def _pads_zeros(layer: nn.Module) -> bool:
    """Whether a layer reads zeros beside its input; a maximum pads with what it never passes on."""
    padding = getattr(layer, "padding", (0,))
    if getattr(layer, "padding_mode", "zeros") != "zeros" or padding == "valid":
        return False
    return padding == "same" or any(padding)


def _observe(graph: MaseGraph, layers: list[fx.Node], data: Any) -> dict[fx.Node, _Seen]:
    by_name = {node.name: node for node in layers}
    seen = {node: _Seen() for node in layers}

    def on_node(node: fx.Node, value: Any) -> None:
        layer = by_name.get(node.name)
        if layer is not None:
            check_finite(value, f"{node.name}.data_out_0")
            dim = paths.channel_dim(paths.module_of(graph, layer), value.dim())
            seen[layer].update(edit.wide(value).movedim(dim, 0).flatten(1).cpu())

    for _, inputs in finite_batches(graph, data):
        evaluate(graph.model, inputs, on_node)
    return seen


def _passed_on(layer: nn.Module, shift: Tensor, repeat: int) -> Tensor:
    """What a layer makes of a constant in every input channel, ``(out,)``."""
    weight = edit.wide(layer.get_parameter("weight")).cpu()
    return paths.scaled_inputs(weight, shift, paths.groups_of(layer), repeat).flatten(1).sum(1)


def _bias(layer: nn.Module) -> Tensor:
    bias = getattr(layer, "bias", None)
    if isinstance(bias, Tensor):
        return edit.wide(bias).cpu()
    return torch.zeros(layer.get_parameter("weight").shape[0], dtype=torch.float64)
