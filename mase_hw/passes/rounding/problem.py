"""Rounding the weights of one layer as a quadratic problem, and how good a choice of mantissas is.

A layer is a product of its unfolded inputs ``X`` (one row for every frame and output position) with its weights, group
by group. With ``y`` what an output channel ought to give, the squared error of weights ``w`` (without the bias) is

    ``|X w - y|**2 = w H w - 2 w c + |y|**2,   H = X'X,   c = X'y``

so that ``H`` and ``c`` are all that is kept of the data, however much there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, ScaledFormat


@dataclass(frozen=True)
class Problem:
    """The rounding of one layer's weights.

    Args:
        weight: The float weights, ``(groups, rows, columns)`` in float64: a row for every output channel of the group,
            a column for everything that it reads.
        step: Distance of neighbouring values of every row, ``(groups, rows, 1)``.
        fmt: Format of the mantissas.
        hessian: ``H``, ``(groups, columns, columns)``.
        cross: ``c`` of every row, ``(groups, rows, columns)``.
        power: ``|y|**2`` of every row, ``(groups, rows)``.
        count: Rows of ``X``.
    """

    weight: Tensor
    step: Tensor
    fmt: FixedFormat
    hessian: Tensor
    cross: Tensor
    power: Tensor
    count: int

    def nearest(self) -> Tensor:
        """The mantissas that rounding to nearest gives, half-even and saturating."""
        return self.clipped(torch.round(self.weight / self.step))

    def clipped(self, mantissas: Tensor) -> Tensor:
        """Mantissas within the format, or within the limits that a channel has of its own."""
        limits = self.fmt.limits if isinstance(self.fmt, ScaledFormat) else ()
        if len(limits) < 2:
            return mantissas.clamp(self.fmt.min_mantissa, self.fmt.max_mantissa)
        lows, highs = (mantissas.new_tensor(ends).reshape(self.step.shape) for ends in zip(*limits, strict=True))
        return mantissas.clamp(lows, highs)

    def error(self, mantissas: Tensor) -> Tensor:
        """Mean squared error of every row, ``(groups, rows)``."""
        w = mantissas * self.step
        total = ((w @ self.hessian) * w).sum(-1) - 2 * (w * self.cross).sum(-1) + self.power
        return total.clamp_min(0.0) / max(1, self.count)

    def damped(self, damping: float) -> Tensor:
        """``H`` with a share of its mean diagonal added to the diagonal; 1 where a column was never used."""
        diagonal = self.hessian.diagonal(dim1=-2, dim2=-1)
        extra = damping * diagonal.mean(-1, keepdim=True) + (diagonal == 0).to(diagonal.dtype)
        return self.hessian + torch.diag_embed(extra)

    def ideal(self, damping: float) -> Tensor:
        """The weights without a grid whose error is least: the float weights if ``y`` is what these give."""
        residual = self.cross - self.weight @ self.hessian
        moved: Tensor = torch.linalg.solve(self.damped(damping), residual.mT).mT
        return self.weight + moved

    def better(self, mantissas: Tensor, other: Tensor) -> Tensor:
        """Of two choices, row by row that with the smaller error; the second one if they are equal."""
        keep = self.error(mantissas) < self.error(other)
        return torch.where(keep.unsqueeze(-1), mantissas, other)
