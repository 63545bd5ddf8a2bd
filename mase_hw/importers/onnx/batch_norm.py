"""``BatchNormalization`` with stored statistics: in float a layer, in a file that is quantised a part of one.

Between quantisers ``y = s x + t`` with ``s = scale / sqrt(var + epsilon)`` and ``t = bias - s mean``, both rounded to
float64, changes what the integers of a layer's weights stand for: ``s`` times the scale of every output, and what they
are added to. So it becomes the scales and the bias of the layer right before it, else those of a layer that multiplies
every channel by 1 or -1. These scales and biases are rounded to float64 as well; for them, the integer of every sum is
the right one (:mod:`mase_hw.passes.quantize.integers.thresholds`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.importers.graph import Known, Ref, Refused
from mase_hw.importers.onnx import grids
from mase_hw.importers.onnx.step import Step

_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
_CONV = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
_NAMES = ("weight", "bias", "running_mean", "running_var")


def batch_norm(s: Step) -> Ref:
    """``BatchNormalization``."""
    s.node.get("momentum", 0.9)
    several = s.opset < 14 and any(s.node.outputs[1:])  # which means training there
    if s.opset < 9:
        s.node.fixed("spatial", 1)
    trained = s.opset < 7 and not s.node.get("is_test", 0)
    if s.node.get("training_mode", 0) or several or trained:
        raise Refused("a batch normalisation in training", "export the model in evaluation mode")
    given = {name: s.known(i, f"the {name}") for i, name in enumerate(_NAMES, 1)}
    epsilon, dims, x = s.node.get("epsilon", 1e-5), len(s.shape()), s.data()
    kind: Any = _NORMS.get(dims)
    if kind is None or any(v.numel() != s.shape()[1] for v in given.values()):
        raise Refused(f"a batch normalisation of data {list(s.shape())} with {given['weight'].numel()} channels")
    if not isinstance(x, fx.Node) or not (s.writer.markers or s.writer.quantised):
        layer = kind(given["weight"].numel(), eps=epsilon, device="meta")
        layer.num_batches_tracked = torch.tensor(0)  # the one tensor that no input of the node gives
        return s.layer(layer, **given)
    weight, bias, mean, variance = (given[name].double().reshape(-1) for name in _NAMES)
    factor = weight / torch.sqrt(variance + epsilon)
    shift = bias - mean * factor
    if not bool((factor.isfinite() & shift.isfinite()).all()):
        raise Refused("a batch normalisation with statistics that are not finite")
    before = s.writer.layer_of(x)
    ours = isinstance(before, nn.Conv1d | nn.Conv2d | nn.Conv3d) or (isinstance(before, nn.Linear) and dims == 2)
    known = s.writer.weights.get(f"{x.target}.weight", Known())
    fmt = known.integers
    if ours and s.readers[s.node.inputs[0]] == 1 and fmt is not None and (not fmt.per_channel or fmt.axis == 0):
        return _scaled(s, x, factor, shift)
    return _alone(s, factor, shift)


def _scaled(s: Step, x: fx.Node, factor: Tensor, shift: Tensor) -> fx.Node:
    """The layer whose result is ``x``, with other scales and another bias."""
    layer: Any = s.writer.layer_of(x)
    known, bias = (s.writer.weights.get(f"{x.target}.{name}", Known()) for name in ("weight", "bias"))
    assert known.integers is not None  # the caller looked
    have = torch.tensor(known.integers.scales, dtype=torch.float64)
    scales = have.expand(len(factor)).reshape(-1, *[1] * (layer.weight.dim() - 1))
    values = layer.weight.detach().double() if known.exact is None else known.exact
    _write(s, x, (values / scales).round(), scales, factor)
    if layer.bias is not None:
        values = layer.bias.detach().double() if bias.exact is None else bias.exact
        each = zip(*(map(Fraction, v.tolist()) for v in (shift, factor, values)), strict=True)
        shift = torch.tensor([float(t + f * b) for t, f, b in each], dtype=torch.float64)
    _add(s, x, shift)
    return x


def _alone(s: Step, factor: Tensor, shift: Tensor) -> Ref:
    """A layer of its own, which takes every channel by itself."""
    shape = s.shape()
    given = s.data() if len(shape) > 2 else s.call(torch.unsqueeze, s.data(), 2)
    dims, channels = max(len(shape), 3), shape[1]
    made = s.writer.layer(_CONV[dims](channels, channels, 1, groups=channels), given)
    ones = torch.ones(channels, *[1] * (dims - 1), dtype=torch.float64)
    _write(s, made, ones, ones, factor)
    _add(s, made, shift)
    return made if len(shape) > 2 else s.writer.reshape(made, shape)


def _write(s: Step, x: fx.Node, integers: Tensor, scales: Tensor, factor: Tensor) -> None:
    """The weights of a layer: integers, whose scales are multiplied; a scale has no sign, so that they take it."""
    layer: Any = s.writer.layer_of(x)
    times = factor.reshape(scales.shape)
    integers = integers * torch.sign(times)
    made = grids.stored(s, integers, torch.where(times == 0, scales, scales * times.abs()), 1, True)
    layer.weight = nn.Parameter(made)
    s.writer.weights[f"{x.target}.weight"] = s.writer.noted(made)


def _add(s: Step, x: fx.Node, shift: Tensor) -> None:
    """The bias of a layer."""
    layer: Any = s.writer.layer_of(x)
    layer.bias = nn.Parameter(shift.float())
    s.writer.weights[f"{x.target}.bias"] = Known(exact=shift, every=True)
    s.writer.integers |= not torch.equal(layer.bias.detach().double(), shift)
