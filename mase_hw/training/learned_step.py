"""Learned step sizes: LSQ (Esser et al., arXiv:1902.08153), rounded to powers of two in the end.

A value ``x`` becomes ``round(clip(x / s, -Qn, Qp)) * s``. With ``v = x / s`` the gradients are those of the publication
(formulas 3 and 5): ``dx = 1`` inside ``(-Qn, Qp)`` and 0 beyond; ``ds = round(v) - v`` inside, ``-Qn`` or ``Qp``
beyond, times ``1 / sqrt(N * Qp)``, ``N`` the number of weights of the layer or of values in a frame (section 2.2). So
what is clipped still moves the step, and is not lost for good.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.numerics import rounded

LEARNED = 8
"""Tensors of at most so many bits learn their step; the step of wider ones follows the range that is observed."""


class _Lsq(torch.autograd.Function):
    """Quantise and give back values; ``low`` and ``high`` are the ends in steps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, low: int, high: int, scale: float, rounding: Rounding) -> Tensor:
        v = x / step
        ctx.save_for_backward(v, step)
        ctx.given = (low, high, scale, rounding)
        return rounded(v, rounding).clamp(low, high) * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None, None, None]:
        v, step = ctx.saved_tensors
        low, high, scale, rounding = ctx.given
        grad = grads[0]
        below, above = v <= low, v >= high
        inside = ~(below | above)
        by_step = None
        if ctx.needs_input_grad[1]:
            share = torch.where(inside, rounded(v, rounding) - v, torch.where(below, float(low), float(high)))
            by_step = (grad * share * scale).sum_to_size(step.shape)
        return grad * inside, by_step, None, None, None, None


def lsq(x: Tensor, step: Tensor, low: int, high: int, scale: float, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
    """Values of the grid, with the gradients of the publication.

    Args:
        x: Any shape.
        step: Positive; a scalar, or a shape that broadcasts to ``x``.
        low: Smallest mantissa, ``-Qn``.
        high: Largest mantissa, ``Qp``.
        scale: What the gradient of the step is multiplied by.
        rounding: Rounding of the cast.
    """
    result: Tensor = _Lsq.apply(x, step, low, high, scale, rounding)  # type: ignore[no-untyped-call]
    return result


class LearnedStep(nn.Module):
    """The grid of one tensor while a network is trained.

    Args:
        fmt: Width and sign of the tensor, and the step to begin with.
        rounding: Rounding of its cast.
        per_frame: The first dimension is that of frames; else the tensor is a parameter.

    The step is a parameter for tensors of up to :data:`LEARNED` bits; of wider ones it is that of the finest format
    that holds all that was observed so far.
    """

    ends: Tensor

    def __init__(self, fmt: FixedFormat, rounding: Rounding = Rounding.HALF_EVEN, *, per_frame: bool = True) -> None:
        super().__init__()
        self.fmt = fmt
        self.rounding = rounding
        self.per_frame = per_frame
        self.learned = fmt.width <= LEARNED
        self.finest: int | None = None
        """Finest fraction width worth having."""
        self.step = nn.Parameter(torch.tensor(fmt.scale), requires_grad=self.learned)
        self.register_buffer("ends", torch.zeros(2, dtype=torch.float64))

    def begin(self, x: Tensor) -> None:
        """Start from data: ``2 * mean|x| / sqrt(Qp)``, as the publication does, or from the range."""
        if not self.learned:
            self._observe(x)
            return
        size = float(x.detach().abs().double().mean())
        if size > 0:
            with torch.no_grad():
                self.step.fill_(2 * size / math.sqrt(max(1, self.fmt.max_mantissa)))

    def round_step(self) -> None:
        """Round the step to the nearest power of two, in the logarithm, and stop learning it."""
        if self.learned:
            with torch.no_grad():
                self.step.copy_(torch.exp2(torch.round(torch.log2(self.step))))
            self.step.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the grid; same shape."""
        if not self.learned:
            if self.training or not self.per_frame:
                self._observe(x)
            fmt = self.format()
            return lsq(x, x.new_tensor(fmt.scale), fmt.min_mantissa, fmt.max_mantissa, 0.0, self.rounding)
        count = x[0].numel() if self.per_frame and x.dim() else x.numel()
        scale = 1 / math.sqrt(max(1, count) * max(1, self.fmt.max_mantissa))
        step = self.step if self.step.requires_grad else self.step.detach()
        return lsq(x, step, self.fmt.min_mantissa, self.fmt.max_mantissa, scale, self.rounding)

    def format(self) -> FixedFormat:
        """The format with the power of two that is nearest to the step.

        Raises:
            FormatError: If training has driven the step to zero or beyond.
        """
        if not self.learned:
            low, high = self.ends.tolist()
            found = FixedFormat.covering(low, high, self.fmt.width, self.fmt.signed)
            frac = found.frac_width if self.finest is None else min(found.frac_width, self.finest)
            return FixedFormat(self.fmt.width, frac, self.fmt.signed)
        value = float(self.step.detach())
        if not (math.isfinite(value) and value > 0):
            raise FormatError(
                "a learned step is not positive any more",
                field="step",
                got=value,
                expected="a positive number",
                remedy="train with a smaller learning rate, or from more calibration data",
            )
        return FixedFormat(self.fmt.width, -round(math.log2(value)), self.fmt.signed)

    def extra_repr(self) -> str:
        """Width, sign, and whether the step is learned."""
        return f"{self.fmt.width} bits, {'signed' if self.fmt.signed else 'unsigned'}, learned={self.learned}"

    def _observe(self, x: Tensor) -> None:
        if not x.numel():
            return
        low, high = (float(end) for end in torch.aminmax(x.detach().double()))
        if self.per_frame:
            low, high = min(low, float(self.ends[0])), max(high, float(self.ends[1]))
        self.ends.copy_(torch.tensor([low if self.fmt.signed else max(low, 0.0), high], dtype=torch.float64))
