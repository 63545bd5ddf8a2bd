"""Variance, standard deviation, norms and logarithms of sums over any dimensions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mase_hw.ops.rows.statistics import RowNorm, RowStd, RowVar, correction_of, dims_of
from mase_hw.passes.transforms.lowering.call import Call


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
    """The sum of the magnitudes of vectors, or the largest of them."""

    def __init__(self, dims: tuple[int, ...], keep: bool, largest: bool) -> None:
        super().__init__()
        self.dims, self.keep, self.largest = dims, keep, largest

    def forward(self, x: Tensor) -> Tensor:
        """The tensor that was reduced."""
        y = x.abs()
        return y.amax(self.dims, keepdim=self.keep) if self.largest else y.sum(self.dims, keepdim=self.keep)


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
    """Norms of vectors of order 1, 2 and infinity."""
    order = call.attributes.get("p", call.attributes.get("ord", 2))
    if order in (2, "fro", None):
        return _reduced(call, RowNorm)
    dims = _dims(call)
    if dims is None or order not in (1, math.inf):
        return None
    return Magnitudes(dims, bool(call.attributes.get("keepdim", False)), order == math.inf)


def logsumexp(call: Call) -> nn.Module | None:
    """The logarithm of a sum of exponentials, with a cast after each of its parts."""
    dims = _dims(call)
    return None if dims is None else LogSumExp(dims, bool(call.attributes.get("keepdim", False)))


def _dims(call: Call) -> tuple[int, ...] | None:
    """The dimensions of a call, from the front; None if they mix frames, or if the call asks for more."""
    rank = len(call.shapes[0])
    if "size" in call.attributes or not rank or call.attributes.get("dtype") is not None:
        return None
    dims = dims_of(call.attributes, rank)
    return None if 0 in dims else dims


def _reduced(call: Call, kind: type[RowVar]) -> nn.Module | None:
    rank, shape, dims = len(call.shapes[0]), call.shapes[0], _dims(call)
    if dims is None:
        return None
    size, correction = math.prod(shape[d] for d in dims), correction_of(call.attributes)
    if correction not in (0, 1) or (kind is not RowNorm and size <= correction):
        return None
    row = kind(size, 0 if kind is RowNorm else correction)
    return Reduced(row, dims, rank, bool(call.attributes.get("keepdim", False)))
