"""Norms of several dimensions, instance norms and vectors of length 1 as the norms that hardware has."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mase_hw.passes.transforms.lowering.call import Call, parameter

_SHORT = 1e-6
"""A length up to which the least one of :func:`torch.nn.functional.normalize` only keeps from dividing by 0."""


class Flattened(nn.Module):
    """A norm over the last dimensions as one over a single dimension."""

    def __init__(self, norm: nn.Module, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.norm, self.dims = norm, dims

    def forward(self, x: Tensor) -> Tensor:
        """Any tensor whose last dimensions are those."""
        return self.norm(x.flatten(-len(self.dims))).unflatten(-1, self.dims)  # type: ignore[no-any-return]


class Along(nn.Module):
    """A norm over the last dimension, along another one."""

    def __init__(self, norm: nn.Module, dim: int) -> None:
        super().__init__()
        self.norm, self.dim = norm, dim

    def forward(self, x: Tensor) -> Tensor:
        """Any tensor that has the dimension."""
        return self.norm(x.transpose(self.dim, -1)).transpose(self.dim, -1)  # type: ignore[no-any-return]


class Alone(nn.Module):
    """One layer."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """What the layer takes."""
        return self.norm(x)  # type: ignore[no-any-return]


class Divided(nn.Module):
    """Vectors divided by their length, which counts as at least ``eps``."""

    def __init__(self, power: float, dim: int, eps: float) -> None:
        super().__init__()
        self.power, self.dim, self.eps = power, dim, eps

    def forward(self, x: Tensor) -> Tensor:
        """Any tensor that has the dimension."""
        if self.power == 2:
            length = torch.sqrt((x * x).sum(self.dim, keepdim=True))
        else:
            sizes = x.abs()
            length = (torch.sum if self.power == 1 else torch.amax)(sizes, self.dim, keepdim=True)
        return x / length.clamp(min=self.eps)


def layer(call: Call) -> nn.Module | None:
    """A layer norm over several dimensions as one over all of their elements."""
    dims = _dims(call)
    eps = float(call.attributes.get("eps", 1e-5))
    norm = nn.LayerNorm(math.prod(dims), eps, elementwise_affine=False)
    return Flattened(_with(norm, call), dims) if len(dims) > 1 else None


def rms(call: Call) -> nn.Module | None:
    """An RMS norm over several dimensions as one over all of their elements."""
    dims = _dims(call)
    norm = nn.RMSNorm(math.prod(dims), call.attributes.get("eps"), elementwise_affine=False)
    return Flattened(_with(norm, call), dims) if len(dims) > 1 else None


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
        return Alone(norm)
    return Alone(_with(nn.GroupNorm(channels, channels, eps, affine=False), call))


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
        return Divided(power, dim % len(shape), eps)
    # The length is at least eps; what is shorter than any LSB is 0.
    norm = nn.RMSNorm(size, eps**2 / size)
    nn.init.constant_(norm.weight, 1 / math.sqrt(size))
    norm.weight.requires_grad_(False)
    last = dim % len(shape) == len(shape) - 1
    return Alone(norm) if last else Along(norm, dim % len(shape))


def _with(norm: nn.Module, call: Call) -> nn.Module:
    """The norm with the weight and bias of a call, in one dimension."""
    for name in ("weight", "bias"):
        value = call.parameters.get(name)
        if value is not None:
            norm.register_parameter(name, parameter(torch.flatten(value), value))
    return norm
