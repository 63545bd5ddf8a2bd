"""Norms of several dimensions, instance norms and vectors of length 1 as the norms that hardware has.

Variance, standard deviation, norms and logarithms of sums over any dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mase_hw.ops.rows.statistics import RowNorm, RowStd, RowVar, correction_of, dims_of
from mase_hw.passes.lower.layers.call import Call, parameter

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


class Reduced(nn.Module):
    """A number for each row, where a row is made of some of the dimensions."""

    def __init__(self, row: nn.Module, dims: tuple[int, ...], rank: int, keep: bool) -> None:
        super().__init__()
        self.row, self.dims, self.keep = row, dims, keep
        self.order = (*(d for d in range(rank) if d not in dims), *dims)
        self.moves = self.order != tuple(range(rank))

    def forward(self, x: Tensor) -> Tensor:
        """The tensor that was reduced."""
        x = x.permute(*self.order) if self.moves else x
        x = x.flatten(-len(self.dims)) if len(self.dims) > 1 else x
        y: Tensor = self.row(x).squeeze(-1)
        for dim in self.dims if self.keep else ():
            y = y.unsqueeze(dim)
        return y


def var(call: Call) -> nn.Module | None:
    """Variance with a correction of 0 or 1."""
    return _reduced(call, RowVar)


def std(call: Call) -> nn.Module | None:
    """Standard deviation with a correction of 0 or 1."""
    return _reduced(call, RowStd)


class Magnitudes(nn.Module):
    """The norm of vectors of any positive order, the infinite one included."""

    def __init__(self, dims: tuple[int, ...], keep: bool, order: float) -> None:
        super().__init__()
        self.dims, self.keep, self.order = dims, keep, order

    def forward(self, x: Tensor) -> Tensor:
        """The tensor that was reduced."""
        y = x.abs()
        if self.order == math.inf:
            return y.amax(self.dims, keepdim=self.keep)
        if self.order == 1:
            return y.sum(self.dims, keepdim=self.keep)
        powers: Tensor = (y**self.order).sum(self.dims, keepdim=self.keep)
        return powers ** (1 / self.order)


class LogSumExp(nn.Module):
    """The logarithm of a sum of exponentials, none of which is above 1: the largest element is taken out first."""

    def __init__(self, dims: tuple[int, ...], keep: bool) -> None:
        super().__init__()
        self.dims, self.keep = dims, keep

    def forward(self, x: Tensor) -> Tensor:
        """The tensor that was reduced."""
        largest = x.amax(self.dims, keepdim=True)
        total = torch.exp(x - largest).sum(self.dims, keepdim=True)
        y = largest + torch.log(total)
        return y if self.keep else y.squeeze(self.dims)


def norm(call: Call) -> nn.Module | None:
    """Norms of vectors of any positive order."""
    order = call.attributes.get("p", call.attributes.get("ord", 2))
    if order in (2, "fro", None):
        return _reduced(call, RowNorm)
    dims = _moment_dims(call)
    if dims is None or not isinstance(order, int | float) or not order > 0:
        return None
    return Magnitudes(dims, bool(call.attributes.get("keepdim", False)), order)


def logsumexp(call: Call) -> nn.Module | None:
    """The logarithm of a sum of exponentials, with a cast after each of its parts."""
    dims = _moment_dims(call)
    return None if dims is None else LogSumExp(dims, bool(call.attributes.get("keepdim", False)))


def _moment_dims(call: Call) -> tuple[int, ...] | None:
    """The dimensions of a call, from the front; None if they mix frames, or if the call asks for more."""
    rank = len(call.shapes[0])
    if "size" in call.attributes or not rank or call.attributes.get("dtype") is not None:
        return None
    dims = dims_of(call.attributes, rank)
    return None if 0 in dims else dims


def _reduced(call: Call, kind: type[RowVar]) -> nn.Module | None:
    rank, shape, dims = len(call.shapes[0]), call.shapes[0], _moment_dims(call)
    if dims is None:
        return None
    size, correction = math.prod(shape[d] for d in dims), correction_of(call.attributes)
    if correction not in (0, 1) or (kind is not RowNorm and size <= correction):
        return None
    row = kind(size, 0 if kind is RowNorm else correction)
    return Reduced(row, dims, rank, bool(call.attributes.get("keepdim", False)))
