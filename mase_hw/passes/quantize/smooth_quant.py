"""SmoothQuant (Xiao et al., arXiv:2211.10438): what is hard to quantise moves from activations into weights.

A few channels of an activation may be far larger than the rest, while the weights that read them are not. Channel ``j``
of the activation is divided by ``s_j = max|x_j|**alpha / max|w_j|**(1 - alpha)``, which costs nothing when the node
that makes it can take the factor in, and the weights that read it are multiplied by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.analysis.statistics.base import check_finite, finite_batches
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize import equalize_paths as paths

NORMS = (nn.LayerNorm, nn.RMSNorm, _BatchNorm)
"""Normalisations whose scale (and shift) can take a factor in."""


class SmoothQuantArgs(PassArgs):
    """Arguments of :func:`smooth_quant_transform_pass`."""

    data: Any = Field(description="iterable of batches, as for calibration, from which the activations are taken")
    alpha: float = Field(default=0.5, ge=0, le=1, description="0 evens out the weights, 1 the activations")
    nodes: tuple[str, ...] | None = Field(
        default=None, description="nodes whose results are smoothed; None for every one that can be"
    )
    power_of_two: bool = Field(default=False, description="scale by powers of two only: no rounding at all")
    progress: Callable[[int, int | None], Any] | None = Field(
        default=None, description="called after every batch with the number done and the total, if known"
    )


@dataclass(frozen=True)
class _Place:
    """A node that takes factors in, what lies behind it, the layers that read it, and where its channels are."""

    node: fx.Node
    between: tuple[fx.Node, ...]
    layers: tuple[fx.Node, ...]
    repeat: int
    dim: int


@graph_pass("smooth_quant_transform_pass", args=SmoothQuantArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def smooth_quant_transform_pass(graph: MaseGraph, args: SmoothQuantArgs) -> tuple[MaseGraph, Info]:
    """Move the ranges of activation channels into the weights that read them.

    The factor is folded into the node that makes the activation: a layer, rms or batch normalisation with a weight, or
    a convolution or linear layer. All its readers must be layers on the same channels (the projections of an attention
    read one normalisation), or there is a single one behind positively homogeneous nodes (relu, pooling, flatten).

    The float function is the same but for the rounding of the scaled weights (with ``power_of_two`` exactly the same,
    underflow aside). Calibrate afterwards; what was observed before is dropped.

    Args:
        graph: A float graph with common metadata.
        args: ``data``, ``alpha``, ``nodes``, ``power_of_two``, ``progress``.

    Returns:
        The graph, and ``modified``, ``smoothed`` (node -> its ``layers``, smallest and largest ``scale``) and
        ``skipped`` (node that could take factors, were it not for -> reason).

    Raises:
        UnsupportedError: If a node of ``nodes`` cannot be smoothed; says why. Nothing has been changed then.
        ConfigError: If there is no data, or a batch does not fit the inputs.
        FormatError: If the data or an activation is NaN or infinite.
        GraphError: If the graph is quantised already, or a node of ``nodes`` does not exist.
    """
    edit.refuse_quantised(graph, "SmoothQuant")
    places, skipped = _places(graph, args.nodes)
    peaks = _observe(graph, places, args)
    smoothed: Info = {}
    for place in places:
        scale = _scale(graph, place, peaks[place.node], args)
        paths.scale_outputs(graph, place.node, 1 / scale)
        for layer in place.layers:
            paths.scale_inputs(graph, layer, scale, place.repeat)
        edit.changed(graph, [place.node, *place.between])
        smoothed[place.node.name] = {
            "layers": [layer.name for layer in place.layers],
            "scale": [float(scale.min()), float(scale.max())],
        }
    if places:
        edit.finish(graph)
    return graph, {"modified": bool(places), "smoothed": smoothed, "skipped": skipped}


def _places(graph: MaseGraph, wanted: Iterable[str] | None) -> tuple[list[_Place], dict[str, str]]:
    """Where smoothing is possible, of the nodes that are wanted, and why not elsewhere."""
    found: list[_Place] = []
    skipped: dict[str, str] = {}
    for node in graph.nodes if wanted is None else [graph.node(name) for name in dict.fromkeys(wanted)]:
        module = graph.meta_of(node).module
        takes = isinstance(module, NORMS) or paths.is_layer(module)
        if wanted is None and not (takes and graph.op_of(node) is not None):
            continue
        place = _place(graph, node, module) if module is not None and takes else "it is neither norm nor layer"
        if isinstance(place, _Place):
            found.append(place)
        elif wanted is not None:
            raise UnsupportedError(
                "the result of this node cannot be smoothed",
                node=node.name,
                field="nodes",
                got=place,
                expected="a norm with a weight, a convolution or a linear layer whose readers are all layers",
                remedy="leave it out of nodes",
            )
        else:
            skipped[node.name] = place
    return found, skipped


def _place(graph: MaseGraph, node: fx.Node, module: nn.Module) -> _Place | str:
    if not isinstance(getattr(module, "weight", None), Tensor):
        return "it has no weight that could take the factor"
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and len(module.normalized_shape) != 1:
        return "it normalises over more than the channels"
    reason = edit.not_changeable(graph, node, edit.sharing(graph))
    if reason is not None:
        return reason
    dim = paths.channel_dim(module, len(graph.tensor(node, "data_out_0").shape))
    readers = paths.data_readers(graph, node)
    reasons = [paths.reaches(graph, reader, dim) for reader in readers]
    if readers and not any(reasons):
        return _Place(node, (), tuple(readers), 1, dim)
    if len(readers) != 1:
        return next((r for r in reasons if r is not None), "nothing reads it")
    path = paths.follow(graph, node, dim)
    return path if isinstance(path, str) else _Place(node, path.between, (path.layer,), path.repeat, dim)


def _observe(graph: MaseGraph, places: list[_Place], args: SmoothQuantArgs) -> dict[fx.Node, Tensor]:
    """Largest magnitude of every channel that the layers read, in float64, by the node that makes them."""
    last = {place.between[-1] if place.between else place.node: place for place in places}
    peaks: dict[fx.Node, Tensor] = {}

    def on_node(node: fx.Node, value: Any) -> None:
        if node not in last:
            return
        place = last[node]
        check_finite(value, f"{node.name}.data_out_0")
        channels = edit.wide(value).abs().movedim(place.dim, 0).flatten(1).amax(1).cpu()
        found = channels.reshape(-1, place.repeat).amax(1)
        seen = peaks.get(place.node)
        peaks[place.node] = found if seen is None else torch.maximum(seen, found)

    total = len(args.data) if isinstance(args.data, Sized) else None
    for index, inputs in finite_batches(graph, args.data):
        evaluate(graph.model, inputs, on_node)
        if args.progress is not None:
            args.progress(index + 1, total)
    return peaks


def _scale(graph: MaseGraph, place: _Place, activation: Tensor, args: SmoothQuantArgs) -> Tensor:
    """What each channel is to be divided by; 1 for channels that are zero or that nobody reads."""
    weight = torch.zeros_like(activation)
    for layer in place.layers:
        module = graph.meta_of(layer).module
        assert module is not None  # only modules are found
        wide = edit.wide(module.get_parameter("weight")).cpu()
        weight = torch.maximum(weight, paths.input_peaks(wide, paths.groups_of(module), place.repeat))
    used = (activation > 0) & (weight > 0)
    scale = torch.where(used, activation**args.alpha / weight ** (1 - args.alpha), torch.ones_like(weight))
    return paths.to_power_of_two(scale) if args.power_of_two else scale
