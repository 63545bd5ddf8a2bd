"""Where channels can be scaled on one side of a graph and back on the other: layers, and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from mase_hw.ir import MaseGraph
from mase_hw.passes.lower import _edit as edit

HOMOGENEOUS = {
    "relu",
    "leaky_relu",
    "prelu",
    "max_pool1d",
    "max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "dropout",
    "identity",
    "contiguous",
}
"""Ops with ``f(s * x) = s * f(x)`` for every channel and every ``s > 0``, which keep the dimension of the channels."""


FLATTENING = {"flatten", "view", "reshape"}
"""Ops that may make features of all dimensions from the channels on."""


@dataclass(frozen=True)
class Path:
    """A way from a node to a layer that reads its channels, scaled or not, with no other reader in between.

    Args:
        between: Nodes passed, in order.
        layer: The layer at the end.
        repeat: Input features of the layer for each channel at the start; 1 unless a flatten lies between.
    """

    between: tuple[fx.Node, ...]
    layer: fx.Node
    repeat: int


def is_layer(module: nn.Module | None) -> bool:
    """Whether a module is a convolution or a linear layer."""
    return isinstance(module, nn.Linear) or (isinstance(module, _ConvNd) and not isinstance(module, _ConvTransposeNd))


def channel_dim(module: nn.Module, dims: int) -> int:
    """Dimension of the channels in a tensor of ``dims`` dimensions that a layer or normalisation reads or gives."""
    if isinstance(module, _ConvNd):
        return dims - 1 - len(module.kernel_size)
    return 1 if isinstance(module, _BatchNorm) else dims - 1


def follow(graph: MaseGraph, start: fx.Node, dim: int) -> Path | str:
    """The path from a node whose channels are dimension ``dim`` to the one layer that reads them, or why there is none.

    Everything on the way must be read once and be positively homogeneous, channel by channel.
    """
    node, repeat = start, 1
    between: list[fx.Node] = []
    while True:
        readers = data_readers(graph, node)
        if len(readers) != 1:
            return f"{node.name} is read by {len(readers)} nodes"
        node = readers[0]
        reason = reaches(graph, node, dim)
        if reason is None:
            return Path(tuple(between), node, repeat)
        op = graph.op_of(node)
        sources = graph.sources(node)
        if op is None or [name for name in sources if name.startswith("data_in_")] != ["data_in_0"]:
            return reason
        if op.name in FLATTENING:
            # Channels become blocks of features: (N, C, H, W) to (N, C * H * W).
            before = graph.tensor(node, "data_in_0").shape
            after = graph.tensor(node, "data_out_0").shape
            if after != [*before[:dim], math.prod(before[dim:])]:
                return reason
            repeat *= after[dim] // before[dim]
        elif op.name not in HOMOGENEOUS or _mixes(node, graph):
            return reason
        between.append(node)


def pairs(
    graph: MaseGraph, refused: Callable[[Path], str | None] = lambda _: None
) -> tuple[list[tuple[fx.Node, Path]], dict[str, str]]:
    """The layers whose channels lead to another layer, with the way there; and why others have none.

    Args:
        graph: A float graph.
        refused: Why a way is not taken, if it is not.
    """
    found: list[tuple[fx.Node, Path]] = []
    skipped: dict[str, str] = {}
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if module is None or not is_layer(module) or graph.op_of(node) is None:
            continue
        dim = channel_dim(module, len(graph.tensor(node, "data_out_0").shape))
        path = edit.not_changeable(graph, node, edit.sharing(graph)) or follow(graph, node, dim)
        reason = path if isinstance(path, str) else refused(path)
        if reason is not None:
            skipped[node.name] = reason
        elif not isinstance(path, str):
            found.append((node, path))
    return found, skipped


def _mixes(node: fx.Node, graph: MaseGraph) -> bool:
    """Indices beside the values, or a slope that a node computes: not a function of each channel alone."""
    common = graph.meta_of(node).common
    return len(common.results.tensors) != 1 or bool(common.args.get("return_indices"))


def reaches(graph: MaseGraph, node: fx.Node, dim: int) -> str | None:
    """Why a node is not a layer whose input channels are dimension ``dim`` of what it reads; None if it is."""
    module = graph.meta_of(node).module
    if module is None or graph.op_of(node) is None or not is_layer(module):
        return f"{node.name} ({graph.meta_of(node).common.mase_op or node.op}) is no layer and does not keep a scale"
    if channel_dim(module, len(graph.tensor(node, "data_in_0").shape)) != dim:
        return f"the channels of {node.name} are another dimension"
    return edit.not_changeable(graph, node, edit.sharing(graph))


def data_readers(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """Nodes that read the values of a node; one that asks for its size does not."""
    return [user for user in node.users if user.op == "output" or graph.meta_of(user).common.results.tensors]


def output_peaks(weight: Tensor) -> Tensor:
    """Largest weight of every output channel, ``(out,)``."""
    return weight.abs().flatten(1).amax(1)


def input_peaks(weight: Tensor, groups: int = 1, repeat: int = 1) -> Tensor:
    """Largest weight that reads every input channel, ``(in / repeat,)``."""
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    peaks = weight.abs().reshape(groups, outputs, inputs, -1).amax((1, 3))
    return peaks.reshape(-1, repeat).amax(1)


def scaled_outputs(weight: Tensor, factor: Tensor) -> Tensor:
    """A weight or bias with every output channel multiplied by ``factor`` of shape ``(out,)``."""
    return weight * factor.reshape(-1, *[1] * (weight.dim() - 1))


def scaled_inputs(weight: Tensor, factor: Tensor, groups: int = 1, repeat: int = 1) -> Tensor:
    """A weight with what it takes from every input channel multiplied by ``factor`` of shape ``(in / repeat,)``."""
    # Row o of a weight reads the input channels of its group.
    each = factor.repeat_interleave(repeat).reshape(groups, weight.shape[1])
    rows = each.repeat_interleave(weight.shape[0] // groups, 0)
    return weight * rows.reshape(*rows.shape, *[1] * (weight.dim() - 2))


def groups_of(module: nn.Module) -> int:
    """Groups of a convolution; 1 of a linear layer."""
    return int(getattr(module, "groups", 1))


def scale_outputs(graph: MaseGraph, node: fx.Node, factor: Tensor) -> None:
    """Multiply every output channel of a layer or normalisation, bias included, by ``factor`` of shape ``(out,)``."""
    module = graph.meta_of(node).module
    assert module is not None  # only modules are found
    for name in ("weight", "bias"):
        value = getattr(module, name, None)
        if isinstance(value, Tensor):
            edit.set_parameter(graph, node, name, scaled_outputs(edit.wide(value), factor.to(value.device)))


def scale_inputs(graph: MaseGraph, node: fx.Node, factor: Tensor, repeat: int = 1) -> None:
    """Multiply what a layer's weight takes from every input channel by ``factor`` of shape ``(in / repeat,)``."""
    module = graph.meta_of(node).module
    assert module is not None  # only modules are found
    weight = edit.wide(module.get_parameter("weight"))
    scaled = scaled_inputs(weight, factor.to(weight.device), groups_of(module), repeat)
    edit.set_parameter(graph, node, "weight", scaled)


def to_power_of_two(scale: Tensor) -> Tensor:
    """The nearest power of two on a logarithmic scale: multiplying by it is exact."""
    return torch.exp2(torch.log2(scale).round())


def module_of(graph: MaseGraph, node: fx.Node) -> nn.Module:
    """The layer of a node that was found here."""
    module = graph.meta_of(node).module
    assert module is not None  # only modules are found
    return module
