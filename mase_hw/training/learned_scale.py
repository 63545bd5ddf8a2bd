"""Learned scales of scaled integers: LSQ (Esser et al., arXiv:1902.08153), zero points as LSQ+ (arXiv:2004.09576).

With ``v = x / s`` a value becomes ``clip(round(v) + z, low, high) - z`` times ``s``. The gradients are those of the
publications, ``Qn = z - low`` and ``Qp = high - z``: ``dx = 1`` inside ``(-Qn, Qp)`` and 0 beyond; inside,
``ds = round(v) - v``, and ``-Qn`` or ``Qp`` beyond, summed over all that has the scale; ``dz = 0`` inside and ``-s``
beyond (the offset of LSQ+ is ``-s z``). Those of scale and zero point are multiplied by ``1 / sqrt(N * Qp)``, ``N``
being the numbers in a frame, or the weights that share the scale (section 2.2 of LSQ).

A scale starts where calibration put it and stays a real number: nothing is rounded to a power of two in the end.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.formats import Rounding, ScaledFormat
from mase_hw.numerics import along, rounded
from mase_hw.passes.transforms.integers.formats import of_range
from mase_hw.training.learned_step import LEARNED


class _ScaledLsq(torch.autograd.Function):
    """Values of a grid, in float64 inside, as :func:`mase_hw.numerics.quantize` computes them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, zero: Tensor, low: Tensor, high: Tensor, factor: float, rounding: Rounding
    ) -> Tensor:
        v, s = x.double() / scale.double(), scale.double()
        whole = rounded(v, rounding)
        ctx.save_for_backward(v, whole, s, low - zero, high - zero)
        ctx.shapes, ctx.dtypes, ctx.factor = (scale.shape, zero.shape), (scale.dtype, zero.dtype), factor
        return (whole.clamp(low - zero, high - zero) * s).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None, None, None]:
        v, whole, scale, low, high = ctx.saved_tensors
        grad = grads[0]
        below, above = v <= low, v >= high
        inside = ~(below | above)
        by_scale = by_zero = None
        if ctx.needs_input_grad[1]:
            share = torch.where(inside, whole - v, torch.where(below, low, high))
            by_scale = (grad * share * ctx.factor).sum_to_size(ctx.shapes[0]).to(ctx.dtypes[0])
        if ctx.needs_input_grad[2]:
            by_zero = -(grad * ~inside * scale * ctx.factor).sum_to_size(ctx.shapes[1]).to(ctx.dtypes[1])
        return grad * inside, by_scale, by_zero, None, None, None, None


def scaled_lsq(
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    low: Tensor,
    high: Tensor,
    factor: float,
    rounding: Rounding = Rounding.HALF_EVEN,
) -> Tensor:
    """Values of the grid, with the gradients of the publications.

    Args:
        x: Any shape.
        scale: Positive; a scalar, or a shape that broadcasts to ``x``.
        zero: The zero point, a whole number, which passes its gradient on; a scalar.
        low: Smallest mantissa, a scalar or of the shape of ``scale``.
        high: Largest mantissa, likewise.
        factor: What the gradients of scale and zero point are multiplied by.
        rounding: Rounding of the cast.
    """
    result: Tensor = _ScaledLsq.apply(x, scale, zero, low, high, factor, rounding)  # type: ignore[no-untyped-call]
    return result


class LearnedScale(nn.Module):
    """The grid of a tensor of scaled integers while a network is trained.

    Args:
        fmt: The format to begin with.
        rounding: Rounding of its cast.
        per_frame: The first dimension is that of frames; else the tensor is a parameter.
        learn_zero: Learn the zero point as well, if there is one.
        fixed: The format is what it is, as that of shares of 1.

    The scales are parameters for tensors of up to :data:`~mase_hw.training.learned_step.LEARNED` bits. That of a wider
    one follows what it has to hold: all that was observed so far, or the weights of the moment.
    """

    ends: Tensor

    def __init__(
        self,
        fmt: ScaledFormat,
        rounding: Rounding = Rounding.HALF_EVEN,
        *,
        per_frame: bool = True,
        learn_zero: bool = False,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        self.fmt = fmt
        self.rounding = rounding
        self.per_frame = per_frame
        self.learned, self.fixed = fmt.width <= LEARNED and not fixed, fixed
        learn_zero = learn_zero and self.learned and bool(fmt.zero_point)
        self.step = nn.Parameter(torch.tensor(fmt.scales, dtype=torch.float32), requires_grad=self.learned)
        self.zero = nn.Parameter(torch.tensor(float(fmt.zero_point)), requires_grad=learn_zero)
        self.register_buffer("ends", torch.tensor([fmt.min_value, fmt.max_value], dtype=torch.float64))

    def parameters_learned(self) -> list[nn.Parameter]:
        """Scale and zero point, as far as they are learned."""
        return [each for each in (self.step, self.zero) if each.requires_grad]

    def settle(self) -> None:
        """Stop learning scale and zero point, which stay as they are."""
        self.format()
        self.step.requires_grad_(False)
        self.zero.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the grid; same shape."""
        if not (self.learned or self.fixed) and (self.training or not self.per_frame):
            self._follow(x)
        scale = self._shaped(self.step, x)
        lows, highs = (self._limits(x, each) for each in zip(*self.fmt.limits, strict=True))
        first, last = super_limits(self.fmt)
        nearest = self.zero + (self.zero.round().clamp(first, last) - self.zero).detach()
        count = x[0].numel() if self.per_frame and x.dim() else x.numel() // self.fmt.channels
        most = max(1, self.fmt.max_mantissa - round(float(self.zero.detach())))
        return scaled_lsq(x, scale, nearest, lows, highs, 1 / math.sqrt(max(1, count) * most), self.rounding)

    def nearest(self, x: Tensor) -> Tensor:
        """The nearest values of the grid, which only passes gradients on; for results at the scale of an input."""
        scale = self._shaped(self.step, x).detach().double()
        v = x.double() / scale
        zero = float(self.zero.detach().round())
        low, high = self.fmt.min_mantissa - zero, self.fmt.max_mantissa - zero
        return ((v + (torch.round(v) - v).detach()).clamp(low, high) * scale).to(x.dtype)

    def format(self) -> ScaledFormat:
        """The format of the moment.

        Raises:
            FormatError: If training has driven a scale to zero or beyond.
        """
        scales = [float(each) for each in self.step.detach().float().reshape(-1).tolist()]
        worst = min(scales)
        if not (all(map(math.isfinite, scales)) and worst > 0):
            raise FormatError(
                "a learned scale is not positive any more",
                field="scale",
                got=worst,
                expected="a positive number",
                remedy="give the scales a smaller learning rate (steps()), or train from more calibration data",
            )
        first, last = super_limits(self.fmt)
        zero = min(max(round(float(self.zero.detach())), first), last)
        return dataclasses.replace(self.fmt, scales=tuple(scales), zero_point=zero)

    def extra_repr(self) -> str:
        """The format to begin with, and what is learned."""
        return f"{self.fmt}, learned={self.learned}, learned zero point={self.zero.requires_grad}"

    def _shaped(self, values: Tensor, x: Tensor) -> Tensor:
        """A number for each channel, in a shape that broadcasts."""
        if self.fmt.channels == 1:
            return values.reshape(())
        return values.reshape(-1, *[1] * (x.dim() - 1 - self.fmt.axis % x.dim()))

    def _limits(self, x: Tensor, ends: tuple[int, ...]) -> Tensor:
        return along([float(end) for end in ends], x, self.fmt.axis, torch.float64)

    def _follow(self, x: Tensor) -> None:
        if not x.numel():
            return
        rows = x.detach().double().reshape(1 if self.fmt.channels == 1 else self.fmt.channels, -1)
        if self.per_frame:
            low, high = (float(end) for end in torch.aminmax(rows))
            low = low if self.fmt.signed or self.fmt.zero_point else max(low, 0.0)  # as its reader takes it
            ends = [min(low, float(self.ends[0])), max(high, float(self.ends[1]))]
            self.ends.copy_(torch.tensor(ends, dtype=torch.float64))
            found = of_range(ends[0], ends[1], self.fmt.width, self.fmt.signed, bool(self.fmt.zero_point))
            scales, zero = found.scales, found.zero_point
        else:
            most = torch.tensor([float(max(high, -low, 1)) for low, high in self.fmt.limits], dtype=torch.float64)
            scales = tuple((rows.abs().amax(1) / most.to(rows.device)).tolist())
            zero = self.fmt.zero_point
        made = torch.tensor([float(np.float32(scale)) or 1.0 for scale in scales])
        with torch.no_grad():
            self.step.copy_(made.expand_as(self.step))
            self.zero.fill_(float(zero))


def super_limits(fmt: ScaledFormat) -> tuple[int, int]:
    """The smallest and the largest mantissa of so many bits."""
    whole = fmt.mantissas
    return whole.min_mantissa, whole.max_mantissa
