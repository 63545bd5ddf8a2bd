"""BatchNorm folding: the running statistics of a batch normalisation become part of the layer beside it.

In evaluation mode a batch normalisation is ``y = s * x + t`` per channel, with ``s = gamma / sqrt(var + eps)`` and
``t = beta - s * mean`` (Ioffe and Szegedy, arXiv:1502.03167); folding it is section 3.2 of Jacob et al.,
arXiv:1712.05877. The products are taken in float64 and rounded once to the dtype of the weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.module_paths import vanished
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit


@dataclass(frozen=True)
class _Affine:
    """``y = scale * x + shift`` per channel, in float64."""

    scale: Tensor
    shift: Tensor


NORMALISED = "batch_norm_statistics"
"""Where a graph has, by layer into which a normalisation was folded, mean and deviation of every output channel."""


@graph_pass("fold_batch_norm_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def fold_batch_norm_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Fold batch normalisations into the convolution or linear layer before them, else into the one after them.

    Before: always exact, a missing bias is added. After: exact for a linear layer and for a convolution without zero
    padding, or with it if the shift is zero in every channel. One that cannot be folded stays as it is; ``info`` says
    why. The statistics are the running ones, so the graph is what the model is in evaluation mode.

    A layer must be a module that nothing else uses, its result must go into the normalisation alone, and the channels
    must be the same dimension on both sides.

    Args:
        graph: A float graph with common metadata, calibrated later: what was observed before does not hold once
            something was folded.
        args: None.

    Returns:
        The graph, and ``modified``, ``folded`` (normalisation -> layer and ``"before"`` or ``"after"``) and ``kept``
        (normalisation -> reason).

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "batch norm folding")
    folded: dict[str, dict[str, str]] = {}
    reasons: dict[str, list[str]] = {}
    # What a folding makes has one reader; what is kept alive is not taken for it.
    shared, _alive = edit.sharing(graph), [*graph.model.parameters(), *graph.model.buffers()]
    # All foldings into the layer before first: they are the ones that are always exact.
    for where, fold in (("before", _fold_before), ("after", _fold_after)):
        for node in graph.nodes:
            op, module = graph.op_of(node), graph.meta_of(node).module
            if op is None or "running_mean" not in op.parameters:
                continue
            result = (
                fold(graph, node, module, shared) if isinstance(module, _BatchNorm) else "it is no batch norm module"
            )
            if isinstance(result, fx.Node):
                folded[node.name] = {"layer": result.name, "where": where}
                reasons.pop(node.name, None)
            elif result not in reasons.setdefault(node.name, []):
                reasons[node.name].append(result)
    if folded:
        edit.finish(graph)
    kept = {name: "; ".join(found) for name, found in reasons.items()}
    return graph, {"modified": bool(folded), "folded": folded, "kept": kept}


def _fold_before(graph: MaseGraph, node: fx.Node, norm: _BatchNorm, shared: edit.Sharing) -> fx.Node | str:
    """Fold one into the layer it reads, and return that, or why not."""
    reason = _unusable(norm) or _before(graph, node, shared)
    if reason is not None:
        return reason
    layer = node.all_input_nodes[0]
    _into_outputs(graph, layer, _affine(norm))
    graph.meta.setdefault(NORMALISED, {})[layer.name] = _normal(norm)
    edit.takes_result_of(graph, layer, node)
    vanished(graph, node, f"was folded into {layer.name} by fold_batch_norm_transform_pass")
    edit.bypass(graph, node, layer)
    return layer


def _fold_after(graph: MaseGraph, node: fx.Node, norm: _BatchNorm, shared: edit.Sharing) -> fx.Node | str:
    """Fold one into the layer that reads it, and return that, or why not."""
    reason = _unusable(norm) or _after(graph, node, norm, shared)
    if reason is not None:
        return reason
    layer, source = next(iter(node.users)), node.all_input_nodes[0]
    _into_inputs(graph, layer, _affine(norm))
    argument, entered = graph.meta_of(layer), graph.meta_of(node)
    argument.common.args["data_in_0"] = entered.common.args["data_in_0"]
    argument.software.args.pop("data_in_0", None)
    vanished(graph, node, f"was folded into {layer.name} by fold_batch_norm_transform_pass")
    edit.bypass(graph, node, source)
    return layer


def _normal(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every channel that a normalisation gives, in float64."""
    assert norm.running_mean is not None  # see _unusable
    mean = torch.zeros_like(norm.running_mean, dtype=torch.float64) if norm.bias is None else edit.wide(norm.bias)
    return mean, torch.ones_like(mean) if norm.weight is None else edit.wide(norm.weight).abs()


def _affine(norm: _BatchNorm) -> _Affine:
    assert norm.running_mean is not None and norm.running_var is not None  # see _unusable
    scale = (edit.wide(norm.running_var) + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * edit.wide(norm.weight)
    shift = -edit.wide(norm.running_mean) * scale
    if norm.bias is not None:
        shift = shift + edit.wide(norm.bias)
    return _Affine(scale, shift)


def _unusable(norm: _BatchNorm) -> str | None:
    if norm.running_mean is None or norm.running_var is None:
        return "it has no running statistics and takes those of the batch"
    if norm.running_mean.is_meta:
        return "it is on the meta device and has no values"
    affine = _affine(norm)
    if not bool(affine.scale.isfinite().all() and affine.shift.isfinite().all()):
        return "its statistics are not finite"
    return None


def _channel_dim(layer: nn.Module, dims: int) -> int | None:
    """Dimension of a layer's channels in a tensor of ``dims`` dimensions; None if it is no layer that takes a norm."""
    if isinstance(layer, nn.Linear):
        return dims - 1
    if isinstance(layer, _ConvNd):
        return dims - 1 - len(layer.kernel_size)
    return None


def _layer(graph: MaseGraph, node: fx.Node, norm_node: fx.Node, shared: edit.Sharing) -> str | None:
    """Why a neighbour of a normalisation cannot take it."""
    module = graph.meta_of(node).module
    dims = len(graph.tensor(norm_node, "data_in_0").shape)
    if module is None or graph.op_of(node) is None or _channel_dim(module, dims) is None:
        return f"{node.name} ({graph.meta_of(node).common.mase_op}) is neither convolution nor linear layer"
    if _channel_dim(module, dims) != 1:
        return f"the channels of {node.name} are not those of the normalisation"
    return edit.not_changeable(graph, node, shared)


def _before(graph: MaseGraph, node: fx.Node, shared: edit.Sharing) -> str | None:
    layer = node.all_input_nodes[0]
    reason = _layer(graph, layer, node, shared)
    if reason is None and set(layer.users) != {node}:
        others = sorted(user.name for user in layer.users if user is not node)
        reason = f"{layer.name} is also read by {', '.join(others)}"
    if reason is None and edit.may_alias(graph, node, layer):
        reason = f"an operation in place writes the result of {node.name}"
    return reason


def _after(graph: MaseGraph, node: fx.Node, norm: _BatchNorm, shared: edit.Sharing) -> str | None:
    if len(node.users) != 1:
        return f"{len(node.users)} nodes read it"
    layer, source = next(iter(node.users)), node.all_input_nodes[0]
    reason = _layer(graph, layer, node, shared)
    if reason is not None:
        return reason
    module = graph.meta_of(layer).module
    if layer.all_input_nodes != [node]:
        return f"{layer.name} has other inputs"
    shifts = bool((_affine(norm).shift != 0).any())
    if isinstance(module, _ConvTransposeNd):
        return f"{layer.name} is transposed: a shift does not reach all of its outputs alike"
    if isinstance(module, _ConvNd) and _pads_zeros(module) and shifts:
        return f"{layer.name} pads with zeros, which the shift does not reach"
    if edit.may_alias(graph, node, source):
        return f"an operation in place writes the result of {node.name}"
    return None


def _pads_zeros(conv: _ConvNd) -> bool:
    """Whether zeros are put around the input; other modes copy values, which the normalisation reaches."""
    if conv.padding_mode != "zeros" or conv.padding == "valid":
        return False
    if conv.padding == "same":
        return any(size > 1 for size in conv.kernel_size)
    return any(size != 0 for size in conv.padding if not isinstance(size, str))


def _into_outputs(graph: MaseGraph, node: fx.Node, affine: _Affine) -> None:
    """``s * (W x + b) + t = (s W) x + (s b + t)``."""
    layer = graph.meta_of(node).module
    assert layer is not None
    weight, bias = edit.wide(layer.get_parameter("weight")), getattr(layer, "bias", None)
    scale = affine.scale.to(weight.device)
    shift = affine.shift.to(weight.device)
    if isinstance(layer, _ConvTransposeNd):
        # (inputs, outputs / groups, *kernel): the inputs of a group have its outputs.
        spread = scale.reshape(layer.groups, 1, -1).expand(-1, weight.shape[0] // layer.groups, -1)
        edit.set_parameter(graph, node, "weight", weight * spread.reshape(*weight.shape[:2], *[1] * (weight.dim() - 2)))
    else:
        edit.set_parameter(graph, node, "weight", weight * scale.reshape(-1, *[1] * (weight.dim() - 1)))
    edit.set_parameter(graph, node, "bias", shift if bias is None else edit.wide(bias) * scale + shift)


def _into_inputs(graph: MaseGraph, node: fx.Node, affine: _Affine) -> None:
    """``W (s x + t) + b = (W s) x + (W t + b)``; the shift reaches every place of the kernel."""
    layer = graph.meta_of(node).module
    assert layer is not None
    weight, bias = edit.wide(layer.get_parameter("weight")), getattr(layer, "bias", None)
    groups = int(getattr(layer, "groups", 1))
    outputs, inputs = weight.shape[0], weight.shape[1]
    # Row o of a weight reads the input channels of its group.
    first = torch.arange(outputs, device=weight.device) // (outputs // groups) * inputs
    channels = first.unsqueeze(1) + torch.arange(inputs, device=weight.device)
    kernel = [1] * (weight.dim() - 2)
    scale, shift = (
        v.to(weight.device)[channels].reshape(outputs, inputs, *kernel) for v in (affine.scale, affine.shift)
    )
    moved = (weight * shift).flatten(1).sum(1)
    edit.set_parameter(graph, node, "weight", weight * scale)
    if bias is not None or bool((moved != 0).any()):
        edit.set_parameter(graph, node, "bias", moved if bias is None else edit.wide(bias) + moved)
