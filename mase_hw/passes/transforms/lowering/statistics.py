"""Variance, standard deviation and Euclidean length over any dimensions, as those of rows."""

from __future__ import annotations

import math

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


def norm(call: Call) -> nn.Module | None:
    """Euclidean length; other norms of vectors are none of this."""
    order = call.attributes.get("p", call.attributes.get("ord", 2))
    return _reduced(call, RowNorm) if order in (2, "fro", None) else None


def _reduced(call: Call, kind: type[RowVar]) -> nn.Module | None:
    rank, shape = len(call.shapes[0]), call.shapes[0]
    if "size" in call.attributes or not rank or call.attributes.get("dtype") is not None:
        return None
    dims = dims_of(call.attributes, rank)
    if 0 in dims:
        return None  # would mix frames
    size, correction = math.prod(shape[d] for d in dims), correction_of(call.attributes)
    if correction not in (0, 1) or (kind is not RowNorm and size <= correction):
        return None
    row = kind(size, 0 if kind is RowNorm else correction)
    return Reduced(row, dims, rank, bool(call.attributes.get("keepdim", False)))
