"""Norms of several dimensions, instance norms and vectors of length 1 as the norms that hardware has.

Variance, standard deviation, norms and logarithms of sums over any dimensions.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn

from mase_hw.ops.rows.statistics import RowNorm, RowStd, RowVar, correction_of, dims_of
from mase_hw.passes.lower.layers.call import Call, Line, parameter

_SHORT = 1e-6
"""A length up to which the least one of :func:`torch.nn.functional.normalize` only keeps from dividing by 0."""


def layer(call: Call) -> nn.Module | None:
    """A layer norm over several dimensions as one over all of their elements."""
    eps = float(call.attributes.get("eps", 1e-5))
    return _flattened(call, nn.LayerNorm(math.prod(_dims(call)), eps, elementwise_affine=False))


def rms(call: Call) -> nn.Module | None:
    """An RMS norm over several dimensions as one over all of their elements."""
    eps = call.attributes.get("eps")
    return _flattened(call, nn.RMSNorm(math.prod(_dims(call)), eps, elementwise_affine=False))


def _flattened(call: Call, norm: nn.Module) -> nn.Module | None:
    """A norm over the last dimensions as one over a single dimension."""
    dims = _dims(call)
    if len(dims) < 2:
        return None
    _with(norm, call)
    return Line(lambda x: norm(x.flatten(-len(dims))).unflatten(-1, dims), norm=norm)


def _dims(call: Call) -> tuple[int, ...]:
    given = call.attributes.get("normalized_shape", ())
    return tuple(int(d) for d in given) if isinstance(given, list | tuple) else (int(given),)


def instance(call: Call) -> nn.Module | None:
    """An instance norm as a group norm of one channel a group, or by its running statistics as a batch norm."""
    shape, rank = call.shapes[0], len(call.shapes[0])
    if rank < 3:
        return None
    channels, eps = shape[1], float(call.attributes.get("eps", 1e-5))
    running = [call.parameters.get(name) for name in ("running_mean", "running_var")]
    if not call.attributes.get("use_input_stats", running[0] is None):
        kind = {3: nn.BatchNorm1d, 4: nn.BatchNorm2d}.get(rank)
        if kind is None or not isinstance(running[0], Tensor) or not isinstance(running[1], Tensor):
            return None
        norm: nn.Module = _with(kind(channels, eps, affine=False), call)
        norm.register_buffer("running_mean", running[0].detach().clone())
        norm.register_buffer("running_var", running[1].detach().clone())
    else:
        norm = _with(nn.GroupNorm(channels, channels, eps, affine=False), call)
    return Line(lambda x: norm(x), norm=norm)


def unit_length(call: Call) -> nn.Module | None:
    """Vectors divided by their length as an RMS norm weighted by ``1 / sqrt(size)``; other lengths by a division."""
    power, eps = float(call.attributes.get("p", 2.0)), float(call.attributes.get("eps", 1e-12))
    if power not in (1.0, 2.0, math.inf) or len(call.inputs) != 1:
        return None
    dim, shape = call.attributes.get("dim", 1), call.shapes[0]
    if not isinstance(dim, int) or not shape or (dim % len(shape) == 0 and len(shape) > 1):
        return None
    size = shape[dim]
    if power != 2 or eps > _SHORT:
        return Line(functools.partial(_divided, power, dim % len(shape), eps))
    # The length is at least eps; what is shorter than any LSB is 0.
    norm = nn.RMSNorm(size, eps**2 / size)
    nn.init.constant_(norm.weight, 1 / math.sqrt(size))
    norm.weight.requires_grad_(False)
    if dim % len(shape) == len(shape) - 1:
        return Line(lambda x: norm(x), norm=norm)
    dim %= len(shape)
    return Line(lambda x: norm(x.transpose(dim, -1)).transpose(dim, -1), norm=norm)


def _divided(power: float, dim: int, eps: float, x: Tensor) -> Tensor:
    """Vectors divided by their length, which counts as at least ``eps``."""
    if power == 2:
        length = torch.sqrt((x * x).sum(dim, keepdim=True))
    else:
        length = (torch.sum if power == 1 else torch.amax)(x.abs(), dim, keepdim=True)
    return x / length.clamp(min=eps)


def _with(norm: nn.Module, call: Call) -> nn.Module:
    """The norm with the weight and bias of a call, in one dimension."""
    for name in ("weight", "bias"):
        value = call.parameters.get(name)
        if value is not None:
            norm.register_parameter(name, parameter(torch.flatten(value), value))
    return norm


def var(call: Call) -> nn.Module | None:
    """Variance with a correction of 0 or 1."""
    return _reduced(call, RowVar)


def std(call: Call) -> nn.Module | None:
    """Standard deviation with a correction of 0 or 1."""
    return _reduced(call, RowStd)


def norm(call: Call) -> nn.Module | None:
    """Norms of vectors of any positive order."""
    order = call.attributes.get("p", call.attributes.get("ord", 2))
    if order in (2, "fro", None):
        return _reduced(call, RowNorm)
    dims = _moment_dims(call)
    if dims is None or not isinstance(order, int | float) or not order > 0:
        return None
    keep = bool(call.attributes.get("keepdim", False))

    def run(x: Tensor) -> Tensor:
        y = x.abs()
        if order == math.inf:
            return y.amax(dims, keepdim=keep)
        if order == 1:
            return y.sum(dims, keepdim=keep)
        powers: Tensor = (y**order).sum(dims, keepdim=keep)
        return powers ** (1 / order)

    return Line(run)


def logsumexp(call: Call) -> nn.Module | None:
    """The logarithm of a sum of exponentials, none of which is above 1; a cast follows each of the parts.

    The largest element is taken out first.
    """
    dims, keep = _moment_dims(call), bool(call.attributes.get("keepdim", False))
    if dims is None:
        return None

    def run(x: Tensor) -> Tensor:
        largest = x.amax(dims, keepdim=True)
        y = largest + torch.log(torch.exp(x - largest).sum(dims, keepdim=True))
        return y if keep else y.squeeze(dims)

    return Line(run)


def _moment_dims(call: Call) -> tuple[int, ...] | None:
    """The dimensions of a call, from the front; None if they mix frames, or if the call asks for more."""
    rank = len(call.shapes[0])
    if "size" in call.attributes or not rank or call.attributes.get("dtype") is not None:
        return None
    dims = dims_of(call.attributes, rank)
    return None if 0 in dims else dims


def _reduced(call: Call, kind: type[RowVar]) -> nn.Module | None:
    """A number for each row, where a row is made of some of the dimensions."""
    rank, shape, dims = len(call.shapes[0]), call.shapes[0], _moment_dims(call)
    if dims is None:
        return None
    size, correction = math.prod(shape[d] for d in dims), correction_of(call.attributes)
    if correction not in (0, 1) or (kind is not RowNorm and size <= correction):
        return None
    row, keep = kind(size, 0 if kind is RowNorm else correction), bool(call.attributes.get("keepdim", False))
    order = (*(d for d in range(rank) if d not in dims), *dims)

    def run(x: Tensor) -> Tensor:
        x = x if order == tuple(range(rank)) else x.permute(*order)
        x = x.flatten(-len(dims)) if len(dims) > 1 else x
        y: Tensor = row(x).squeeze(-1)
        for dim in dims if keep else ():
            y = y.unsqueeze(dim)
        return y

    return Line(run, row=row)
