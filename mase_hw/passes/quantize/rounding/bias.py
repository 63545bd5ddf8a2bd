"""Bias correction (Nagel et al., arXiv:1906.04721, section 4.2): taking the mean error of a layer off its bias.

Rounded weights ``W + e`` give ``(W + e) x``, so that the mean of every output is off by ``e E[x]``.

- *Empirical* (appendix D of the publication): the mean difference of the results on data, layer by layer, the layers
  before already corrected. That takes in whatever else moved the mean, such as the rounding of what the layer reads.
- *Analytic*: ``e E[x]`` from the expected input of every channel. Behind a batch normalisation and a relu that is the
  mean of a normal distribution that is cut off at 0 (section 4.2.1); elsewhere it is the mean of what the layer
  reads on the data. Zeros of the padding are left out of account, as in the publication.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.passes.lower.fold_batch_norm import NORMALISED
from mase_hw.passes.quantize.rounding.layers import Layer


def empirical(layer: Layer, inputs: list[Tensor], wanted: list[Tensor]) -> Tensor:
    """What the results of a layer are too small by, in the mean, ``(outputs,)``.

    Args:
        layer: The layer, with its rounded weights.
        inputs: What it reads, batch by batch.
        wanted: What it ought to give.
    """
    weight, bias = layer.weight(), layer.bias()
    total, count = torch.zeros_like(bias), 0
    for x, y in zip(inputs, wanted, strict=True):
        given, target = layer.inputs(x), layer.outputs(y)
        total += (target - given @ weight.mT).sum(1).reshape(-1)
        count += given.shape[1]
    return total / max(1, count) - bias


def analytic(layer: Layer, before: Tensor, means: Tensor) -> Tensor:
    """What the results of a layer are too small by, from the means of its input channels, ``(outputs,)``.

    Args:
        layer: The layer, with its rounded weights.
        before: The float weights, ``(groups, rows, columns)``.
        means: Expected value of every input channel, ``(channels,)``.
    """
    error = layer.weight() - before
    channels = error.shape[-1] if layer.geometry is None else layer.weight_shape[1]
    by_channel = error.reshape(layer.groups, -1, channels, error.shape[-1] // channels).sum(-1)
    return -(by_channel @ means.reshape(layer.groups, channels, 1)).reshape(-1)


def relu_mean(mean: Tensor, deviation: Tensor) -> Tensor:
    """Mean of a normal distribution behind a relu: ``s * phi(-m / s) + m * (1 - Phi(-m / s))``."""
    ratio = torch.where(deviation > 0, mean / deviation.clamp_min(1e-300), torch.zeros_like(mean))
    density = torch.exp(-ratio.square() / 2) / math.sqrt(2 * math.pi)
    below = (1 + torch.erf(-ratio / math.sqrt(2))) / 2
    return torch.where(deviation > 0, deviation * density + mean * (1 - below), mean.clamp_min(0.0))


def normalised_means(graph: MaseGraph, layer: Layer) -> Tensor | None:
    """Expected inputs of a layer by the batch normalisation before it; None if only data tells them."""
    source: fx.Node = layer.node.all_input_nodes[0]
    through_relu = False
    while source.op == "call_module" and graph.meta_of(source).common.mase_op in ("relu", "cast"):
        through_relu |= graph.meta_of(source).common.mase_op == "relu"
        source = source.all_input_nodes[0]
    known = graph.meta.get(NORMALISED, {}).get(source.name)
    if known is None:
        return None
    mean, deviation = known
    means = relu_mean(mean, deviation) if through_relu else mean
    channels = layer.weight_shape[1] * layer.groups
    return means if len(means) == channels else None


def observed_means(layer: Layer, inputs: list[Tensor]) -> Tensor:
    """Mean of every input channel over data, ``(channels,)``."""
    dim = -1 if layer.geometry is None else 1 - len(layer.weight_shape)
    rows = torch.cat([x.detach().double().movedim(dim, 0).flatten(1) for x in inputs], 1)
    return rows.mean(1)
