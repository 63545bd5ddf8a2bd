"""Cross-layer equalization (Nagel et al., arXiv:1906.04721, section 4.1): channels of like range in every layer.

Between two layers with a positively homogeneous function between them, channel ``i`` can be divided by any ``s_i > 0``
in the first and multiplied in the second. ``s_i = sqrt(r1_i / r2_i)``, with ``r`` the largest weight of the channel on
each side, makes both ranges ``sqrt(r1_i * r2_i)``: one format of a whole tensor then fits every channel of both.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize import equalize_paths as paths


class CrossLayerArgs(PassArgs):
    """Arguments of :func:`cross_layer_equalization_transform_pass`."""

    iterations: int = Field(default=100, ge=1, description="most rounds over all pairs of a chain")
    tolerance: float = Field(
        default=1e-3, gt=0, description="stop when no scale of a round is further than this from 1"
    )
    power_of_two: bool = Field(
        default=False, description="scale by powers of two only: no rounding at all, but less even ranges"
    )


@graph_pass(
    "cross_layer_equalization_transform_pass", args=CrossLayerArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED
)
def cross_layer_equalization_transform_pass(graph: MaseGraph, args: CrossLayerArgs) -> tuple[MaseGraph, Info]:
    """Even out the weight ranges of channels across pairs of layers, and along chains of them.

    A pair is two convolutions or linear layers (grouped and depthwise included) with only positively homogeneous nodes
    between them: relu, leaky relu, prelu, pooling, flatten, dropout; everything read once, no layer shared. Pairs that
    share a layer are a chain, over which the scaling is repeated until it changes no more. Fold batch normalisations
    first: one that stands between two layers hides the pair.

    The float function is the same but for the rounding of the scaled weights (with ``power_of_two`` exactly the same,
    underflow aside). Ranges inside change, so calibrate afterwards; what was observed before is dropped. Use it for
    formats of whole tensors: a format for each channel does not gain.

    Args:
        graph: A float graph with common metadata.
        args: ``iterations``, ``tolerance``, ``power_of_two``.

    Returns:
        The graph, and ``modified``, ``pairs`` (``first``, ``second``, largest and smallest ``scale`` of a channel),
        ``skipped`` (layer -> why it begins no pair) and ``iterations`` (rounds done).

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "cross-layer equalization")
    pairs, skipped = paths.pairs(graph)
    weights = {node: _weight(graph, node) for first, path in pairs for node in (first, path.layer)}
    total: dict[fx.Node, Tensor] = {}
    rounds = 0
    while pairs and rounds < args.iterations:
        rounds += 1
        furthest = 0.0
        for first, path in pairs:
            groups = paths.groups_of(paths.module_of(graph, path.layer))
            scale = _scale(weights[first], weights[path.layer], groups, path.repeat, args.power_of_two)
            furthest = max(furthest, float((scale - 1).abs().max()))
            total[first] = total.get(first, torch.ones_like(scale)) * scale
            weights[first] = paths.scaled_outputs(weights[first], 1 / scale)
            weights[path.layer] = paths.scaled_inputs(weights[path.layer], scale, groups, path.repeat)
        if furthest <= args.tolerance:
            break
    for first, path in pairs:
        # Applied once, so that every weight is rounded once for each of its two sides, however many rounds there were.
        paths.scale_outputs(graph, first, 1 / total[first])
        paths.scale_inputs(graph, path.layer, total[first], path.repeat)
    for first, path in pairs:
        edit.changed(graph, [first, *path.between])
    if pairs:
        edit.finish(graph)
    info: Info = {"modified": bool(pairs), "pairs": [], "skipped": skipped, "iterations": rounds}
    for first, path in pairs:
        low, high = float(total[first].min()), float(total[first].max())
        info["pairs"].append({"first": first.name, "second": path.layer.name, "scale": [low, high]})
    return graph, info


def _weight(graph: MaseGraph, node: fx.Node) -> Tensor:
    return edit.wide(paths.module_of(graph, node).get_parameter("weight")).cpu()


def _scale(first: Tensor, second: Tensor, groups: int, repeat: int, power_of_two: bool) -> Tensor:
    """What each channel of the first weight is to be divided by; 1 for channels that one side does not use."""
    before, after = paths.output_peaks(first), paths.input_peaks(second, groups, repeat)
    used = (before > 0) & (after > 0) & before.isfinite() & after.isfinite()
    # Square roots first: the quotient itself might leave the range of a float.
    scale = torch.where(used, before.sqrt() / after.sqrt(), torch.ones_like(before))
    return paths.to_power_of_two(scale) if power_of_two else scale
